"""Across elements: reductions, scans and sorts of tiles.

A call becomes an op; a reduction by a function of two elements becomes maps of halves.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Final

from diffkern.frontend.builtins import library
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Static, Term, Val, describe
from diffkern.frontend.tiles.tile_fields import each, leaves, like
from diffkern.frontend.tiles.tile_maps import map_any
from diffkern.frontend.tiles.tile_math import apply
from diffkern.frontend.tiles.tile_terms import (
    Call,
    TileCall,
    axis_argument,
    check_update,
    holds_tiles,
    mismatch,
    reshaped,
    tile_type,
    tiles_in,
    update,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.ops.tile import REDUCTIONS, reduced_shape
from diffkern.lang.intrinsics import lowering_key

__all__ = ["CALLS"]


def _reduction(kind: str) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        a = call.only_tile(cx)
        return _reduced(cx, kind, a, axis_argument(cx, call, tile_type(a).shape), call.node, call.name)

    return lowered


def _reduced(cx: Context, kind: str, a: Value, axis: int | None, node: ast.Call, name: str) -> Term:
    dtype = tile_type(a).dtype
    if kind != "add" and _has_extrema(dtype):
        # The op compares numbers, and has no order of vectors.
        return _folded(cx, lambda x: library.apply(cx, kind, kind, x, node), Val(a), axis, node, name)
    if dtype == T.BOOL or (kind != "add" and not isinstance(dtype, T.Scalar)):
        cx.type_error(node, f"{name} of a tile of {dtype}", "convert its elements with dk.tile_map first")
    return Val(cx.b.one("tile_reduce", a, kind=kind, axis=axis))


def _has_extrema(dtype: T.Element) -> bool:
    """Return whether elements are vectors, of which each component has a smallest and a greatest one."""
    return isinstance(dtype, T.Vec) and dtype.role is T.Role.VECTOR and dtype.dtype != T.BOOL


def _reduce(cx: Context, call: TileCall) -> Term:
    function = cx.expr(call["op"])
    term = cx.expr(call["a"])
    whole = tiles_in(term)[0] if holds_tiles(term) else call.tile(cx, "a")
    axis = axis_argument(cx, call, tile_type(whole).shape)
    key = lowering_key(function.obj) if isinstance(function, Static) else None
    # A known function has an op, with a derivative of its own.
    if key in REDUCTIONS:
        return _reduced(cx, key, call.tile(cx, "a"), axis, call.node, call.name)
    return _folded(cx, lambda x: apply(cx, function, x, call.node), term, axis, call.node, call.name)


def _folded(
    cx: Context, function: Callable[[list[Term]], Term], a: Term, axis: int | None, node: ast.Call, name: str
) -> Term:
    """Reduce by any function of two: of neighbours, then of the results of neighbours, and so on. What is left comes
    last.
    """
    t = tile_type(tiles_in(a)[0])
    # The elements that are combined stand along the second of three axes, or along the only one.
    rows, columns = ((), ()) if axis is None else ((math.prod(t.shape[:axis]),), (math.prod(t.shape[axis + 1 :]),))
    size = t.size if axis is None else t.shape[axis]
    out = each(a, lambda v: Val(cx.b.one("tile_reshape", v.value, shape=(*rows, size, *columns))))
    origin_of_rows = [cx.b.i32(0)] * len(rows)

    def part(whole: Term, first: int, length: int, step: int) -> Term:
        offset, ones = (*origin_of_rows, cx.b.i32(first), *origin_of_rows), (1,) * len(rows)
        shape, steps = (*rows, length, *columns), (*ones, step, *ones)
        return each(whole, lambda v: Val(cx.b.one("tile_view", v.value, *offset, shape=shape, steps=steps)))

    def put(whole: Value, v: Value, first: int) -> Value:
        offset = (*origin_of_rows, cx.b.i32(first), *origin_of_rows)
        return cx.b.one("tile_insert", whole, v, *offset, steps=(1,) * len(offset))

    def body(x: list[Term]) -> Term:
        made = function(x)
        # In the next round the results are the arguments, so both must be of one type.
        if describe(made) != describe(x[0]):
            element = describe(x[0])
            cx.type_error(
                node, f"the function of {name} makes {describe(made)} of two {element}", f"return a {element}"
            )
        return made

    while size > 1:
        half, rest = divmod(size, 2)
        sides = [part(out, k, half, 2) for k in (0, 1)]
        joined = map_any(cx, sides, body, node, name)
        if rest:
            # The odd one goes behind the results, so that the order of the elements is kept.
            pairs = list(zip(leaves(joined), leaves(part(out, size - 1, 1, 1)), strict=True))
            wider = (*rows, half + 1, *columns)
            zeros = [cx.b.zero(T.Tile(tile_type(v.value).dtype, wider)) for v, _ in pairs]
            made = [put(put(z, v.value, 0), w.value, half) for z, (v, w) in zip(zeros, pairs, strict=True)]
            joined = like(joined, map(Val, made))
        out, size = joined, half + rest
    return out if axis is None else each(out, lambda v: Val(reshaped(cx, v.value, reduced_shape(t, axis))))


def _of_numbers(cx: Context, call: TileCall, remedy: str) -> Value:
    a = call.only_tile(cx)
    if not isinstance(tile_type(a).dtype, T.Scalar) or tile_type(a).dtype == T.BOOL:
        call.refuse(cx, f"{call.name} of a tile of {tile_type(a).dtype}", remedy)
    return a


def _arg(kind: str) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        a = _of_numbers(cx, call, "convert it with dk.tile_astype(t, dtype=...)")
        return Val(cx.b.one("tile_argreduce", a, kind=kind, axis=None))

    return lowered


def _scan(exclusive: bool, kind: str = "add") -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        a = _of_numbers(cx, call, "a scan takes a tile of numbers")
        # Sums are the default, and a program of them stays as it was.
        kept = {} if kind == "add" else {"kind": kind}
        return Val(cx.b.one("tile_scan", a, exclusive=exclusive, backwards=False, **kept))

    return lowered


def _sort(cx: Context, call: TileCall) -> Term:
    held = [call.variable(cx, k) for k in ("keys", "values")]
    if held[0][0] == held[1][0]:
        remedy = "make a copy of the keys for the values, as in values = 1 * keys"
        call.refuse(cx, f"{call.name} of one tile as keys and as values", remedy)
    (_, keys), (_, values) = held
    if tile_type(keys).shape != tile_type(values).shape:
        mismatch(cx, f"{call.name} of tiles of two shapes", keys, values, call.node)
    if not isinstance(tile_type(keys).dtype, T.Scalar) or tile_type(keys).dtype == T.BOOL:
        call.refuse(cx, f"{call.name} by keys of {tile_type(keys).dtype}", "keys are numbers")
    for (variable_name, _), k in zip(held, ("keys", "values"), strict=True):
        # Both before either is changed: the sort is one op with two results.
        check_update(cx, variable_name, call[k])
    new_keys, new_values, _ = cx.b.op("tile_sort", keys, values)
    update(cx, call, "keys", new_keys)
    return update(cx, call, "values", new_values)


CALLS: Final[Mapping[str, Call]] = {
    "tile_sum": _reduction("add"),
    "tile_min": _reduction("min"),
    "tile_max": _reduction("max"),
    "tile_reduce": _reduce,
    "tile_argmin": _arg("min"),
    "tile_argmax": _arg("max"),
    "tile_scan_inclusive": _scan(False),
    "tile_scan_exclusive": _scan(True),
    "tile_scan_max_inclusive": _scan(False, "max"),
    "tile_scan_min_inclusive": _scan(False, "min"),
    "tile_sort": _sort,
}
