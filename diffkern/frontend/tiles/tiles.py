"""Tiles in the kernel language: making, cutting and reshaping them.

A call, a subscript of a tile, or an assignment to a part of one becomes ops. Names and parameters are Warp's. What
computes stands in :mod:`tile_math`, what accesses arrays in :mod:`tile_memory`, what the threads of a block do each for
itself in :mod:`tile_threads`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from diffkern.errors import KernelTypeError
from diffkern.frontend.terms import coerce, views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Static, Term, Tup, Val, describe
from diffkern.frontend.tiles import tile_math, tile_memory, tile_random, tile_records, tile_reductions, tile_threads
from diffkern.frontend.tiles.tile_range import tile_arange
from diffkern.frontend.tiles.tile_terms import (
    Call,
    StructMet,
    TileCall,
    as_indices,
    bound,
    checked_size,
    constant_int,
    dtype_argument,
    index_value,
    index_values,
    is_tile,
    mismatch,
    origin,
    reshaped,
    shape_argument,
    shape_text,
    tile_argument,
    tile_type,
    update,
    value_argument,
    view_of,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.function import StructFields
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import broadcast_shape
from diffkern.ir.ops.tile_functions import TILE_FUNCTIONS
from diffkern.process.dataclass import dataclass

__all__ = ["TileCut", "attribute", "call", "cut", "is_function", "read", "replaced", "subscript"]


# -- making tiles ------------------------------------------------------------------------------------------------------


def _filled(number: float) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        # Warp's default, also for a fill of 0 that looks like an integer.
        dtype = dtype_argument(cx, call["dtype"]) if "dtype" in call else T.FLOAT32
        t = checked_size(cx, T.Tile(dtype, call.shape(cx)), call.node)
        return Val(cx.b.one("tile_fill", cx.b.full(T.value_type(dtype), number), type=t))

    return lowered


def _full(cx: Context, call: TileCall) -> Term:
    term = value_argument(cx, call["value"])
    if "dtype" in call:
        dtype = dtype_argument(cx, call["dtype"])
        wide = T.value_type(dtype)
        # Asked for by dtype, the conversion is explicit, so a float may become an integer.
        if isinstance(wide, T.Scalar) and coerce.is_number(term):
            scalar = coerce.scalar_term(cx, term, call["value"], "value")
            value = coerce.value(cx, coerce.explicit_cast(cx, scalar, wide, call.node), call.node)
        else:
            value = coerce.convert(cx, term, wide, call["value"], f"a tile of {dtype}")
    else:
        value = coerce.value(cx, term, call["value"])
        dtype = value.type  # type: ignore[assignment]
    if not isinstance(value.type, (T.Scalar, T.Vec, T.Mat)):
        call.refuse(cx, f"{call.name} with {describe(term)}", "fill a tile with a number or a vector")
    t = checked_size(cx, T.Tile(dtype, call.shape(cx)), call.node)
    return Val(cx.b.one("tile_fill", value, type=t))


# -- shapes ------------------------------------------------------------------------------------------------------------


def _transpose(cx: Context, call: TileCall) -> Term:
    v = call.only_tile(cx)
    if tile_type(v).ndim != 2:
        call.refuse(cx, f"{call.name} needs a tile with two axes: {origin(cx, v)}", "give it two with dk.tile_reshape")

    def turned(w: Value) -> Value:
        return cx.b.one("tile_permute", w, axes=(1, 0))

    # Turning it again is the way back from the view to the tile.
    return Val(view_of(cx, v, turned, lambda _, new: turned(new)))


def _broadcast(cx: Context, call: TileCall) -> Term:
    v = call.only_tile(cx)
    shape = call.shape(cx)
    if not broadcast_shape(tile_type(v).shape, shape):
        call.refuse(cx, f"{call.name} to {shape_text(shape)}: {origin(cx, v)}", "each axis must have that extent, or 1")
    checked_size(cx, T.Tile(tile_type(v).dtype, shape), call.node)
    # No way back: an element stands in several places.
    return Val(view_of(cx, v, lambda w: cx.b.one("tile_broadcast", w, shape=shape)))


def _reshape(cx: Context, call: TileCall) -> Term:
    v = call.only_tile(cx)
    size = tile_type(v).size
    shape = call.shape(cx, infer=True)
    # NumPy's rule for the one extent that is left open.
    if shape.count(-1) == 1 and size % -math.prod(shape) == 0:
        shape = tuple(size // -math.prod(shape) if n == -1 else n for n in shape)
    if -1 in shape or math.prod(shape) != size:
        remedy = "the number of elements must be the same"
        call.refuse(cx, f"{call.name} to {shape_text(shape)}: {origin(cx, v)}", remedy)
    return Val(_in_shape(cx, v, shape))


def _in_shape(cx: Context, v: Value, shape: tuple[int, ...]) -> Value:
    own = tile_type(v).shape
    made = lambda w: cx.b.one("tile_reshape", w, shape=shape)  # noqa: E731
    return view_of(cx, v, made, lambda _, new: reshaped(cx, new, own))


def _squeeze(cx: Context, call: TileCall) -> Term:
    v = call.only_tile(cx)
    shape = tile_type(v).shape
    axes = [k for k, n in enumerate(shape) if n == 1]
    if "axis" in call:
        term = cx.expr(call["axis"])
        items = term.items if isinstance(term, Tup) else (term,)
        axes = [constant_int(cx, item, call.node, "axis") for item in items]
        if any(not -len(shape) <= a < len(shape) or shape[a] != 1 for a in axes):
            call.refuse(cx, f"{call.name} of axis {', '.join(map(str, axes))}: {origin(cx, v)}", "its extent must be 1")
        axes = [a % len(shape) for a in axes]
    # A tile has one axis at least.
    left = tuple(n for k, n in enumerate(shape) if k not in axes) or (1,)
    return Val(_in_shape(cx, v, left))


def _astype(cx: Context, call: TileCall) -> Term:
    v = call.only_tile(cx)
    dtype, source = dtype_argument(cx, call["dtype"]), tile_type(v).dtype
    if not isinstance(dtype, T.Scalar) or not isinstance(source, T.Scalar):
        call.refuse(cx, f"{call.name} from {source} to {dtype}", "only numbers are converted")
    param = Value(T.value_type(source))
    body = Region((param,))
    with cx.b.into(body):
        wide = T.value_type(dtype)
        assert isinstance(wide, T.Scalar)
        body.yields = (coerce.value(cx, coerce.explicit_cast(cx, Val(param), wide, call.node), call.node),)
    (out,) = cx.b.op("tile_map", v, shape=tile_type(v).shape, dtypes=(dtype,), body=body, indexed=False)
    return Val(out)


def _view(cx: Context, call: TileCall) -> Term:
    v = call.tile(cx, "t")
    t = tile_type(v)
    term = cx.expr(call["offset"])
    items = list(term.items if isinstance(term, Tup) else (term,))
    if len(items) > t.ndim:
        call.refuse(cx, f"{len(items)} offsets for {origin(cx, v)}", "give one offset for each axis")
    starts = [index_value(cx, item, call.node, "offset") for item in items]
    # Without a shape, the view is all that stands behind the offsets, as a row does behind the first one.
    if "shape" not in call:
        for k, item in enumerate(items):
            _check_constant(cx, item, t.shape[k], 1, call.node)
        full = (1,) * len(items) + t.shape[len(items) :]
        starts += [cx.b.i32(0)] * (t.ndim - len(items))
        left = t.shape[len(items) :]
        if not left:
            call.refuse(cx, f"{call.name} of a single element", "write dk.tile_extract(t, i, …) or t[i, …]")
        return Val(_shown(cx, v, TileCut(tuple(starts), (1,) * t.ndim, full, left)))
    shape = shape_argument(cx, call["shape"], "the view")
    if len(shape) != t.ndim or len(items) != t.ndim:
        call.refuse(
            cx,
            f"{call.name} with offset of {len(items)} and shape {shape_text(shape)}: {origin(cx, v)}",
            "give one offset and one extent for each axis of the tile",
        )
    for item, extent, n in zip(items, t.shape, shape, strict=True):
        _check_constant(cx, item, extent, n, call.node)
    return Val(_shown(cx, v, TileCut(tuple(starts), (1,) * t.ndim, shape, shape)))


def _shown(cx: Context, v: Value, part: TileCut) -> Value:
    """Return a part of a tile as a view."""

    def remake(w: Value) -> Value:
        return reshaped(cx, cx.b.one("tile_view", w, *part.starts, shape=part.full, steps=part.steps), part.shape)

    def put(w: Value, new: Value) -> Value:
        return cx.b.one("tile_insert", w, reshaped(cx, new, part.full), *part.starts, steps=part.steps)

    return view_of(cx, v, remake, put)


def _check_constant(cx: Context, item: Term, extent: int, length: int, node: ast.AST) -> None:
    """Refuse a constant offset from which ``length`` elements do not fit in an axis."""
    # Other offsets are known at run time only.
    start = item.value if isinstance(item, Const) else 0
    if start < 0 or start + length > extent:
        cx.type_error(
            node,
            f"{length} elements from {start} do not fit in an axis of {extent}",
            "take fewer elements, or begin earlier",
        )


def _assign(cx: Context, call: TileCall) -> Term:
    _, dst = call.variable(cx, "dst")
    src = call.tile(cx, "src")
    t = tile_type(dst)
    starts = [cx.b.i32(0)] * t.ndim
    fits = tile_type(src).ndim == t.ndim and all(a <= b for a, b in zip(tile_type(src).shape, t.shape, strict=True))
    if not fits:
        remedy = "take as many axes, and no extent that is larger; tile[1:3] = part repeats the part along other axes"
        mismatch(cx, f"{call.name}: the source does not fit in the tile", dst, src, call.node, remedy)
    src = _as_elements_of(cx, t, src, call["src"])
    if "offset" in call:
        starts = index_values(cx, call["offset"], "offset", t.ndim)
    return update(cx, call, "dst", cx.b.one("tile_insert", dst, src, *starts, steps=(1,) * t.ndim))


def _as_elements_of(cx: Context, t: T.Tile, v: Value, node: ast.AST) -> Value:
    """Return a tile with elements as those of another one, converted as where one element is assigned."""
    source = tile_type(v).dtype
    if source == t.dtype:
        return v
    body = Region((Value(T.value_type(source)),))
    try:
        with cx.b.into(body):
            body.yields = (coerce.convert(cx, Val(body.params[0]), T.value_type(t.dtype), node, "an element"),)
    except KernelTypeError:
        # The error about an element would not name the tile, whose type is what the user knows.
        remedy = "convert it with dk.tile_astype(tile, dtype=…)"
        cx.type_error(node, f"elements of a tile of {t.dtype} are assigned: {origin(cx, v)}", remedy)
    return cx.b.one("tile_map", v, shape=tile_type(v).shape, dtypes=(t.dtype,), body=body, indexed=False)


def _extract(cx: Context, call: TileCall) -> Term:
    if call.node.keywords or not call.node.args:
        remedy = "write one index for each axis of the tile"
        call.refuse(cx, f"{call.name} takes a tile and an index for each axis", remedy)
    v = tile_argument(cx, call.node.args[0], f"the first argument of {call.name}")
    items: list[Term] = []
    for arg in call.node.args[1:]:
        term = cx.expr(arg)
        items += term.items if isinstance(term, Tup) else (term,)
    return read(cx, v, cut(cx, v, list(items), call.node))


# -- subscripts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileCut:
    """A part of a tile: per axis where it begins, its step and extent; ``shape`` leaves out axes that are indexed."""

    starts: tuple[Value, ...]
    steps: tuple[int, ...]
    full: tuple[int, ...]
    shape: tuple[int, ...]


def cut(cx: Context, v: Value, entries: Sequence[Term | ast.Slice], node: ast.AST) -> TileCut:
    """Return the part that indices and slices name, as in Python; the bounds of slices are constants."""
    t = tile_type(v)
    if len(entries) > t.ndim:
        cx.type_error(node, f"{len(entries)} indices: {origin(cx, v)}", "give at most one index for each axis")
    starts, steps, full, shape = [], [], [], []
    for k, extent in enumerate(t.shape):
        entry: Term | ast.Slice = entries[k] if k < len(entries) else ast.Slice()
        if isinstance(entry, ast.Slice):
            bounds = slice(*(_bound(cx, x) for x in (entry.lower, entry.upper, entry.step)))
            if bounds.step == 0:
                cx.type_error(entry.step or node, "the step of a slice is 0", "write a step such as 1 or 2")
            positions = range(*bounds.indices(extent))
            # A tile has one element at least.
            if not positions:
                cx.type_error(node, f"an empty slice of an axis of {extent}", "write a start before the stop")
            starts.append(cx.b.i32(positions[0]))
            steps.append(positions.step)
            full.append(len(positions))
            shape.append(len(positions))
        else:
            starts.append(_index(cx, entry, extent, node))
            steps.append(1)
            full.append(1)
    return TileCut(tuple(starts), tuple(steps), tuple(full), tuple(shape))


def _bound(cx: Context, node: ast.expr | None) -> int | None:
    return None if node is None else constant_int(cx, cx.expr(node), node, "a bound of a slice of a tile")


def _index(cx: Context, entry: Term, extent: int, node: ast.AST) -> Value:
    if isinstance(entry, Const) and isinstance(entry.value, int):
        if not -extent <= entry.value < extent:
            cx.type_error(
                node,
                f"index {entry.value} of an axis of {extent}",
                "count from 0; the last one is one less than the extent",
            )
        # Counted from the front now, since its extent is known.
        return cx.b.i32(entry.value % extent)
    index = index_value(cx, entry, node, "an index")
    # Spares the test of each index of a loop.
    if cx.is_nonneg(entry):
        return index
    return cx.b.select(cx.b.one("lt", index, cx.b.i32(0)), cx.b.add(index, cx.b.i32(extent)), index)


def read(cx: Context, v: Value, part: TileCut) -> Val:
    """Return a part of a tile as a value: an element, or a view."""
    if not part.shape:
        return Val(cx.b.one("tile_extract", v, *part.starts))
    return Val(_shown(cx, v, part))


def subscript(cx: Context, v: Value, entries: Sequence[Term | ast.Slice], node: ast.AST) -> Val:
    """Return ``t[...]``: an element, a view, or what a tile of indices takes along an axis."""
    chosen = [(k, x.value) for k, x in enumerate(entries) if isinstance(x, Val) and is_tile(x)]
    if not chosen:
        return read(cx, v, cut(cx, v, entries, node))
    axis, indices = chosen[0]
    others = [x for k, x in enumerate(entries) if k != axis]
    # The op takes whole rows.
    if len(entries) > tile_type(v).ndim or not all(map(_is_whole, others)):
        cx.type_error(
            node,
            "a tile is indexed by a tile of indices and something else",
            "write : for all other axes, as in t[indices, :], and take a part of the result",
        )
    return Val(cx.b.one("tile_take", v, _from_the_end(cx, indices, tile_type(v).shape[axis], node), axis=axis))


def _is_whole(entry: Term | ast.Slice) -> bool:
    return isinstance(entry, ast.Slice) and entry.lower is None and entry.upper is None and entry.step is None


def _from_the_end(cx: Context, indices: Value, extent: int, node: ast.AST) -> Value:
    """Return a tile of indices of which negative ones count from the end."""
    indices = as_indices(cx, indices, node, "an index")
    body = Region((Value(T.INT32),))
    with cx.b.into(body):
        (k,) = body.params
        body.yields = (cx.b.select(cx.b.one("lt", k, cx.b.i32(0)), cx.b.add(k, cx.b.i32(extent)), k),)
    return cx.b.one("tile_map", indices, shape=tile_type(indices).shape, dtypes=(T.INT32,), body=body, indexed=False)


def _slice_indexed(cx: Context, call: TileCall) -> Term:
    v = call.tile(cx, "t")
    entries = views.index_terms(cx, call["indices"], tiles=True)
    if not any(is_tile(x) for x in entries if not isinstance(x, ast.Slice)):
        call.refuse(cx, f"{call.name} without a tile of indices", "write t[i, …] or dk.tile_view")
    return subscript(cx, v, entries, call.node)


def replaced(cx: Context, v: Value, part: TileCut, term: Term, node: ast.AST) -> Value:
    """Return the tile with a part replaced."""
    t = tile_type(v)
    if not part.shape:
        item = coerce.convert(cx, term, T.value_type(t.dtype), node, f"an element of a tile of {t.dtype}")
        return cx.b.one("tile_replace", v, item, *part.starts)
    want = T.Tile(t.dtype, part.shape)
    if isinstance(term, Val) and isinstance(term.value.type, T.Tile):
        source = _spread(cx, want, _as_elements_of(cx, t, term.value, node), node)
    else:
        item = coerce.convert(cx, term, T.value_type(t.dtype), node, f"a part of a tile of {t.dtype}")
        source = cx.b.one("tile_fill", item, type=want)
    return cx.b.one("tile_insert", v, reshaped(cx, source, part.full), *part.starts, steps=part.steps)


def _spread(cx: Context, want: T.Tile, v: Value, node: ast.AST) -> Value:
    """Return a tile repeated along axes that it does not have, or of which it has one element."""
    shape = tile_type(v).shape
    if not broadcast_shape(shape, want.shape):
        cx.type_error(
            node,
            f"a part of shape {shape_text(want.shape)} of {want.dtype} takes {origin(cx, v)}",
            "assign a tile of that shape, one that is repeated along other axes, or a number",
        )
    return v if shape == want.shape else cx.b.one("tile_broadcast", v, shape=want.shape)


def attribute(cx: Context, v: Value, node: ast.Attribute) -> Term:
    """Return ``t.shape``, ``t.ndim`` or ``t.dtype``."""
    t = tile_type(v)
    match node.attr:
        case "shape":
            return Tup(tuple(Const(n) for n in t.shape))
        case "ndim":
            return Const(t.ndim)
        case "dtype":
            return Static(t.dtype, f"{v.name}.dtype")
    cx.type_error(node, f"a tile has no attribute {node.attr!r}", "it has shape, ndim and dtype")


_CALLS: Final[Mapping[str, Call]] = {
    "tile_zeros": _filled(0.0),
    "tile_empty": _filled(0.0),
    "tile_ones": _filled(1.0),
    "tile_full": _full,
    "tile_arange": tile_arange,
    "tile_view": _view,
    "tile_assign": _assign,
    "tile_extract": _extract,
    "tile_slice_indexed": _slice_indexed,
    "tile_transpose": _transpose,
    "tile_broadcast": _broadcast,
    "tile_reshape": _reshape,
    "tile_squeeze": _squeeze,
    "tile_astype": _astype,
    **tile_memory.CALLS,
    **tile_random.CALLS,
    **tile_threads.CALLS,
    **tile_math.CALLS,
    **tile_reductions.CALLS,
}


def is_function(key: str) -> bool:
    """Return whether a built-in is one of these."""
    return key in TILE_FUNCTIONS


def _operation(cx: Context, call: TileCall) -> Term:
    """Lower a call to the operation on tiles of the same name: integers that it has as attributes are literals, the
    other arguments its operands.
    """
    names = [parameter.name for parameter in call.row.listed()]
    attrs = lookup(call.row.name).attrs
    tiles = [call.tile(cx, name) for name in names if name not in attrs]
    literals: dict[str, Any] = {
        name: constant_int(cx, cx.expr(call[name]), call[name], name) for name in names if attrs.get(name) is int
    }
    return Val(cx.b.one(call.row.name, *tiles, **literals))


def call(cx: Context, key: str, name: str, node: ast.Call) -> Term:
    """Lower a call of one of these built-ins."""
    row, lower = TILE_FUNCTIONS[key], _CALLS.get(key, _operation)
    # A stack holds structs as a whole: its arguments are not taken apart.
    if row.structs is StructFields.WHOLE:
        return lower(cx, bound(cx, row, name, node))
    # The arguments may be lowered twice, once before a struct is met.
    made = tile_records.evaluated_once(cx, node)
    try:
        out = lower(cx, bound(cx, row, name, made))
    except StructMet:
        out = tile_records.by_fields(cx, lower, row, name, made)
    # For messages about the tile before it has a name.
    if isinstance(out, Val) and isinstance(out.value.type, T.Tile):
        cx.tile_lines.setdefault(out.value, cx.loc(node).line)
    return out
