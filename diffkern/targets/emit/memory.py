"""Arrays in LLVM: element addresses, loads, stores, atomics.

An element of a C-contiguous array is addressed by its flattened index; otherwise by byte strides. Indices arrive as
64-bit integers that are exact (no wrap-around at 32 bits), so that LLVM can see unit strides. A composite element is
stored as its scalars one after the other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Value
from diffkern.ir.ops.memory import EXTREMA, WON
from diffkern.ir.ops.scalar import LOGIC, SUMS
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HELD,
    STORAGE_ONLY,
    Array,
    Element,
    Mat,
    Scalar,
    Vec,
    scalar_of,
)
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.scalars import extremum
from diffkern.targets.emit.types import I8, I64, Builder, from_memory, i64, memory_type, to_memory


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """An array parameter inside a function: its address and extents, loaded from the argument block."""

    type: Array
    data: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    scopes: tuple[Any, Any] | None = None  # metadata: (alias scope or None, scopes of what it does not overlap)
    invariant: Any = None  # empty metadata node, where nothing writes the elements while the kernel runs
    align: int = 0  # bytes to which the elements are aligned; 0: as their scalars
    offset: int = 0  # bytes from a place that is so aligned to the element that is accessed


_NAN: Mapping[Scalar, int] = {
    FLOAT16: 0x7E00,
    BFLOAT16: 0x7FC0,
    FLOAT32: 0x7FC0_0000,
    FLOAT64: 0x7FF8_0000_0000_0000,
}


def poison_of(s: Scalar) -> int | None:
    """Return 64 bits of elements that nobody wrote: NaN, or integers of the highest bit alone; None of truth values."""
    if s == BOOL:
        return None
    one = _NAN[s] if s.is_float else 1 << (s.bits - 1)
    return sum(one << shift for shift in range(0, 64, s.bits))


def fill_words(b: Builder, data: Any, count: int, word: int) -> None:
    """Emit a loop that fills words of 64 bits."""
    before, head, done = b.block, b.append_basic_block("fill"), b.append_basic_block("filled")
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    b.store(i64(word), b.gep(data, [k], source_etype=I64))
    following = b.add(k, i64(1))
    k.add_incoming(i64(0), before)
    k.add_incoming(following, head)
    b.cbranch(b.icmp_unsigned("<", following, i64(count)), head, done)
    b.position_at_end(done)


def element_size(t: Element) -> int:
    """Return the number of scalars of an element."""
    return t.size if isinstance(t, (Vec, Mat)) else 1


def wrap_index(b: Builder, index: Any, length: Any) -> Any:
    """Return a negative index counted from the end, as in Python."""
    # Branch-free, so that the access stays vectorisable.
    negative = b.icmp_signed("<", index, i64(0))
    return b.select(negative, b.add(index, length, flags=("nsw",)), index)


def address(b: Builder, array: ArrayRef, indices: Sequence[Any], wrap: Sequence[bool], *, inbounds: bool = True) -> Any:
    """Return a pointer to the first scalar of an element, which is in the array if it is `inbounds`."""
    exact = ("nsw",)
    index = [wrap_index(b, i, n) if w else i for i, n, w in zip(indices, array.shape, wrap, strict=True)]
    # Strides in bytes: an element may lie anywhere, so addresses are computed in bytes too.
    if array.type.layout in ("A", HELD):
        offset: Any = i64(0)
        for i, stride in zip(index, array.strides, strict=True):
            offset = b.add(offset, b.mul(i, stride, flags=exact), flags=exact)
        return b.gep(array.data, [offset], inbounds=inbounds, source_etype=I8)
    # Flattened without wrapping, which lets LLVM see neighbouring indices as neighbouring addresses.
    flat: Any = index[0] if index else i64(0)
    for i, n in zip(index[1:], array.shape[1:], strict=True):
        flat = b.add(b.mul(flat, n, flags=exact), i, flags=exact)
    size = element_size(array.type.dtype)
    if size != 1:
        flat = b.mul(flat, i64(size), flags=exact)
    return b.gep(array.data, [flat], inbounds=inbounds, source_etype=memory_type(scalar_of(array.type.dtype)))


def component(b: Builder, t: Scalar, pointer: Any, k: int) -> Any:
    """Return a pointer to a component of an element."""
    return pointer if k == 0 else b.gep(pointer, [i64(k)], inbounds=True, source_etype=memory_type(t))


def tag(array: ArrayRef | None, instruction: Any, k: int) -> Any:
    """Attach the facts about an array to the access of component ``k``."""
    if array is not None and array.scopes is not None:
        own, others = array.scopes
        if own is not None:
            instruction.set_metadata("alias.scope", own)
        instruction.set_metadata("noalias", others)
    if array is not None and array.align:
        # A component of an aligned element is aligned to the greatest common divisor of that and its offset.
        instruction.align = math.gcd(array.align, array.offset + k * scalar_of(array.type.dtype).itemsize)
    return instruction


def load_element(b: Builder, t: Element, pointer: Any, array: ArrayRef | None = None) -> list[Any]:
    """Return the components of an element as values."""
    s = scalar_of(t)
    out = []
    for k in range(element_size(t)):
        raw = tag(array, b.load(component(b, s, pointer, k), typ=memory_type(s)), k)
        if array is not None and array.invariant is not None:
            raw.set_metadata("invariant.load", array.invariant)
        out.append(from_memory(b, s, raw))
    return out


def store_element(
    b: Builder,
    t: Element,
    pointer: Any,
    values: Sequence[Any],
    array: ArrayRef | None = None,
    only: Collection[int] | None = None,
) -> None:
    """Write the components of an element, or only some of them."""
    s = scalar_of(t)
    for k, value in enumerate(values):
        if only is not None and k not in only:
            continue
        tag(array, b.store(to_memory(b, s, value), component(b, s, pointer, k)), k)


def frozen(b: Builder, value: Any) -> Any:
    """Return a loaded value as one that LLVM makes no part of other instructions."""
    made = ir.instructions.Instruction(b.block, value.type, "freeze", [value])
    b._insert(made)
    return made


def add_element(b: Builder, array: ArrayRef, pointer: Any, values: Sequence[Any], flags: tuple[str, ...]) -> None:
    """Add to an element that no other thread touches."""
    # No other thread touches the element, so plain load, add and store suffice.
    old = load_element(b, array.type.dtype, pointer, array)
    new = [plus(b, o, v, flags) for o, v in zip(old, values, strict=True)]
    store_element(b, array.type.dtype, pointer, new, array)


def plus(b: Builder, x: Any, y: Any, flags: tuple[str, ...] = ()) -> Any:
    """Return a sum, of vectors too; for truth values their disjunction."""
    t = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    if isinstance(t, ir.IntType):
        return b.or_(x, y) if t.width == 1 else b.add(x, y)
    return b.fadd(x, y, flags=flags)


def _difference(b: Builder, x: Any, y: Any) -> Any:
    return b.sub(x, y) if isinstance(x.type, ir.IntType) else b.fsub(x, y)


def atomic_element(b: Builder, t: Element, pointer: Any, kind: str, values: Sequence[Any]) -> list[Any]:
    """Update the components of an element atomically, each by itself; return the old components."""
    s = scalar_of(t)
    return [_atomic(b, s, component(b, s, pointer, k), kind, v) for k, v in enumerate(values)]


def update_element(
    b: Builder, t: Element, pointer: Any, kind: str, values: Sequence[Any], alone: Any = None
) -> list[Any]:
    """Update the components of an element; return the old components.

    Atomically, except in launches that are `alone`: a condition, None if none can be.
    """
    # Never alone: only the atomic form is emitted.
    if alone is None:
        return atomic_element(b, t, pointer, kind, values)
    s = scalar_of(t)
    ways = []
    with b.if_else(alone) as (plainly, atomically):
        with plainly:
            found = [_plain(b, s, component(b, s, pointer, k), kind, v) for k, v in enumerate(values)]
            ways.append((found, b.block))
        with atomically:
            ways.append((atomic_element(b, t, pointer, kind, values), b.block))
    return _merged(b, ways)


def extreme_element(b: Builder, t: Element, pointer: Any, kind: str, values: Sequence[Any]) -> list[Any]:
    """Take extrema of floats atomically, which are the same to the last bit in any order of threads.

    -0 is less than 0, and a NaN that is passed on is one of the same bits always.
    """
    s = scalar_of(t)
    combine = _extremum_in_any_order(s, kind)
    return [_compare_and_swap(b, s, component(b, s, pointer, k), kind, v, combine) for k, v in enumerate(values)]


def _extremum_in_any_order(t: Scalar, kind: str) -> Callable[[Builder, Any, Any], Any]:
    smaller, skips = kind in ("min", "fmin"), kind in ("fmin", "fmax")

    def combined(b: Builder, old: Any, value: Any) -> Any:
        bits = I64 if t == FLOAT64 else ir.IntType(32)  # narrower floats are computed with 32 bits
        raw = b.bitcast(old, bits), b.bitcast(value, bits)
        # Of two equal numbers only zeros differ, by their sign.
        equal = b.bitcast(b.or_(*raw) if smaller else b.and_(*raw), old.type)
        goes_first = b.fcmp_ordered("<" if smaller else ">", value, old)
        other = b.select(b.fcmp_ordered("==", value, old), equal, old)
        if skips:
            return b.select(b.or_(goes_first, b.fcmp_unordered("uno", old, old)), value, other)
        nan = b.bitcast(ir.Constant(bits, _NAN[FLOAT64 if t == FLOAT64 else FLOAT32]), old.type)
        return b.select(b.fcmp_unordered("uno", old, value), nan, b.select(goes_first, value, other))

    return combined


def _plain(b: Builder, t: Scalar, pointer: Any, kind: str, value: Any) -> Any:
    raw = b.load(pointer, typ=memory_type(t))
    if t.is_integer and t.bits == 32:
        # Keeps the load from being one that extends to 64 bits, as for an index: x86-64 processors take what was stored
        # a moment ago from a register only for loads of the same width, and a counter waits for its last value.
        raw = frozen(b, raw)
    old = from_memory(b, t, raw)
    b.store(to_memory(b, t, combination(t, kind)(b, old, value)), pointer)
    return old


def _merged(b: Builder, ways: Sequence[tuple[Sequence[Any], Any]]) -> list[Any]:
    merged = []
    for parts in zip(*(values for values, _ in ways), strict=True):
        phi = b.phi(parts[0].type)
        for part, (_, block) in zip(parts, ways, strict=True):
            phi.add_incoming(part, block)
        merged.append(phi)
    return merged


def is_neutral(kind: str, value: Any) -> bool:
    """Return whether a value is a literal by which an atomic update changes nothing."""
    number = value.constant if isinstance(value, ir.Constant) else None
    if isinstance(number, float):
        # Adding -0.0 changes nothing, while adding 0.0 turns -0.0 into 0.0; for subtraction it is the other way round.
        return number == 0 and math.copysign(1.0, number) == (-1.0 if kind == "add" else 1.0)
    return type(number) is int and number == 0 and kind in SUMS | LOGIC - {"and"}


_NATIVE_INT = {
    "add": "add", "sub": "sub", "exch": "xchg", "and": "and", "or": "or", "xor": "xor",
    "inc": "uinc_wrap", "dec": "udec_wrap",
}  # fmt: skip
_BITS: dict[str, Callable[[Builder, Any, Any], Any]] = {
    "and": lambda b, x, y: b.and_(x, y), "or": lambda b, x, y: b.or_(x, y), "xor": lambda b, x, y: b.xor(x, y),
}  # fmt: skip
_OFTEN_UNCHANGED = (*EXTREMA, "cas")
_NATIVE_FLOAT = {"add": "fadd", "sub": "fsub", "exch": "xchg"}


def _atomic(b: Builder, t: Scalar, pointer: Any, kind: str, value: Any) -> Any:
    # Types without atomic instructions of their own go through a loop of compare-and-swap.
    if t in STORAGE_ONLY or t.kind.value == "bool" or t.bits < b.module.isa.atomic_bits:
        return _compare_and_swap(b, t, pointer, kind, value)
    if t.is_float:
        if kind in _NATIVE_FLOAT:
            return b.atomic_rmw(_NATIVE_FLOAT[kind], pointer, value, "monotonic")
        # LLVM's fmin and fmax drop a NaN; ours pass it on.
        return _compare_and_swap(b, t, pointer, kind, value)
    unsigned = "u" if t.kind.value == "uint" else ""
    return b.atomic_rmw(_NATIVE_INT.get(kind, unsigned + kind), pointer, value, "monotonic")


def combination(t: Scalar, kind: str) -> Callable[[Builder, Any, Any], Any]:
    """Return the function of the old number and the given one by which an atomic update of a kind works."""
    if kind == "add":
        return plus
    if kind == "sub":
        return _difference
    if kind == "exch":
        return lambda b, old, value: value
    if kind == "cas":
        return _exchanged
    if kind in _BITS:
        return _BITS[kind]
    if kind == "keep":
        return _kept
    if kind in ("inc", "dec"):
        return _counted_up if kind == "inc" else _counted_down
    if kind in ("fmin", "fmax"):
        return lambda b, old, value: _of_numbers(b, "<" if kind == "fmin" else ">", old, value)
    return lambda b, old, value: extremum(b, t, "<=" if kind == "min" else ">=", old, value)


def _of_numbers(b: Builder, sign: str, old: Any, value: Any) -> Any:
    """Return the new number if it compares so to the old one, or that is NaN; a new NaN changes nothing."""
    return b.select(b.or_(b.fcmp_ordered(sign, value, old), b.fcmp_unordered("uno", old, old)), value, old)


def _kept(b: Builder, old: Any, flag: Any) -> Any:
    """Return the old number if the flag is not 0, else 0."""
    zero = ir.Constant(old.type, 0)
    is_set = (
        b.icmp_unsigned("!=", flag, zero) if isinstance(old.type, ir.IntType) else b.fcmp_unordered("!=", flag, zero)
    )
    return b.select(is_set, old, zero)


def _counted_up(b: Builder, old: Any, top: Any) -> Any:
    """Return one more than the old number, and 0 after the top."""
    one, zero = ir.Constant(old.type, 1), ir.Constant(old.type, 0)
    return b.select(b.icmp_unsigned(">=", old, top), zero, b.add(old, one))


def _counted_down(b: Builder, old: Any, top: Any) -> Any:
    """Return one less than the old number, and the top after 0 and above it."""
    one, zero = ir.Constant(old.type, 1), ir.Constant(old.type, 0)
    outside = b.or_(b.icmp_unsigned("==", old, zero), b.icmp_unsigned(">", old, top))
    return b.select(outside, top, b.sub(old, one))


def compare_exchange(b: Builder, t: Scalar, pointer: Any, expected: Any, value: Any, alone: Any = None) -> Any:
    """Replace a number if it equals the expected one; return the old one. Otherwise as :func:`update_element`."""
    if alone is not None:
        ways = []
        with b.if_else(alone) as (plainly, atomically):
            with plainly:
                ways.append(([_plain(b, t, pointer, "cas", (expected, value))], b.block))
            with atomically:
                ways.append(([compare_exchange(b, t, pointer, expected, value)], b.block))
        return _merged(b, ways)[0]
    # Integers compare by bits, so the instruction's comparison is the right one; floats have two zeros and NaN.
    if t.is_integer and t.bits >= b.module.isa.exchange_bits:
        return _swap(b, pointer, expected, value)[0]
    return _compare_and_swap(b, t, pointer, "cas", (expected, value))


def take_element(b: Builder, t: Element, pointer: Any, wanted: Sequence[Any]) -> list[Any]:
    """Wait for the wanted components of an element until nobody holds them, and hold them.

    A held component has the bits of a signaling NaN, which no operation gives. Return the old components.
    """
    s = scalar_of(t)
    found = [_take(b, s, component(b, s, pointer, k), flag) for k, flag in enumerate(wanted)]
    # Acquire and release order the accesses to the element's tangent between the holders.
    b.fence("acquire")
    return found


def _take(b: Builder, t: Scalar, pointer: Any, wanted: Any) -> Any:
    bits = ir.IntType(t.itemsize * 8)
    part = _Part(b, pointer, bits) if bits.width < b.module.isa.exchange_bits else None
    whole, place = (part.whole, part.word) if part else (bits, pointer)
    held = ir.Constant(bits, HELD_BITS[t])
    start, wait, swap, done = b.block, *(b.append_basic_block(f"take.{name}") for name in ("wait", "swap", "done"))
    b.cbranch(b.fcmp_ordered("!=", wanted, ir.Constant(wanted.type, 0)), wait, done)
    b.position_at_end(wait)
    seen = b.load_atomic(place, "monotonic", whole.width // 8, typ=whole)
    raw = part.get(seen) if part else seen
    # Spin while another thread holds the component.
    b.cbranch(b.icmp_unsigned("==", raw, held), wait, swap)
    b.position_at_end(swap)
    _, swapped = _swap(b, place, seen, part.put(seen, held) if part else held)
    b.cbranch(swapped, done, wait)
    b.position_at_end(done)
    taken = b.phi(bits)
    taken.add_incoming(ir.Constant(bits, 0), start)
    taken.add_incoming(raw, swap)
    memory = memory_type(t)
    return from_memory(b, t, taken if memory == bits else b.bitcast(taken, memory))


def give_element(b: Builder, t: Element, pointer: Any, given: Sequence[Any]) -> None:
    """Give back components of an element that are held: as they were, or as the winner's."""
    s, size = scalar_of(t), element_size(t)
    seen, state, _, new = (given[k * size : (k + 1) * size] for k in range(4))
    b.fence("release")
    for k, how in enumerate(state):
        with b.if_then(b.fcmp_ordered("!=", how, ir.Constant(how.type, 0))):
            # A holder that lost meanwhile puts back the tangent that was there, for the winner to take.
            won = b.fcmp_ordered("==", how, ir.Constant(how.type, WON))
            _atomic(b, s, component(b, s, pointer, k), "exch", b.select(won, new[k], seen[k]))


HELD_BITS = {
    FLOAT16: 0x7D4B, BFLOAT16: 0x7FA9, FLOAT32: 0x7FA94D2B, FLOAT64: 0x7FF4A94D2B5A6E97,
}  # fmt: skip
"""The bits of a number that is held, as the library of CUDA source has them."""


def _exchanged(b: Builder, old: Any, pair: Any) -> Any:
    expected, value = pair
    whole = isinstance(old.type, ir.IntType)
    same = b.icmp_unsigned("==", old, expected) if whole else b.fcmp_ordered("==", old, expected)
    return b.select(same, value, old)


def _compare_and_swap(
    b: Builder,
    t: Scalar,
    pointer: Any,
    kind: str,
    value: Any,
    combine: Callable[[Builder, Any, Any], Any] | None = None,
) -> Any:
    """The general atomic update: retry until no other thread wrote between read and write.

    Most extrema and comparisons that fail leave the element as it is: those end without writing. `combine` stands in
    for the usual function of a kind.
    """
    bits = ir.IntType(t.itemsize * 8)
    memory = memory_type(t)

    def as_bits(x: Any) -> Any:
        return x if x.type == bits else b.bitcast(x, bits)

    # Where there is no exchange of so few bits, the word around the element takes part.
    part = _Part(b, pointer, bits) if bits.width < b.module.isa.exchange_bits else None
    whole, place = (part.whole, part.word) if part else (bits, pointer)
    # Atomically as well: a GPU may have an old value at hand, and nothing corrects it where nothing is exchanged.
    first = b.load_atomic(place, "monotonic", whole.width // 8, typ=whole)
    before = b.block
    loop, done = b.append_basic_block("cas"), b.append_basic_block("cas.done")
    b.branch(loop)
    b.position_at_end(loop)
    seen = b.phi(whole)
    seen.add_incoming(first, before)
    raw = part.get(seen) if part else seen
    old = from_memory(b, t, raw if memory == bits else b.bitcast(raw, memory))
    wanted = as_bits(to_memory(b, t, (combine or combination(t, kind))(b, old, value)))
    if kind in _OFTEN_UNCHANGED:
        exchange = b.append_basic_block("cas.exchange")
        # An update that would write the same bits again needs no exchange.
        b.cbranch(b.icmp_unsigned("==", raw, wanted), done, exchange)
        b.position_at_end(exchange)
    found, swapped = _swap(b, place, seen, part.put(seen, wanted) if part else wanted)
    seen.add_incoming(found, b.block)
    b.cbranch(swapped, done, loop)
    b.position_at_end(done)
    return old


def _swap(b: Builder, place: Any, expected: Any, value: Any) -> tuple[Any, Any]:
    """Replace an integer if it is the expected one; return the old one, and whether it was."""
    isa = b.module.isa
    # The target's own instruction for narrow exchanges, where LLVM's form would touch the neighbours.
    if isa.exchange is not None and expected.type.width < isa.atomic_bits:
        found = isa.exchange(b, place, expected, value)
        return found, b.icmp_unsigned("==", found, expected)
    pair = b.cmpxchg(place, expected, value, "monotonic", "monotonic")
    return b.extract_value(pair, 0), b.extract_value(pair, 1)


class _Part:
    """An element in the aligned word around it, the narrowest that can be exchanged."""

    def __init__(self, b: Builder, pointer: Any, bits: Any) -> None:
        self.b, self.bits = b, bits
        self.whole = ir.IntType(b.module.isa.exchange_bits)
        last = self.whole.width // 8 - 1
        address = b.ptrtoint(pointer, I64)
        self.word = b.inttoptr(b.and_(address, i64(~last)), pointer.type)
        # The shift in bits: the byte offset within the word times eight.
        self.shift = b.shl(b.and_(b.trunc(address, self.whole), self.number(last)), self.number(3))
        self.others = b.not_(b.shl(self.number((1 << bits.width) - 1), self.shift))

    def number(self, value: int) -> Any:
        return ir.Constant(self.whole, value)

    def get(self, word: Any) -> Any:
        return self.b.trunc(self.b.lshr(word, self.shift), self.bits)

    def put(self, word: Any, value: Any) -> Any:
        b = self.b
        return b.or_(b.and_(word, self.others), b.shl(b.zext(value, self.whole), self.shift))


def load_array(b: Builder, block: Any, offset: int, t: Array, space: int = 0) -> ArrayRef:
    """Read an array's fields from the argument block; its elements are in an address space of the target."""

    def field(k: int) -> Any:
        return b.load(b.gep(block, [i64(offset + 8 * k)], inbounds=True, source_etype=I8), typ=I64)

    data = b.load(b.gep(block, [i64(offset)], inbounds=True, source_etype=I8), typ=ir.PointerType(addrspace=space))
    # The layout of an array in the argument block: address, extents, and for strided arrays the strides.
    shape = tuple(field(1 + k) for k in range(t.ndim))
    strides = tuple(field(1 + t.ndim + k) for k in range(t.ndim)) if t.layout != "C" else ()
    return ArrayRef(t, data, shape, strides or tuple(i64(0) for _ in range(t.ndim)))


def byte_range(b: Builder, array: ArrayRef) -> tuple[Any, Any]:
    """Return the address of the first byte of an array that is not empty, and of the first byte behind it."""
    low = high = b.ptrtoint(array.data, I64)
    size = i64(array.type.dtype.itemsize)
    if array.type.layout != "A":
        for n in array.shape:
            size = b.mul(size, n)
        return low, b.add(low, size)
    for n, stride in zip(array.shape, array.strides, strict=True):
        reach = b.mul(b.sub(n, i64(1)), stride)
        # With a negative stride the array extends to lower addresses.
        ahead = b.icmp_signed(">", reach, i64(0))
        low = b.select(ahead, low, b.add(low, reach))
        high = b.select(ahead, b.add(high, reach), high)
    return low, b.add(high, size)


def disjoint(b: Builder, some: Sequence[ArrayRef], others: Sequence[ArrayRef]) -> Any:
    """Return whether none of some arrays has a byte in common with any of the others."""
    every: Any = ir.Constant(ir.IntType(1), 1)
    # Half-open byte ranges: two are disjoint if one ends before the other begins.
    ranges = [byte_range(b, array) for array in others]
    for low, high in (byte_range(b, array) for array in some):
        for start, end in ranges:
            disjoint = b.or_(b.icmp_unsigned("<=", high, start), b.icmp_unsigned("<=", end, low))
            every = b.and_(every, disjoint)
    return every


def with_scopes(module: ir.Module, arrays: dict[Value, ArrayRef]) -> dict[Value, ArrayRef]:
    """Tell LLVM that accesses through different parameters do not alias."""
    # Each array is a scope of its own; an access is in its array's scope and outside of all others.
    domain = module.add_metadata(["arrays"])
    scopes = {p: module.add_metadata([f"array {k}", domain]) for k, p in enumerate(arrays)}
    out = {}
    for p, a in arrays.items():
        own = module.add_metadata([scopes[p]])
        others = module.add_metadata([s for q, s in scopes.items() if q is not p])
        out[p] = dataclasses.replace(a, scopes=(own, others))
    return out
