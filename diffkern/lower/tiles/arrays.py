"""Loads, stores and atomic updates of tiles as loops over elements.

Each function takes the lowering (:mod:`lowering`) and an op, and emits loops in the current region. One test decides
whether the whole tile lies inside the array (and, where threads of a block take groups of elements, whether these are
aligned); only if it does not is each element tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT64, value_type
from diffkern.ir.views import Access
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import Computed, Source

__all__ = ["OPS"]


def _place(low: Lowering, op: Op, shape: Sequence[int]) -> tuple[Value, list[Value], Value | None]:
    """Return the array, the offsets, and whether the whole tile lies inside."""
    m, array = low.m, low.value(Access(op).array)
    offsets = [m.wide(low.value(v)) for v in Access(op).index]
    tests = []
    for axis, (o, n) in enumerate(zip(offsets, shape, strict=True)):
        extent = m.wide(low.b.one("shape", array, axis=axis))
        known = m.known.get(o)
        # A literal offset that is not negative needs no lower test.
        if known is None or known < 0:
            tests.append(low.b.one("ge", o, m.i64(0)))
        tests.append(low.b.one("le", low.b.add(o, m.i64(n)), extent))
    return array, offsets, m.every(tests)


def _found(low: Lowering, op: Op) -> Callable[[Sequence[Value]], Sequence[Value]]:
    """Return a function from an element's index to its place behind the offset.

    Along one axis, a tile of indices may give the place.
    """
    axis = Access(op).along.get("along")
    if axis is None:
        return lambda index: index
    source = low.sources[Access(op).places[-1]]

    def at(index: Sequence[Value]) -> Sequence[Value]:
        place = low.b.cast(source.element(low.m, [index[axis]]), INT64)
        return [*index[:axis], place, *index[axis + 1 :]]

    return at


def _each_inside(
    low: Lowering, op: Op, shape: Sequence[int], visit: object, outside: object = None, *, grouped: bool = True
) -> None:
    """Visit every element of a tile with its place in the array; elements outside are left out.

    With ``grouped``, a thread of a block may take neighbouring elements as one.
    """
    m = low.m
    array, offsets, whole = _place(low, op, shape)
    found = _found(low, op)

    def places(index: Sequence[Value]) -> list[Value]:
        # Adding a literal zero is omitted, as the index is often one.
        return [o if m.known.get(i) == 0 else low.b.add(o, i) for o, i in zip(offsets, found(index), strict=True)]

    def fast(index: list[Value]) -> None:
        visit(array, places(index), index)  # type: ignore[operator]

    def slow(index: list[Value]) -> None:
        at = places(index)
        tests = []
        for axis, place in enumerate(at):
            tests += m.inside(place, m.wide(low.b.one("shape", array, axis=axis)))
        condition = m.every(tests)
        assert condition is not None
        if outside is not None:
            # Elements outside of the array read as zero; for stores there is nothing to do outside.
            outside(index)  # type: ignore[operator]
        m.when(condition, lambda: visit(array, at, index))  # type: ignore[operator]

    # A few elements, or elements at places of an index tile, are tested one by one: no whole test could decide for
    # them.
    if m.is_few(shape) or Access(op).along:
        m.grid(shape, slow, ungrouped=True)
        return
    assert whole is not None
    groups = grouped and m.takes_groups(array, shape)
    inside = m.aligned(array, offsets, whole) if groups else whole

    def aligned() -> None:
        with m.using_vectors(groups):
            m.grid(shape, fast, ungrouped=not groups)

    # Two versions of the loop: the fast one without tests, vectorised, and the one for tiles at the border.
    m.step(lambda: m.either(inside, aligned, lambda: m.grid(shape, slow, ungrouped=not groups)))


def _load(low: Lowering, op: Op) -> None:
    target = low.fresh(op.result)
    zero_of = value_type(target.dtype)

    def visit(array: Value, place: list[Value], index: list[Value]) -> None:
        value = low.b.one("load", array, *place, wrap=(False,) * len(place), **low.m.hints(array))
        low.b.op("buffer_set", target.buffer, low.m.flat(index, target.shape), value)

    def outside(index: list[Value]) -> None:
        low.b.op("buffer_set", target.buffer, low.m.flat(index, target.shape), low.b.zero(zero_of))

    _each_inside(low, op, target.shape, visit, outside)


def _written(low: Lowering, op: Op) -> tuple[Source, Value | None]:
    """Return the tile that is written to an array.

    A fused computation that is too long is stored once, rather than emitted on each of the two paths.
    """
    source = low.sources[Access(op).value]
    if isinstance(source, Computed) and source.reads and source.cost > low.made_twice:
        return low.stored(Access(op).value)
    return source, None


def _store(low: Lowering, op: Op) -> None:
    source, borrowed = _written(low, op)

    def visit(array: Value, place: list[Value], index: list[Value]) -> None:
        value = source.element(low.m, index)
        low.b.op("store", array, *place, value, wrap=(False,) * len(place), **low.m.hints(array))

    _each_inside(low, op, source.shape, visit)
    low.give_back(borrowed)


def _accumulate(low: Lowering, op: Op) -> None:
    source, borrowed = _written(low, op)
    # Elements that are found by a tile may be the same one, and the threads of a block come to them at once.
    mode = "atomic" if Access(op).along and low.m.shares else op.attrs["mode"]

    def visit(array: Value, place: list[Value], index: list[Value]) -> None:
        value, hints = source.element(low.m, index), low.m.hints(array)
        low.b.op("accumulate", array, *place, value, wrap=(False,) * len(place), mode=mode, **hints)

    _each_inside(low, op, source.shape, visit, grouped=mode == "plain")
    low.give_back(borrowed)


def _atomic(low: Lowering, op: Op) -> None:
    source, borrowed = _written(low, op)
    # The old values are stored only if something reads them, as that takes a buffer.
    used = bool(low.uses.last.get(op.result))
    target = low.fresh(op.result) if used else None
    kind = op.attrs["kind"]

    def visit(array: Value, place: list[Value], index: list[Value]) -> None:
        wrap = (False,) * len(place)
        old = low.b.one("atomic", array, *place, source.element(low.m, index), wrap=wrap, kind=kind)
        if target is not None:
            low.b.op("buffer_set", target.buffer, low.m.flat(index, target.shape), old)

    def outside(index: list[Value]) -> None:
        if target is not None:
            zero = low.b.zero(value_type(target.dtype))
            low.b.op("buffer_set", target.buffer, low.m.flat(index, target.shape), zero)

    _each_inside(low, op, source.shape, visit, outside, grouped=False)
    low.give_back(borrowed)


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {
    "tile_load": _load,
    "tile_store": _store,
    "tile_accumulate": _accumulate,
    "tile_atomic": _atomic,
}
