"""Fills, maps and parts of tiles as computations of elements and loops.

Each function takes the lowering (:mod:`lowering`) and an op; it emits the source of the result's elements, and ops in
the current region for operations that need memory. A tile whose elements are computed where they are read has no code
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT32, INT64, STORAGE_ONLY, Element, Tile, scalar_of, value_type
from diffkern.ir.views import Part
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import BufferRead, Computed, Source, Stored, elements

__all__ = ["OPS", "add_along", "changed", "checked"]


def _fill(low: Lowering, op: Op) -> None:
    t = op.result.type
    assert isinstance(t, Tile)
    value = low.value(op.operands[0])
    source = Computed(t.shape, t.dtype, lambda i: value, (), lambda i: value)
    if scalar_of(t) in STORAGE_ONLY:  # an element is what memory makes of the value
        low.fill(low.fresh(op.result), source)
    else:
        low.sources[op.result] = source


def _permute(low: Lowering, op: Op) -> None:
    source, axes, m = low.sources[op.operands[0]], op.attrs["axes"], low.m
    t = op.result.type
    assert isinstance(t, Tile)

    def at(index: Sequence[Value]) -> Value:
        return source.element(m, [index[axes.index(k)] for k in range(len(axes))])

    # A matrix product can read the original column by column instead of computing the transpose.
    transposed = source if isinstance(source, Stored) and tuple(axes) == (1, 0) else None
    _computed(low, op, at, source, transposed)


def _broadcast(low: Lowering, op: Op) -> None:
    source, m = low.sources[op.operands[0]], low.m

    def at(index: Sequence[Value]) -> Value:
        # Missing leading axes are dropped, and an axis of extent one is always read at 0.
        inner = index[len(index) - len(source.shape) :]
        return source.element(m, [m.i64(0) if n == 1 else i for i, n in zip(inner, source.shape, strict=True)])

    _computed(low, op, at, source)


def _view(low: Lowering, op: Op) -> None:
    source, m = low.sources[op.operands[0]], low.m
    starts = [m.wide(low.value(v)) for v in Part(op).index]
    steps, dtype = op.attrs["steps"], source.dtype

    def at(index: Sequence[Value]) -> Value:
        places, tests = [], []
        for i, start, step, n, extent in zip(index, starts, steps, op.attrs["shape"], source.shape, strict=True):
            offset = i if step == 1 else low.b.mul(i, m.i64(step))
            known = m.known.get(start)
            place = offset if known == 0 else low.b.add(start, offset)
            # Literal offsets that keep the view inside need no tests.
            if known is None or not 0 <= known + step * (n - 1) < extent or not 0 <= known < extent:
                tests += m.inside(place, extent)
            places.append(place)
        condition = m.every(tests)
        if condition is None:
            return source.element(m, places)
        zero = m.i64(0)
        # The read is redirected to the first element rather than skipped, which keeps the loop free of branches.
        value = source.element(m, [low.b.select(condition, p, zero) for p in places])
        return low.b.select(condition, value, low.b.zero(value_type(dtype)))

    _computed(low, op, at, source)


def _computed(low: Lowering, op: Op, at: object, source: Source, transposed: Stored | None = None) -> None:
    t = op.result.type
    assert isinstance(t, Tile)
    # Elements are read at other positions than they are written to, so the result must not overwrite the operand.
    leaves = tuple(BufferRead(leaf.buffer, False) for leaf in source.leaves())
    found = Computed(t.shape, t.dtype, at, leaves, transposed=transposed, cost=source.cost + 1)  # type: ignore[arg-type]
    low.sources[op.result] = found


def _reshape(low: Lowering, op: Op) -> None:
    """Reshape without moving memory; a tile without memory is computed by position, or gets memory here."""
    t = op.result.type
    assert isinstance(t, Tile)
    source, m = low.sources[op.operands[0]], low.m
    if isinstance(source, Stored):
        low.sources[op.result] = Stored(source.buffer, t.shape, t.dtype)
    elif source.is_flat:
        at_flat = source.at_flat
        assert at_flat is not None
        low.sources[op.result] = Computed(
            t.shape, t.dtype, lambda i: at_flat(m.flat(i, t.shape)), tuple(source.leaves()), at_flat, cost=source.cost
        )
    else:
        low.fill(Stored(low.fresh(op.result).buffer, source.shape, t.dtype), source)


def _map(low: Lowering, op: Op) -> None:
    sources = [low.sources.get(v) for v in op.operands]
    found = _mapped(low, op, sources)
    # Nothing is emitted: the single reader computes the elements itself.
    if op in low.uses.lazy:
        low.sources[op.result] = found[0]
        return
    # The buffers that the map reads, and whether at the same position, decide whether it may work in place.
    leaves = [leaf for s in sources if s is not None for leaf in s.leaves()]
    # In place over an operand that ends here, if every element is read at the position it is written to.
    targets = [low.reuse(r, op.operands, leaves) or low.fresh(r) for r in op.results]
    flat = all(f.is_flat for f in found)
    m, shape = low.m, op.attrs["shape"]

    def write(index: Sequence[Value], position: Value) -> None:
        values = _values(low, op, sources, index, position if flat else None)
        for target, value in zip(targets, values, strict=True):
            low.b.op("buffer_set", target.buffer, position, value)

    # Without indices one flat loop suffices, which vectorises best.
    if flat:
        m.cells(elements(shape), lambda i: write((), i))
    else:
        m.grid(shape, lambda index: write(index, m.flat(index, shape)))


def _values(
    low: Lowering, op: Op, sources: Sequence[Source | None], index: Sequence[Value], at: Value | None
) -> list[Value]:
    """Return the results of a map for one element, given by its indices or its position."""
    m, body = low.m, op.attrs["body"]
    skip = len(op.attrs["shape"]) if op.attrs["indexed"] else 0
    given = [low.b.cast(i, INT32) for i in index[:skip]]
    for v, s in zip(op.operands, sources, strict=True):
        given.append(low.value(v) if s is None else s.element(m, index) if at is None else s.element_at(m, at))
    return list(Cloner(low.b, {}).inline(body, given))


def _mapped(low: Lowering, op: Op, sources: Sequence[Source | None]) -> list[Computed]:
    flat = not op.attrs["indexed"] and all(s is None or s.is_flat for s in sources)
    leaves = tuple(leaf for s in sources if s is not None for leaf in s.leaves())
    shape = op.attrs["shape"]
    cost = len(op.attrs["body"].ops) + sum(s.cost for s in sources if s is not None)

    def result(k: int, dtype: Element) -> Computed:
        def at(index: Sequence[Value]) -> Value:
            return _values(low, op, sources, index, None)[k]

        def at_flat(position: Value) -> Value:
            return _values(low, op, sources, (), position)[k]

        return Computed(shape, dtype, at, leaves, at_flat if flat else None, cost=cost)

    return [result(k, dtype) for k, dtype in enumerate(op.attrs["dtypes"])]


def checked(low: Lowering, indices: Sequence[Value], shape: Sequence[int]) -> tuple[list[Value], Value | None]:
    """Return the indices of an element as int64, and the condition that it exists if that is not certain."""
    m = low.m
    wide = [m.wide(low.value(v)) for v in indices]
    tests = [t for i, n in zip(wide, shape, strict=True) for t in m.inside(i, n)]
    return wide, m.every(tests)


def _extract(low: Lowering, op: Op) -> None:
    source, m = low.sources[op.operands[0]], low.m
    index, condition = checked(low, Part(op).index, source.shape)

    def read() -> None:
        if condition is None:
            low.env[op.result] = source.element(m, index)
            return
        zero = m.i64(0)
        value = source.element(m, [low.b.select(condition, i, zero) for i in index])
        low.env[op.result] = low.b.select(condition, value, low.b.zero(value_type(source.dtype)))

    m.step(read)


def changed(low: Lowering, op: Op) -> Stored:
    """Return the memory of a tile that differs little from the first operand, holding that operand."""
    source = low.sources[op.operands[0]]
    target = low.reuse(op.result, op.operands[:1])
    if target is None:
        target = low.fresh(op.result)
        low.fill(target, source)
    return target


def _replace(low: Lowering, op: Op) -> None:
    target, value = changed(low, op), low.value(Part(op).value)
    index, condition = checked(low, Part(op).index, target.shape)

    def write() -> None:
        place, item = low.m.flat(index, target.shape), value
        if op.name == "tile_add_at":
            kind = op.attrs.get("kind", "add")
            item = low.b.one(kind, low.b.one("buffer_get", target.buffer, place), value)
        low.b.op("buffer_set", target.buffer, place, item)

    low.m.alone(write if condition is None else lambda: low.m.when(condition, write))


def _index_along(low: Lowering, indices: Source, extent: int) -> Callable[[Value], tuple[Value, Value]]:
    """Return a function from a position along an axis to the index stored there, and whether it is inside."""
    m = low.m

    def at(position: Value) -> tuple[Value, Value]:
        found = low.b.cast(indices.element(m, [position]), INT64)
        inside = m.every(m.inside(found, extent))
        assert inside is not None
        return found, inside

    return at


def _take(low: Lowering, op: Op) -> None:
    source, axis, m = low.sources[op.operands[0]], op.attrs["axis"], low.m
    target = low.fresh(op.result)
    where = _index_along(low, low.sources[op.operands[1]], source.shape[axis])

    def at(index: list[Value]) -> None:
        found, inside = where(index[axis])
        safe = low.b.select(inside, found, m.i64(0))
        item = source.element(m, [*index[:axis], safe, *index[axis + 1 :]])
        item = low.b.select(inside, item, low.b.zero(item.type))
        low.b.op("buffer_set", target.buffer, m.flat(index, target.shape), item)

    m.grid(target.shape, at)


def _add_along(low: Lowering, op: Op) -> None:
    add_along(low, op, lambda buffer, place, item: _add(low, buffer, place, item))


def _add(low: Lowering, buffer: Value, place: Value, item: Value) -> None:
    low.b.op("buffer_set", buffer, place, low.b.add(low.b.one("buffer_get", buffer, place), item))


def add_along(low: Lowering, op: Op, add: Callable[[Value, Value, Value], None]) -> None:
    """Add a part to a tile along an axis, by a function that adds to an element of a buffer."""
    m, axis = low.m, op.attrs["axis"]
    part, borrowed = low.stored(Part(op).value)
    target = changed(low, op)
    where = _index_along(low, low.sources[op.operands[2]], target.shape[axis])

    def at(index: list[Value]) -> None:
        found, inside = where(index[axis])
        item = part.element(m, index)

        def put() -> None:
            add(target.buffer, m.flat([*index[:axis], found, *index[axis + 1 :]], target.shape), item)

        m.when(inside, put)

    # Two positions may name the same element, so neighbours must not be added as one vector.
    m.grid(part.shape, at, ungrouped=True)
    low.give_back(borrowed)


def _insert(low: Lowering, op: Op) -> None:
    m = low.m
    part, borrowed = low.stored(Part(op).value)
    target = changed(low, op)
    starts, steps = [m.wide(low.value(v)) for v in Part(op).index], op.attrs["steps"]

    def at(index: list[Value]) -> None:
        places, tests = [], []
        for i, start, step, n, extent in zip(index, starts, steps, part.shape, target.shape, strict=True):
            place = low.b.add(start, i if step == 1 else low.b.mul(i, m.i64(step)))
            known = m.known.get(start)
            if known is None or not 0 <= known + step * (n - 1) < extent or not 0 <= known < extent:
                tests += m.inside(place, extent)
            places.append(place)

        def write() -> None:
            item = part.element(m, index)
            low.b.op("buffer_set", target.buffer, m.flat(places, target.shape), item)

        condition = m.every(tests)
        if condition is None:
            write()
        else:
            m.when(condition, write)

    m.grid(part.shape, at)
    low.give_back(borrowed)


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {
    "tile_fill": _fill,
    "tile_permute": _permute,
    "tile_broadcast": _broadcast,
    "tile_view": _view,
    "tile_reshape": _reshape,
    "tile_map": _map,
    "tile_extract": _extract,
    "tile_replace": _replace,
    "tile_add_at": _replace,
    "tile_take": _take,
    "tile_add_along": _add_along,
    "tile_insert": _insert,
}
