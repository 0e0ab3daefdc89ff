"""``tile_arange``: tiles of equidistant numbers, whose bounds are known when the kernel is compiled.

A call becomes the op that fills the tile. Bounds are rounded to the type of the elements before these are counted.
"""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Val
from diffkern.frontend.tiles.tile_terms import TileCall, checked_size, dtype_argument, storage
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.lang.dtypes import SCALARS, rounded_to_bfloat16

__all__ = ["tile_arange"]

_PARAMETERS = (("stop",), ("start", "stop"), ("start", "stop", "step"))
_WIDEST = 2**64


def tile_arange(cx: Context, call: TileCall) -> Term:
    """Return a tile with the numbers from start to stop by step."""
    options = {k.arg: k.value for k in call.node.keywords if k.arg is not None}
    if len(call.node.args) > 3:
        call.refuse(
            cx,
            f"{call.name} has start, stop and step by position, and {len(call.node.args)} are given",
            "write start, stop, step",
        )
    if not call.node.args or any(k not in ("dtype", "storage") for k in options):
        remedy = "write dk.tile_arange(stop)"
        call.refuse(cx, f"{call.name} takes stop, or start and stop, or start, stop and step, and dtype", remedy)
    storage(cx, options)
    names = _PARAMETERS[len(call.node.args) - 1]
    numbers = {key: _constant(cx, call.name, key, arg) for key, arg in zip(names, call.node.args, strict=True)}
    start, stop, step = numbers.get("start", 0), numbers["stop"], numbers.get("step", 1)
    dtype = _dtype(cx, call.name, options.get("dtype"), (start, stop, step), call.node)
    at = dict(zip(names, call.node.args, strict=True))
    bounds = first, _, stride = tuple(
        _rounded(cx, call.name, key, number, dtype, at.get(key, call.node))
        for key, number in (("start", start), ("stop", stop), ("step", step))
    )
    shape = (_count(cx, call.name, bounds, dtype, call.node),)
    # Elements of float16 are computed in float32 and rounded once.
    wide = T.value_type(dtype)
    assert isinstance(wide, T.Scalar)
    index = Value(T.INT32)
    body = Region((index,))
    with cx.b.into(body):
        terms = [coerce.explicit_cast(cx, Const(x), wide, call.node) for x in (first, stride)]
        begin, distance = (coerce.value(cx, term, call.node) for term in terms)
        # By a product rather than by repeated sums, so that errors do not add up; so does NumPy.
        body.yields = (cx.b.add(begin, cx.b.mul(cx.b.cast(index, wide), distance)),)
    checked_size(cx, T.Tile(dtype, shape), call.node)
    (out,) = cx.b.op("tile_map", shape=shape, dtypes=(dtype,), body=body, indexed=True)
    return Val(out)


def _constant(cx: Context, name: str, key: str, arg: ast.expr) -> Any:
    """Return the number that an argument is: a literal, or a constant outside of the kernel, which may have a type."""
    outside = cx.outside(arg)
    # Of NumPy's numbers the value counts, not the type.
    if isinstance(outside, (np.integer, np.floating)):
        return outside.item()
    term = cx.expr(arg)
    if not isinstance(term, Const) or isinstance(term.value, bool):
        cx.type_error(
            arg,
            f"{name}: {key} is not known when the kernel is compiled",
            "write numbers, or names of constants outside of the kernel",
        )
    return term.value


def _dtype(cx: Context, name: str, asked: ast.expr | None, numbers: tuple[Any, ...], node: ast.Call) -> T.Scalar:
    dtype: T.Element = T.FLOAT32 if any(isinstance(x, float) for x in numbers) else T.INT32
    if asked is not None:
        dtype = dtype_argument(cx, asked)
    if not isinstance(dtype, T.Scalar) or dtype == T.BOOL:
        cx.type_error(node, f"the elements of {name} are numbers, not {dtype}", "take a type of numbers")
    return dtype


def _rounded(cx: Context, name: str, key: str, number: Any, dtype: T.Scalar, at: ast.AST) -> Any:
    """Return a bound as the type of the elements has it."""

    def refuse(why: str, remedy: str) -> NoReturn:
        cx.type_error(at, f"{name}: {key}={number} {why}", remedy)

    if dtype.is_integer:
        if isinstance(number, float) and not number.is_integer():
            refuse(f"has a fractional part, and elements are {dtype}", "write an integer, or take a dtype of floats")
        limits = np.iinfo(dtype.name)
        if not limits.min <= number <= limits.max:
            refuse(f"is out of range of {dtype}", "take a wider dtype")
        return int(number)
    if isinstance(number, int) and abs(number) >= _WIDEST:
        refuse("is an integer that is too large for a bound", f"write it as a float, as in {float(number)!r}")
    found = float(number) if dtype == T.FLOAT64 else _nearest(number, dtype)
    if not math.isfinite(found):
        refuse(f"is out of range of {dtype}", "take a wider dtype, or a number that it has")
    return found


def _nearest(number: Any, dtype: T.Scalar) -> float:
    """Return the number of a type that is nearest to one; an integer is not rounded to float64 before."""
    if dtype == T.BFLOAT16:
        return float(rounded_to_bfloat16(np.float32(number)))
    kind = SCALARS[dtype.name].numpy.type
    with np.errstate(over="ignore"):
        near = kind(float(number))
    if isinstance(number, float) or not np.isfinite(near):
        return float(near)
    # Rounding twice may miss the nearest by one, so the neighbours are compared exactly.
    others = (near, np.nextafter(near, kind(-np.inf)), np.nextafter(near, kind(np.inf)))

    def distance(x: Any) -> tuple[Fraction, int]:
        return abs(Fraction(float(x)) - number), int(x.view(f"u{x.itemsize}")) & 1  # of two, the even one

    return float(min((x for x in others if np.isfinite(x)), key=distance))


def _count(cx: Context, name: str, bounds: tuple[Any, Any, Any], dtype: T.Scalar, node: ast.AST) -> int:
    """Return the number of elements: of floats by the quotient as their type has it, as NumPy counts."""
    start, stop, step = bounds
    if step == 0:
        cx.type_error(node, f"{name} does not advance by a step of 0", "write a step such as 1 or -1")
    # Exact: a quotient of floats that is rounded up would count one element too many.
    steps = (Fraction(stop) - Fraction(start)) / Fraction(step)
    if steps <= 0:
        cx.type_error(node, f"{name} from {start} to {stop} by {step} has no elements", "swap the bounds")
    if steps >= 2**62:
        cx.type_error(node, f"{name} has more elements than a tile can have", "write a greater step")
    if dtype.is_integer:
        return math.ceil(steps)
    quotient = float(steps)
    # A quotient that is rounded to 0 still has its first element.
    return max(math.ceil(quotient if dtype == T.FLOAT64 else _nearest(quotient, dtype)), 1)
