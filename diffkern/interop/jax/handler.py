"""The handler that XLA calls, as LLVM code: it looks up the call's description and runs its steps.

In: nothing but where the registry's address will stand. Out: a module that exports ``dk_xla_handler``, an
``XLA_FFI_Handler`` for the CPU. A call runs no Python and takes no lock; all that it needs stands on its stack, so any
number of threads may run calls at once. The threads of a launch are cut into chunks as a launch from Python cuts them,
and run on diffkern's own pool, in which the calling thread takes part: it never waits for work that nobody has begun.

A batch is a loop over its elements around all steps; the elements run side by side, and each sees the shapes and the
launch dims of a call without the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern import abi
from diffkern.interop.jax import ffi_api, layout
from diffkern.interop.jax.emit import I32, I64, PTR, VOID, Code, Word

__all__ = ["DRIVER", "EXTERNAL_NAMES", "HANDLER", "REGISTRY", "CpuModule", "handler_ir"]

HANDLER = "dk_xla_handler"
REGISTRY = "dk_xla_registry"
DRIVER = "dk_xla_driver"
EXTERNAL_NAMES = frozenset("malloc calloc free snprintf memcpy memset bzero __bzero".split())
"""What the module needs from the C library."""

_MAX_CHUNKS = 256
_ROUNDING = 64
_MESSAGE_BYTES = 1024
_RECORD = abi.RECORD_STAMPS * 8

# The context of one call, on the handler's stack; in bytes.
_DESCRIPTION, _BUFFERS, _DIMS, _ERROR, _STEP, _NUMBERS = 0, 8, 16, 24, 32, 40
_CONTEXT_WORDS = 5 + 16
# A buffer in a call: its data, bytes from one batch element to the next, its shape.
_DATA, _STRIDE, _SHAPE, _BUFFER_WORDS = 0, 8, 16, 3

_FRAME = ffi_api.OFFSETS["XLA_FFI_CallFrame"]
_BUFFER = ffi_api.OFFSETS["XLA_FFI_Buffer"]
_API = ffi_api.OFFSETS["XLA_FFI_Api"]
_ARGS, _RETS, _ATTRS = (ffi_api.OFFSETS[f"XLA_FFI_{n}"] for n in ("Args", "Rets", "Attrs"))


def handler_ir() -> str:
    """Return the module's text."""
    return CpuModule().text()


class CpuModule:
    """The module while it is made."""

    traits = 0

    def __init__(self) -> None:
        self.module = ir.Module("diffkern.xla")
        self.registry = ir.GlobalVariable(self.module, I64, REGISTRY)
        self.registry.initializer = ir.Constant(I64, 0)
        self.registry.type = PTR
        self.malloc = self.external("malloc", I64, [I64])
        self.calloc = self.external("calloc", I64, [I64, I64])
        self.free = self.external("free", VOID, [I64])
        self.snprintf = ir.Function(self.module, ir.FunctionType(I32, [I64, I64, I64], var_arg=True), "snprintf")
        self.memcpy = self.external("llvm.memcpy.p0.p0.i64", VOID, [PTR, PTR, I64, ir.IntType(1)])
        self.memset = self.external("llvm.memset.p0.i64", VOID, [PTR, ir.IntType(8), I64, ir.IntType(1)])

    def text(self) -> str:
        launch = self.launch()
        elements = self.elements(launch)
        error = self.error()
        self.handler(elements, error)
        return str(self.module)

    def external(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        return ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def function(self, name: str, result: Any, arguments: Sequence[Any]) -> tuple[Any, Code]:
        made = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        made.linkage = "internal"
        return made, Code(made)

    # -- memory --------------------------------------------------------------------------------------------------------

    def copy_bytes(self, c: Code, to: Word, source: Word, count: Word | int) -> None:
        no = ir.Constant(ir.IntType(1), 0)
        c.b.call(self.memcpy, [c.pointer(to), c.pointer(source), c.word(count), no])

    def clear_bytes(self, c: Code, at: Word, count: Word | int) -> None:
        no, zero = ir.Constant(ir.IntType(1), 0), ir.Constant(ir.IntType(8), 0)
        c.b.call(self.memset, [c.pointer(at), zero, c.word(count), no])

    def copy_buffer(self, c: Code, context: Word, to: Word, source: Word, count: Word) -> None:
        self.copy_bytes(c, to, source, count)

    def clear_buffer(self, c: Code, context: Word, at: Word, count: Word) -> None:
        self.clear_bytes(c, at, count)

    # -- running one launch --------------------------------------------------------------------------------------------

    def chunks(self) -> Any:
        """``chunks(pool, function, block, n, chunk, colours)``: run all chunks of a range, and wait."""
        made, c = self.function("chunks", VOID, [I64] * 6)
        pool, function, block, n, chunk, colours = made.args
        with c.loop(colours) as colour, c.either(c.compare("!=", pool, 0)) as (native, alone):
            with native:
                c.call(pool, [function, block, c.word(0), n, chunk, colour, colours], I32)
            with alone, c.loop(n, c.mul(colour, chunk), c.mul(colours, chunk)) as low:
                c.call(function, [block, low, c.min(c.add(low, chunk), n)])
        c.b.ret_void()
        return made

    def launch(self) -> Any:
        """``launch(context, step, element)``: one launch of one batch element; ``element`` counts from 0."""
        chunks = self.chunks()
        made, c = self.function("launch", VOID, [I64] * 3)
        context, step, element = made.args
        description = c.load(context, _DESCRIPTION)
        dims, n = self.dims(c, context, description, c.load(step, layout.LAUNCH_INDEX))
        with c.when(c.compare("==", n, 0)):
            c.b.ret_void()
        program, chunk, colours = self.cut(c, step, dims, n)
        count = c.ceil_div(n, chunk)
        block = c.words(c.div(c.load(step, layout.LAUNCH_BLOCK), 8))
        self.pack(c, context, step, element, block)
        for axis in range(abi.MAX_DIMS):
            c.store(c.load(dims, 8 * axis), block, abi.DIMS + 8 * axis)
        c.store(chunk, block, abi.CHUNK)
        sums = c.load(program, layout.PROGRAM_SUMS)
        partials = c.variable(0)
        with c.when(c.compare("!=", sums, 0)):
            partials.set(c.b.call(self.malloc, [c.mul(c.mul(count, sums), 8)]))
        c.store(partials.get(), block, abi.PARTIALS)
        record = self.record(c, context, step, element, block)
        function, finish = c.load(program, layout.PROGRAM_FUNCTION), c.load(program, layout.PROGRAM_FINISH)
        c.b.call(chunks, [c.load(description, layout.POOL), function, block, n, chunk, colours])
        with c.when(c.compare("!=", sums, 0)):
            c.call(finish, [block, c.word(0), count])
            c.b.call(self.free, [partials.get()])
        self.examine(c, context, step, dims, record)
        c.b.ret_void()
        return made

    def dims(self, c: Code, context: Word, description: Word, index: Word) -> tuple[Word, Word]:
        """The four dims of a launch, and their product."""
        dims = c.words(abi.MAX_DIMS)
        for axis in range(abi.MAX_DIMS):
            c.store(1, dims, 8 * axis)
        given = c.load(context, _DIMS)
        with c.either(c.compare("!=", given, 0)) as (static, carried):
            with static:
                for axis in range(abi.MAX_DIMS):
                    c.store(c.load(given, c.add(c.mul(index, 8 * abi.MAX_DIMS), 8 * axis)), dims, 8 * axis)
            with carried:
                # An operand without elements whose shape is (0, *dims), behind the others and the results.
                place = c.add(c.add(c.load(description, layout.OPERANDS), c.load(description, layout.RESULTS)), index)
                shape = c.load(self.buffer(c, context, place), _SHAPE)
                with c.loop(c.load(self.buffer(c, context, place), _STRIDE), 1) as axis:
                    c.store(c.load(shape, c.mul(axis, 8)), dims, c.mul(c.sub(axis, 1), 8))
        n = c.word(1)
        for axis in range(abi.MAX_DIMS):
            n = c.mul(n, c.load(dims, 8 * axis))
        return dims, n

    def buffer(self, c: Code, context: Word, index: Word) -> Word:
        return c.add(c.load(context, _BUFFERS), c.mul(index, 8 * _BUFFER_WORDS))

    def cut(self, c: Code, step: Word, dims: Word, n: Word) -> tuple[Word, Word, Word]:
        """Which program runs, in chunks of what length, and in how many colours.

        The same decision as :func:`diffkern.runtime.schedule.plan_adjoint` makes, but for private copies.
        """
        plain, atomic = c.add(step, layout.LAUNCH_PLAIN), c.add(step, layout.LAUNCH_ATOMIC)
        program = c.variable(plain)
        chunk = c.variable(self.chunk_of(c, plain, n, c.word(1)))
        colours = c.variable(1)
        flags = c.load(step, layout.LAUNCH_FLAGS)
        adjoint = c.compare("!=", c.b.and_(flags, c.word(layout.IS_ADJOINT)), 0)
        several = c.compare("<", chunk.get(), n)
        with c.when(c.b.and_(adjoint, several)):
            general = c.variable(c.b.and_(flags, c.word(layout.IS_GENERAL)))
            distance, stride = c.variable(0), c.variable(1)
            arity = c.load(step, layout.LAUNCH_ARITY)
            for axis in reversed(range(abi.MAX_DIMS)):
                extent = c.load(dims, 8 * axis)
                own = c.compare("<", c.word(axis), arity)
                # Several threads have one index where the launch has more axes than the kernel asks about.
                repeated = c.b.and_(c.b.not_(own), c.compare(">", extent, 1))
                general.set(c.choose(repeated, 1, general.get()))
                reach = c.min(c.load(step, layout.LAUNCH_REACH + 8 * axis), c.sub(extent, 1))
                distance.set(c.add(distance.get(), c.choose(own, c.mul(reach, stride.get()), 0)))
                stride.set(c.mul(stride.get(), extent))
            with c.either(c.compare("!=", general.get(), 0)) as (anywhere, near):
                with anywhere:
                    has = c.compare("!=", c.load(atomic, layout.PROGRAM_FUNCTION), 0)
                    with c.either(has) as (there, missing):
                        with there:
                            program.set(atomic)
                            chunk.set(self.chunk_of(c, atomic, n, c.word(1)))
                        with missing:
                            chunk.set(n)
                with near, c.when(c.compare(">", distance.get(), 0)):
                    chunk.set(self.chunk_of(c, plain, n, c.add(distance.get(), 1)))
                    colours.set(2)
        return program.get(), chunk.get(), colours.get()

    def chunk_of(self, c: Code, program: Word, n: Word, least: Word) -> Word:
        """The length of a chunk, as :func:`diffkern.runtime.schedule.cut` has it."""
        chunk = c.max(c.max(c.ceil_div(n, _MAX_CHUNKS), c.load(program, layout.PROGRAM_CHUNK)), least)
        rounded = c.mul(c.ceil_div(chunk, _ROUNDING), _ROUNDING)
        chunk = c.choose(c.compare(">", chunk, _ROUNDING), rounded, chunk)
        return c.max(c.min(chunk, c.max(n, least)), 1)

    def pack(self, c: Code, context: Word, step: Word, element: Word, block: Word) -> None:
        """Write the parameters into the argument block."""
        params = c.add(step, layout.LAUNCH_BYTES)
        at = c.variable(c.add(block, abi.HEADER_SIZE))
        with c.loop(c.load(step, layout.LAUNCH_PARAMS)) as k:
            param = c.add(params, c.mul(k, layout.PARAM_BYTES))
            held = self.buffer(c, context, c.load(param, layout.PARAM_BUFFER))
            data = c.add(c.load(held, _DATA), c.mul(element, c.load(held, _STRIDE)))
            kind, count = c.load(param, layout.PARAM_KIND), c.load(param, layout.PARAM_COUNT)
            words = c.load(param, layout.PARAM_WORDS)
            constant = c.compare("==", kind, layout.CONSTANT)
            with c.either(c.b.or_(constant, c.compare("==", kind, layout.VALUE))) as (value, array):
                with value:
                    slot = c.mul(c.ceil_div(count, 8), 8)
                    c.store(0, at.get(), c.sub(slot, 8))
                    self.copy_bytes(c, at.get(), c.choose(constant, words, data), count)
                    at.set(c.add(at.get(), slot))
                with array:
                    axes = c.mul(count, 8)
                    shape = c.load(held, _SHAPE)
                    with c.either(c.compare("==", kind, layout.VIEW)) as (view, whole):
                        with view:
                            c.store(c.add(data, c.load(param, layout.PARAM_START)), at.get())
                            self.copy_bytes(c, c.add(at.get(), 8), words, c.mul(axes, 2))
                        with whole:
                            c.store(data, at.get())
                            stride = c.variable(c.load(param, layout.PARAM_ITEM))
                            with c.loop(count) as back:
                                axis = c.mul(c.sub(c.sub(count, back), 1), 8)
                                extent = c.load(shape, axis)
                                c.store(extent, c.add(at.get(), 8), axis)
                                c.store(stride.get(), c.add(c.add(at.get(), 8), axes), axis)
                                stride.set(c.mul(stride.get(), extent))
                    at.set(c.add(c.add(at.get(), 8), c.mul(axes, 2)))

    # -- debug programs ------------------------------------------------------------------------------------------------

    def record(self, c: Code, context: Word, step: Word, element: Word, block: Word) -> Word:
        """The record of a debug program, in the header of the block; 0 in release."""
        record = c.variable(0)
        with c.when(c.compare("!=", c.load(step, layout.LAUNCH_MESSAGES), 0)):
            stamps = c.load(step, layout.LAUNCH_STAMPS)
            size = c.add(c.mul(stamps, 8), _RECORD)
            record.set(c.b.call(self.calloc, [c.word(1), size]))
            first = c.mul(c.load(step, layout.LAUNCH_PARAMS), layout.PARAM_BYTES)
            which = c.add(c.add(step, layout.LAUNCH_BYTES), first)
            with c.loop(stamps) as k:
                place = c.load(which, c.mul(k, 8))
                with c.when(c.compare("!=", place, 0)):
                    # The place of an array's shape in the block, and its axes.
                    shape = c.add(block, c.b.and_(place, c.word(0xFFFFFFFF)))
                    count = c.variable(1)
                    with c.loop(c.b.lshr(place, c.word(32))) as axis:
                        count.set(c.mul(count.get(), c.load(shape, c.mul(axis, 8))))
                    made = c.b.call(self.calloc, [c.max(count.get(), 1), c.word(8)])
                    c.store(made, c.add(record.get(), _RECORD), c.mul(k, 8))
        c.store(record.get(), block, abi.STATUS)
        return record.get()

    def examine(self, c: Code, context: Word, step: Word, dims: Word, record: Word) -> None:
        """Keep the first mistake of the call, as sixteen numbers for its message, and free the record."""
        with c.when(c.compare("!=", record, 0)):
            code = c.load(record, 8 * abi.RECORD_CODE)
            with c.when(c.compare("!=", code, 0)):
                site = c.load(record, 8 * abi.RECORD_SITE)
                row = c.add(c.mul(c.sub(code, 1), c.load(step, layout.LAUNCH_SITES)), site)
                message = c.add(c.load(step, layout.LAUNCH_MESSAGES), c.mul(row, layout.MESSAGE_BYTES))
                place = c.pointer(c.add(context, _ERROR))
                swapped = c.b.cmpxchg(place, c.word(0), message, "acq_rel", "monotonic")
                with c.when(c.b.extract_value(swapped, 1)):
                    numbers = c.add(context, _NUMBERS)
                    for base, field in ((0, abi.RECORD_THREAD), (32, abi.RECORD_OTHER)):
                        rest = c.load(record, 8 * field)
                        for axis in reversed(range(abi.MAX_DIMS)):
                            extent = c.max(c.load(dims, 8 * axis), 1)
                            c.store(c.b.urem(rest, extent), numbers, base + 8 * axis)
                            rest = c.div(rest, extent)
                    self.copy_bytes(c, c.add(numbers, 64), c.add(record, 8 * abi.RECORD_INDEX), 64)
            with c.loop(c.load(step, layout.LAUNCH_STAMPS)) as k:
                c.b.call(self.free, [c.load(c.add(record, _RECORD), c.mul(k, 8))])
            c.b.call(self.free, [record])

    # -- a call --------------------------------------------------------------------------------------------------------

    def elements(self, launch: Any) -> Any:
        """``elements(context, low, high)``: all steps for a range of batch elements, in the form of a kernel."""
        made, c = self.function("elements", VOID, [I64] * 3)
        context, low, high = made.args
        description = c.load(context, _DESCRIPTION)
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
        """Address and bytes of a buffer's element of the batch, and the buffer."""
        held = self.buffer(c, context, index)
        kind = c.add(c.add(description, c.load(description, layout.BUFFERS)), c.mul(index, layout.BUFFER_BYTES))
        size = c.variable(c.load(kind, layout.BUFFER_ITEM))
        with c.loop(c.load(kind, layout.BUFFER_RANK)) as axis:
            size.set(c.mul(size.get(), c.load(c.load(held, _SHAPE), c.mul(axis, 8))))
        return c.add(c.load(held, _DATA), c.mul(element, c.load(held, _STRIDE))), size.get(), held

    def copy(self, c: Code, context: Word, description: Word, step: Word, element: Word) -> None:
        source, _, _ = self.place(c, context, description, c.load(step, layout.COPY_FROM), element)
        goal, size, _ = self.place(c, context, description, c.load(step, layout.COPY_TO), element)
        with c.when(c.compare("!=", source, goal)):
            self.copy_buffer(c, context, goal, source, size)

    def clear(self, c: Code, context: Word, description: Word, step: Word, element: Word) -> None:
        at, size, held = self.place(c, context, description, c.load(step, layout.CLEAR_BUFFER), element)
        axes = c.load(step, layout.CLEAR_AXES)
        dims, n = self.dims(c, context, description, c.load(step, layout.CLEAR_LAUNCH))
        whole = c.variable(c.choose(c.b.and_(c.compare("!=", axes, 0), c.compare(">", n, 0)), 1, 0))
        with c.loop(axes) as axis:
            offset = c.mul(axis, 8)
            same = c.compare("==", c.load(dims, offset), c.load(c.load(held, _SHAPE), offset))
            whole.set(c.choose(same, whole.get(), 0))
        with c.when(c.compare("==", whole.get(), 0)):
            self.clear_buffer(c, context, at, size)

    def error(self) -> Any:
        """``error(frame, message, code)``: an XLA_FFI_Error with a copy of a C string."""
        made, c = self.function("error", PTR, [I64] * 3)
        frame, message, code = made.args
        size = ffi_api.SIZES["XLA_FFI_Error_Create_Args"]
        fields = ffi_api.OFFSETS["XLA_FFI_Error_Create_Args"]
        arguments = c.words(size // 8 + 1)
        c.store(size, arguments, fields["struct_size"])
        c.store(0, arguments, fields["extension_start"])
        c.store(message, arguments, fields["message"])
        c.store32(code, arguments, fields["errc"])
        create = c.load(c.load(frame, _FRAME["api"]), _API["XLA_FFI_Error_Create"])
        c.leave(c.call(create, [c.pointer(arguments)], PTR))
        return made

    def handler(self, elements: Any, error: Any) -> None:
        made = ir.Function(self.module, ir.FunctionType(PTR, [PTR]), HANDLER)
        c = Code(made)
        null = ir.Constant(PTR, None)
        frame = c.address(made.args[0])

        def refuse(condition: Any, code: str, text: str, *numbers: Word) -> None:
            with c.when(condition):
                buffer = c.words(_MESSAGE_BYTES // 8)
                form = self.string(c, text)
                c.b.call(self.snprintf, [buffer, c.word(_MESSAGE_BYTES), form, *numbers])
                c.leave(c.b.call(error, [frame, buffer, c.word(ffi_api.ERROR_CODES[code])]))

        self.metadata(c, frame, null)
        self.skip(c, c.load32(frame, _FRAME["stage"]), null)
        attributes = c.add(frame, _FRAME["attrs"])
        short = c.compare("<", c.load(frame), ffi_api.SIZES["XLA_FFI_CallFrame"])
        refuse(short, "UNIMPLEMENTED", "diffkern: this version of XLA passes calls in another form; update diffkern")
        single = c.compare("==", c.load(attributes, _ATTRS["size"]), 1)
        refuse(c.b.not_(single), "INVALID_ARGUMENT", "diffkern: the call has another form than this version's")
        attribute = c.load(c.load(attributes, _ATTRS["attrs"]))
        count, call = (c.load(attribute, ffi_api.OFFSETS["XLA_FFI_Array"][f]) for f in ("size", "data"))
        refuse(c.compare("<", count, layout.CALL_DIMS), "INVALID_ARGUMENT", "diffkern: the attribute is too short")

        description = self.look_up(c, call)
        refuse(
            c.compare("==", description, 0),
            "NOT_FOUND",
            "diffkern: program %016llx is not known in this process; call dk.jax.register() with the directory of "
            "programs, or import and trace the function that made it",
            c.load(call, layout.CALL_KEY),
        )
        self.load(c, frame, description, error, null)
        name = c.load(description, layout.NAME)
        dims = c.variable(c.add(call, 8 * layout.CALL_DIMS))
        launches = c.load(description, layout.LAUNCHES)
        static = c.sub(count, layout.CALL_DIMS)
        has_dims = c.compare("==", static, c.mul(launches, abi.MAX_DIMS))
        has_none = c.compare("==", static, 0)
        refuse(
            c.b.not_(c.b.or_(has_dims, has_none)), "INVALID_ARGUMENT", "diffkern: %s: wrong number of launch dims", name
        )
        carried = c.choose(c.b.and_(has_none, c.b.not_(has_dims)), launches, 0)
        dims.set(c.choose(c.compare("!=", carried, 0), 0, dims.get()))

        operands, results = c.load(description, layout.OPERANDS), c.load(description, layout.RESULTS)
        arguments, returns = c.add(frame, _FRAME["args"]), c.add(frame, _FRAME["rets"])
        given = c.load(arguments, _ARGS["size"])
        refuse(
            c.compare("!=", given, c.add(operands, carried)),
            "INVALID_ARGUMENT",
            "diffkern: %s: takes %lld operands, not %lld",
            name, operands, given,
        )  # fmt: skip
        made_results = c.load(returns, _RETS["size"])
        refuse(
            c.compare("!=", made_results, results),
            "INVALID_ARGUMENT",
            "diffkern: %s: gives %lld results, not %lld",
            name, results, made_results,
        )  # fmt: skip

        context = c.words(_CONTEXT_WORDS)
        total = c.add(c.add(operands, results), carried)
        buffers = c.words(c.add(c.mul(total, _BUFFER_WORDS), 1))
        c.store(description, context, _DESCRIPTION)
        c.store(buffers, context, _BUFFERS)
        c.store(dims.get(), context, _DIMS)
        c.store(0, context, _ERROR)
        self.begin(c, frame, context)

        batch = c.variable(1)
        flags, mask = c.load(call, 8 * layout.CALL_FLAGS), c.load(call, 8 * layout.CALL_BATCHED)
        is_batched = c.b.and_(flags, c.word(layout.HAS_BATCH))
        kinds = c.add(description, c.load(description, layout.BUFFERS))
        with c.loop(c.add(operands, results)) as k:
            is_operand = c.compare("<", k, operands)
            lists = c.choose(is_operand, c.load(arguments, _ARGS["args"]), c.load(returns, _RETS["rets"]))
            place = c.choose(is_operand, k, c.sub(k, operands))
            buffer = c.load(lists, c.mul(place, 8))
            # The mask has no bits beyond 63 operands; results of a batch all have the axis.
            bit = c.b.and_(c.b.lshr(mask, c.min(k, 63)), c.word(1))
            batched = c.b.and_(c.choose(is_operand, bit, 1), is_batched)
            kind = c.add(kinds, c.mul(k, layout.BUFFER_BYTES))
            dtype, rank = c.load32(buffer, _BUFFER["dtype"]), c.load(buffer, _BUFFER["rank"])
            wanted = c.add(c.load(kind, layout.BUFFER_RANK), batched)
            same = c.b.and_(c.compare("==", dtype, c.load(kind, layout.BUFFER_TYPE)), c.compare("==", rank, wanted))
            refuse(
                c.b.not_(same),
                "INVALID_ARGUMENT",
                "diffkern: %s: buffer %lld has XLA data type %lld and rank %lld; %lld and %lld are wanted",
                name, k, dtype, rank, c.load(kind, layout.BUFFER_TYPE), wanted,
            )  # fmt: skip
            shape = c.load(buffer, _BUFFER["dims"])
            record = c.add(buffers, c.mul(k, 8 * _BUFFER_WORDS))
            c.store(c.load(buffer, _BUFFER["data"]), record, _DATA)
            c.store(c.add(shape, c.mul(batched, 8)), record, _SHAPE)
            stride = c.variable(0)
            with c.when(c.compare("!=", batched, 0)):
                extent = c.load(shape)
                has_other = c.b.and_(c.compare("!=", batch.get(), 1), c.compare("!=", batch.get(), extent))
                refuse(has_other, "INVALID_ARGUMENT", "diffkern: %s: batches of different sizes", name)
                batch.set(extent)
                size = c.variable(c.load(kind, layout.BUFFER_ITEM))
                with c.loop(c.load(kind, layout.BUFFER_RANK)) as axis:
                    size.set(c.mul(size.get(), c.load(shape, c.add(c.mul(axis, 8), 8))))
                stride.set(size.get())
            c.store(stride.get(), record, _STRIDE)
        with c.loop(carried) as k:
            buffer = c.load(c.load(arguments, _ARGS["args"]), c.mul(c.add(operands, k), 8))
            record = c.add(buffers, c.mul(c.add(c.add(operands, results), k), 8 * _BUFFER_WORDS))
            rank = c.load(buffer, _BUFFER["rank"])
            refuse(
                c.b.or_(c.compare("<", rank, 2), c.compare(">", rank, 1 + abi.MAX_DIMS)),
                "INVALID_ARGUMENT",
                "diffkern: %s: a launch has 1 to 4 dims",
                name,
            )
            c.store(c.load(buffer, _BUFFER["dims"]), record, _SHAPE)
            c.store(rank, record, _STRIDE)

        self.run(c, context, description, elements, batch.get())
        self.tell(c, frame, context, error)
        c.leave(null)

    def skip(self, c: Code, stage: Word, null: Any) -> None:
        """Do nothing but in the stage of execution."""
        with c.when(c.compare("!=", stage, ffi_api.STAGE_EXECUTE)):
            c.leave(null)

    def load(self, c: Code, frame: Word, description: Word, error: Any, null: Any) -> None:
        """Prepare for the call's programs."""

    def begin(self, c: Code, frame: Word, context: Word) -> None:
        """Prepare for the call."""

    def run(self, c: Code, context: Word, description: Word, elements: Any, count: Word) -> None:
        """Run all elements of the batch."""
        pool = c.load(description, layout.POOL)
        chunk = c.max(c.ceil_div(count, _MAX_CHUNKS), 1)
        side_by_side = c.b.and_(c.compare(">", count, 1), c.compare("!=", pool, 0))
        run = c.address_of(elements)
        with c.either(side_by_side) as (pooled, alone):
            with pooled:
                c.call(pool, [run, context, c.word(0), count, chunk, c.word(0), c.word(1)], I32)
            with alone:
                c.b.call(elements, [context, c.word(0), count])

    def metadata(self, c: Code, frame: Word, null: Any) -> None:
        """Answer the question for version and traits."""
        extension = c.load(frame, _FRAME["extension_start"])
        with c.when(c.compare("!=", extension, 0)):
            kind = c.load32(extension, ffi_api.OFFSETS["XLA_FFI_Extension_Base"]["type"])
            with c.when(c.compare("==", kind, ffi_api.METADATA_EXTENSION)):
                at = c.load(extension, ffi_api.OFFSETS["XLA_FFI_Metadata_Extension"]["metadata"])
                version = ffi_api.OFFSETS["XLA_FFI_Api_Version"]
                base = c.add(at, ffi_api.OFFSETS["XLA_FFI_Metadata"]["api_version"])
                # What is used here is in version 0.1, which later runtimes take as well.
                c.store32(0, base, version["major_version"])
                c.store32(1, base, version["minor_version"])
                c.store32(self.traits, at, ffi_api.OFFSETS["XLA_FFI_Metadata"]["traits"])
                c.leave(null)

    def look_up(self, c: Code, call: Word) -> Word:
        """The description of a program, or 0."""
        registry = c.b.load_atomic(self.registry, "acquire", 8, typ=I64)
        found = c.variable(0)
        with c.when(c.compare("!=", registry, 0)):
            mask = c.load(registry)
            first, second = c.load(call, 0), c.load(call, 8)
            at = c.variable(c.b.and_(first, mask))
            # A table is never more than half full: there is an empty slot to end the search.
            with c.forever() as stop:
                slot = c.add(c.add(registry, 8), c.mul(at.get(), 8 * layout.SLOT_WORDS))
                same = c.b.and_(c.compare("==", c.load(slot), first), c.compare("==", c.load(slot, 8), second))
                found.set(c.choose(same, c.load(slot, 16), 0))
                stop(c.b.or_(same, c.compare("==", c.load(slot, 16), 0)))
                at.set(c.b.and_(c.add(at.get(), 1), mask))
        return found.get()

    def tell(self, c: Code, frame: Word, context: Word, error: Any) -> None:
        """Return the mistake that a debug program found, if there is one."""
        message = c.load(context, _ERROR)
        with c.when(c.compare("!=", message, 0)):
            numbers = c.add(context, _NUMBERS)
            shown = []
            for k in range(layout.MESSAGE_NUMBERS):
                which = c.load(message, layout.MESSAGE_ORDER + 8 * k)
                shown.append(c.load(numbers, c.mul(which, 8)))
            buffer = c.words(_MESSAGE_BYTES // 8)
            form = c.load(message, layout.MESSAGE_FORMAT)
            c.b.call(self.snprintf, [buffer, c.word(_MESSAGE_BYTES), form, *shown])
            c.leave(c.b.call(error, [frame, buffer, c.word(ffi_api.ERROR_CODES["INVALID_ARGUMENT"])]))

    def string(self, c: Code, text: str) -> Word:
        data = bytearray(text.encode() + b"\0")
        kind = ir.ArrayType(ir.IntType(8), len(data))
        name = f"text.{len(self.module.globals)}"
        held = ir.GlobalVariable(self.module, kind, name)
        held.linkage, held.global_constant = "internal", True
        held.initializer = ir.Constant(kind, data)
        held.type = PTR
        return c.address(held)
