"""Tiles of random numbers.

The elements are the first draws of as many generators: the state of each one is made of the given state and the
element's number, in row-major order. The given state is not advanced.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from diffkern.frontend.builtins import composed
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Tup, Val, describe
from diffkern.frontend.tiles.tile_terms import Call, TileCall, checked_size
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.lang.library import COMPOSED

__all__ = ["CALLS"]


def _drawn(draw: str, dtype: T.Scalar) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        low, high = (parameter.name for parameter in call.row.listed()[2:4])
        if (low in call) != (high in call):
            call.refuse(cx, f"{call.name} takes both bounds or none", f"write {call.name}(shape, rng, min, max)")
        shape = call.shape(cx)
        checked_size(cx, T.Tile(dtype, shape), call.node)
        state = coerce.convert(cx, cx.expr(call["rng"]), T.UINT32, call["rng"], f"the state of {call.name}")
        bounds = [_bound(cx, call[k], dtype, call.name) for k in (low, high) if k in call]
        index = [Value(T.INT32) for _ in shape]
        params = [Value(v.type) for v in (state, *bounds)]
        # Indices are parameters of the map, so that each element has a state of its own whatever thread computes it.
        body = Region((*index, *params))
        with cx.b.into(body):
            number = index[0]
            for k, extent in zip(index[1:], shape[1:], strict=True):
                number = cx.b.add(cx.b.mul(number, cx.b.i32(extent)), k)
            seed = cx.b.add(params[0], cx.b.cast(number, T.UINT32))
            started = composed.called(cx, COMPOSED["rand_init"], [Val(seed)], {}, call.node)
            made = composed.called(cx, COMPOSED[draw], [started, *map(Val, params[1:])], {}, call.node)
            # A draw returns the new state first, which nobody needs here.
            assert isinstance(made, Tup)
            body.yields = (coerce.value(cx, made.items[-1], call.node),)
        return Val(cx.b.one("tile_map", state, *bounds, shape=shape, dtypes=(dtype,), body=body, indexed=True))

    return lowered


def _bound(cx: Context, node: ast.expr, dtype: T.Scalar, name: str) -> Value:
    term = cx.expr(node)
    if not isinstance(term, (Const, Val)):
        cx.type_error(node, f"a bound of {name} is {describe(term)}", "pass a number")
    return coerce.convert(cx, term, dtype, node, f"a bound of {name}")


CALLS: Final[Mapping[str, Call]] = {
    "tile_randi": _drawn("randi", T.INT32),
    "tile_randf": _drawn("randf", T.FLOAT32),
}
