"""Functions of elements: a region over the elements of tiles, lowered by the very code that lowers numbers.

From terms of which some are tiles, and a function of terms, comes the op ``tile_map`` and its results.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Rec, Term, TileStruct, Val, describe
from diffkern.frontend.tiles.tile_fields import built
from diffkern.frontend.tiles.tile_terms import is_tile, mismatch, shape_text, tile_type, tiles_in
from diffkern.ir import types as T
from diffkern.ir.clone import defined_in, substitute
from diffkern.ir.nodes import Region, Value, walk
from diffkern.ir.ops.memory import ELEMENTS

__all__ = ["map_any", "map_terms", "storage_dtype"]


def storage_dtype(operands: Sequence[Term], result: T.Element) -> T.Element:
    """Return the type in which the elements of a result are stored: that of the operands if it is
    float16 or bfloat16.
    """
    dtypes = {tile_type(x.value).dtype for x in operands if isinstance(x, Val) and is_tile(x)}
    # Operands of two dtypes have no common narrow one. A condition says nothing about what is chosen.
    dtypes -= {T.BOOL}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        if T.value_type(dtype) == result:
            return dtype
    return result


def map_terms(
    cx: Context, operands: Sequence[Term], body: Callable[[list[Term]], Term], node: ast.AST, what: str
) -> Val:
    """Return a tile whose elements are a function of the elements of tiles, and of values that are the same for all."""
    made = map_any(cx, operands, body, node, what)
    if not isinstance(made, Val):
        cx.type_error(node, f"{what} makes {describe(made)}", "return a number or a vector")
    return made


@contextlib.contextmanager
def _inside_map(cx: Context, node: ast.AST) -> Iterator[None]:
    """Refuse tiles in a block: a function of elements runs in each thread for itself, and a tile takes a block."""
    if cx.in_map:
        cx.type_error(node, "a tile inside the function of a map", "compute the tile before, and pass its elements")
    cx.in_map = True
    try:
        yield
    finally:
        cx.in_map = False


def map_any(
    cx: Context, operands: Sequence[Term], body: Callable[[list[Term]], Term], node: ast.AST, what: str
) -> Term:
    """Return the same where elements may be structs."""
    tiles = [v for x in operands for v in tiles_in(x) if isinstance(v.type, T.Tile)]
    _check_shapes(cx, tiles, node, what)
    values: list[Value] = []
    params: list[Value] = []

    def element(x: Term) -> Term:
        # A struct becomes one of elements: its tiles are parameters, one for each field.
        if isinstance(x, Rec):
            struct = x.struct.element if isinstance(x.struct, TileStruct) else x.struct
            return Rec(struct, tuple(map(element, x.items)))
        if not isinstance(x, Val):
            return x
        t = x.value.type
        # Numbers are passed as parameters too, so that the region reads nothing from outside.
        params.append(Value(T.value_type(t.dtype) if isinstance(t, T.Tile) else t, x.value.name))
        values.append(x.value)
        return Val(params[-1])

    terms = list(map(element, operands))
    region = Region(tuple(params))
    with _inside_map(cx, node), cx.b.into(region):
        result = body(terms)
        parts = _parts(cx, result, node, what) if isinstance(result, Rec) else [(coerce.value(cx, result, node), None)]
    region.yields = tuple(value for value, _ in parts)
    if any(op.name.startswith("tile") or op.name in ELEMENTS for op in walk(region)):
        cx.type_error(node, f"{what}: the function uses more than its arguments", "pass what it needs as arguments")
    # A local function may read numbers around it.
    values += _closed(region)
    # A field's declared type says how it is stored; else that of the operands does.
    dtypes = tuple(t or storage_dtype(operands, value.type) for value, t in parts)  # type: ignore[arg-type]
    shape = tile_type(tiles[0]).shape
    made = iter(cx.b.op("tile_map", *values, shape=shape, dtypes=dtypes, body=region, indexed=False))
    return built(result.struct, map(Val, made)) if isinstance(result, Rec) else Val(next(made))


def _check_shapes(cx: Context, tiles: Sequence[Value], node: ast.AST, what: str) -> None:
    for other in tiles[1:]:
        if tile_type(other).shape != tile_type(tiles[0]).shape:
            # The likeliest mistake with one element: it is meant as a number.
            remedy = (
                _extended(tiles[0], other) or "shapes must be equal; extend one with dk.tile_broadcast(tile, shape=…)"
            )
            if 1 in (tile_type(other).size, tile_type(tiles[0]).size):
                remedy += ", or take the number out of the tile that has one, as in tile[0]"
            mismatch(cx, f"{what} of tiles of two shapes", tiles[0], other, node, remedy)


def _extended(a: Value, b: Value) -> str | None:
    """Return how a vector is extended to the shape of a matrix: as a row, as a column, or both where both fit."""
    vector, matrix = sorted((a, b), key=lambda v: len(tile_type(v).shape))
    (*before, n), shape = tile_type(vector).shape, tile_type(matrix).shape
    if before or len(shape) != 2 or n == 1 or n not in shape:
        return None
    name, full = vector.name or "v", shape_text(shape)
    forms = []
    if n == shape[1]:
        forms.append(f"as a row: dk.tile_broadcast({name}, shape={full})")
    if n == shape[0]:
        column = f"dk.tile_reshape({name}, shape=({n}, 1))"
        forms.append(f"as a column, such as a result of axis=1: dk.tile_broadcast({column}, shape={full})")
    return f"shapes must be equal; extend {name} {'; '.join(forms)}"


def _parts(cx: Context, result: Rec, node: ast.AST, what: str) -> list[tuple[Value, T.Element | None]]:
    """Return the fields of an element, and the types in which they are stored."""
    found: list[tuple[Value, T.Element | None]] = []
    for item, (name, t) in zip(result.items, result.struct.fields, strict=True):
        if isinstance(item, Rec):
            found += _parts(cx, item, node, what)
        elif isinstance(item, Val) and isinstance(t, (T.Scalar, T.Vec, T.Mat)):
            found.append((item.value, t))
        else:
            cx.type_error(node, f"{what} makes structs with the array {name}", "return a struct without arrays")
    return found


def _closed(region: Region) -> list[Value]:
    """Return the numbers around a function of elements that a local function reads; they become parameters of it."""
    ops, known = list(walk(region)), defined_in(region)
    used = [v for op in ops for v in (*op.operands, *(y for r in op.regions for y in r.yields))]
    free = list(dict.fromkeys(v for v in (*used, *region.yields) if v not in known))
    inner = [Value(v.type, v.name) for v in free]
    substitute(region, dict(zip(free, inner, strict=True)))
    region.params = (*region.params, *inner)
    return free
