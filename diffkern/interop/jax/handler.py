"""The handler that XLA calls on the CPU, as LLVM code: it runs the steps of the call that it was given.

The module exports ``dk_xla_handler``, an ``XLA_FFI_Handler`` for the CPU, and a word for the registry's address. A call
runs no Python and takes no lock; its state is on its stack, so any number of threads may run calls at once. The threads
of a launch are cut into chunks in the same way as by a launch from Python, and run on diffkern's own pool, in which the
calling thread takes part: it never waits for work that has not begun.

A batch is a loop over its elements around all steps; the elements run side by side, and each sees the shapes and the
launch dims of a call without the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.contracts import abi
from diffkern.interop.jax import layout
from diffkern.interop.jax.copies import CopiesModule, Decision
from diffkern.interop.jax.frame import (
    BUFFER_WORDS,
    BUFFERS,
    DATA,
    DESCRIPTION,
    DIMS,
    ERROR,
    NUMBERS,
    SHAPE,
    STRIDE,
)  # fmt: skip
from diffkern.runtime.launch.partition import MAX_CHUNKS, Grain, chunk_of, distance_of, partition
from diffkern.runtime.native.builder import I32, I64, VOID, Code, Word

__all__ = ["HandlerModule", "handler_ir"]

_RECORD = abi.RECORD_STAMPS * 8


def handler_ir() -> str:
    """Return the module's text."""
    return HandlerModule().text()


class HandlerModule(CopiesModule):
    """The module while it is made."""

    def text(self) -> str:
        self.add_up = self.adding()
        launch = self.launch()
        elements = self.elements(launch)
        error = self.error()
        self.handler(elements, error)
        return str(self)

    # -- memory --------------------------------------------------------------------------------------------------------

    def copy_buffer(self, c: Code, context: Word, to: Word, source: Word, count: Word) -> None:
        c.copy(to, source, count)

    def clear_buffer(self, c: Code, context: Word, at: Word, count: Word) -> None:
        c.clear(at, count)

    # -- running one launch --------------------------------------------------------------------------------------------

    def chunks(self) -> Any:
        """Emit ``chunks(pool, function, block, stride, n, chunk, colours)``: run all chunks of a range, and wait."""
        made, c = self.function("chunks", VOID, [I64] * 7)
        pool, function, block, stride, n, chunk, colours = made.args
        # Chunks of one colour don't meet; those of the next colour start when all of them are done.
        with c.loop(colours) as colour, c.either(c.compare("!=", pool, 0)) as (native, alone):
            with native:
                c.call(pool, [function, block, stride, n, chunk, colour, colours], I32)
            with alone, c.loop(n, c.mul(colour, chunk), c.mul(colours, chunk)) as low:
                own = c.add(block, c.mul(c.div(low, chunk), stride))
                c.call(function, [own, low, c.min(c.add(low, chunk), n)])
        c.b.ret_void()
        return made

    def launch(self) -> Any:
        """Emit ``launch(context, step, element)``: one launch of one batch element; ``element`` counts from 0."""
        chunks = self.chunks()
        made, c = self.function("launch", VOID, [I64] * 3)
        context, step, element = made.args
        description = c.load(context, DESCRIPTION)
        dims, n = self.dims(c, context, description, c.load(step, layout.LAUNCH_INDEX))
        # A launch of no threads writes nothing, and the divisions below would be by zero.
        with c.when(c.compare("==", n, 0)):
            c.b.ret_void()
        # Where threads of a block work together, blocks are counted, and the last extent is how many threads they have.
        together = c.load(step, layout.LAUNCH_THREADS)
        n = c.div(n, c.max(together, 1))
        decision = self.cut(c, context, step, element, dims, n)
        program, chunk, colours = decision.program.get(), decision.chunk.get(), decision.colours.get()
        count = c.ceil_div(n, chunk)
        block = c.words(c.div(c.load(step, layout.LAUNCH_BLOCK), 8))
        self.pack(c, context, step, element, block)
        for axis in range(abi.MAX_DIMS):
            c.store(c.load(dims, 8 * axis), block, abi.DIMS + 8 * axis)
        # The last dim tells a program whose threads work together how many there are: such launches have at most three.
        with c.when(c.compare("!=", together, 0)):
            c.store(together, block, abi.DIMS + 8 * (abi.MAX_DIMS - 1))
        c.store(chunk, block, abi.CHUNK)
        sums = c.load(program, layout.PROGRAM_SUMS)
        partials = c.variable(0)
        with c.when(c.compare("!=", sums, 0)):
            # One partial for each chunk and sum: they are added in order afterwards, whatever thread ran which chunk.
            partials.set(c.invoke("malloc", c.mul(c.mul(count, sums), 8)))
        c.store(partials.get(), block, abi.PARTIALS)
        record = self.record(c, context, step, element, block)
        function, finish = c.load(program, layout.PROGRAM_FUNCTION), c.load(program, layout.PROGRAM_FINISH)
        # Before the chunks run: each group of chunks gets a block with the addresses of its copies.
        first, stride = self.blocks(c, context, step, element, block, count, decision)
        c.b.call(chunks, [c.load(description, layout.POOL), function, first, stride, n, chunk, colours])
        with c.when(c.compare("!=", sums, 0)):
            c.call(finish, [first, c.word(0), count])
            c.invoke("free", partials.get())
        # Sums of copies after the partial sums, as both may be of one cotangent.
        self.together(c, context, step, element, count, decision)
        self.examine(c, context, step, dims, record)
        c.b.ret_void()
        return made

    def dims(self, c: Code, context: Word, description: Word, index: Word) -> tuple[Word, Word]:
        """Return the four dims of a launch, and their product."""
        dims = c.words(abi.MAX_DIMS)
        for axis in range(abi.MAX_DIMS):
            c.store(1, dims, 8 * axis)
        given = c.load(context, DIMS)
        with c.either(c.compare("!=", given, 0)) as (static, carried):
            with static:
                for axis in range(abi.MAX_DIMS):
                    c.store(c.load(given, c.add(c.mul(index, 8 * abi.MAX_DIMS), 8 * axis)), dims, 8 * axis)
            with carried:
                # An operand without elements whose shape is (0, *dims), behind the others and the results.
                place = c.add(c.add(c.load(description, layout.OPERANDS), c.load(description, layout.RESULTS)), index)
                shape = c.load(self.buffer(c, context, place), SHAPE)
                with c.loop(c.load(self.buffer(c, context, place), STRIDE), 1) as axis:
                    c.store(c.load(shape, c.mul(axis, 8)), dims, c.mul(c.sub(axis, 1), 8))
        n = c.word(1)
        for axis in range(abi.MAX_DIMS):
            n = c.mul(n, c.load(dims, 8 * axis))
        return dims, n

    def buffer(self, c: Code, context: Word, index: Word) -> Word:
        return c.add(c.load(context, BUFFERS), c.mul(index, 8 * BUFFER_WORDS))

    def cut(self, c: Code, context: Word, step: Word, element: Word, dims: Word, n: Word) -> Decision:
        """Decide how a launch runs, by :mod:`diffkern.runtime.launch.partition`, as for a launch from Python."""
        plain, atomic = c.add(step, layout.LAUNCH_PLAIN), c.add(step, layout.LAUNCH_ATOMIC)
        grain = self.grain(c, plain)
        decision = Decision(*map(c.variable, (plain, chunk_of(c, n, grain, c.word(1)), 1, 0, 0, 0, 0)))
        flags = c.load(step, layout.LAUNCH_FLAGS)
        is_adjoint = c.compare("!=", c.b.and_(flags, c.word(layout.IS_ADJOINT)), 0)
        # Only an adjoint can race in what the primal reads, and one chunk races with nobody.
        with c.when(c.all(is_adjoint, c.compare("<", decision.chunk.get(), n))):
            extents = [c.load(dims, 8 * axis) for axis in range(abi.MAX_DIMS)]
            for axis, extent in enumerate(extents):
                # Several threads have one index where the launch has more axes than the kernel asks about.
                # Several threads with one index accumulate into the same elements wherever they are.
                own = c.compare("<", c.word(axis), c.load(step, layout.LAUNCH_ARITY))
                is_single = c.any(own, c.compare("<=", extent, 1))
                decision.everywhere.set(c.choose(is_single, decision.everywhere.get(), 1))
            reach = [c.load(step, layout.LAUNCH_REACH + 8 * axis) for axis in range(abi.MAX_DIMS)]
            is_bounded = c.compare("==", decision.everywhere.get(), 0)
            distance = c.choose(is_bounded, distance_of(c, extents, reach), 0)
            general = c.b.or_(c.b.and_(flags, c.word(layout.IS_GENERAL)), decision.everywhere.get())
            copied, copyable = self.price(c, context, step, element, decision)
            work = c.mul(n, c.load(step, layout.LAUNCH_COST))
            spare = c.choose(c.compare("!=", c.load(atomic, layout.PROGRAM_FUNCTION), 0), 1, 0)
            facts = work, distance, general, copied
            cores = c.load(plain, layout.PROGRAM_CORES)
            self.decide(c, decision, plain, atomic, n, grain, (*facts, copyable, spare, cores))
            with c.when(c.compare(">", decision.groups.get(), 0)):
                decision.copies.set(c.zeros(c.mul(c.sub(decision.groups.get(), 1), decision.size.get())))
                # No memory for the copies: decided again, without them, so that the launch still runs.
                with c.when(c.compare("==", decision.copies.get(), 0)):
                    self.decide(c, decision, plain, atomic, n, grain, (*facts, c.word(0), spare, cores))
        return decision

    def grain(self, c: Code, program: Word) -> Grain:
        """Return how many threads of a program make a chunk; there may be no program."""
        lanes, group = (c.max(c.load(program, at), 1) for at in (layout.PROGRAM_LANES, layout.PROGRAM_GROUP))
        return Grain(c.load(program, layout.PROGRAM_CHUNK), lanes, group)

    def decide(
        self, c: Code, d: Decision, plain: Word, atomic: Word, n: Word, grain: Grain, facts: Sequence[Word]
    ) -> None:
        """Choose program, chunk and colours, and how many groups have copies."""
        how = partition(c, n, grain, *facts)
        is_atomic = c.compare("!=", how.is_atomic, 0)
        d.program.set(c.choose(is_atomic, atomic, plain))
        d.chunk.set(c.choose(is_atomic, chunk_of(c, n, self.grain(c, atomic), c.word(1)), how.chunk))
        d.colours.set(how.colours)
        d.groups.set(how.groups)

    def pack(self, c: Code, context: Word, step: Word, element: Word, block: Word) -> None:
        """Write the parameters into the argument block."""
        params = c.add(step, layout.LAUNCH_BYTES)
        at = c.variable(c.add(block, abi.HEADER_SIZE))
        with c.loop(c.load(step, layout.LAUNCH_PARAMS)) as k:
            param = c.add(params, c.mul(k, layout.PARAM_BYTES))
            held = self.buffer(c, context, c.load(param, layout.PARAM_BUFFER))
            data = c.add(c.load(held, DATA), c.mul(element, c.load(held, STRIDE)))
            kind, count = c.load(param, layout.PARAM_KIND), c.load(param, layout.PARAM_COUNT)
            words = c.load(param, layout.PARAM_WORDS)
            constant = c.compare("==", kind, layout.CONSTANT)
            with c.either(c.b.or_(constant, c.compare("==", kind, layout.VALUE))) as (value, array):
                with value:
                    slot = c.mul(c.ceil_div(count, 8), 8)
                    # The bytes behind a value that doesn't fill its last word are 0, so that blocks are the same each
                    # time.
                    c.store(0, at.get(), c.sub(slot, 8))
                    c.copy(at.get(), c.choose(constant, words, data), count)
                    at.set(c.add(at.get(), slot))
                with array:
                    axes = c.mul(count, 8)
                    shape = c.load(held, SHAPE)
                    with c.either(c.compare("==", kind, layout.VIEW)) as (view, whole):
                        with view:
                            c.store(c.add(data, c.load(param, layout.PARAM_START)), at.get())
                            c.copy(c.add(at.get(), 8), words, c.mul(axes, 2))
                        with whole:
                            c.store(data, at.get())
                            stride = c.variable(c.load(param, layout.PARAM_ITEM))
                            # Row-major strides, from the last axis to the first: XLA's buffers are dense.
                            with c.loop(count) as back:
                                axis = c.mul(c.sub(c.sub(count, back), 1), 8)
                                extent = c.load(shape, axis)
                                c.store(extent, c.add(at.get(), 8), axis)
                                c.store(stride.get(), c.add(c.add(at.get(), 8), axes), axis)
                                stride.set(c.mul(stride.get(), extent))
                    at.set(c.add(c.add(at.get(), 8), c.mul(axes, 2)))

    # -- debug programs ------------------------------------------------------------------------------------------------

    def record(self, c: Code, context: Word, step: Word, element: Word, block: Word) -> Word:
        """Return the record of a debug program, whose address is put in the header of the block; 0 in release."""
        record = c.variable(0)
        with c.when(c.compare("!=", c.load(step, layout.LAUNCH_MESSAGES), 0)):
            stamps = c.load(step, layout.LAUNCH_STAMPS)
            size = c.add(c.mul(stamps, 8), _RECORD)
            record.set(c.invoke("calloc", c.word(1), size))
            first = c.mul(c.load(step, layout.LAUNCH_PARAMS), layout.PARAM_BYTES)
            which = c.add(c.add(step, layout.LAUNCH_BYTES), first)
            # Stamps tell which thread stored to an element, one word each; 0 stands for an array that needs none.
            with c.loop(stamps) as k:
                place = c.load(which, c.mul(k, 8))
                with c.when(c.compare("!=", place, 0)):
                    # The place of an array's shape in the block, and its axes.
                    shape = c.add(block, c.b.and_(place, c.word(0xFFFFFFFF)))
                    count = c.variable(1)
                    with c.loop(c.b.lshr(place, c.word(32))) as axis:
                        count.set(c.mul(count.get(), c.load(shape, c.mul(axis, 8))))
                    made = c.invoke("calloc", c.max(count.get(), 1), c.word(8))
                    c.store(made, c.add(record.get(), _RECORD), c.mul(k, 8))
        c.store(record.get(), block, abi.STATUS)
        return record.get()

    def examine(self, c: Code, context: Word, step: Word, dims: Word, record: Word) -> None:
        """Keep the first error of the call, as sixteen numbers for its message, and free the record."""
        with c.when(c.compare("!=", record, 0)):
            code = c.load(record, 8 * abi.RECORD_CODE)
            with c.when(c.compare("!=", code, 0)):
                site = c.load(record, 8 * abi.RECORD_SITE)
                row = c.add(c.mul(c.sub(code, 1), c.load(step, layout.LAUNCH_SITES)), site)
                message = c.add(c.load(step, layout.LAUNCH_MESSAGES), c.mul(row, layout.MESSAGE_BYTES))
                place = c.pointer(c.add(context, ERROR))
                # Elements of a batch run at once; the first that fails writes the numbers.
                swapped = c.b.cmpxchg(place, c.word(0), message, "acq_rel", "monotonic")
                with c.when(c.b.extract_value(swapped, 1)):
                    numbers = c.add(context, NUMBERS)
                    for base, field in ((0, abi.RECORD_THREAD), (32, abi.RECORD_OTHER)):
                        rest = c.load(record, 8 * field)
                        for axis in reversed(range(abi.MAX_DIMS)):
                            extent = c.max(c.load(dims, 8 * axis), 1)
                            c.store(c.b.urem(rest, extent), numbers, base + 8 * axis)
                            rest = c.div(rest, extent)
                    c.copy(c.add(numbers, 64), c.add(record, 8 * abi.RECORD_INDEX), 64)
            with c.loop(c.load(step, layout.LAUNCH_STAMPS)) as k:
                c.invoke("free", c.load(c.add(record, _RECORD), c.mul(k, 8)))
            c.invoke("free", record)

    # -- a call --------------------------------------------------------------------------------------------------------

    def elements(self, launch: Any) -> Any:
        """Emit ``elements(context, low, high)``: all steps for a range of batch elements, with the signature of a
        kernel.
        """
        made, c = self.function("elements", VOID, [I64] * 3)
        context, low, high = made.args
        description = c.load(context, DESCRIPTION)
        with c.loop(high, low) as element:
            step = c.variable(c.add(description, c.load(description, layout.FIRST_STEP)))
            with c.loop(c.load(description, layout.STEPS)):
                kind = c.load(step.get(), layout.STEP_KIND)
                with c.either(c.compare("==", kind, layout.LAUNCH)) as (is_launch, is_other):
                    with is_launch:
                        c.b.call(launch, [context, step.get(), element])
                    with is_other, c.either(c.compare("==", kind, layout.COPY)) as (is_copy, is_clear):
                        with is_copy:
                            self.copy(c, context, description, step.get(), element)
                        with is_clear:
                            self.clear(c, context, description, step.get(), element)
                step.set(c.add(step.get(), c.load(step.get(), layout.STEP_BYTES)))
        c.b.ret_void()
        return made

    def place(self, c: Code, context: Word, description: Word, index: Word, element: Word) -> tuple[Word, Word, Word]:
        """Return address and bytes of a buffer's element of the batch, and the buffer."""
        held = self.buffer(c, context, index)
        kind = c.add(c.add(description, c.load(description, layout.BUFFERS)), c.mul(index, layout.BUFFER_BYTES))
        size = c.variable(c.load(kind, layout.BUFFER_ITEM))
        with c.loop(c.load(kind, layout.BUFFER_RANK)) as axis:
            size.set(c.mul(size.get(), c.load(c.load(held, SHAPE), c.mul(axis, 8))))
        return c.add(c.load(held, DATA), c.mul(element, c.load(held, STRIDE))), size.get(), held

    def copy(self, c: Code, context: Word, description: Word, step: Word, element: Word) -> None:
        source, _, _ = self.place(c, context, description, c.load(step, layout.COPY_FROM), element)
        target, size, _ = self.place(c, context, description, c.load(step, layout.COPY_TO), element)
        # XLA gave operand and result one memory, or the caller's array was copied already.
        with c.when(c.compare("!=", source, target)):
            self.copy_buffer(c, context, target, source, size)

    def clear(self, c: Code, context: Word, description: Word, step: Word, element: Word) -> None:
        at, size, held = self.place(c, context, description, c.load(step, layout.CLEAR_BUFFER), element)
        axes = c.load(step, layout.CLEAR_AXES)
        # Clearing is left out if the launch overwrites every element, which depends on the shapes of this call.
        dims, n = self.dims(c, context, description, c.load(step, layout.CLEAR_LAUNCH))
        whole = c.variable(c.choose(c.b.and_(c.compare("!=", axes, 0), c.compare(">", n, 0)), 1, 0))
        with c.loop(axes) as axis:
            offset = c.mul(axis, 8)
            same = c.compare("==", c.load(dims, offset), c.load(c.load(held, SHAPE), offset))
            whole.set(c.choose(same, whole.get(), 0))
        with c.when(c.compare("==", whole.get(), 0)):
            self.clear_buffer(c, context, at, size)

    def run(self, c: Code, context: Word, description: Word, elements: Any, count: Word) -> None:
        """Run all elements of the batch."""
        pool = c.load(description, layout.POOL)
        chunk = c.max(c.ceil_div(count, MAX_CHUNKS), 1)
        # A nested launch on the same pool takes part in its own work, so elements and their launches may both be
        # parallel.
        side_by_side = c.b.and_(c.compare(">", count, 1), c.compare("!=", pool, 0))
        run = c.address_of(elements)
        with c.either(side_by_side) as (pooled, alone):
            with pooled:
                c.call(pool, [run, context, c.word(0), count, chunk, c.word(0), c.word(1)], I32)
            with alone:
                c.b.call(elements, [context, c.word(0), count])
