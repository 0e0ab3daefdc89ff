"""Tiles and arrays: loading, storing and adding tiles, whole parts of an array or elements that indices name.

A call becomes an op that accesses an array by a tile. A tile lies in an array from an offset on; along one axis, a tile
of integers may say behind the offset where each of its elements stands instead.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from diffkern.frontend.builtins import folded, local
from diffkern.frontend.terms import views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, Fixed, RecView, Static, Term, Val, View, describe
from diffkern.frontend.tiles.tile_terms import (
    Call,
    StructMet,
    TileCall,
    as_indices,
    axis_argument,
    checked_size,
    index_values,
    origin,
    reshaped,
    shape_text,
    tile_type,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.scalar import LITERALS
from diffkern.process.dataclass import dataclass

__all__ = ["CALLS"]

# Each row is an op of its own in the program, so many of them take long to compile.
_MOST_ROWS: Final = 64


# -- where a tile lies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    """An axis of a tile, and the tile of indices by which its elements are found."""

    axis: int
    indices: Value


@dataclass(frozen=True, slots=True)
class _TilePlace:
    """The place of a tile in an array: offsets in the array itself, and the shape with 1 for axes that are indexed.

    ``limits`` is for axes that are cut, of which something may stand in the array but not in the slice: by the tile's
    axis, where it begins in the slice, and how long that is. ``chosen`` counts axes of the array. ``rows`` are more
    axes by indices: along these an op takes one element.
    """

    base: Value
    offsets: tuple[Value, ...]
    shape: tuple[int, ...]
    limits: Mapping[int, tuple[Value, Value]]
    chosen: _Chosen | None
    rows: tuple[_Chosen, ...] = ()

    @property
    def operands(self) -> tuple[Value, ...]:
        """The operands of an op behind its array."""
        return self.offsets if self.chosen is None else (*self.offsets, self.chosen.indices)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of its op that belong to the operands."""
        return {} if self.chosen is None else {"along": self.chosen.axis}


def _array(cx: Context, node: ast.expr, term: Term, shape: Sequence[int], name: str) -> View:
    if isinstance(term, RecView):
        raise StructMet
    if not isinstance(term, View):
        cx.type_error(node, f"{name} needs an array, not {describe(term)}", "pass the array first, without an index")
    views.check_null(cx, term)
    # Unlike single elements, whole tiles have no guard for a null array.
    if term.present is not None or views.is_unset(cx, term):
        cx.type_error(
            node,
            f"{name} of an array that some path has not set",
            "set it before, on all paths, or load and store its elements in a loop",
        )
    if local.is_local(term):
        _refuse_local(cx, node, name)
    if term.array.outer:
        cx.type_error(
            node,
            f"{name} of an array in an element of an array",
            "load and store its elements in a loop, or pass the array as a parameter of its own",
        )
    if len(term.spans) != len(shape):
        cx.type_error(
            node,
            f"{name}: the array has {views.count_axes(term)} and the tile has shape {shape_text(shape)}",
            "give one extent for each axis, or index the array first, as in a[i]",
        )
    if any(span.through is not None for span in term.spans):
        cx.type_error(
            node,
            f"{name} of an indexed array",
            "load the elements in a loop, or make a copy on the host with contiguous()",
        )
    return term


def _refuse_local(cx: Context, node: ast.expr, name: str) -> NoReturn:
    remedy = "the threads of a block share tiles, and load them from arrays"
    cx.type_error(node, f"{name} of an array of a thread", remedy)


def _place(
    cx: Context,
    node: ast.expr,
    shape: Sequence[int],
    offset: ast.expr | None,
    name: str,
    chosen: _Chosen | None = None,
    *,
    within: bool = False,
) -> _TilePlace:
    """Return the place of a tile; with ``within``, indices leave out what lies outside of a slice, if the array does
    not.
    """
    array = cx.expr(node)
    if (whole := folded.folded(array)) is not None:
        return _folded_place(cx, node, whole, shape, offset, name, chosen)
    view = _array(cx, node, array, shape, name)
    starts = _starts(cx, offset, len(shape))
    given = enumerate(zip(starts, shape, strict=True))
    offsets, full, found = [], [], []
    limits: dict[int, tuple[Value, Value]] = {}
    for axis, part in enumerate(view.axes):
        if isinstance(part, Fixed):
            offsets.append(_index(cx, view, axis, part))
            full.append(1)
            continue
        k, (start, extent) = next(given)
        full.append(extent)
        indices = chosen.indices if chosen is not None and chosen.axis == k else None
        # A slice up to the array's end is cut by the bounds check of the array itself.
        outside = part.start is not None and not (part.to_end and _is_nonnegative(cx, start))
        # A step, or indices into a slice, need a position for each element.
        if part.step != 1 or (part.start is not None and indices is not None) or (outside and within):
            indices, start = _positions(cx, part, start, extent, indices), cx.b.i32(0)
        elif part.start is not None:
            if outside:
                limits[k] = start, part.length()
            start = cx.b.add(part.start, start)
        # A load of what stands beside the slice is harmless, and zeroed afterwards.
        offsets.append(start)
        if indices is not None:
            found.append(_Chosen(axis, indices))
    return _TilePlace(view.base, tuple(offsets), tuple(full), limits, *_along(cx, node, found, full, name))


def _along(
    cx: Context, node: ast.expr, found: list[_Chosen], full: Sequence[int], name: str
) -> tuple[_Chosen | None, tuple[_Chosen, ...]]:
    """Return the axis with positions that the op takes, and those along which rows follow one by one."""
    # An op takes positions along one axis only; the longest one has the fewest rows.
    found.sort(key=lambda axis: full[axis.axis])
    rows, along = tuple(found[:-1]), found[-1] if found else None
    if math.prod(full[row.axis] for row in rows) > _MOST_ROWS:
        cx.type_error(
            node,
            f"{name} of more than {_MOST_ROWS} rows, of an array of which two axes are not taken one element after the "
            "other",
            "load and store rows in a loop, as in dk.tile_store(a[::2, 3 * k], t[:, k])",
        )
    return along, rows


def _starts(cx: Context, offset: ast.expr | None, ndim: int) -> list[Value]:
    """Return the offset of a tile along each axis."""
    if offset is None or (isinstance(offset, ast.Constant) and offset.value is None):
        return [cx.b.i32(0)] * ndim
    return index_values(cx, offset, "offset", ndim)


def _folded_place(
    cx: Context,
    node: ast.expr,
    array: folded.Folded,
    shape: Sequence[int],
    offset: ast.expr | None,
    name: str,
    chosen: _Chosen | None,
) -> _TilePlace:
    """Return the place of a tile in an array of an address with several axes: one row, by the place of each element."""
    view = View(array.base, (AxisSpan(array.start, 1, lambda: array.extents[0]),))
    if local.is_local(view):
        _refuse_local(cx, node, name)
    if chosen is not None or len(array.extents) != len(shape):
        cx.type_error(
            node,
            f"{name}: an array of an address with {len(array.extents)} axes, and a tile of shape {shape_text(shape)}",
            "give one extent for each axis; tiles by indices are of arrays that are parameters",
        )
    starts = _starts(cx, offset, len(shape))
    indices = folded.places(cx, array, starts, shape)
    return _TilePlace(array.base, (cx.b.i32(0),), (math.prod(shape),), {}, _Chosen(0, indices))


def _pieces(cx: Context, place: _TilePlace) -> Iterator[tuple[list[Value], _TilePlace]]:
    """Yield the parts of a tile that one op loads or stores each, with where they begin in the tile."""
    if not place.rows:
        yield [cx.b.i32(0)] * len(place.shape), place
        return
    shape = list(place.shape)
    for row in place.rows:
        shape[row.axis] = 1
    for position in itertools.product(*(range(place.shape[row.axis]) for row in place.rows)):
        offsets, starts = list(place.offsets), [cx.b.i32(0)] * len(shape)
        # In the tile, the row is the k-th one; in the array, it stands where its index says.
        for row, k in zip(place.rows, position, strict=True):
            starts[row.axis] = cx.b.i32(k)
            offsets[row.axis] = cx.b.one("tile_extract", row.indices, cx.b.i32(k))
        yield starts, replace(place, offsets=tuple(offsets), shape=tuple(shape), rows=())


def _together(cx: Context, place: _TilePlace, pieces: Iterable[tuple[list[Value], Value]]) -> Value:
    """Return the tile that consists of parts."""
    if not place.rows:
        (((_, whole),)) = pieces
        return whole
    assert isinstance(place.base.type, T.Array)
    dtype = place.base.type.dtype
    whole = cx.b.one("tile_fill", cx.b.zero(T.value_type(dtype)), type=T.Tile(dtype, place.shape))
    for starts, piece in pieces:
        whole = cx.b.one("tile_insert", whole, piece, *starts, steps=(1,) * len(place.shape))
    return whole


def _part(cx: Context, v: Value, starts: Sequence[Value], place: _TilePlace) -> Value:
    """Return the part of a tile that lies in one place."""
    if tile_type(v).shape == place.shape:
        return v
    return cx.b.one("tile_view", v, *starts, shape=place.shape, steps=(1,) * len(place.shape))


def _index(cx: Context, view: View, axis: int, part: Fixed) -> Value:
    """Return the index that has taken an axis away, counted from its begin."""
    index = cx.b.cast(part.index, T.INT32)
    if not part.wrap:
        return index
    negative = cx.b.one("lt", index, cx.b.i32(0))
    return cx.b.select(negative, cx.b.add(index, cx.b.one("shape", view.base, axis=axis)), index)


def _positions(cx: Context, span: AxisSpan, start: Value, extent: int, indices: Value | None) -> Value:
    """Return a tile of positions in the array of elements of a slice; -1 for those that are not in the slice."""
    first = cx.b.i32(0) if span.start is None else cx.b.cast(span.start, T.INT32)
    numbers = (start, cx.b.cast(span.length(), T.INT32), first)
    tiles = () if indices is None else (indices,)
    body = Region(tuple(Value(T.INT32) for _ in range(4 + len(tiles))))
    with cx.b.into(body):
        counted, *given = body.params
        # From the end: with indices there is one parameter more in front.
        behind, length, begin = given[-3:]
        k = cx.b.add(behind, given[0] if tiles else counted)
        inside = cx.b.one("and", cx.b.one("ge", k, cx.b.i32(0)), cx.b.one("lt", k, length))
        place = cx.b.add(begin, cx.b.mul(k, cx.b.i32(span.step)))
        # Ops leave out elements at negative positions.
        body.yields = (cx.b.select(inside, place, cx.b.i32(-1)),)
    return cx.b.one("tile_map", *tiles, *numbers, shape=(extent,), dtypes=(T.INT32,), body=body, indexed=True)


def _is_nonnegative(cx: Context, v: Value) -> bool:
    """Return whether an offset is known not to be negative."""
    # Backwards: a constant offset was made just before.
    made = (op for op in reversed(cx.b.region.ops) if op.results == (v,) and op.name in LITERALS)
    return v in cx.nonneg or next((op.attrs["value"] >= 0 for op in made), False)


def _within(cx: Context, v: Value, limits: Mapping[int, tuple[Value, Value]]) -> Value:
    """Return a tile of a slice, with 0 for what does not lie in the slice."""
    t = tile_type(v)
    element = T.value_type(t.dtype)
    index = [Value(T.INT32) for _ in t.shape]
    bounds = [bound for pair in limits.values() for bound in pair]
    params = (*index, Value(element), *(Value(T.INT32) for _ in bounds))
    body = Region(params)
    with cx.b.into(body):
        zero = cx.b.zero(element)
        item = params[t.ndim]
        rest = iter(params[t.ndim + 1 :])
        for k, start, length in zip(limits, rest, rest, strict=True):
            place = cx.b.add(start, index[k])
            inside = cx.b.one("and", cx.b.one("ge", place, cx.b.i32(0)), cx.b.one("lt", place, length))
            item = cx.b.select(inside, item, zero)
        body.yields = (item,)
    (out,) = cx.b.op("tile_map", v, *bounds, shape=t.shape, dtypes=(t.dtype,), body=body, indexed=True)
    return out


# -- loads and stores --------------------------------------------------------------------------------------------------


def _load(cx: Context, call: TileCall) -> Term:
    shape = call.shape(cx)
    return _loaded(cx, _place(cx, call["a"], shape, call.get("offset"), call.name), shape, call.node)


def _loaded(cx: Context, place: _TilePlace, shape: tuple[int, ...], node: ast.AST) -> Val:
    assert isinstance(place.base.type, T.Array)
    checked_size(cx, T.Tile(place.base.type.dtype, shape), node)
    loaded = (
        (starts, cx.b.one("tile_load", piece.base, *piece.operands, shape=piece.shape, **piece.attrs))
        for starts, piece in _pieces(cx, place)
    )
    out = reshaped(cx, _together(cx, place, loaded), shape)
    return Val(_within(cx, out, place.limits) if place.limits else out)


def _stored(cx: Context, call: TileCall) -> tuple[_TilePlace, Value]:
    v = call.tile(cx, "t")
    # A store must not touch what stands beside the slice.
    place = _place(cx, call["a"], tile_type(v).shape, call.get("offset"), call.name, within=True)
    return place, _as_stored(cx, place, v, call)


def _as_stored(cx: Context, place: _TilePlace, v: Value, call: TileCall) -> Value:
    assert isinstance(place.base.type, T.Array)
    want = place.base.type.dtype
    if tile_type(v).dtype != want:
        remedy = "convert it with dk.tile_astype(tile, dtype=…)"
        call.refuse(cx, f"{call.name}: the array {place.base.name} is of {want}, and {origin(cx, v)}", remedy)
    return v


def _write(cx: Context, place: _TilePlace, v: Value) -> Term:
    whole = reshaped(cx, v, place.shape)
    for starts, piece in _pieces(cx, place):
        cx.b.op("tile_store", piece.base, *piece.operands, _part(cx, whole, starts, piece), **piece.attrs)
    return Static(None, "None")


def _add(cx: Context, place: _TilePlace, v: Value, call: TileCall) -> Term:
    if T.scalar_of(v.type) == T.BOOL:
        call.refuse(cx, f"{call.name} of bools", "convert the tile to integers with dk.tile_astype(t, dtype=int)")
    shape = tile_type(v).shape
    whole = reshaped(cx, v, place.shape)

    def added(starts: Sequence[Value], piece: _TilePlace) -> Value:
        part = _part(cx, whole, starts, piece)
        return cx.b.one("tile_atomic", piece.base, *piece.operands, part, kind="add", **piece.attrs)

    # The old elements come in the same parts.
    old = _together(cx, place, ((starts, added(starts, piece)) for starts, piece in _pieces(cx, place)))
    return Val(reshaped(cx, old, shape))


def _store(cx: Context, call: TileCall) -> Term:
    return _write(cx, *_stored(cx, call))


def _atomic_add(cx: Context, call: TileCall) -> Term:
    return _add(cx, *_stored(cx, call), call)


# -- along an axis by indices ------------------------------------------------------------------------------------------


def _chosen(cx: Context, call: TileCall, shape: tuple[int, ...]) -> _Chosen:
    """Return the axis along which indices say where elements stand, and the indices, one for each."""
    axis = axis_argument(cx, call, shape) or 0
    indices = as_indices(cx, call.tile(cx, "indices"), call["indices"], f"the argument indices of {call.name}")
    if tile_type(indices).shape != (shape[axis],):
        call.refuse(
            cx,
            f"{call.name}: axis {axis} of a tile of shape {shape_text(shape)} takes {shape[axis]} indices, "
            f"and {origin(cx, indices)}",
            "give one index for each element along that axis, or another shape",
        )
    return _Chosen(axis, indices)


def _load_indexed(cx: Context, call: TileCall) -> Term:
    shape = call.shape(cx)
    chosen = _chosen(cx, call, shape)
    return _loaded(cx, _place(cx, call["a"], shape, call.get("offset"), call.name, chosen), shape, call.node)


def _stored_indexed(cx: Context, call: TileCall) -> tuple[_TilePlace, Value]:
    v = call.tile(cx, "t")
    shape = tile_type(v).shape
    chosen = _chosen(cx, call, shape)
    place = _place(cx, call["a"], shape, call.get("offset"), call.name, chosen, within=True)
    return place, _as_stored(cx, place, v, call)


def _store_indexed(cx: Context, call: TileCall) -> Term:
    return _write(cx, *_stored_indexed(cx, call))


def _atomic_add_indexed(cx: Context, call: TileCall) -> Term:
    return _add(cx, *_stored_indexed(cx, call), call)


CALLS: Final[Mapping[str, Call]] = {
    "tile_load": _load,
    "tile_store": _store,
    "tile_atomic_add": _atomic_add,
    "tile_load_indexed": _load_indexed,
    "tile_store_indexed": _store_indexed,
    "tile_atomic_add_indexed": _atomic_add_indexed,
}
