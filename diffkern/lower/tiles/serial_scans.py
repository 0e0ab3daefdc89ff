"""Reductions, scans and sorts of tiles as loops.

Each function takes the lowering (:mod:`lowering`) and an op, and emits loops in the current region, and the source of
the result's elements. Sums have no specified order, so that a target may keep several partial sums. Extrema have one,
for NaN and ties, so several of them are kept in memory, side by side. A sort of few keys counts for each how many come
before it; for more, sorted runs are merged; many are sorted by their digits (:mod:`radix`). Equal keys keep their
order, and keys that are not a number come last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT32, INT64, Element, Kind, Scalar, Tile, value_type
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.radix import digits, radix_sort
from diffkern.lower.tiles.source import Source, Stored, elements

__all__ = ["OPS", "better", "combine", "comes_before", "counting_sort", "neutral", "sort"]

_COUNTED: Final = 32
"""Up to so many keys each finds its place by counting."""
_RUN: Final = 32
"""Keys of a run that is sorted by counting."""
_KEYS_PER_DIGIT: Final = 64
"""So many keys, for each digit of 8 bits that a key has, are sorted by digits."""
_SCANNED: Final = 8
"""Neighbours that are scanned together."""
_SIDE_BY_SIDE: Final = 16
"""Extrema that are kept side by side, which is one vector of 512 bits: more would be a loop, and not in registers."""


def combine(low: Lowering, kind: str, a: Value, b: Value) -> Value:
    """Return the combination of two elements of a reduction."""
    if kind != "add":
        return low.b.one(kind, a, b)
    # With this attribute LLVM may keep partial sums in lanes.
    return low.b.one("add", a, b, reassoc=True)


def better(b: Builder, kind: str, value: Value, best: Value) -> Value:
    """Return whether a value is smaller, or greater, than the best; NaN is both."""
    found = b.one("lt" if kind == "min" else "gt", value, best)
    if isinstance(value.type, Scalar) and value.type.is_float:
        first_nan = b.one("and", b.one("isnan", value), b.one("not", b.one("isnan", best)))
        found = b.one("or", found, first_nan)
    return found


def _reduce(low: Lowering, op: Op) -> None:
    source, kind, axis = low.sources[op.operands[0]], op.attrs["kind"], op.attrs["axis"]
    target = low.fresh(op.result)

    def reduce() -> None:
        if axis is None or source.shape == (source.shape[axis],):
            total = _whole(low, source, kind)
            low.b.op("buffer_set", target.buffer, low.m.i64(0), total)
        elif axis == len(source.shape) - 1:
            _last_axis(low, source, target, kind)
        else:
            _inner_axis(low, source, target, kind, axis)

    low.m.alone(reduce)


def _whole(low: Lowering, source: Source, kind: str) -> Value:
    m = low.m
    if kind != "add" and source.is_flat and _in_parts(source.dtype, elements(source.shape)):
        return _extremum(low, kind, source.dtype, elements(source.shape), lambda i: source.element_at(m, i))
    start = _start(low, source, kind, [m.i64(0)] * len(source.shape))
    if source.is_flat:
        size = elements(source.shape)

        def one(i: Value, so_far: list[Value]) -> Sequence[Value]:
            return (combine(low, kind, so_far[0], source.element_at(m, i)),)

        return m.loop(0, size, one, (start,), in_turn=kind != "add")[0]

    def at(index: list[Value], so_far: list[Value]) -> Sequence[Value]:
        return (combine(low, kind, so_far[0], source.element(m, index)),)

    return m.nest(source.shape, at, (start,))[0]


def _in_parts(dtype: Element, size: int) -> bool:
    """Return whether an extremum of so many elements is found from several side by side."""
    return isinstance(dtype, Scalar) and size >= 2 * _SIDE_BY_SIDE


def _extremum(low: Lowering, kind: str, dtype: Element, size: int, read: Callable[[Value], Value]) -> Value:
    """Return the extremum of many elements, in independent parts: in one chain each waits for a comparison."""
    m, b, count = low.m, low.b, _SIDE_BY_SIDE
    parts = low.allocate(value_type(dtype), count)
    least = neutral(b, kind, dtype)

    def combined(first: Value) -> Callable[[Value], None]:
        def one(k: Value) -> None:
            found = b.one(kind, b.one("buffer_get", parts, k), read(b.add(first, k)))
            b.op("buffer_set", parts, k, found)

        return one

    def whole(i: Value, _: list[Value]) -> Sequence[Value]:
        m.cells(count, combined(b.mul(i, m.i64(count))))
        return ()

    def halved(half: int) -> Callable[[Value], None]:
        def one(k: Value) -> None:
            pair = (b.one("buffer_get", parts, i) for i in (k, b.add(k, m.i64(half))))
            b.op("buffer_set", parts, k, b.one(kind, *pair))

        return one

    m.cells(count, lambda k: void(b.op("buffer_set", parts, k, least)))
    m.loop(0, size // count, whole)
    # The rest that does not fill all parts.
    if size % count:
        m.cells(size % count, combined(m.i64(size // count * count)))
    while count > 1:
        count //= 2
        m.cells(count, halved(count))
    found = b.one("buffer_get", parts, m.i64(0))
    low.release(parts)
    return found


def _start(low: Lowering, source: Source, kind: str, index: list[Value]) -> Value:
    """Return the start of a reduction: 0, or an element itself, which changes neither a minimum nor a maximum."""
    return low.b.zero(value_type(source.dtype)) if kind == "add" else source.element(low.m, index)


def _last_axis(low: Lowering, source: Source, target: Stored, kind: str) -> None:
    m, outer = low.m, source.shape[:-1]

    def total(index: list[Value]) -> Value:
        if kind != "add" and _in_parts(source.dtype, source.shape[-1]):
            return _extremum(low, kind, source.dtype, source.shape[-1], lambda i: source.element(m, [*index, i]))
        start = _start(low, source, kind, [*index, m.i64(0)])

        def one(i: Value, so_far: list[Value]) -> Sequence[Value]:
            return (combine(low, kind, so_far[0], source.element(m, [*index, i])),)

        return m.loop(0, source.shape[-1], one, (start,), in_turn=kind != "add")[0]

    def row(index: list[Value], _: list[Value]) -> Sequence[Value]:
        low.b.op("buffer_set", target.buffer, m.flat(index, outer), total(index))
        return ()

    m.nest(outer, row)


def _inner_axis(low: Lowering, source: Source, target: Stored, kind: str, axis: int) -> None:
    """Emit a reduction in which rows are combined with rows, so that the innermost loop runs along memory."""
    m = low.m
    before, after = source.shape[:axis], source.shape[axis + 1 :]

    def visit(combine: bool, k: Value) -> None:
        def at(index: list[Value], _: list[Value]) -> Sequence[Value]:
            value = source.element(m, [*index[:axis], k, *index[axis:]])
            place = m.flat(index, target.shape)
            if combine:
                value = low.b.one(
                    "add" if kind == "add" else kind, low.b.one("buffer_get", target.buffer, place), value
                )
            low.b.op("buffer_set", target.buffer, place, value)
            return ()

        m.nest((*before, *after), at)

    # The first row initialises the result, so no neutral element is needed.
    visit(False, m.i64(0))

    def layer(k: Value, _: list[Value]) -> Sequence[Value]:
        visit(True, k)
        return ()

    m.loop(1, source.shape[axis], layer)


def _argreduce(low: Lowering, op: Op) -> None:
    """Emit a search for the first position of the smallest or greatest element; NaN is both, as in reductions."""
    source, kind, axis = low.sources[op.operands[0]], op.attrs["kind"], op.attrs["axis"]
    target, m, b = low.fresh(op.result), low.m, low.b

    def search(read: Callable[[Value], Value], size: int) -> Value:
        def one(i: Value, so_far: list[Value]) -> Sequence[Value]:
            value = read(i)
            wins = better(b, kind, value, so_far[0])
            return (b.select(wins, value, so_far[0]), b.select(wins, b.cast(i, INT32), so_far[1]))

        return m.loop(0, size, one, (read(m.i64(0)), b.i32(0)), in_turn=True)[1]

    if axis is None:
        whole, borrowed = low.stored(op.operands[0])
        size = elements(whole.shape)
        method = partial(_position, low, kind, whole.dtype) if _in_parts(whole.dtype, size) else search
        m.alone(
            lambda: void(b.op("buffer_set", target.buffer, m.i64(0), method(lambda i: whole.element_at(m, i), size)))
        )
        low.give_back(borrowed)
        return
    if axis < len(source.shape) - 1:
        m.alone(lambda: _position_in_layers(low, source, target, kind, axis))
        return
    rest, size, borrowed, along = source.shape[:axis], source.shape[axis], None, search
    if _in_parts(source.dtype, size):
        along = partial(_position, low, kind, source.dtype)
        # Elements are read twice.
        if source.cost:
            source, borrowed = low.stored(op.operands[0])

    def at(index: list[Value], _: list[Value]) -> Sequence[Value]:
        found = along(lambda k: source.element(m, [*index, k]), size)
        b.op("buffer_set", target.buffer, m.flat(index, rest) if index else m.i64(0), found)
        return ()

    m.alone(lambda: void(m.nest(rest, at)))
    low.give_back(borrowed)


def _position_in_layers(low: Lowering, source: Source, target: Stored, kind: str, axis: int) -> None:
    """Find positions along an axis that is not the last: rows are compared with rows, along memory."""
    m, b = low.m, low.b
    before, after = source.shape[:axis], source.shape[axis + 1 :]
    rest = (*before, *after)
    best = low.allocate(value_type(source.dtype), elements(rest))

    def visit(k: Value, index: list[Value], first: bool) -> Sequence[Value]:
        value, place = source.element(m, [*index[:axis], k, *index[axis:]]), m.flat(index, rest)
        if not first:
            old = b.one("buffer_get", best, place)
            wins = better(b, kind, value, old)
            value = b.select(wins, value, old)
            k = b.select(wins, b.cast(k, INT32), b.one("buffer_get", target.buffer, place))
        b.op("buffer_set", best, place, value)
        b.op("buffer_set", target.buffer, place, b.i32(0) if first else k)
        return ()

    def layer(k: Value, _: list[Value]) -> Sequence[Value]:
        m.nest(rest, lambda index, _: visit(k, index, False))
        return ()

    m.nest(rest, lambda index, _: visit(m.i64(0), index, True))
    m.loop(1, source.shape[axis], layer)
    low.release(best)


def _position(low: Lowering, kind: str, dtype: Element, read: Callable[[Value], Value], size: int) -> Value:
    """Return the first position of the extremum of many elements, which is found before; a NaN equals any NaN."""
    b = low.b
    best, nowhere = _extremum(low, kind, dtype, size, read), b.const(2**31 - 1, INT32)

    # With the extremum known, the search for its position has no dependence from element to element.
    def one(i: Value, so_far: list[Value]) -> Sequence[Value]:
        value = read(i)
        here = b.one("eq", value, best)
        if isinstance(value.type, Scalar) and value.type.is_float:
            here = b.one("or", here, b.one("isnan", value))
        return (b.one("min", so_far[0], b.select(here, b.cast(i, INT32), nowhere)),)

    return low.m.loop(0, size, one, (nowhere,))[0]


def void(_: object) -> None:
    """Ignore a value, and return None."""


def neutral(b: Builder, kind: str, dtype: Element) -> Value:
    """Return the neutral element of a scan."""
    t = value_type(dtype)
    assert isinstance(t, Scalar)
    if kind == "add":
        return b.zero(t)
    least, greatest = (-math.inf, math.inf) if t.is_float else _range(t)
    return b.const(least if kind == "max" else greatest, t)


def _range(t: Scalar) -> tuple[int, int]:
    """Return the smallest and the greatest number of an integer type."""
    above = 1 << (t.bits if t.kind is Kind.UINT else t.bits - 1)
    return (0 if t.kind is Kind.UINT else -above), above - 1


def _scan(low: Lowering, op: Op) -> None:
    source, borrowed = low.stored(op.operands[0])
    target, m, kind = low.fresh(op.result), low.m, op.attrs.get("kind", "add")
    exclusive, backwards = op.attrs["exclusive"], op.attrs["backwards"]

    size, b = elements(source.shape), low.b
    start = neutral(b, kind, source.dtype)

    def several(first: Value, count: int, before: Value) -> Value:
        """Scan neighbours: only the last step waits for what stands before them."""
        order = range(count)[::-1] if backwards else range(count)
        places = [b.add(first, m.i64(k)) for k in order]
        own = list(itertools.accumulate((source.element_at(m, i) for i in places), partial(b.one, kind)))
        totals = [before, *(b.one(kind, before, x) for x in own)]
        for i, total in zip(places, totals if exclusive else totals[1:], strict=False):
            b.op("buffer_set", target.buffer, i, total)
        return totals[-1]

    def group(i: Value, so_far: list[Value]) -> Sequence[Value]:
        return (several(b.mul(i, m.i64(_SCANNED)), _SCANNED, so_far[0]),)

    def scan() -> None:
        groups, rest = divmod(size, _SCANNED)
        total = start
        if rest and backwards:
            total = several(m.i64(groups * _SCANNED), rest, total)
        (total,) = m.loop(0, groups, group, (total,), down=backwards, in_turn=True)
        if rest and not backwards:
            several(m.i64(groups * _SCANNED), rest, total)

    m.alone(scan)
    low.give_back(borrowed)


def comes_before(b: Builder, x: Value, i: Value, y: Value, k: Value) -> Value:
    """Return whether a key x from position i comes before a key y from position k; NaN comes last."""
    less, equal = sorts_before(b, x, y), b.one("eq", x, y)
    if isinstance(x.type, Scalar) and x.type.is_float:
        equal = b.one("or", equal, b.one("and", b.one("isnan", x), b.one("isnan", y)))
    return b.one("or", less, b.one("and", equal, b.one("lt", i, k)))


def sorts_before(b: Builder, x: Value, y: Value) -> Value:
    """Return whether a key sorts before another regardless of their positions."""
    less = b.one("lt", x, y)
    if isinstance(x.type, Scalar) and x.type.is_float:
        less = b.one("or", less, b.one("and", b.one("isnan", y), b.one("not", b.one("isnan", x))))
    return less


def _sort(low: Lowering, op: Op) -> None:
    t = op.results[0].type
    assert isinstance(t, Tile)
    places = digits(t.dtype)
    by_digits = places is not None and t.size >= _KEYS_PER_DIGIT * places
    sort(low, op, radix_sort if by_digits else counting_sort if t.size <= _COUNTED else _merge_sort)


def sort(low: Lowering, op: Op, method: Callable[[Any, Stored, Stored, Sequence[Stored]], None]) -> None:
    """Sort by a method, which writes the keys, the values and their origins to three places."""
    keys, borrowed = low.stored(op.operands[0])
    values, borrowed_values = low.stored(op.operands[1])
    method(low, keys, values, [low.fresh(r) for r in op.results])
    low.give_back(borrowed)
    low.give_back(borrowed_values)


def counting_sort(low: Lowering, keys: Stored, values: Stored, targets: Sequence[Stored]) -> None:
    """Put each key to the position given by the number of keys before it."""
    m, b, size = low.m, low.b, elements(keys.shape)

    def put(k: Value) -> None:
        place = _rank(low, keys, k, m.i64(0), m.i64(size))
        b.op("buffer_set", targets[0].buffer, place, keys.element_at(m, k))
        b.op("buffer_set", targets[1].buffer, place, values.element_at(m, k))
        b.op("buffer_set", targets[2].buffer, place, b.cast(k, INT32))

    m.cells(size, put, ungrouped=True)


def _rank(low: Lowering, keys: Stored, k: Value, first: Value, end: Value) -> Value:
    """Return how many keys of a range come before one of them."""
    m, b = low.m, low.b
    key = keys.element_at(m, k)

    def count(i: Value, so_far: list[Value]) -> Sequence[Value]:
        comes = comes_before(b, keys.element_at(m, i), i, key, k)
        return (b.add(so_far[0], b.select(comes, b.const(1, INT64), b.const(0, INT64))),)

    return m.loop(first, end, count, (b.const(0, INT64),))[0]


def _merge_sort(low: Lowering, keys: Stored, values: Stored, targets: Sequence[Stored]) -> None:
    """Merge runs that are sorted by counting, alternating between the halves of memory of twice the size."""
    m, b, size = low.m, low.b, elements(keys.shape)
    sorted_keys, order = low.allocate(keys.dtype, 2 * size), low.allocate(INT32, 2 * size)
    whole, shift = m.i64(size), (_RUN - 1).bit_length()

    def start(k: Value) -> None:
        # A run begins at a multiple of its length, which is a power of two.
        first = b.sub(k, b.one("and", k, m.i64(_RUN - 1)))
        rank = _rank(low, keys, k, first, b.one("min", b.add(first, m.i64(_RUN)), whole))
        b.op("buffer_set", sorted_keys, b.add(first, rank), keys.element_at(m, k))
        b.op("buffer_set", order, b.add(first, rank), b.cast(k, INT32))

    def passed(n: Value, _: list[Value]) -> Sequence[Value]:
        # Odd passes read the upper half and write the lower one.
        odd = b.one("and", n, m.i64(1))
        source = b.mul(odd, whole)
        target = b.sub(whole, source)
        width = b.one("shl", m.i64(_RUN), n)
        pairs = b.one("shr", b.add(whole, b.sub(b.mul(width, m.i64(2)), m.i64(1))), b.add(n, m.i64(shift + 1)))

        def pair(p: Value, _: list[Value]) -> Sequence[Value]:
            first = b.mul(p, b.mul(width, m.i64(2)))
            middle = b.one("min", b.add(first, width), whole)
            end = b.one("min", b.add(middle, width), whole)

            def one(out: Value, at: list[Value]) -> Sequence[Value]:
                left, right = at
                # Past the end of a run the position is clamped; what it reads is not used.
                places = [b.add(source, b.one("min", i, m.i64(size - 1))) for i in at]
                x, y = (b.one("buffer_get", sorted_keys, i) for i in places)
                # The left run's key goes first unless the right one's is smaller, which keeps equal keys in order.
                waits = b.one("and", b.one("lt", left, middle), b.one("not", sorts_before(b, y, x)))
                takes = b.one("and", b.one("lt", right, end), b.one("not", waits))
                place, step = b.select(takes, places[1], places[0]), b.select(takes, m.i64(1), m.i64(0))
                b.op("buffer_set", sorted_keys, b.add(target, out), b.select(takes, y, x))
                b.op("buffer_set", order, b.add(target, out), b.one("buffer_get", order, place))
                return (b.sub(b.add(left, m.i64(1)), step), b.add(right, step))

            m.loop(first, end, one, (first, middle))
            return ()

        m.loop(0, pairs, pair)
        return ()

    m.cells(size, start)
    passes = (-(-size // _RUN) - 1).bit_length()
    m.loop(0, passes, passed)
    # After an odd number of passes the result is in the upper half.
    last = m.i64(size if passes % 2 else 0)

    def put(i: Value) -> None:
        place = b.add(last, i)
        origin = b.one("buffer_get", order, place)
        b.op("buffer_set", targets[0].buffer, i, b.one("buffer_get", sorted_keys, place))
        b.op("buffer_set", targets[1].buffer, i, values.element_at(m, b.cast(origin, INT64)))
        b.op("buffer_set", targets[2].buffer, i, origin)

    m.cells(size, put)
    low.release(sorted_keys)
    low.release(order)


def _scatter(low: Lowering, op: Op) -> None:
    """Set element ``order[k]`` of the result to element k."""
    source, borrowed = low.stored(op.operands[0])
    order, borrowed_order = low.stored(op.operands[1])
    target, m, b = low.fresh(op.result), low.m, low.b

    def one(k: Value) -> None:
        place = b.cast(order.element_at(m, k), INT64)
        b.op("buffer_set", target.buffer, place, source.element_at(m, k))

    m.cells(elements(source.shape), one)
    low.give_back(borrowed)
    low.give_back(borrowed_order)


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {
    "tile_reduce": _reduce,
    "tile_argreduce": _argreduce,
    "tile_scan": _scan,
    "tile_sort": _sort,
    "tile_scatter": _scatter,
}
