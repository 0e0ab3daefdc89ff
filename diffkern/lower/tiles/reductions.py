"""Reductions of tiles by the threads of a block.

Each function takes the lowering for blocks (:mod:`block_lowering`) and an op, and emits shared work in the current
region, and the source of the result. A reduction of a whole tile is a value that all threads know: elements are
distributed cyclically over the threads, each combines its own, the lanes of a warp combine theirs by shuffles, and then
all threads combine the results of the warps. Along an axis, groups of threads share an element of the result and leave
parts in memory, each of which is combined by one thread.

Sums have another order than on one thread, so floats may differ in their last digits. Of several smallest or greatest
elements the first is found, whatever the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT32, STORAGE_ONLY, Element, scalar_of, value_type
from diffkern.lower.tiles.block_lowering import BlockLowering
from diffkern.lower.tiles.serial_scans import better, combine
from diffkern.lower.tiles.source import Computed, Source, Stored, elements
from diffkern.process.dataclass import dataclass

__all__ = ["OPS", "WARP", "across_warp"]

WARP: Final = 32
_ALIKE: Final = 32
"""Up to so many elements in memory all threads go through alike: that takes no barrier."""
_ALIKE_COMPUTED: Final = 4
"""The same of elements that have to be computed."""
_PARTS: Final = 512
"""About how many parts a reduction along an axis is cut into."""

State = list[Value]


@dataclass(frozen=True)
class _Fold:
    """The operation of a reduction: on elements, or with ``arg`` on pairs of an element and its position."""

    low: BlockLowering
    kind: str
    arg: bool
    dtype: Element

    @property
    def types(self) -> tuple[Element, ...]:
        """The types of the components of a state."""
        return (value_type(self.dtype), INT32) if self.arg else (value_type(self.dtype),)

    def state(self, value: Value, position: Value) -> State:
        """Return the state of one element."""
        return [value, self.low.b.cast(position, INT32)] if self.arg else [value]

    def join(self, left: State, right: State) -> State:
        b = self.low.b
        if not self.arg:
            return [combine(self.low, self.kind, left[0], right[0])]
        # The earlier position wins a tie, so the result does not depend on how elements are distributed.
        wins = better(b, self.kind, right[0], left[0])
        loses = better(b, self.kind, left[0], right[0])
        earlier = b.one("and", b.one("not", loses), b.one("lt", right[1], left[1]))
        wins = b.one("or", wins, earlier)
        return [b.select(wins, y, x) for x, y in zip(left, right, strict=True)]


def _reduce(low: BlockLowering, op: Op) -> None:
    _fold(low, op, arg=False)


def _argreduce(low: BlockLowering, op: Op) -> None:
    _fold(low, op, arg=True)


def _fold(low: BlockLowering, op: Op, *, arg: bool) -> None:
    source, axis = low.sources[op.operands[0]], op.attrs["axis"]
    if op.attrs.get("share"):
        _known_to_all(low, op, _own_share(low, source))
        return
    fold = _Fold(low, op.attrs["kind"], arg, source.dtype)
    if axis is None or source.shape == (source.shape[axis],):
        _known_to_all(low, op, _whole(fold, source)[-1])
    else:
        _along(fold, source, axis, low.fresh(op.result))


def _known_to_all(low: BlockLowering, op: Op, value: Value) -> None:
    """Make a tile of one element that every thread holds."""
    # The tile's element is what memory makes of the value, so it is stored and read back.
    if scalar_of(op.result.type) in STORAGE_ONLY:
        target = low.fresh(op.result)
        low.m.alone(lambda: low.void(low.b.op("buffer_set", target.buffer, low.m.i64(0), value)))
        return
    t = op.result.type
    low.sources[op.result] = Computed((1,), t.dtype, lambda i: value, (), lambda i: value)  # type: ignore[union-attr]


def reader(low: BlockLowering, source: Source) -> Callable[[Value], Value]:
    """Return a function that reads the element at a row-major position."""
    m = low.m
    if source.is_flat:
        return lambda i: source.element_at(m, i)
    return lambda i: source.element(m, m.split(i, source.shape))


def across_warp(low: BlockLowering, mine: State, join: Callable[[State, State], State]) -> State:
    """Return the combination of the states of a warp's threads up to this one, from left to right."""
    b, m = low.b, low.m
    lane = b.one("and", m.thread, m.i64(WARP - 1))
    distance = 1
    # Hillis and Steele: in each step a lane combines with one twice as far to the left.
    while distance < WARP:
        others = [b.one("lane_left", v, distance=distance) for v in mine]
        there = b.one("ge", lane, m.i64(distance))
        mine = [b.select(there, x, v) for x, v in zip(join(others, mine), mine, strict=True)]
        distance *= 2
    return mine


def _own_share(low: BlockLowering, source: Source) -> Value:
    """Return the sum of the elements that are distributed to a thread."""
    m, b, read = low.m, low.b, reader(low, source)
    found: list[Value] = []

    def add(i: Value, so_far: State) -> State:
        return [combine(low, "add", so_far[0], read(i))]

    m.step(lambda: found.extend(m.dealt(elements(source.shape), add, [b.zero(value_type(source.dtype))])))
    return found[0]


def _whole(fold: _Fold, source: Source) -> State:
    low = fold.low
    m, b, size, read = low.m, low.b, elements(source.shape), reader(low, source)
    found: State = []

    def one(i: Value, so_far: State) -> State:
        return fold.join(so_far, fold.state(read(i), i))

    def alike() -> None:
        found.extend(m.loop(1, size, one, fold.state(read(m.i64(0)), m.i64(0))))

    if size <= (_ALIKE if isinstance(source, Stored) else _ALIKE_COMPUTED):
        m.step(alike)
        return found
    scratch = [low.allocate(t, WARP) for t in fold.types]

    def dealt() -> None:
        first = m.i64(0)
        # A thread without elements adds 0, or offers the first one again.
        neutral = [b.zero(fold.types[0])] if fold.kind == "add" else fold.state(read(first), first)
        mine = list(m.dealt(size, one, neutral))
        mine = across_warp(low, mine, fold.join)
        lane = b.one("and", m.thread, m.i64(WARP - 1))
        last = b.one("eq", lane, m.i64(WARP - 1))
        # The last lane of each warp has its total; the last thread of the block may end an incomplete warp.
        last = b.one("or", last, b.one("eq", m.thread, b.sub(m.count, m.i64(1))))
        warp = b.one("shr", m.thread, m.i64(5))

        def leave() -> None:
            for buffer, v in zip(scratch, mine, strict=True):
                b.op("buffer_set", buffer, warp, v)

        m.when(last, leave)

    def gathered() -> None:
        warps = b.one("shr", b.add(m.count, m.i64(WARP - 1)), m.i64(5))
        # With fewer elements than threads the last warps have none.
        if size < WARP * WARP:
            warps = b.one("min", warps, m.i64(-(-size // WARP)))

        def of(warp: Value) -> State:
            return [b.one("buffer_get", buffer, warp) for buffer in scratch]

        found.extend(m.loop(1, warps, lambda w, so_far: fold.join(so_far, of(w)), of(m.i64(0))))

    m.step(dealt)
    m.step(gathered)
    for buffer in scratch:
        low.release(buffer)
    return found


def _groups(results: int, size: int) -> int:
    """Return how many threads share an element of the result: a power of 2."""
    groups = 1
    # More threads per result shorten the loops, but each leaves a part that one thread has to combine.
    while groups < WARP and 4 * groups <= size and 2 * groups * results <= _PARTS:
        groups *= 2
    return groups


def _along(fold: _Fold, source: Source, axis: int, target: Stored) -> None:
    """Reduce along an axis; neighbouring threads read neighbours: of one row on the last axis, else of several."""
    low = fold.low
    m, b, size = low.m, low.b, source.shape[axis]
    rest = source.shape[:axis] + source.shape[axis + 1 :]
    results = elements(rest)
    groups, last = _groups(results, size), axis == len(source.shape) - 1
    # An odd pitch spreads the parts over the banks of shared memory.
    pitch = groups + 1
    parts = [low.allocate(t, results * pitch if last else results * groups) for t in fold.types] if groups > 1 else []

    def place(result: Value, group: Value) -> Value:
        if last:
            return b.add(b.mul(result, m.i64(pitch)), group)
        return b.add(b.mul(group, m.i64(results)), result)

    def part(position: Value) -> None:
        group, result = m.split(position, (groups, results)) if not last else m.split(position, (results, groups))[::-1]
        index = m.split(result, rest)

        def at(k: Value) -> State:
            return fold.state(source.element(m, [*index[:axis], k, *index[axis:]]), k)

        mine = m.loop(b.add(group, m.i64(groups)), size, lambda k, s: fold.join(s, at(k)), at(group), step=groups)
        if groups == 1:
            b.op("buffer_set", target.buffer, result, mine[-1])
            return
        for buffer, v in zip(parts, mine, strict=True):
            b.op("buffer_set", buffer, place(result, group), v)

    def joined(result: Value) -> None:
        def of(group: Value) -> State:
            return [b.one("buffer_get", buffer, place(result, group)) for buffer in parts]

        total = m.loop(1, groups, lambda g, s: fold.join(s, of(g)), of(m.i64(0)))
        b.op("buffer_set", target.buffer, result, total[-1])

    m.cells(results * groups, part, ungrouped=True)
    if groups > 1:
        m.cells(results, joined)
    for buffer in parts:
        low.release(buffer)


OPS: Final[Mapping[str, Callable[[BlockLowering, Op], None]]] = {
    "tile_reduce": _reduce,
    "tile_argreduce": _argreduce,
}
