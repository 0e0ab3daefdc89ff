"""The body of a thread on CUDA: the differences from the CPU's emitter.

As :mod:`diffkern.targets.emit.function`, with arrays whose data pointers are in the global address space, and with
atomic updates in the hardware's forms: ``red`` if the old value is not used.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from llvmlite import ir

from diffkern.ir.nodes import Op, Value
from diffkern.ir.ops.memory import EXTREMA
from diffkern.ir.ops.scalar import BOUNDS, LOGIC, SUMS
from diffkern.ir.types import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    HELD,
    SHARED,
    STORAGE_ONLY,
    Array,
    Element,
    Kind,
    Scalar,
    scalar_of,
)
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass
from diffkern.targets.cuda.elements import HeldElement
from diffkern.targets.cuda.exact_sums import Rows, add_exactly
from diffkern.targets.cuda.lines import Lines
from diffkern.targets.cuda.registers import (
    WARP,
    add_and_fetch,
    add_floats_quietly,
    add_half_quietly,
    exchanged,
    function,
    shuffle_up,
    special,
    synchronize,
    update_quietly,
    word_of_half,
)
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.memory import (
    ArrayRef,
    address,
    atomic_element,
    component,
    element_size,
    extreme_element,
    is_neutral,
)
from diffkern.targets.emit.types import F32, F64, I1, I8, I32, I64, VOID, Builder, i32, i64, memory_type, to_memory

SHARED_MEMORY = 3
"""The address space of the memory of a block."""
_QUIET = (F32, F64, I32, I64)


@dataclass(slots=True)
class CudaBody(BodyEmitter):
    """Emits the ops of one thread for the CUDA target.

    Attributes
    ----------
    quiet
        The ops, by identity, that change an element atomically and whose old value is not used.
    lines
        Attaches source lines to instructions; None without.
    dynamic_shared
        The start of the shared memory that the launch requests; None if shared arrays are variables.
    shared_offset
        The bytes of it that have been given to arrays.
    held
        The thread's own elements that are in registers, by their arrays.
    arch
        The architecture.
    memory_space
        The global address space.
    in_any_order
        Whether updates leave the same bits in any order of the threads.
    rows
        The rows of the arrays that are added up exactly.
    """

    quiet: frozenset[int] = frozenset()
    lines: Lines | None = None
    dynamic_shared: Any = None
    shared_offset: int = 0
    held: dict[Value, HeldElement] = field(default_factory=dict)
    arch: str = "sm_90"
    memory_space: int = 1
    in_any_order: bool = False
    rows: Mapping[Value, Rows] = field(default_factory=dict)

    def op(self, op: Op) -> None:
        if self.lines is not None and op.loc is not None:
            self.builder.debug_metadata = self.lines.at(op.loc)
        BodyEmitter.op(self, op)

    def goes_on(self, count: Any, trips: Any) -> Any:
        return self.builder.icmp_unsigned("!=", count, trips)  # as the assembler wants it for unrolling

    def load(self, op: Op) -> None:
        held = self.held.get(Access(op).array)
        if held is None:
            BodyEmitter.load(self, op)
        else:
            self.values[op.result] = tuple(held.values)

    def store(self, op: Op) -> None:
        held = self.held.get(Access(op).array)
        if held is None:
            BodyEmitter.store(self, op)
        else:
            held.put(self.builder, self.values[Access(op).value], op.attrs.get("only"))

    def accumulate(self, op: Op) -> None:
        array = Access(op).array
        held = self.held.get(array)
        if array in self.rows:
            self.add_exactly(op, "add")
        elif held is None:
            BodyEmitter.accumulate(self, op)
        else:
            held.add(self.builder, self.values[Access(op).value], self.scalars.flags)

    def barrier(self, op: Op) -> None:
        synchronize(self.builder)

    def lane_left(self, op: Op) -> None:
        b, distance = self.builder, i32(op.attrs["distance"])
        self.values[op.result] = tuple(shuffle_up(b, part, distance)[0] for part in self.values[op.operands[0]])

    def of_warp(self, op: Op) -> None:
        found = FORMS[op.name](self.builder, *(self.scalar(v) for v in op.operands))
        self.values.update((result, (found,)) for result in op.results)

    def shared_new(self, op: Op) -> None:
        """Allocate memory that the threads of the block share."""
        t, shape = op.result.type, op.attrs["shape"]
        assert isinstance(t, Array)
        s, b = scalar_of(t.dtype), self.builder
        count = element_size(t.dtype) * math.prod(shape)
        memory = ir.ArrayType(memory_type(s), count)
        if self.dynamic_shared is not None:
            block = b.gep(self.dynamic_shared, [i64(self.shared_offset)], inbounds=True, source_etype=I8)
            # Arrays in one dynamic block follow each other, each at a multiple of 16 bytes.
            self.shared_offset += -(-count * scalar_of(t.dtype).itemsize // 16) * 16
        else:
            name = b.module.get_unique_name(f"{b.function.name}_shared")
            block = ir.GlobalVariable(b.module, memory, name, addrspace=SHARED_MEMORY)
            block.linkage, block.align = "internal", 16
            block.initializer = ir.Constant(memory, ir.Undefined)
            block.type = ir.PointerType(addrspace=SHARED_MEMORY)
        self.arrays[op.result] = ArrayRef(t, block, tuple(i64(n) for n in shape), tuple(i64(0) for _ in shape))

    def place(self, array: ArrayRef, indices: Sequence[Any], wrap: Sequence[bool]) -> Any:
        """Return a pointer to an element: a negative index counts from the end of its axis, which is another address.

        Each axis has two places to start from, the same for all threads, so that a thread only selects.
        """
        b, data = self.builder, array.data
        for axis, index in enumerate(indices):
            if wrap[axis]:
                # As a number: LLVM would add a selected length to the place, which takes two instructions more.
                length = b.mul(array.shape[axis], step_of(b, array, axis))
                end = b.inttoptr(b.add(b.ptrtoint(data, I64), length), data.type)
                data = b.select(b.icmp_signed("<", index, i64(0)), end, data)
        return address(b, dataclasses.replace(array, data=data), indices, [False] * len(indices))

    def atomic(self, op: Op) -> None:
        if Access(op).array not in self.rows:
            BodyEmitter.atomic(self, op)
            return
        self.values[op.result] = self.values[Access(op).value]  # never used
        self.add_exactly(op, op.attrs["kind"])

    def add_exactly(self, op: Op, kind: str) -> None:
        """Add to the rows of an element, or take away from them."""
        b, access = self.builder, Access(op)
        array, indices = self.arrays[access.array], [self.index(v) for v in access.index]
        for k, part in enumerate(self.values[access.value]):
            if not is_neutral(kind, part):
                row = self.rows[access.array].place(b, array, indices, access.wrap, k)
                add_exactly(b, scalar_of(array.type), row, b.fneg(part) if kind == "sub" else part)

    def update(self, op: Op, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
        array = Access(op).array.type
        if self.in_any_order and kind in EXTREMA and scalar_of(t).is_float:
            return extreme_element(self.builder, t, pointer, kind, parts)
        if isinstance(array, Array) and array.layout == SHARED:
            # Only global memory has the quiet forms emitted here.
            return atomic(self.builder, t, pointer, kind, parts)
        if id(op) in self.quiet:
            name = self.half(scalar_of(t)) if kind in SUMS else None
            ref = self.arrays.get(Access(op).array)
            if name and ref is not None and ref.type.dtype == t and ref.type.layout == "C":
                return self.add_halves(ref, name, pointer, kind, parts)
            if kind in SUMS and self.adds_vectors(t) and ref is not None and ref.type.dtype == t:
                return add_together(self.builder, pointer, kind, parts, ref.align or 4)
            return add_element(self.builder, t, pointer, kind, parts)
        return atomic(self.builder, t, pointer, kind, parts)

    def adds_vectors(self, t: Element) -> bool:
        """Return whether the architecture adds several components of an element with one instruction."""
        return scalar_of(t) == FLOAT32 and element_size(t) > 1 and int(self.arch.removeprefix("sm_")) >= 90

    def half(self, s: Scalar) -> str | None:
        """Return the name of a 16-bit type to whose pairs the architecture adds atomically; else None."""
        if s == FLOAT16:
            return "f16"
        return "bf16" if s == BFLOAT16 and int(self.arch.removeprefix("sm_")) >= 90 else None

    def add_halves(self, ref: ArrayRef, name: str, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
        """Add to 16-bit numbers atomically; the addend is rounded to them first, as the hardware requires.

        A number whose neighbour lies outside the array, where other data may be, is updated by itself.
        """
        b, s = self.builder, scalar_of(ref.type.dtype)
        count = functools.reduce(b.mul, ref.shape, i64(element_size(ref.type.dtype) * s.itemsize))
        start = b.ptrtoint(ref.data, I64)
        end = b.add(start, count)
        for k, part in enumerate(parts):
            place = component(b, s, pointer, k)
            word, upper = word_of_half(b, place)
            address = b.ptrtoint(word, I64)
            below = b.icmp_unsigned(">=", address, start)
            # The hardware updates a 32-bit word, which must not reach past the array at either end.
            inside = b.and_(below, b.icmp_unsigned("<=", b.add(address, i64(4)), end))
            with b.if_else(inside, likely=True) as (then, otherwise):
                with then:
                    add_half_quietly(b, name, word, upper, to_memory(b, s, part if kind == "add" else b.fneg(part)))
                with otherwise:
                    atomic_element(b, s, place, kind, [part])
        return list(parts)


def step_of(b: Builder, array: ArrayRef, axis: int) -> Any:
    """Return the bytes between neighbours along an axis."""
    if array.type.layout in ("A", HELD):
        return array.strides[axis]
    return functools.reduce(b.mul, array.shape[axis + 1 :], i64(array.type.dtype.itemsize))


def atomic(b: Builder, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
    """Update the components of an element atomically; return the old ones."""
    s = scalar_of(t)
    # Integers have native forms in LLVM; extrema of floats and narrow types go through compare-and-swap.
    if not s.is_float or s in STORAGE_ONLY or kind not in ("add", "sub", "exch"):
        return atomic_element(b, t, pointer, kind, parts)
    places = [(component(b, s, pointer, k), part) for k, part in enumerate(parts)]
    if kind == "exch":
        # LLVM exchanges integers only, so the bits of the float are exchanged.
        bits = ir.IntType(s.bits)
        return [b.bitcast(b.atomic_rmw("xchg", p, b.bitcast(v, bits), "monotonic"), v.type) for p, v in places]
    # The hardware has no subtraction.
    return [add_and_fetch(b, p, v if kind == "add" else b.fneg(v)) for p, v in places]


def add_element(b: Builder, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
    """Update an element atomically, without its old value."""
    s = scalar_of(t)
    known = SUMS if s.is_float else SUMS | BOUNDS | LOGIC
    # Kinds without a quiet form fall back to the ordinary atomic, whose result is ignored.
    if kind not in known or s in STORAGE_ONLY or parts[0].type not in _QUIET:
        return atomic(b, t, pointer, kind, parts)
    for k, part in enumerate(parts):
        value = part if kind != "sub" else b.fneg(part) if s.is_float else b.neg(part)
        place = component(b, s, pointer, k)
        update_quietly(b, "add" if kind == "sub" else kind, place, value, signed=s.kind is Kind.INT)
    return list(parts)


def add_together(b: Builder, pointer: Any, kind: str, parts: Sequence[Any], align: int) -> list[Any]:
    """Add to a vector of float32 atomically, two or four components with one instruction.

    Parameters
    ----------
    align
        Bytes to which the vector is aligned.
    """
    values = [part if kind == "add" else b.fneg(part) for part in parts]
    if align < 8 and len(values) % 2:
        _add_pairs_of_odd(b, pointer, values)
        return list(parts)
    at = 0
    while at < len(values):
        # Each instruction wants its own bytes as alignment; an offset is a multiple of what is known of the first one.
        fits = (n for n in (4, 2, 1) if at + n <= len(values) and align % (4 * n) == 0 and at % n == 0)
        count = next(fits, 1)
        place = component(b, FLOAT32, pointer, at)
        if count == 1:
            update_quietly(b, "add", place, values[at])
        else:
            add_floats_quietly(b, place, values[at : at + count])
        at += count
    return list(parts)


def _add_pairs_of_odd(b: Builder, pointer: Any, values: Sequence[Any]) -> None:
    """Add an odd number of float32, whose first one may lie in either half of 8 bytes.

    The pairs begin with the first number or with the second; what is left is the last or the first.
    """
    count, place = len(values), b.ptrtoint(pointer, I64)
    later = b.icmp_unsigned("!=", b.and_(place, i64(4)), i64(0))
    first = b.inttoptr(b.and_(b.add(place, i64(4)), i64(-8)), pointer.type)
    for k in range(0, count - 1, 2):
        pair = [b.select(later, values[k + 1 + n], values[k + n]) for n in range(2)]
        add_floats_quietly(b, component(b, FLOAT32, first, k), pair)
    alone = b.gep(pointer, [b.select(later, i64(0), i64(4 * (count - 1)))], source_etype=I8)
    update_quietly(b, "add", alone, b.select(later, values[0], values[-1]))


# -- operations of warps -----------------------------------------------------------------------------------------------
# Lowering of warp-level operations to NVVM intrinsics, by the names of the operations.


def _thread(b: Builder) -> Any:
    return special(b, "tid.x")


def _shuffle(b: Builder, mask: Any, value: Any, lane: Any) -> Any:
    """Return the value of another lane; 64-bit values are exchanged in halves."""
    call = function(b.module, "llvm.nvvm.shfl.sync.idx.i32", I32, [I32] * 4)
    return exchanged(b, value, lambda word: b.call(call, [mask, word, lane, i32(WARP - 1)]))


def _ballot(b: Builder, mask: Any, condition: Any) -> Any:
    return b.call(function(b.module, "llvm.nvvm.vote.ballot.sync", I32, [I32, I1]), [mask, condition])


def _active(b: Builder) -> Any:
    return b.call(function(b.module, "llvm.nvvm.activemask", I32, []), [])


def _barrier(b: Builder, mask: Any) -> Any:
    return b.call(function(b.module, "llvm.nvvm.bar.warp.sync", VOID, [I32]), [mask])


def _fence(b: Builder) -> Any:
    return b.call(function(b.module, "llvm.nvvm.membar.gl", VOID, []), [])


FORMS: Final[Mapping[str, Callable[..., Any]]] = {
    "warp_thread": _thread, "warp_shuffle": _shuffle, "warp_ballot": _ballot, "warp_active": _active,
    "warp_barrier": _barrier, "warp_fence": _fence,
}  # fmt: skip
"""Functions of a builder and the operands."""
