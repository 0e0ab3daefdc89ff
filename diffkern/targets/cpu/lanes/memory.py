"""Elements of arrays in lanes: contiguous runs, gathers and scatters, and updates one lane after the other.

Loads and stores take the places of the lanes' elements, and a mask of active lanes. A lane that is off touches no
memory. Where several lanes write one element, the last lane's value stays, as if the threads ran in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from llvmlite import ir

from diffkern.ir.types import Element, Scalar, scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes.builder import LaneBuilder, is_wide, zeros
from diffkern.targets.emit.loops import not_unrolled
from diffkern.targets.emit.memory import component, element_size, frozen
from diffkern.targets.emit.types import I1, I8, I32, I64, PTR, VOID, from_memory, i32, i64, memory_type, to_memory
from diffkern.vecmath import literals

__all__ = [
    "MOST_SHUFFLED",
    "LanePlaces",
    "each_lane",
    "each_of_first",
    "every",
    "load",
    "of_lane",
    "place_of_lane",
    "spilled",
    "store",
]

MOST_SHUFFLED = 4
"""Components of elements that lie one after the other for which vectors are loaded whole, and shuffled."""
_PART = 8
"""Elements from which a vector is put together at once: what LLVM does to such a chain takes time with its square."""


@dataclass(frozen=True, slots=True)
class LanePlaces:
    """The places of the first scalars of the lanes' elements.

    Attributes
    ----------
    pointer
        That of the first lane, if the elements of the lanes are contiguous; else a vector of addresses, or one address
        for all lanes.
    is_run
        Whether the elements are contiguous.
    tag
        Attaches the facts about the array to an instruction.
    step
        The bytes from each lane's element to the next one's, if `pointer` is that of the first lane and the elements
        are not contiguous.
    """

    pointer: Any
    is_run: bool
    tag: Callable[[Any], Any] = lambda instruction: instruction
    step: Any = None

    @property
    def is_shared(self) -> bool:
        """True if all lanes access one element."""
        return not self.is_run and self.step is None and not is_wide(self.pointer)


def _name(t: Any, lanes: int) -> str:
    return f"v{lanes}{t.intrinsic_name}"


def load(b: LaneBuilder, t: Element, places: LanePlaces, mask: Any) -> list[Any]:
    """Return the components of the lanes' elements; 0 or the element in lanes that are off."""
    s, count = scalar_of(t), element_size(t)
    if places.is_run and count <= MOST_SHUFFLED:
        raw = _load_run(b, s, count, places, mask)
    else:
        pointers = _pointers(b, s, count, places, mask, "zeros")
        raw = [_gather(b, s, pointers, k, places.tag) for k in range(count)]
    return [from_memory(b, s, one) for one in raw]


def _load_run(b: LaneBuilder, s: Scalar, count: int, places: LanePlaces, mask: Any) -> list[Any]:
    """Load the components of a contiguous run in parts whose lengths are powers of two, and shuffle them.

    LLVM splits a vector of another length into scalars where it is live in another block.
    """
    # The largest power of two first; the rest of up to as many numbers is loaded separately.
    plain, total = b.plain, b.lanes * count
    first = 1 << total.bit_length() - 1
    loaded = _load_part(b, s, count, places, mask, range(first))
    if count == 1:
        return [loaded]
    rest = literals.undefined(loaded.type)
    if first < total:
        part = _load_part(b, s, count, places, mask, range(first, total))
        rest = plain.shuffle_vector(part, part, _chosen([k % (total - first) for k in range(first)]))
    return [plain.shuffle_vector(loaded, rest, _chosen(range(k, total, count))) for k in range(count)]


def _load_part(b: LaneBuilder, s: Scalar, count: int, places: LanePlaces, mask: Any, part: range) -> Any:
    """Load some of the numbers of a contiguous run; `count` is how many an element has."""
    plain, held, pointer = b.plain, memory_type(s), places.pointer
    t = ir.VectorType(held, len(part))
    if part.start:
        # Where some lanes are off, the first one's element or those of the last ones may be outside the array.
        pointer = plain.gep(pointer, [i64(part.start)], inbounds=mask is None, source_etype=held)
    if mask is None:
        # Only the alignment of a scalar is certain.
        return places.tag(plain.load(pointer, typ=t, align=s.itemsize))
    args = [pointer, i32(s.itemsize), _repeated(b, mask, count, part), zeros(t)]
    loaded = places.tag(b.intrinsic(f"llvm.masked.load.{_name(held, len(part))}.p0", t, args))
    # LLVM 22 folds a choice by the same mask into the load, and moves it there, behind stores: not what is frozen.
    return frozen(plain, loaded)


def _repeated(b: LaneBuilder, mask: Any, count: int, part: range) -> Any:
    """Return for some of the numbers of a contiguous run whether their lane is on."""
    if count == 1:
        return mask
    return b.plain.shuffle_vector(mask, mask, _chosen([k // count for k in part]))


def _chosen(places: Sequence[int]) -> Any:
    return literals.numbers(I32, places)


def _gather(b: LaneBuilder, s: Scalar, pointers: Sequence[Any], k: int, tag: Callable[[Any], Any]) -> Any:
    """Return a component at the lanes' addresses: loaded one by one, which is faster than a gather instruction."""
    held, plain = memory_type(s), b.plain
    loaded = [tag(plain.load(component(plain, s, p, k), typ=held, align=s.itemsize)) for p in pointers]
    parts = [_joined(b, held, loaded[start : start + _PART]) for start in range(0, b.lanes, _PART)]
    while len(parts) > 1:
        both = _chosen(range(2 * b.lanes // len(parts)))
        parts = [plain.shuffle_vector(x, y, both) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _joined(b: LaneBuilder, t: Any, values: Sequence[Any]) -> Any:
    """Return a vector of numbers."""
    out = literals.undefined(ir.VectorType(t, len(values)))
    for lane, value in enumerate(values):
        out = b.with_element(out, value, lane)
    return out


def _scatter(
    b: LaneBuilder, s: Scalar, pointers: Sequence[Any], k: int, values: Any, tag: Callable[[Any], Any]
) -> None:
    """Write a component to the lanes' addresses, one by one in their order."""
    # In the order of the lanes, so that the last one wins as with threads in sequence.
    for lane, pointer in enumerate(pointers):
        tag(b.plain.store(b.element(values, lane), component(b.plain, s, pointer, k), align=s.itemsize))


def _pointers(b: LaneBuilder, s: Scalar, count: int, places: LanePlaces, mask: Any, off: str) -> Sequence[Any]:
    """Return the addresses of the lanes' elements; for lanes that are off, that of zeros, or of memory nobody reads."""
    # A regular stride needs no vector of addresses, but scalar additions.
    if mask is None and not is_wide(places.pointer):
        return _in_steps(b, places.pointer, i64(count * s.itemsize) if places.step is None else places.step)
    pointers = every(b, s, count, places)
    if mask is not None:
        # Instead of branching around the access of each lane, lanes that are off access dummy memory.
        pointers = b.select(mask, pointers, b.own(off, count * s.itemsize))
    return [b.element(pointers, lane) for lane in range(b.lanes)]


def _in_steps(b: LaneBuilder, first: Any, step: Any) -> Sequence[Any]:
    """Return addresses at equal distances, in pairs: a processor adds one of the two where it uses it."""
    plain = b.plain
    if isinstance(step, ir.Constant):
        return [plain.gep(first, [i64(k * step.constant)], source_etype=I8) for k in range(b.lanes)]
    # The same address, but nothing that LLVM sees through: it would keep a pointer for each lane, and step all of them
    # in every trip of a loop.
    first = b.intrinsic("llvm.launder.invariant.group.p0", PTR, [first])
    out, twice = [first], plain.shl(step, i64(1))
    while len(out) < b.lanes:
        out.append(plain.gep(out[-1], [step], source_etype=I8))
        out.append(plain.gep(out[-2], [twice], source_etype=I8))
    return out[: b.lanes]


def store(
    b: LaneBuilder,
    t: Element,
    places: LanePlaces,
    values: Sequence[Any],
    mask: Any,
    only: Collection[int] | None = None,
) -> None:
    """Write the components of the lanes' elements, or only some of them."""
    s, count = scalar_of(t), element_size(t)
    raw = [b.spread(to_memory(b, s, v)) for v in values]
    # Each lane of a run has an element of its own, so its other components may be written as they were read.
    if places.is_run and count <= MOST_SHUFFLED:
        _store_run(b, s, places, raw, mask)
        return
    pointers = _pointers(b, s, count, places, mask, "nowhere")
    for k, value in enumerate(raw):
        if only is not None and k not in only:
            continue
        _scatter(b, s, pointers, k, value, places.tag)


def _store_run(b: LaneBuilder, s: Scalar, places: LanePlaces, raw: Sequence[Any], mask: Any) -> None:
    whole, count = _interleaved(b, raw), len(raw)
    if mask is None:
        places.tag(b.plain.store(whole, places.pointer, align=s.itemsize))
        return
    args = [whole, places.pointer, i32(s.itemsize), _repeated(b, mask, count, range(b.lanes * count))]
    places.tag(b.intrinsic(f"llvm.masked.store.{_name(memory_type(s), b.lanes * count)}.p0", VOID, args))


def _interleaved(b: LaneBuilder, raw: Sequence[Any]) -> Any:
    """Return the components of all elements, one element after the other."""
    count, lanes = len(raw), b.lanes
    if count == 1:
        return raw[0]
    # Shuffles take two vectors, so the components are joined in pairs; an odd one is padded.
    padded = [*raw, *[raw[-1]] * (-count % 2)]
    wide = _chosen(range(2 * lanes))
    joined = [b.plain.shuffle_vector(x, y, wide) for x, y in zip(padded[::2], padded[1::2], strict=True)]
    if len(joined) == 1:
        return b.plain.shuffle_vector(joined[0], joined[0], _order(lanes, count))
    return b.plain.shuffle_vector(joined[0], joined[1], _order(lanes, count))


def _order(lanes: int, count: int) -> Any:
    return _chosen([k * lanes + lane for lane in range(lanes) for k in range(count)])


def every(b: LaneBuilder, s: Scalar, count: int, places: LanePlaces) -> Any:
    """Return the address of each lane's element."""
    if is_wide(places.pointer):
        return places.pointer
    start = b.plain.ptrtoint(places.pointer, I64)
    if places.step is not None:
        steps = b.mul(b.steps(I64, 1), places.step, flags=("nsw",))
    else:
        steps = b.steps(I64, count * s.itemsize if places.is_run else 0)
    return b.inttoptr(b.add(b.spread(start), steps), PTR)


def spilled(b: LaneBuilder, value: Any) -> Any:
    """Return a row in memory with the value of each lane."""
    wide = b.spread(value)
    held = I8 if wide.type.element == I1 else wide.type.element
    with b.plain.goto_entry_block():
        # A bit per lane is not addressable, so masks are kept as bytes.
        slot = b.plain.alloca(ir.ArrayType(held, b.lanes))
        # The row is read as one vector afterwards, hence the alignment of the widest register.
        slot.align = 64
    slot.type = PTR
    b.plain.store(b.zext(wide, I8) if held == I8 and wide.type.element == I1 else wide, slot)
    return slot


def place_of_lane(b: LaneBuilder, row: Any, lane: Any, t: Any) -> Any:
    """Return the address of a lane's element in a row of elements of a type."""
    return b.plain.gep(row, [lane], inbounds=True, source_etype=t)


def of_lane(b: LaneBuilder, row: Any, lane: Any, t: Any) -> Any:
    """Return a lane's element in a row."""
    return b.plain.load(place_of_lane(b, row, lane, t), typ=t)


def each_lane(b: LaneBuilder, mask: Any, work: Callable[[Any], None], *, rarely: bool = False) -> None:
    """Emit work for each lane that is on, one after the other; it is given the lane's number, an int64.

    Rare work is emitted once, in a loop; LLVM unrolls the rest for each lane.
    """
    row = None if mask is None else spilled(b, mask)
    _in_order(b, row, i64(b.lanes), work, rarely=rarely)


def each_of_first(b: LaneBuilder, count: Any, work: Callable[[Any], None], *, rolled: bool) -> None:
    """Emit work for as many lanes as there are threads left, an int32 above 0, one after the other.

    That they are fewer than the lanes is rare, unless it is `rolled`.
    """
    plain = b.plain
    # A loop that is rarely full stays one, with a count that is at most the number of lanes.
    if rolled:
        fewer = plain.icmp_signed("<", count, i32(b.lanes))
        _in_order(b, None, plain.zext(plain.select(fewer, count, i32(b.lanes)), I64), work, rarely=True)
        return
    every = plain.icmp_signed(">=", count, i32(b.lanes))
    with plain.if_else(every, likely=True) as (usual, rare):
        with usual:
            _in_order(b, None, i64(b.lanes), work, rarely=False)
        with rare:
            _in_order(b, None, plain.zext(count, I64), work, rarely=True)


def _in_order(b: LaneBuilder, row: Any, count: Any, work: Callable[[Any], None], *, rarely: bool) -> None:
    """Emit a loop over the first lanes; over the active ones, if there is a row with a mask."""
    plain = b.plain
    before = plain.block
    head, body, following, done = (plain.append_basic_block(n) for n in ("lane", "active", "next", "lanes"))
    plain.branch(head)
    plain.position_at_end(head)
    lane = plain.phi(I64)
    lane.add_incoming(i64(0), before)
    if row is None:
        plain.branch(body)
    else:
        on = plain.load(plain.gep(row, [lane], inbounds=True, source_etype=I8), typ=I8)
        plain.cbranch(plain.icmp_unsigned("!=", on, ir.Constant(I8, 0)), body, following)
    plain.position_at_end(body)
    work(lane)
    plain.branch(following)
    plain.position_at_end(following)
    after = plain.add(lane, i64(1))
    lane.add_incoming(after, plain.block)
    back = plain.cbranch(plain.icmp_unsigned("<", after, count), head, done)
    if rarely:
        not_unrolled(plain.module, back)
    plain.position_at_end(done)
