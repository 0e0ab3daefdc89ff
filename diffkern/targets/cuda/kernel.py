"""A kernel for CUDA as an LLVM module: one function, a grid-stride loop over the threads of a launch.

A function without composite mathematics, and a symbol, give an LLVM module that defines the kernel ``symbol`` with one
by-value parameter, the argument block of ``diffkern.contracts.abi``; nothing else is visible from outside.

Any one-dimensional grid of one-dimensional blocks is right, with at most ``abi.CUDA_GRID_THREADS`` threads in all, for
a launch that has at least one thread. A thread starts at its number in the grid and advances by the size of the grid.
The components of its index are separate, and carried from axis to axis, so that all arithmetic has 32 bits while the
product of the axes may have 64; axes that the kernel does not ask for repeat the thread.

Where blocks work on tiles (the function's attribute ``tiled``) the same holds for blocks: a block has one index.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from llvmlite import ir

from diffkern.analysis.blocks import blockwise_op, shared_bytes
from diffkern.analysis.cuda_plan import UpdateWay, update_of
from diffkern.analysis.exact_sums import exact_sums
from diffkern.contracts import abi
from diffkern.contracts.exact_sums import TAIL_BYTES
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_WRITES
from diffkern.ir.types import Array, Scalar, scalar_of
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass
from diffkern.targets.cuda.body import CudaBody, add_element
from diffkern.targets.cuda.division import Dividers, header_bit
from diffkern.targets.cuda.elements import NOTHING, WIDEST, HeldElement, elements_of, load_unless
from diffkern.targets.cuda.exact_sums import Rows, finish_kernel
from diffkern.targets.cuda.lines import Lines
from diffkern.targets.cuda.math import CudaScalars
from diffkern.targets.cuda.registers import WARP, shuffle_down, special, synchronize
from diffkern.targets.emit.buffers import Scratch
from diffkern.targets.emit.checks import Checking
from diffkern.targets.emit.facts import analyse, used_values
from diffkern.targets.emit.frame import summed_type, width
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.kernel import KernelFrame, KernelModule, float_flags
from diffkern.targets.emit.loops import not_unrolled
from diffkern.targets.emit.memory import with_scopes
from diffkern.targets.emit.scalars import compare
from diffkern.targets.emit.types import (
    F32,
    F64,
    I8,
    I32,
    I64,
    VOID,
    Isa,
    TargetModule,
    constant,
    i32,
    i64,
    value_type,
)
from diffkern.targets.target import Settings

GLOBAL = 1
"""The address space of global memory."""

SHARED = 3
"""The address space of shared memory."""

_SHARED_SUMS = 64
"""More sums than this are added to memory by every warp, not by every block: 64 take 16 KiB of shared memory."""


@dataclass(frozen=True, slots=True)
class CudaModule(KernelModule):
    """An LLVM module with a kernel for a GPU.

    Attributes
    ----------
    module : ir.Module
        The module that the text is of.
    shared_bytes : int
        The shared memory of a block.
    dynamic_shared_bytes : int
        The part of it that the launch has to request.
    block_dim : int or None
        The only number of threads in a block for which the code is right; None if any is.
    elements : int
        How many threads of the launch one of the grid is worth: the elements that it takes at once.
    exact : tuple of int
        The parameters whose elements are added up exactly.
    zeroed : tuple of int
        The parameters that the header has bits for, which tell that they are zero.
    """

    module: ir.Module
    shared_bytes: int
    dynamic_shared_bytes: int
    block_dim: int | None
    elements: int
    exact: tuple[int, ...] = ()
    zeroed: tuple[int, ...] = ()


_TYPED = re.compile(r"(?:\[\d+ x \w+\]|float|double|i\d+)( addrspace\(\d+\))?\*")
"""llvmlite prints the types of some pointers: of stack slots, globals and by-value parameters."""
_TYPED_FUNCTION = re.compile(r"\b\w+ \([^()]*\)\*")


def _text(module: ir.Module) -> str:
    """Return the text of a module without types of pointers."""
    return _TYPED_FUNCTION.sub("ptr", _TYPED.sub(r"ptr\1", str(module)))


def emit_kernel(
    fn: Function, symbol: str, isa: Isa, settings: Settings, *, arch: str = "sm_90", block_dim: int | None = None
) -> CudaModule:
    """Emit the LLVM module of a kernel.

    Parameters
    ----------
    fn
        A function whose composite mathematics has been expanded.
    symbol
        The name of the kernel.
    isa
        The instructions that the code may use.
    settings
        The settings of the program.
    arch
        The architecture, which decides on atomic operations.
    block_dim
        The number of threads of every block, if that is known.
    """
    module = TargetModule(symbol, isa)
    exact = exact_sums(fn) if settings.exact_sums else {}
    flags = float_flags(fn, fast_math=settings.fast_math, fuse=settings.fuse_fp)
    kernel = _Kernel(module, fn, symbol, flags, arch, block_dim, exact)
    kernel.in_any_order = settings.exact_sums
    if settings.lineinfo and fn.loc is not None:
        kernel.lines = Lines(module, kernel.function, fn.loc)
    if not settings.may_alias:
        # Without aliasing, loads of arrays that the kernel does not write may go through the read-only cache.
        kernel.separate()
        # What is added up exactly lies in rows of digits, and not in elements that a thread could hold.
        if settings.checking is Checking.NONE and not (kernel.together or kernel.tiled or exact):
            kernel.elements = elements_of(fn, kernel.facts)
    kernel.emit(settings.checking)
    if settings.launch_bounds is not None:
        # Launch bounds limit the registers per thread, so that blocks of this size can run.
        _annotate(module, kernel.function, zip(("maxntidx", "minctasm"), settings.launch_bounds, strict=True))
    if settings.max_registers is not None:
        _annotate(module, kernel.function, [("maxnreg", settings.max_registers)])
    sites = len(kernel.facts.reduced)
    dynamic = shared_bytes(fn) if fn.dynamic_shared else 0
    added = dict.fromkeys(scalar_of(p.type) for p in exact)
    symbols = symbol, *(finish_kernel(module, symbol, s) for s in added)
    text, (found, stamped) = _text(module), kernel.checked
    places = tuple(map(fn.params.index, exact)), tuple(map(fn.params.index, kernel.elements.zeroed))
    facts = module, kernel.shared_bytes, dynamic, block_dim, kernel.elements.count, *places
    return CudaModule(text, symbols, sites, found, stamped, *facts, outputs=kernel.printed)


def _annotate(module: ir.Module, function: Any, facts: Iterable[tuple[str, int]]) -> None:
    named = module.add_named_metadata("nvvm.annotations")
    for name, value in facts:
        if value:
            named.add(module.add_metadata([function, name, i32(value)]))


def alignment(t: Array) -> int:
    """Return the bytes to which the elements of an array are aligned: a launch checks the address of its first one.

    Elements of C-contiguous arrays as far as their size and the widest access (16 bytes) allow; scalars otherwise.
    Elements that hold descriptors of arrays are read word by word.
    """
    t = t.held
    if t.layout != "C":
        return scalar_of(t).itemsize
    # The widest access of a thread is 16 bytes.
    return math.gcd(t.dtype.itemsize, 16)


class _Kernel(KernelFrame):
    """The kernel's function under construction."""

    def __init__(
        self,
        module: TargetModule,
        fn: Function,
        symbol: str,
        flags: tuple[str, ...],
        arch: str,
        block_dim: int | None,
        exact: Collection[Value] = (),
    ) -> None:
        self.arch, self.block_dim = arch, block_dim
        used = used_values(fn)
        # Updates whose old value is unused can be reductions, for which no thread waits.
        self.quiet = frozenset(id(op) for op in walk(fn.body) if update_of(op, used) is UpdateWay.RED)
        _, size = abi.layout([p.type for p in fn.params])
        block_type = ir.PointerType(ir.ArrayType(I64, (size + TAIL_BYTES * len(exact)) // 8))
        self.function = ir.Function(module, ir.FunctionType(VOID, [block_type]), symbol)
        self.function.calling_convention = "ptx_kernel"
        self.function.attributes.add("nounwind")
        (block,) = self.function.args
        # By value: the argument block is in the kernel's parameter memory, which all threads read at full speed.
        block.add_attribute("byval")
        block.attributes.align = 8
        builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        facts = analyse(fn)
        # What a block would add up in an order of its own goes to the exact sums as well.
        facts.reduced = [op for op in facts.reduced if Access(op).array not in exact]
        super().__init__(module, fn, facts, builder, block, CudaScalars(builder, module, flags), GLOBAL)
        self.arrays = {p: dataclasses.replace(a, align=alignment(a.type)) for p, a in self.arrays.items()}
        tails = enumerate(exact)
        self.summed_rows = {p: Rows(builder, block, size + TAIL_BYTES * k, scalar_of(p.type)) for k, p in tails}
        self.lines: Lines | None = None
        self.in_any_order = False
        self.together = blockwise_op(fn) is not None
        self.tiled = fn.tiled
        self.shared_bytes = shared_bytes(fn)
        self.position: Any = None
        self.elements = NOTHING

    def body(self) -> CudaBody:
        body = CudaBody(self.builder, self.scalars, self.facts, self.arrays, dict(self.values))
        body.quiet, body.lines, body.extent_along = self.quiet, self.lines, self.extent
        body.constant_space = 1
        body.arch, body.rows, body.in_any_order = self.arch, self.summed_rows, self.in_any_order
        return body

    def separate(self) -> None:
        """Promise that no two array parameters overlap."""
        written = {Access(op).array for op in walk(self.fn.body) if op.name in ELEMENT_WRITES}
        nothing = self.module.add_metadata([])
        self.arrays = {
            p: a if p in written else dataclasses.replace(a, invariant=nothing)
            for p, a in with_scopes(self.module, self.arrays).items()
        }

    def thread(self) -> CudaBody:
        body = self.body()
        if self.facts.buffers:
            # Buffers of a thread are local memory, which has no limit like the host's stack; they are never taken from
            # a heap.
            body.scratch = Scratch(self.module, self.builder, self.facts.buffers, math.inf, line=16)
            body.arrays = self.arrays = body.scratch.apart_from(self.arrays)
        return body

    def threads(self, body: BodyEmitter) -> Iterator[None]:
        assert isinstance(body, CudaBody)
        b = self.builder
        first, stride = self.number()
        dims = [self.header(abi.DIMS + 8 * k) for k in range(abi.MAX_DIMS)]
        left: Any = contextlib.nullcontext()
        if self.elements.count > 1:
            first, more = yield from self.groups(body, first, stride, dims)
            # The division of an index that there is not takes longer than to look.
            left = b.if_then(more) if self.fn.tid_arity > 1 else left
        with left, self.indices(first, stride, dims) as tid:
            body.tid = tid
            body.held = held = self.hold(body, tid) if self.elements.arrays else {}
            self.load_zeroed([held])
            if self.together:
                body.launch = self.in_block(tid)
            if self.fn.dynamic_shared:
                body.dynamic_shared = self.dynamic_memory()
            yield
            b.debug_metadata = None
            for element in held.values():
                element.store(b)
            if self.shared_bytes:
                synchronize(b)  # before the next round writes to the shared arrays

    def dynamic_memory(self) -> Any:
        """Return the shared memory that the launch requests."""
        place = ir.GlobalVariable(self.module, ir.ArrayType(I8, 0), "dk_dynamic_shared", addrspace=SHARED)
        place.linkage, place.align = "external", 16
        place.type = ir.PointerType(addrspace=SHARED)
        return place

    def in_block(self, tid: Sequence[Any]) -> dict[str, Any]:
        """Return a thread's indices in its block: the launch's blocks are distributed over those of the grid."""
        b = self.builder
        ntid = special(b, "ntid.x") if self.block_dim is None else i32(self.block_dim)
        dims = [self.header(abi.DIMS + 8 * k) for k in range(len(tid))]
        flat = self.flat(list(zip(tid, dims, strict=True))) if tid else self.position
        index = b.trunc(flat if self.tiled else b.udiv(flat, b.zext(ntid, I64)), I32)
        return {"block_dim": ntid, "block_thread": special(b, "tid.x"), "block_index": index}

    # -- sums into uniform addresses -----------------------------------------------------------------------------------

    def finish(self, sums: dict[int, list[Any]]) -> None:
        """Add up the threads' sums of a block; its first thread adds the totals to their destinations."""
        if not sums:
            return
        b = self.builder
        tid, ntid = special(b, "tid.x"), special(b, "ntid.x")
        lane, first = b.and_(tid, i32(WARP - 1)), b.and_(tid, i32(-WARP))
        lanes = b.sub(ntid, first)  # the last warp of a block may be short
        last = b.sub(b.select(b.icmp_unsigned("<", lanes, i32(WARP)), lanes, i32(WARP)), i32(1))
        slots = self.summed(sums)
        # First within each warp by shuffles, which need no shared memory.
        values = [self.warp_sum(s, b.load(slot, typ=value_type(s)), last) for slot, s in slots]
        # With many sums the shared memory would limit the number of blocks, so each warp adds to memory itself.
        if len(values) <= _SHARED_SUMS:
            values = self.block_sums(values, [s for _, s in slots], tid, lane, ntid)
            chosen = b.icmp_unsigned("==", tid, i32(0))
        else:
            chosen = b.icmp_unsigned("==", lane, i32(0))
        with b.if_then(chosen):
            for op in self.facts.reduced:
                count = width(op)
                self.deliver(op, values[:count])
                values = values[count:]

    def block_sums(self, values: list[Any], types: list[Scalar], tid: Any, lane: Any, ntid: Any) -> list[Any]:
        """Return the sums over the warps of a block, in its first thread; the other threads hold partial sums."""
        b = self.builder
        warp = b.lshr(tid, i32(5))
        warps = b.lshr(b.add(ntid, i32(WARP - 1)), i32(5))
        places = [self.shared(k, value.type) for k, value in enumerate(values)]
        with b.if_then(b.icmp_unsigned("==", lane, i32(0))):
            for value, place in zip(values, places, strict=True):
                b.store(value, b.gep(place, [i32(0), warp], inbounds=True))
        synchronize(b)
        totals = []
        for s, value, place in zip(types, values, places, strict=True):  # every warp does the same: no branch
            part = b.load(b.gep(place, [i32(0), lane], inbounds=True), typ=value.type)
            # The partial sums of at most 32 warps are added up by the lanes of one.
            totals.append(self.warp_sum(s, part, b.sub(warps, i32(1))))
        return totals

    def shared(self, k: int, ty: Any) -> Any:
        """Return shared memory with a value for each warp of a block."""
        kind = ir.ArrayType(ty, WARP)
        self.shared_bytes += WARP * (8 if ty in (F64, I64) else 4 if ty in (F32, I32) else ty.width // 8)
        place = ir.GlobalVariable(self.module, kind, f"dk_sum_{k}", addrspace=SHARED)
        place.linkage, place.initializer = "internal", ir.Constant(kind, ir.Undefined)
        return place

    def deliver(self, op: Op, totals: list[Any]) -> None:
        """Add a total to its destination."""
        b, s = self.builder, summed_type(op)
        # Nothing to add may mean that no thread reached the site, for instance because the element does not exist.
        wanted: Any = ir.Constant(ir.IntType(1), 0)
        for total in totals:
            wanted = b.or_(wanted, b.not_(compare(b, s, "==", total, constant(s, 0))))
        with b.if_then(wanted):
            array, pointer = self.destination(op, self.body())
            add_element(b, array.type.dtype, pointer, "add", totals)

    def warp_sum(self, s: Scalar, value: Any, last: Any) -> Any:
        """Return the sum over the lanes up to ``last``, in lane 0; the other lanes hold partial sums."""
        b = self.builder
        # A butterfly over the lanes in halving distances.
        for distance in (16, 8, 4, 2, 1):
            other, present = shuffle_down(b, value, i32(distance), last)
            total = b.fadd(value, other) if s.is_float else b.add(value, other)
            value = b.select(present, total, value)
        return value

    # -- the loop over threads -----------------------------------------------------------------------------------------

    def number(self) -> tuple[Any, Any]:
        """Return the number of a thread in the grid, and how many there are; with tiles those of its block."""
        b = self.builder
        first, stride = special(b, "ctaid.x"), special(b, "nctaid.x")
        if self.tiled:
            return first, stride
        ntid = special(b, "ntid.x")
        return b.add(b.mul(first, ntid), special(b, "tid.x")), b.mul(stride, ntid)

    def groups(self, body: CudaBody, first: Any, stride: Any, dims: Sequence[Any]) -> Generator[None, None, Any]:
        """Emit the loop over groups of neighbouring elements.

        Returns where the loop over single ones starts, and whether it has any: those left over, and all where groups
        cannot be taken. Yields once for each element of a group.
        """
        b, count, arity = self.builder, self.elements.count, self.fn.tid_arity
        total = b.trunc(functools.reduce(b.mul, dims[:arity]), I32)
        whole = self.takes_groups(dims)
        groups = b.select(whole, b.lshr(total, i32(count.bit_length() - 1)), i32(0))
        dividers = Dividers(b, self.block, arity)
        with self.loop(first, groups, stride) as group:
            start = b.mul(group, i32(count), flags=("nsw", "nuw"))
            *tid, last = dividers.split([None] * (arity - 1) + [start], is_large=False)
            held = [self.hold_of_group(body, start, k) for k in range(count)]
            self.load_zeroed(held)
            for k, body.held in enumerate(held):
                body.tid = [*tid, b.add(last, i32(k), flags=("nsw", "nuw"))]
                yield
            b.debug_metadata = None
            for element in (one for elements in held for one in elements.values()):
                element.store(b)
        single = b.add(b.mul(groups, i32(count)), first)
        return single, b.or_(b.not_(whole), b.icmp_unsigned("<", single, total))

    def takes_groups(self, dims: Sequence[Any]) -> Any:
        """Return whether the elements of the launch lie next to each other, in groups that are aligned.

        They do not where an array does not begin at a multiple of 16 bytes, or is not as long as the launch along an
        axis but the first, nor where threads are repeated.
        """
        b, arity, arrays = self.builder, self.fn.tid_arity, [self.arrays[p] for p in self.elements.arrays]
        own, others = dims[:arity], [b.trunc(d, I32) for d in dims[arity:]]
        places = [b.trunc(b.ptrtoint(a.data, I64), I32) for a in arrays]
        whole = b.icmp_unsigned("==", b.and_(functools.reduce(b.or_, places), i32(WIDEST - 1)), i32(0))
        if others:
            whole = b.and_(whole, b.icmp_unsigned("==", functools.reduce(b.or_, others), i32(1)))
        if arity > 1:
            differ = functools.reduce(b.or_, [b.xor(a.shape[k], own[k]) for a in arrays for k in range(1, arity)])
            if self.elements.counts:
                # Then all of a group have one index, but for the last axis.
                differ = b.or_(differ, b.and_(own[-1], i64(self.elements.count - 1)))
            # Numbers of elements have 31 bits, as those of threads.
            few = b.icmp_unsigned("<", functools.reduce(b.mul, own), i64(abi.CUDA_GRID_THREADS))
            whole = b.and_(whole, b.and_(few, b.icmp_unsigned("==", differ, i64(0))))
        return whole

    def hold(self, body: CudaBody, tid: Sequence[Any]) -> dict[Value, HeldElement]:
        """Load a thread's own elements."""
        b, none = self.builder, [False] * len(tid)
        own = [(p, a) for p, a in self.arrays.items() if p in self.elements.arrays]
        places = {p: body.place(a, [b.sext(t, I64) for t in tid], none) for p, a in own}
        return {p: HeldElement(b, a, places[p], self.reads(p)) for p, a in own}

    def reads(self, array: Value) -> bool:
        """Return whether the elements of an array are loaded whatever it holds."""
        return array in self.elements.read and array not in self.elements.zeroed

    def load_zeroed(self, held: Sequence[Mapping[Value, HeldElement]]) -> None:
        """Load the elements that need no load where the header says that they are zero: behind all other loads."""
        for k, p in enumerate(self.elements.zeroed):
            is_zero = header_bit(self.builder, self.block, k)
            load_unless(self.builder, is_zero, [elements[p] for elements in held])

    def hold_of_group(self, body: CudaBody, start: Any, k: int) -> dict[Value, HeldElement]:
        """Load the elements `k` of a thread's group, of which it is known how they are aligned."""
        b, out = self.builder, {}
        for p, array in self.arrays.items():
            if p in self.elements.arrays:
                size = array.type.dtype.itemsize
                # From the first one, so that LLVM sees neighbours.
                offset = b.mul(b.sext(start, I64), i64(size), flags=("nsw",))
                pointer = b.gep(array.data, [offset], inbounds=True, source_etype=I8)
                pointer = b.gep(pointer, [i64(k * size)], inbounds=True, source_etype=I8)
                align = math.gcd(WIDEST, self.elements.count * size)
                aligned = dataclasses.replace(array, align=align, offset=k * size)
                out[p] = HeldElement(b, aligned, pointer, self.reads(p))
        return out

    @contextlib.contextmanager
    def indices(self, first: Any, stride: Any, dims: list[Any]) -> Iterator[Sequence[Any]]:
        """Emit the grid-stride loop around the code emitted inside; gives the components of the thread index.

        With tiles the blocks stride over the launch, else the threads do.
        """
        b, arity = self.builder, self.fn.tid_arity
        # One flat index of 64 bits, as the kernel never asks for its components.
        if arity == 0:
            total = dims[0]
            for d in dims[1:]:
                total = b.mul(total, d)
            with self.loop(b.zext(first, I64), total, b.zext(stride, I64)) as t:
                self.note(t)
                self.position = t
                yield ()
        else:
            with self.rows(first, stride, dims) as tid:
                yield tid

    @contextlib.contextmanager
    def loop(self, first: Any, end: Any, step: Any) -> Iterator[Any]:
        """Emit a loop over unsigned integers."""
        b, before = self.builder, self.builder.block
        head, body, done = (b.append_basic_block(n) for n in ("threads", "thread", "end"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(first.type)
        i.add_incoming(first, before)
        b.cbranch(self.goes_on(b.icmp_unsigned("<", i, end)), body, done)
        b.position_at_end(body)
        yield i
        i.add_incoming(b.add(i, step), b.block)
        self.back(head)
        b.position_at_end(done)

    @contextlib.contextmanager
    def rows(self, first: Any, stride: Any, dims: list[Any]) -> Iterator[Sequence[Any]]:
        """Emit the loop over an index of one or more axes: a component that exceeds its axis is carried to the one
        before.

        A thread is repeated for every index of the axes that the kernel does not ask for.
        """
        b, arity = self.builder, self.fn.tid_arity
        lengths = [b.trunc(d, I32) for d in dims]
        lengths, others = lengths[:arity], lengths[arity:]
        dividers = Dividers(b, self.block, arity)
        # A thread's number in the grid has 31 bits; what follows the groups of elements may have one more.
        start = dividers.split([None] * (arity - 1) + [first], is_large=self.elements.count > 1)
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("threads", "thread", "end"))
        b.branch(head)
        b.position_at_end(head)
        # The components are carried from trip to trip instead of being divided out of a flat index each time.
        r, components = b.phi(I32), [b.phi(I32) for _ in lengths]
        for phi, value in zip([r, *components], [i32(0), *start], strict=True):
            phi.add_incoming(value, before)
        b.cbranch(self.goes_on(b.icmp_unsigned("<", components[0], lengths[0])), body, done)
        b.position_at_end(body)
        for component in components:
            b.assume(b.icmp_signed(">=", component, i32(0)))
        repeat = functools.reduce(b.mul, others, i32(1))
        if self.record is not None:
            flat = self.flat(list(zip(components, dims, strict=False)))
            self.note(b.add(b.mul(flat, b.zext(repeat, I64)), b.zext(r, I64)))
        yield components
        # With one axis the next index takes no more than the test. Single elements go round where a group of them
        # cannot be taken at once, of which the host knows nothing.
        if arity > 1 and self.elements.count == 1:
            self.leave_after(dividers.one_round, done)
        onward, round_after = b.add(components[-1], stride), i32(0)
        if others:
            following = b.add(r, i32(1))
            again = b.icmp_unsigned("<", following, repeat)
            onward, round_after = b.select(again, components[-1], onward), b.select(again, following, i32(0))
        following_index = dividers.split([*components[:-1], onward])
        for phi, value in zip([r, *components], [round_after, *following_index], strict=True):
            phi.add_incoming(value, b.block)
        self.back(head)
        b.position_at_end(done)

    def leave_after(self, last: Any, done: Any) -> None:
        """Leave after a last round, which is the same for all threads: the next index is not computed then."""
        b = self.builder
        onward = b.append_basic_block("onward")
        b.cbranch(last, done, onward)
        b.position_at_end(onward)

    def goes_on(self, more: Any) -> Any:
        """Return whether there is a next thread to run; the threads of a cooperating block leave together."""
        return more if self.checks is None or self.together else self.builder.and_(more, self.checks.none_found())

    def back(self, head: Any) -> None:
        """Branch back to the head of a loop over threads."""
        not_unrolled(self.module, self.builder.branch(head))  # its second turn is rare

    def flat(self, index: Sequence[tuple[Any, Any]]) -> Any:
        """Return the flattened index of a thread from components and axes."""
        b, out = self.builder, i64(0)
        for component, length in index:
            out = b.add(b.mul(out, length), b.zext(component, I64))
        return out


__all__ = ["GLOBAL", "CudaModule", "emit_kernel"]
