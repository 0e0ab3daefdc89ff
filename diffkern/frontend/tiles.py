"""Tiles in the kernel language: making, loading, storing, cutting and reshaping them.

In: a call, a subscript of a tile, an assignment to a part of one. Out: the ops it becomes. Names and parameters are
Warp's. What computes stands in :mod:`tile_math`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from diffkern.frontend import coerce, tile_math, views
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Fixed, Static, Term, Tup, Val, View, describe
from diffkern.frontend.tile_terms import (
    arguments,
    checked_size,
    constant_int,
    dtype_argument,
    flag,
    index_value,
    index_values,
    mismatch,
    origin,
    shape_argument,
    spelled,
    storage,
    tile_argument,
    tile_type,
    update,
    variable,
    view_of,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ops.tile import broadcast_shape

__all__ = ["Cut", "attribute", "call", "cut", "is_function", "read", "replaced"]


# -- making tiles ------------------------------------------------------------------------------------------------------


def _filled(number: float) -> tile_math.Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, ("shape",), ("dtype", "storage"))
        storage(cx, given)
        dtype = dtype_argument(cx, given["dtype"]) if "dtype" in given else T.FLOAT32
        t = checked_size(cx, T.Tile(dtype, shape_argument(cx, given["shape"], "a tile")), node)
        return Val(cx.b.one("tile_fill", cx.b.full(T.value_type(dtype), number), type=t))

    return call


def _full(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("shape", "value"), ("dtype", "storage"))
    storage(cx, given)
    term = cx.expr(given["value"])
    if "dtype" in given:
        dtype = dtype_argument(cx, given["dtype"])
        wide = T.value_type(dtype)
        if isinstance(wide, T.Scalar) and coerce.is_number(term):
            scalar = coerce.scalar_term(cx, term, given["value"], "value")
            value = coerce.value(cx, coerce.explicit_cast(cx, scalar, wide, node), node)
        else:
            value = coerce.convert(cx, term, wide, given["value"], f"a tile of {dtype}")
    else:
        value = coerce.value(cx, term, given["value"])
        dtype = value.type  # type: ignore[assignment]
    if not isinstance(value.type, (T.Scalar, T.Vec, T.Mat)):
        cx.type_error(node, f"{name} with {describe(term)}", "fill a tile with a number or a vector")
    t = checked_size(cx, T.Tile(dtype, shape_argument(cx, given["shape"], "a tile")), node)
    return Val(cx.b.one("tile_fill", value, type=t))


def _arange(cx: Context, name: str, node: ast.Call) -> Term:
    options = {k.arg: k.value for k in node.keywords if k.arg is not None}
    unknown = [k for k in options if k not in ("dtype", "storage")]
    if unknown or not 1 <= len(node.args) <= 3:
        cx.type_error(node, f"{name} takes stop, or start and stop, or start, stop and step, and dtype")
    storage(cx, options)
    numbers: list[float] = []
    for arg in node.args:
        term = cx.expr(arg)
        if not isinstance(term, Const) or isinstance(term.value, bool):
            cx.type_error(arg, f"the bounds of {name} are numbers known when the kernel is compiled")
        numbers.append(term.value)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    dtype: T.Element = T.FLOAT32 if any(isinstance(x, float) for x in numbers) else T.INT32
    if "dtype" in options:
        dtype = dtype_argument(cx, options["dtype"])
    if not isinstance(dtype, T.Scalar) or dtype == T.BOOL:
        cx.type_error(node, f"{name} of {dtype}", "take a type of numbers")
    if step == 0 or math.ceil((stop - start) / step) < 1:
        cx.type_error(node, f"{name} from {start} to {stop} by {step} is empty")
    shape = (math.ceil((stop - start) / step),)
    wide = T.value_type(dtype)
    assert isinstance(wide, T.Scalar)
    index = Value(T.INT32)
    body = Region((index,))
    with cx.b.into(body):
        terms = [coerce.explicit_cast(cx, Const(x), wide, node) for x in (start, step)]
        first, stride = (coerce.value(cx, term, node) for term in terms)
        body.yields = (cx.b.add(first, cx.b.mul(cx.b.cast(index, wide), stride)),)
    checked_size(cx, T.Tile(dtype, shape), node)
    (out,) = cx.b.op("tile_map", shape=shape, dtypes=(dtype,), body=body, indexed=True)
    return Val(out)


def _from_thread(cx: Context, name: str, node: ast.Call) -> Term:
    """``tile(x)``: a tile of what the threads of the block hold. On the CPU a block is one thread."""
    given = arguments(cx, name, node, ("x",), ("preserve_type",))
    value = coerce.value(cx, cx.expr(given["x"]), given["x"])
    t = value.type
    keep = given.get("preserve_type")
    flag(cx, given, "preserve_type")
    whole = isinstance(keep, ast.Constant) and bool(keep.value)
    if isinstance(t, T.Scalar) or whole:
        return Val(_of_threads(cx, value))
    if not isinstance(t, (T.Vec, T.Mat)):
        cx.type_error(node, f"{name} of {t}", "pass a number or a vector")
    threads = cx.block_dim
    out = cx.b.one("tile_fill", cx.b.zero(t.dtype), type=T.Tile(t.dtype, (t.size, threads)))
    for k, component in enumerate(cx.b.components(value)):
        row = cx.b.one("tile_reshape", _of_threads(cx, component), shape=(1, threads))
        out = cx.b.one("tile_insert", out, row, cx.b.i32(k), cx.b.i32(0), steps=(1, 1))
    return Val(cx.b.one("tile_reshape", out, shape=(*t.shape, threads)))


def _of_threads(cx: Context, value: Value) -> Value:
    t = T.Tile(value.type, (cx.block_dim,))  # type: ignore[arg-type]
    return cx.b.one("tile_fill", value, type=t, threads=cx.block_dim)


def _of_thread(cx: Context, v: Value) -> Value:
    return cx.b.one("tile_extract", v, cx.b.i32(0), threads=cx.block_dim)


def _untile(cx: Context, name: str, node: ast.Call) -> Term:
    """``untile(t)``: the element of a tile that belongs to this thread of the block."""
    given = arguments(cx, name, node, ("a",))
    v = tile_argument(cx, given["a"], f"the argument of {name}")
    t = tile_type(v)
    if t.shape[-1] != cx.block_dim or t.ndim > 2:
        where = "which are 1 on the CPU" if cx.block_dim == 1 else f"which are {cx.block_dim}"
        cx.type_error(
            node,
            f"{name}: {origin(cx, v)}, and the last axis must be the threads of the block, {where}",
            "use it on a tile made by dk.tile(x)",
        )
    zero = cx.b.i32(0)
    if t.ndim == 1:
        return Val(_of_thread(cx, v))
    assert isinstance(t.dtype, T.Scalar)
    parts = []
    for k in range(t.shape[0]):
        row = cx.b.one("tile_view", v, cx.b.i32(k), zero, shape=(1, cx.block_dim), steps=(1, 1))
        parts.append(_of_thread(cx, cx.b.one("tile_reshape", row, shape=(cx.block_dim,))))
    wide = T.value_type(t.dtype)
    assert isinstance(wide, T.Scalar)
    return Val(cx.b.construct(T.Vec(wide, t.shape[0]), parts))


# -- memory ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tile lies in an array: offsets in the array itself, and the shape with 1 for axes that are indexed."""

    base: Value
    offsets: tuple[Value, ...]
    shape: tuple[int, ...]


def _place(cx: Context, node: ast.expr, shape: Sequence[int], offset: ast.expr | None, name: str) -> _Place:
    term = cx.expr(node)
    if not isinstance(term, View):
        cx.type_error(node, f"{name} needs an array, not {describe(term)}")
    if len(term.spans) != len(shape):
        cx.type_error(node, f"{name}: the array has {views.count_axes(term)} and the tile has shape {spelled(shape)}")
    if any(span.start is not None for span in term.spans):
        cx.type_error(node, f"{name} of a slice of an array", "pass the array, and where the tile begins as offset")
    starts = [cx.b.i32(0)] * len(shape)
    if offset is not None and not (isinstance(offset, ast.Constant) and offset.value is None):
        starts = index_values(cx, offset, "offset", len(shape))
    given = iter(zip(starts, shape, strict=True))
    offsets, full = [], []
    for axis, part in enumerate(term.axes):
        if isinstance(part, Fixed):
            index = cx.b.cast(part.index, T.INT32)
            if part.wrap:
                negative = cx.b.one("lt", index, cx.b.i32(0))
                index = cx.b.select(negative, cx.b.add(index, cx.b.one("shape", term.base, axis=axis)), index)
            offsets.append(index)
            full.append(1)
        else:
            start, extent = next(given)
            offsets.append(start)
            full.append(extent)
    return _Place(term.base, tuple(offsets), tuple(full))


def _reshaped(cx: Context, v: Value, shape: tuple[int, ...]) -> Value:
    return v if tile_type(v).shape == shape else cx.b.one("tile_reshape", v, shape=shape)


_ACCESS: Final = ("offset", "storage", "bounds_check", "aligned")


def _load(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a", "shape"), _ACCESS)
    storage(cx, given)
    flag(cx, given, "bounds_check")
    flag(cx, given, "aligned")
    shape = shape_argument(cx, given["shape"], "a tile")
    place = _place(cx, given["a"], shape, given.get("offset"), name)
    assert isinstance(place.base.type, T.Array)
    checked_size(cx, T.Tile(place.base.type.dtype, shape), node)
    out = cx.b.one("tile_load", place.base, *place.offsets, shape=place.shape)
    return Val(_reshaped(cx, out, shape))


def _stored(cx: Context, name: str, node: ast.Call) -> tuple[_Place, Value]:
    given = arguments(cx, name, node, ("a", "t"), ("offset", "bounds_check", "aligned"))
    flag(cx, given, "bounds_check")
    flag(cx, given, "aligned")
    v = tile_argument(cx, given["t"], f"the argument t of {name}")
    place = _place(cx, given["a"], tile_type(v).shape, given.get("offset"), name)
    assert isinstance(place.base.type, T.Array)
    want = place.base.type.dtype
    if tile_type(v).dtype != want:
        remedy = "convert it with dk.tile_astype(tile, dtype=…)"
        cx.type_error(node, f"{name}: the array {place.base.name} is of {want}, and {origin(cx, v)}", remedy)
    return place, v


def _store(cx: Context, name: str, node: ast.Call) -> Term:
    place, v = _stored(cx, name, node)
    cx.b.op("tile_store", place.base, *place.offsets, _reshaped(cx, v, place.shape))
    return Static(None, "None")


def _atomic_add(cx: Context, name: str, node: ast.Call) -> Term:
    place, v = _stored(cx, name, node)
    if T.scalar_of(v.type) == T.BOOL:
        cx.type_error(node, f"{name} of bools")
    shape = tile_type(v).shape
    old = cx.b.one("tile_atomic", place.base, *place.offsets, _reshaped(cx, v, place.shape), kind="add")
    return Val(_reshaped(cx, old, shape))


# -- shapes ------------------------------------------------------------------------------------------------------------


def _transpose(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a",))
    v = tile_argument(cx, given["a"], f"the argument of {name}")
    if tile_type(v).ndim != 2:
        cx.type_error(node, f"{name} needs a tile with two axes: {origin(cx, v)}")
    return Val(view_of(cx, cx.b.one("tile_permute", v, axes=(1, 0)), v))


def _broadcast(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a", "shape"))
    v = tile_argument(cx, given["a"], f"the argument of {name}")
    shape = shape_argument(cx, given["shape"], "a tile")
    if not broadcast_shape(tile_type(v).shape, shape):
        cx.type_error(node, f"{name} to {spelled(shape)}: {origin(cx, v)}", "each axis must have that extent, or 1")
    checked_size(cx, T.Tile(tile_type(v).dtype, shape), node)
    return Val(view_of(cx, cx.b.one("tile_broadcast", v, shape=shape), v))


def _reshape(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("t", "shape"))
    v = tile_argument(cx, given["t"], f"the argument of {name}")
    size = tile_type(v).size
    shape = shape_argument(cx, given["shape"], "a tile", infer=True)
    if shape.count(-1) == 1 and size % -math.prod(shape) == 0:
        shape = tuple(size // -math.prod(shape) if n == -1 else n for n in shape)
    if -1 in shape or math.prod(shape) != size:
        cx.type_error(node, f"{name} to {spelled(shape)}: {origin(cx, v)}", "the number of elements must be the same")
    return Val(view_of(cx, cx.b.one("tile_reshape", v, shape=shape), v))


def _squeeze(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("t",), ("axis",))
    v = tile_argument(cx, given["t"], f"the argument of {name}")
    shape = tile_type(v).shape
    axes = [k for k, n in enumerate(shape) if n == 1]
    if "axis" in given:
        term = cx.expr(given["axis"])
        items = term.items if isinstance(term, Tup) else (term,)
        axes = [constant_int(cx, item, node, "axis") for item in items]
        if any(not -len(shape) <= a < len(shape) or shape[a] != 1 for a in axes):
            cx.type_error(node, f"{name} of axis {', '.join(map(str, axes))}: {origin(cx, v)}", "its extent must be 1")
        axes = [a % len(shape) for a in axes]
    left = tuple(n for k, n in enumerate(shape) if k not in axes) or (1,)
    return Val(view_of(cx, cx.b.one("tile_reshape", v, shape=left), v))


def _astype(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("t", "dtype"))
    v = tile_argument(cx, given["t"], f"the argument of {name}")
    dtype, source = dtype_argument(cx, given["dtype"]), tile_type(v).dtype
    if not isinstance(dtype, T.Scalar) or not isinstance(source, T.Scalar):
        cx.type_error(node, f"{name} from {source} to {dtype}", "only numbers are converted")
    param = Value(T.value_type(source))
    body = Region((param,))
    with cx.b.into(body):
        wide = T.value_type(dtype)
        assert isinstance(wide, T.Scalar)
        body.yields = (coerce.value(cx, coerce.explicit_cast(cx, Val(param), wide, node), node),)
    (out,) = cx.b.op("tile_map", v, shape=tile_type(v).shape, dtypes=(dtype,), body=body, indexed=False)
    return Val(out)


def _view(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("t", "offset"), ("shape",))
    v = tile_argument(cx, given["t"], f"the argument t of {name}")
    t = tile_type(v)
    term = cx.expr(given["offset"])
    items = list(term.items if isinstance(term, Tup) else (term,))
    if len(items) > t.ndim:
        cx.type_error(node, f"{len(items)} offsets for {origin(cx, v)}")
    starts = [index_value(cx, item, node, "offset") for item in items]
    if "shape" not in given:
        for k, item in enumerate(items):
            _check_constant(cx, item, t.shape[k], 1, node)
        full = (1,) * len(items) + t.shape[len(items) :]
        starts += [cx.b.i32(0)] * (t.ndim - len(items))
        part = cx.b.one("tile_view", v, *starts, shape=full, steps=(1,) * t.ndim)
        left = t.shape[len(items) :]
        if not left:
            cx.type_error(node, f"{name} of a single element", "write dk.tile_extract(t, i, …) or t[i, …]")
        return Val(view_of(cx, _reshaped(cx, part, left), v))
    shape = shape_argument(cx, given["shape"], "the view")
    if len(shape) != t.ndim or len(items) != t.ndim:
        cx.type_error(node, f"{name} with offset of {len(items)} and shape {spelled(shape)}: {origin(cx, v)}")
    for item, extent, n in zip(items, t.shape, shape, strict=True):
        _check_constant(cx, item, extent, n, node)
    return Val(view_of(cx, cx.b.one("tile_view", v, *starts, shape=shape, steps=(1,) * t.ndim), v))


def _check_constant(cx: Context, item: Term, extent: int, length: int, node: ast.AST) -> None:
    """Refuse a constant offset from which ``length`` elements do not fit in an axis."""
    start = item.value if isinstance(item, Const) else 0
    if start < 0 or start + length > extent:
        cx.type_error(node, f"{length} elements from {start} do not fit in an axis of {extent}")


def _assign(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("dst", "src"), ("offset",))
    _, dst = variable(cx, given["dst"], f"the argument dst of {name}")
    src = tile_argument(cx, given["src"], f"the argument src of {name}")
    t = tile_type(dst)
    starts = [cx.b.i32(0)] * t.ndim
    fits = tile_type(src).ndim == t.ndim and all(a <= b for a, b in zip(tile_type(src).shape, t.shape, strict=True))
    if not fits or tile_type(src).dtype != t.dtype:
        mismatch(cx, f"{name}: the source does not fit in the tile", dst, src, node)
    if "offset" in given:
        starts = index_values(cx, given["offset"], "offset", t.ndim)
    update(cx, node, "tile_assign", given["dst"], cx.b.one("tile_insert", dst, src, *starts, steps=(1,) * t.ndim))
    return Static(None, "None")


def _extract(cx: Context, name: str, node: ast.Call) -> Term:
    if node.keywords or not node.args:
        cx.type_error(node, f"{name} takes a tile and an index for each axis")
    v = tile_argument(cx, node.args[0], f"the first argument of {name}")
    items: list[Term] = []
    for arg in node.args[1:]:
        term = cx.expr(arg)
        items += term.items if isinstance(term, Tup) else (term,)
    return read(cx, v, cut(cx, v, list(items), node))


# -- subscripts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a tile: per axis where it begins, its step and extent; ``shape`` leaves out axes that are indexed."""

    starts: tuple[Value, ...]
    steps: tuple[int, ...]
    full: tuple[int, ...]
    shape: tuple[int, ...]


def cut(cx: Context, v: Value, entries: Sequence[Term | ast.Slice], node: ast.AST) -> Cut:
    """The part that indices and slices name, as in Python; the bounds of slices are constants."""
    t = tile_type(v)
    if len(entries) > t.ndim:
        cx.type_error(node, f"{len(entries)} indices: {origin(cx, v)}")
    starts, steps, full, shape = [], [], [], []
    for k, extent in enumerate(t.shape):
        entry: Term | ast.Slice = entries[k] if k < len(entries) else ast.Slice()
        if isinstance(entry, ast.Slice):
            positions = range(*slice(*(_bound(cx, x) for x in (entry.lower, entry.upper, entry.step))).indices(extent))
            if not positions:
                cx.type_error(node, f"an empty slice of an axis of {extent}")
            starts.append(cx.b.i32(positions[0]))
            steps.append(positions.step)
            full.append(len(positions))
            shape.append(len(positions))
        else:
            starts.append(_index(cx, entry, extent, node))
            steps.append(1)
            full.append(1)
    return Cut(tuple(starts), tuple(steps), tuple(full), tuple(shape))


def _bound(cx: Context, node: ast.expr | None) -> int | None:
    return None if node is None else constant_int(cx, cx.expr(node), node, "a bound of a slice of a tile")


def _index(cx: Context, entry: Term, extent: int, node: ast.AST) -> Value:
    if isinstance(entry, Const) and isinstance(entry.value, int):
        if not -extent <= entry.value < extent:
            cx.type_error(node, f"index {entry.value} of an axis of {extent}")
        return cx.b.i32(entry.value % extent)
    index = index_value(cx, entry, node, "an index")
    if cx.is_nonneg(entry):
        return index
    return cx.b.select(cx.b.one("lt", index, cx.b.i32(0)), cx.b.add(index, cx.b.i32(extent)), index)


def read(cx: Context, v: Value, part: Cut) -> Val:
    """A part of a tile as a value: an element, or a view."""
    if not part.shape:
        return Val(cx.b.one("tile_extract", v, *part.starts))
    view = cx.b.one("tile_view", v, *part.starts, shape=part.full, steps=part.steps)
    return Val(view_of(cx, _reshaped(cx, view, part.shape), v))


def replaced(cx: Context, v: Value, part: Cut, term: Term, node: ast.AST) -> Value:
    """The tile with a part replaced."""
    t = tile_type(v)
    if not part.shape:
        item = coerce.convert(cx, term, T.value_type(t.dtype), node, f"an element of a tile of {t.dtype}")
        return cx.b.one("tile_replace", v, item, *part.starts)
    want = T.Tile(t.dtype, part.shape)
    if isinstance(term, Val) and isinstance(term.value.type, T.Tile):
        if term.value.type != want:
            cx.type_error(node, f"a part of shape {spelled(want.shape)} of {t.dtype} takes {origin(cx, term.value)}")
        source = term.value
    else:
        item = coerce.convert(cx, term, T.value_type(t.dtype), node, f"a part of a tile of {t.dtype}")
        source = cx.b.one("tile_fill", item, type=want)
    return cx.b.one("tile_insert", v, _reshaped(cx, source, part.full), *part.starts, steps=part.steps)


def attribute(cx: Context, v: Value, node: ast.Attribute) -> Term:
    """``t.shape`` and ``t.dtype``."""
    t = tile_type(v)
    match node.attr:
        case "shape":
            return Tup(tuple(Const(n) for n in t.shape))
        case "ndim":
            return Const(t.ndim)
        case "dtype":
            return Static(t.dtype, f"{v.name}.dtype")
    cx.type_error(node, f"a tile has no attribute {node.attr!r}", "it has shape, ndim and dtype")


_CALLS: Final[Mapping[str, tile_math.Call]] = {
    "tile": _from_thread,
    "untile": _untile,
    "tile_zeros": _filled(0.0),
    "tile_empty": _filled(0.0),
    "tile_ones": _filled(1.0),
    "tile_full": _full,
    "tile_arange": _arange,
    "tile_load": _load,
    "tile_store": _store,
    "tile_atomic_add": _atomic_add,
    "tile_view": _view,
    "tile_assign": _assign,
    "tile_extract": _extract,
    "tile_transpose": _transpose,
    "tile_broadcast": _broadcast,
    "tile_reshape": _reshape,
    "tile_squeeze": _squeeze,
    "tile_astype": _astype,
    **tile_math.CALLS,
}


def is_function(key: str) -> bool:
    """Whether a built-in is one of these."""
    return key in _CALLS


def call(cx: Context, key: str, name: str, node: ast.Call) -> Term:
    """Lower a call of one of these built-ins."""
    out = _CALLS[key](cx, name, node)
    if isinstance(out, Val) and isinstance(out.value.type, T.Tile):
        cx.tile_lines.setdefault(out.value, cx.loc(node).line)
    return out
