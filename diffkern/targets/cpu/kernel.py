"""The two functions of a kernel: the loop over the threads of a chunk, and the one that adds up partial sums.

A function without composite mathematics, and a symbol, give an LLVM module that defines ``symbol`` and, if the kernel
sums into uniform addresses, ``symbol_finish``; both have the signature ``void(int64, int64, int64)`` of
``diffkern.contracts.abi``. The module holds nothing else that is visible from outside.

The threads of a chunk are walked as a loop nest: rows of the last axis the kernel asks for, so that the innermost loop
runs over that axis alone and the leading components are computed once a row. A launch with more axes than the kernel
asks for repeats the whole nest. Values that are the same for all threads of the nest, or of a row, are computed ahead
of the loop (``diffkern.opt.hoist_uniform``). If an array that is read there shares memory with one that the kernel
writes, there is a nest for each thread.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir

from diffkern.analysis.sums import added_to, uniform_extremes, updates_atomically, used_values
from diffkern.contracts import abi
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import scalar_of
from diffkern.ir.types import value_type as held_type
from diffkern.ir.views import For, is_loop
from diffkern.opt.hoist_uniform import Placement, place
from diffkern.opt.picks import pick_from_memory
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lane_loop import Lanes
from diffkern.targets.cpu.lanes import choice
from diffkern.targets.cpu.outline_emit import OutlinedBody, Slots
from diffkern.targets.cpu.outline_plan import Outline, outline
from diffkern.targets.cpu.uniform import uniform_questions
from diffkern.targets.emit.buffers import Scratch
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.facts import FunctionFacts, analyse
from diffkern.targets.emit.frame import Frame, loop_stacks, neutral, summed_type, width
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.kernel import KernelFrame, KernelModule, float_flags, without_estimates
from diffkern.targets.emit.loops import left_alone, rolled_if_long
from diffkern.targets.emit.memory import (
    ArrayRef,
    atomic_element,
    disjoint,
)
from diffkern.targets.emit.scalars import ScalarEmitter, compare
from diffkern.targets.emit.types import (
    I32,
    I64,
    PTR,
    VOID,
    Isa,
    TargetModule,
    constant,
    i64,
    memory_type,
    value_type,
)
from diffkern.targets.emit.workspace import Workspace
from diffkern.targets.target import Settings

_MOST_COMPARISONS = 64
"""The most pairs of arrays that a chunk compares to tell whether values read ahead of its threads stay valid."""

_SIGNATURE = ir.FunctionType(VOID, [I64, I64, I64])


@dataclass(frozen=True, slots=True)
class CpuModule(KernelModule):
    """An LLVM module with a kernel for a processor.

    Attributes
    ----------
    weight : int
        Instructions of the longest vectorised loop with everything inlined, and literals.
    questions : float
        The number of uniformity queries that the vectoriser may make.
    threads : Choice
        How the threads run.
    notes : tuple of str
        The form of the operations in lanes, for reports.
    updates : bool
        Whether there are atomic updates, which are plain ones where the lowest bit of the address of the argument block
        says so.
    added : tuple of int
        Parameters that threads only add to, if there are no other atomic updates.
    """

    weight: int
    questions: float
    threads: choice.Choice
    notes: tuple[str, ...]
    updates: bool
    added: tuple[int, ...]

    @property
    def report(self) -> str:
        """A description of how the threads run, in lines of text."""
        return "\n".join((str(self.threads), *self.notes))


def emit_kernel(fn: Function, symbol: str, isa: Isa, settings: Settings) -> CpuModule:
    """Emit the LLVM module of a kernel: a function whose composite mathematics has been expanded, and its name."""
    module = TargetModule(symbol, isa)
    chosen = choice.chosen(fn, settings, isa)
    if chosen.lanes == 1:
        fn = pick_from_memory(fn)
    facts = analyse(fn)
    # A program that checks names the thread in error, where it is.
    if settings.checking is Checking.NONE:
        facts.extremes = uniform_extremes(fn, facts.invariant, used_values(fn))
    placement = _placement(fn, settings.checking)
    flags = float_flags(fn, fast_math=settings.fast_math, fuse=settings.fuse_fp)
    chunk = Chunk(module, fn, facts, symbol, flags, placement, chosen)
    chunk.emit(settings.checking)
    symbols: tuple[str, ...] = (symbol,)
    sites = sum(width(op) for op in facts.reduced)
    # Partial sums per chunk need a second function, which runs after all chunks.
    if sites:
        symbols += (f"{symbol}_finish",)
        _emit_finish(module, fn, facts, symbols[1])
    weight = sum(_weight(function, {}) for function in chunk.functions) + len(facts.literals)
    # Thread-local buffers make the kernel many loops instead of one, and only the longest counts for the vectoriser.
    if facts.buffers:
        weight = math.ceil(weight * longest_loop(fn))
    questions = uniform_questions(fn, placement.moved, fast_math=settings.fast_math)
    found, stamped = chunk.checked
    notes = tuple(chunk.lanes[0].notes.lines()) if chunk.lanes else ()
    known = found, stamped, weight, questions, chosen, notes, chunk.alone is not None, added_to(fn, facts.reduced)
    return CpuModule(str(module), symbols, sites, *known, outputs=chunk.printed)


def _placement(fn: Function, checking: Checking) -> Placement:
    if checking is not Checking.NONE:
        return Placement()  # the program says which thread caused an error, so each does everything by itself
    placement = place(fn)
    few = len(placement.reads) * len(placement.writes) <= _MOST_COMPARISONS
    # With too many pairs to compare at run time, nothing is read ahead.
    return placement if few else place(fn, loads=False)


def _weight(function: Any, known: dict[str, int]) -> int:
    """Return the instructions of a function with those of the functions that LLVM will inline into it."""
    if function.name not in known:
        total = 0
        for block in function.blocks:
            for instruction in block.instructions:
                callee = getattr(instruction, "callee", None)
                inlined = callee is not None and "alwaysinline" in callee.attributes
                total += _weight(callee, known) if inlined else 1
        known[function.name] = total
    return known[function.name]


class _Frame(Frame):
    """A function with the signature of a kernel."""

    def __init__(
        self,
        module: TargetModule,
        fn: Function,
        facts: FunctionFacts,
        symbol: str,
        flags: tuple[str, ...],
        *,
        updates: bool = False,
    ) -> None:
        function = ir.Function(module, _SIGNATURE, symbol)
        function.attributes.add("nounwind")
        without_estimates(function, flags)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        block, self.lo, self.hi = function.args
        self.alone = None
        # The lowest bit of the block's address tells that the chunk runs alone, so atomics may be plain updates.
        if updates:
            self.alone = builder.icmp_unsigned("!=", builder.and_(block, i64(abi.ALONE)), i64(0))
            block = builder.and_(block, i64(~abi.ALONE))
        pointer = builder.inttoptr(block, PTR)
        super().__init__(module, fn, facts, builder, pointer, ScalarEmitter(builder, module, flags))

    def body(self) -> BodyEmitter:
        body = BodyEmitter(self.builder, self.scalars, self.facts, self.arrays, dict(self.values))
        body.extent_along, body.alone = self.extent, self.alone
        return body

    def partial(self, chunk: Any, sites: int, site: int) -> Any:
        """Return a pointer to the partial sum of a site of a chunk."""
        b = self.builder
        base = b.inttoptr(self.header(abi.PARTIALS), PTR)
        index = b.add(b.mul(chunk, i64(sites)), i64(site))
        return b.gep(base, [index], inbounds=True, source_etype=I64)

    @contextlib.contextmanager
    def loop(self, lo: Any, hi: Any, step: Any = None, *, scalar: bool = False) -> Iterator[Any]:
        """Emit a loop over ``lo <= i < hi`` of signed integers, around the code emitted inside the ``with`` block.

        LLVM does not vectorise a scalar one.
        """
        b = self.builder
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("threads", "thread", "end"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(lo.type)
        i.add_incoming(lo, before)
        b.cbranch(self.goes_on(i, hi), body, done)
        b.position_at_end(body)
        yield i
        # No signed wrap: LLVM can then compute the number of trips, which vectorising needs.
        following = b.add(i, ir.Constant(lo.type, 1) if step is None else step, flags=("nsw",))
        i.add_incoming(following, b.block)
        back = b.branch(head)
        if scalar:
            left_alone(b.module, back)
        else:
            rolled_if_long(b.module, head, back)
        b.position_at_end(done)

    def goes_on(self, i: Any, hi: Any) -> Any:
        """Return whether a loop makes another trip."""
        return self.builder.icmp_signed("<", i, hi)


def _runs_blocks(fn: Function) -> bool:
    """Return whether a thread of a function is a block, whose threads run in loops of their own."""
    return any(op.attrs.get("threads") for op in walk(fn.body))


class Chunk(_Frame, KernelFrame):
    """The chunk function."""

    def __init__(
        self,
        module: TargetModule,
        fn: Function,
        facts: FunctionFacts,
        symbol: str,
        flags: tuple[str, ...],
        placement: Placement,
        chosen: choice.Choice,
    ) -> None:
        super().__init__(
            module, fn, facts, symbol, flags, updates=updates_atomically(fn, [*facts.reduced, *facts.extremes])
        )
        self.placement = placement
        self.functions = [module.globals[symbol]]
        self.room = Workspace(self.builder)
        known, self.row_by_itself = chosen.uniformity, chosen.by_itself
        self.lanes = [] if known is None else [Lanes(self, form, flags, known) for form in chosen.forms]

    def stacks(self) -> dict[int, Any]:
        """Return memory for the loops' stacks of a thread outside of lanes, by level."""
        return {} if self.runs_in_lanes else loop_stacks(self.room.take, self.facts)

    @property
    def runs_in_lanes(self) -> bool:
        """True if no code for single threads is needed."""
        return any(lanes.form.masked for lanes in self.lanes) and not self.row_by_itself

    def goes_on(self, i: Any, hi: Any) -> Any:
        """Return whether a loop makes another trip; no thread begins after an error."""
        more = super().goes_on(i, hi)
        return more if self.checks is None else self.builder.and_(more, self.checks.none_found())

    def thread(self) -> BodyEmitter:
        self.scratch = Scratch(self.module, self.builder, self.facts.buffers)
        # Buffers are new memory, so no array of the launch can overlap them.
        self.arrays = self.scratch.apart_from(self.arrays)
        body = self.body()
        # Parts have a frame of their own, so dividing is not combined with lanes, with checks, or with reports of
        # several threads that a part runs.
        whole = self.lanes or self.checks is not None or (self.record is not None and _runs_blocks(self.fn))
        pieces = {} if whole else outline(self.fn, self.placement.moved)
        if pieces:
            body = self.outlined(body, pieces)
        body.scratch, body.vector_bytes = self.scratch, self.module.isa.vector_bytes
        # Ops of the placement are emitted ahead of the threads and skipped in their code.
        body.moved = self.placement.moved
        return body

    def outlined(self, body: BodyEmitter, pieces: Outline) -> OutlinedBody:
        """Return an emitter that emits parts of a thread as functions, instead of one that emits all in one."""
        slots = Slots(self.builder)
        return OutlinedBody(
            body.builder, body.scalars, body.facts, body.arrays, body.values, extent_along=body.extent_along,
            alone=body.alone, frame=self, pieces=pieces, slots=slots, memory=slots.memory, functions=self.functions,
        )  # fmt: skip

    def finish(self, sums: dict[int, list[Any]]) -> None:
        self.scratch.release()
        # The accumulators of all lanes are added up in a fixed order, before the chunk's partial sums are stored.
        self.room.release()
        for lanes in self.lanes:
            lanes.add_up(sums)
        self.write_extremes(sums)
        self.write_partials({id(op): sums[id(op)] for op in self.facts.reduced})

    def write_extremes(self, sums: dict[int, list[Any]]) -> None:
        """Update the elements by the extrema of the chunk; where no thread came, the element may not exist."""
        b = self.builder
        for op in self.facts.extremes:
            (slot,), s, kind = sums[id(op)], summed_type(op), op.attrs["kind"]
            array, pointer = self.destination(op, self.body())
            found = b.load(slot, typ=value_type(s))
            with b.if_then(b.not_(compare(b, s, "==", found, neutral(op)))):
                atomic_element(b, array.type.dtype, pointer, kind, [found])

    def write_partials(self, sums: dict[int, list[Any]]) -> None:
        if not sums:
            return
        b = self.builder
        size = self.header(abi.CHUNK)
        # The chunk's number from its first thread; the last chunk may be shorter, hence its nominal size.
        chunk = b.udiv(self.lo, b.select(b.icmp_signed(">", size, i64(0)), size, i64(1)))
        slots = self.summed(sums)
        for site, (slot, s) in enumerate(slots):
            b.store(b.load(slot, typ=value_type(s)), self.partial(chunk, len(slots), site))

    def threads(self, body: BodyEmitter) -> Iterator[None]:
        b, arity = self.builder, self.fn.tid_arity
        together = self.together()
        # Blocks as threads: there is one axis, the number of the block.
        if arity == 0:
            with self.nests(self.lo, self.hi, together) as (lo, hi):
                self.ahead(body, self.placement.chunk)
                with self.loop(lo, hi) as t:
                    self.note(t)
                    body.launch = self.of_block(t)
                    yield
            return
        dims = [self.header(abi.DIMS + 8 * k) for k in range(abi.MAX_DIMS)]
        # Axes of the launch beyond those of the kernel repeat its threads.
        repeat = dims[arity] if arity < abi.MAX_DIMS else i64(1)
        for d in dims[arity + 1 :]:
            repeat = b.mul(repeat, d)
        # Thread t = u * repeat + r runs index u of the kernel's own axes. With repeat 1 there is one r, and u is t.
        with self.loop(i64(0), repeat) as r:
            first, last = self.ceil_div(b.sub(self.lo, r), repeat), self.ceil_div(b.sub(self.hi, r), repeat)
            with self.nests(first, last, together) as (lo, hi):
                self.ahead(body, self.placement.chunk)
                if arity == 1:
                    for i in self.neighbours(body, (), b.trunc(lo, I32), b.trunc(hi, I32)):
                        self.note_component(i, i64(0), repeat, r)
                        body.tid = (i,)
                        yield
                else:
                    yield from self.rows(body, lo, hi, dims[:arity], repeat, r)

    def neighbours(
        self, body: BodyEmitter, leading: Sequence[Any], lo: Any, hi: Any, length: Any = None
    ) -> Iterator[Any]:
        """Emit lanes, then the remaining threads of a row one by one; yields once, or never if none can remain.

        If a row of one thread runs without lanes, `length` is the length of the row.
        """
        b = self.builder
        # A row of one thread leaves no thread to the lanes, which would execute masked code for it.
        end = b.select(b.icmp_signed(">", length, i64(1)), hi, lo) if self.row_by_itself else hi
        for lanes in self.lanes:
            lo = lanes.run(body, leading, lo, end)
        if self.runs_in_lanes:
            return
        with self.loop(lo, hi, scalar=bool(self.lanes)) as i:
            yield i

    def ahead(self, body: BodyEmitter, ops: Sequence[Op]) -> None:
        """Emit the ops that are executed ahead of the loop that is emitted next."""
        for op in ops:
            body.op(op)

    def together(self) -> Any:
        """Return whether contents read ahead of the threads stay unchanged while they run; None if that is certain."""
        reads, writes = self.placement.reads, self.placement.writes
        if not reads or not writes:
            return None
        return disjoint(self.builder, [self.arrays[p] for p in reads], [self.arrays[p] for p in writes])

    @contextlib.contextmanager
    def nests(self, first: Any, last: Any, together: Any) -> Iterator[tuple[Any, Any]]:
        """Emit the range of threads that share precomputed values: all, or one after the other."""
        b = self.builder
        # Moved ops without loads are harmless even if there is no thread.
        if not self.placement.guarded:
            yield first, last
        elif together is None:
            with b.if_then(b.icmp_signed("<", first, last)):
                yield first, last
        else:
            # Ranges of one thread when arrays overlap: then values that an earlier thread may change are computed
            # again.
            step = b.select(together, b.sub(last, first), i64(1))
            with self.loop(first, last, step) as start:
                yield start, b.add(start, step)

    def of_block(self, t: Any) -> dict[str, Any]:
        """Return the indices of a kernel whose threads are blocks; the launch's last extent is the block length."""
        return {"block": t, "block_index": self.builder.trunc(t, I32), "block_dim": self.extent(abi.MAX_DIMS - 1)}

    def note_component(self, index: Any, start: Any, repeat: Any, r: Any) -> None:
        """Note the flattened index of the thread: ``(start + index) * repeat + r``."""
        if self.record is not None:
            b = self.builder
            self.note(b.add(b.mul(b.add(start, b.sext(index, I64)), repeat), r))

    def rows(self, body: BodyEmitter, first: Any, last: Any, dims: list[Any], repeat: Any, r: Any) -> Iterator[None]:
        b = self.builder
        # An extent of zero would divide by zero, although then there are no threads.
        length = b.select(b.icmp_signed(">", dims[-1], i64(0)), dims[-1], i64(1))
        with self.loop(b.sdiv(first, length), self.ceil_div(last, length)) as row:
            # The number of the row is split into its components from the last leading axis to the first.
            leading, rest = [], row
            for d in reversed(dims[1:-1]):
                nonzero = b.select(b.icmp_signed(">", d, i64(0)), d, i64(1))
                leading.append(b.trunc(b.srem(rest, nonzero), I32))
                rest = b.sdiv(rest, nonzero)
            leading.append(b.trunc(rest, I32))
            start = b.mul(row, length)
            # The first and the last row of the chunk may be partial.
            lo, hi = b.sub(first, start), b.sub(last, start)
            lo = b.select(b.icmp_signed(">", lo, i64(0)), lo, i64(0))
            hi = b.select(b.icmp_signed("<", hi, length), hi, length)
            body.tid = tuple(reversed(leading))
            self.ahead(body, self.placement.row)
            for i in self.neighbours(body, body.tid, b.trunc(lo, I32), b.trunc(hi, I32), length):
                self.note_component(i, start, repeat, r)
                body.tid = (*reversed(leading), i)
                yield

    def ceil_div(self, x: Any, d: Any) -> Any:
        """Return ``ceil(x / d)`` for ``d > 0`` and ``x > -d``."""
        b = self.builder
        up = b.sdiv(b.sub(x, i64(1)), d)
        return b.select(b.icmp_signed(">", x, i64(0)), b.add(up, i64(1)), i64(0))


def _emit_finish(module: TargetModule, fn: Function, facts: FunctionFacts, symbol: str) -> None:
    frame = _Frame(module, fn, facts, symbol, ())
    b = frame.builder
    total = sum(width(op) for op in facts.reduced)
    site = 0
    for op in facts.reduced:
        array, pointer = frame.destination(op, frame.body())
        for k in range(width(op)):
            _finish_site(frame, array, pointer, k, total, site)
            site += 1
    b.ret_void()


def _finish_site(frame: _Frame, array: ArrayRef, pointer: Any, k: int, sites: int, site: int) -> None:
    """Add the partial sums of all chunks in their order, then add the total to the destination."""
    b = frame.builder
    stored = scalar_of(array.type.dtype)
    s = scalar_of(held_type(array.type.dtype))
    ty = value_type(s)
    slot = b.alloca(ty)
    b.store(constant(s, 0), slot)
    # In the order of the chunks, so the sum does not depend on which worker ran which of them.
    with frame.loop(i64(0), frame.hi) as chunk:
        part = b.load(frame.partial(chunk, sites, site), typ=ty)
        old = b.load(slot, typ=ty)
        b.store(b.fadd(old, part) if s.is_float else b.add(old, part), slot)
    total = b.load(slot, typ=ty)
    # Nothing to add may mean that no thread reached the site, for instance because the element does not exist.
    with b.if_then(b.not_(compare(b, s, "==", total, constant(s, 0)))):
        place = pointer if k == 0 else b.gep(pointer, [i64(k)], inbounds=True, source_etype=memory_type(stored))
        atomic_element(b, stored, place, "add", [total])


# -- the longest loop --------------------------------------------------------------------------------------------------
# The share of a function's longest loop that LLVM's vectoriser looks at.
#
# For a function whose tiles have become buffers. The vectoriser takes loops that contain no other loop, and its time
# grows with the square of such a loop. Without tiles that is the loop over the threads, with the whole kernel in it. A
# kernel of tiles is many loops one after the other, most of them short.


_MATH_OPS = 20.0
_UNROLLED = 4.0
"""Copies of its body that a loop of a few constant trips becomes."""


def longest_loop(fn: Function) -> float:
    """Return the share of the operations that are in the longest innermost loop, between 0 and 1."""
    search = _UnrollSearch()
    size, loops = search.region(fn.body)
    return 1.0 if not loops else min(1.0, search.longest / max(size, 1.0))


class _UnrollSearch:
    def __init__(self) -> None:
        self.longest = 0.0
        self.constants: set[Value] = set()

    def region(self, region: Region) -> tuple[float, bool]:
        """Return the operations of a region, and whether there are loops in it."""
        size, loops = 0.0, False
        for op in region.ops:
            if op.name in LITERALS:
                self.constants.add(op.result)
            # Elementary functions are inlined, so they count with their length.
            size += _MATH_OPS if lookup(op.name).elementary else 1.0
            found = [self.region(sub) for sub in op.regions]
            inside = sum(count for count, _ in found)
            held = any(has for _, has in found)
            if is_loop(op) and not held:
                # A loop with literal bounds is unrolled and is then part of the code around it.
                if self.unrolled(op):
                    inside *= _UNROLLED
                else:
                    self.longest = max(self.longest, inside)
                    held = True
            size += inside
            loops = loops or held
        return size, loops

    def unrolled(self, op: Op) -> bool:
        return op.name == "for" and not op.attrs.get("rolled") and self.constants.issuperset(For(op).bounds)
