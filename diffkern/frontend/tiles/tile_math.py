"""Element by element, and linear algebra: the functions of tiles that compute.

A call, or an operator with a tile on one side, becomes an op; what works element by element is a map (``tile_maps``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from diffkern.frontend.builtins import library
from diffkern.frontend.statements import inline, nested
from diffkern.frontend.syntax.local_functions import Local
from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Rec, Static, Term, Val, describe
from diffkern.frontend.tiles.tile_maps import map_any, map_terms
from diffkern.frontend.tiles.tile_terms import (
    Call,
    TileCall,
    holds_tiles,
    is_tile,
    mismatch,
    origin,
    shape_text,
    tile_argument,
    tile_type,
    update,
    word,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.lang import Func
from diffkern.lang.intrinsics import lowering_key

__all__ = ["CALLS", "apply", "binary", "compare", "invert", "negate"]


# -- element by element ------------------------------------------------------------------------------------------------


def binary(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Val:
    """Lower ``a op b`` where one of the two is a tile."""
    for x in (a, b):
        if not isinstance(x, (Const, Val)):
            remedy = "write it for two tiles of one shape, or for a tile and a number"
            cx.type_error(node, f"{arith.SIGN[op]} of {describe(a)} and {describe(b)}", remedy)
    if op == "matmul":
        # ``@`` is the matrix product, everything else goes element by element.
        if is_tile(a) and is_tile(b):
            assert isinstance(a, Val)
            assert isinstance(b, Val)
            return Val(product(cx, a.value, b.value, None, node))
        cx.type_error(node, f"@ of {describe(a)} and {describe(b)}", "write * for the product with a number")
    return map_terms(cx, (a, b), lambda x: arith.binary(cx, op, x[0], x[1], node), node, arith.SIGN[op])


def compare(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Val:
    """Lower ``a op b`` for a comparison where one of the two is a tile: a tile of bools."""
    return map_terms(cx, (a, b), lambda x: arith.compare(cx, op, x[0], x[1], node), node, arith.SIGN[op])


def negate(cx: Context, a: Term, node: ast.AST) -> Val:
    """Lower ``-a`` of a tile."""
    return map_terms(cx, (a,), lambda x: arith.negate(cx, x[0], node), node, "-")


def invert(cx: Context, a: Term, node: ast.AST) -> Val:
    """Lower ``~a`` of a tile."""
    return map_terms(cx, (a,), lambda x: arith.invert(cx, x[0], node), node, "~")


def apply(cx: Context, function: Term, terms: Sequence[Term], node: ast.Call) -> Term:
    """Call a built-in or a func with arguments that are lowered already."""
    obj = function.obj if isinstance(function, Static) else None
    key = lowering_key(obj)
    if key is not None:
        return library.apply(cx, key, getattr(function, "name", key), terms, node)
    if isinstance(obj, Func):
        return inline.inline(cx, obj, node, terms)
    if isinstance(obj, Local):
        return nested.call(cx, obj, describe(function), node, terms)
    remedy = "decorate it with @dk.func" if callable(obj) else None
    cx.type_error(node, f"{describe(function)} is no function of the kernel language", remedy)


def _map(cx: Context, call: TileCall) -> Term:
    if call.node.keywords or len(call.node.args) < 2:
        call.refuse(cx, f"{call.name} takes a function and one or more tiles", "write dk.tile_map(f, t)")
    function = cx.expr(call.node.args[0])
    terms = [cx.expr(arg) for arg in call.node.args[1:]]
    if not any(map(holds_tiles, terms)):
        call.refuse(cx, f"{call.name} of {', '.join(map(describe, terms))}", "one argument at least must be a tile")
    for term in terms:
        if not isinstance(term, (Const, Val, Rec)):
            call.refuse(cx, f"{call.name} of {describe(term)}", "pass tiles, numbers and structs")
    return map_any(cx, terms, lambda x: apply(cx, function, x, call.node), call.node, call.name)


def _dot(cx: Context, call: TileCall) -> Term:
    a, b = (call.tile(cx, k) for k in ("a", "b"))
    dtype = tile_type(a).dtype

    def body(x: list[Term]) -> Term:
        left, right = (coerce.value(cx, term, call.node) for term in x)
        if left.type != right.type:
            mismatch(cx, f"{call.name} of tiles of two dtypes", a, b, call.node)
        return Val(cx.b.mul(left, right) if isinstance(dtype, T.Scalar) else cx.b.one("dot", left, right))

    products = map_terms(cx, (Val(a), Val(b)), body, call.node, call.name)
    return Val(cx.b.one("tile_reduce", products.value, kind="add", axis=None))


def _axpy(cx: Context, call: TileCall) -> Term:
    alpha = cx.expr(call["alpha"])
    src = call.tile(cx, "src")
    _, dest = call.variable(cx, "dest")
    if tile_type(src) != tile_type(dest):
        mismatch(cx, f"{call.name} of tiles of two types", src, dest, call.node)

    def body(x: list[Term]) -> Term:
        return arith.binary(cx, "add", x[2], arith.binary(cx, "mul", x[0], x[1], call.node), call.node)

    new = map_terms(cx, (alpha, Val(src), Val(dest)), body, call.node, call.name).value
    # In place, the variable's type cannot change.
    if new.type != dest.type:
        remedy = "convert alpha to the type of the tile's elements"
        call.refuse(cx, f"{call.name}: alpha makes the sum {new.type}, and dest is {dest.type}", remedy)
    return update(cx, call, "dest", new)


def _added_in_place(op: str) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        _, a = call.variable(cx, "a")
        b = call.tile(cx, "b")
        if tile_type(a) != tile_type(b):
            mismatch(cx, f"{call.name} of tiles of two types", a, b, call.node)
        return update(cx, call, "a", binary(cx, op, Val(a), Val(b), call.node).value)

    return lowered


# -- linear algebra ----------------------------------------------------------------------------------------------------


def product(cx: Context, a: Value, b: Value, out: Value | None, node: ast.AST, precision: str = "default") -> Value:
    """Lower ``a @ b``, added to ``out`` if there is one."""
    ta, tb = tile_type(a), tile_type(b)
    for v, t in ((a, ta), (b, tb)):
        if t.ndim != 2 or not (isinstance(t.dtype, T.Scalar) and t.dtype.is_float):
            remedy = "load tiles with two axes, or give one another shape with dk.tile_reshape"
            cx.type_error(node, f"a matrix product needs tiles of floats with two axes: {origin(cx, v)}", remedy)
    if ta.shape[1] != tb.shape[0]:
        mismatch(cx, f"a matrix product of {ta.shape[1]} columns and {tb.shape[0]} rows", a, b, node)
    wide = T.Tile(ta.dtype, (ta.shape[0], tb.shape[1]))
    # `out` decides the type of the sum, so the factors may be of two types with it.
    if out is None:
        if ta.dtype != tb.dtype:
            remedy = "convert one with dk.tile_astype, or give the tile to add to as a third argument"
            mismatch(cx, "a matrix product of two dtypes", a, b, node, remedy)
        return _matmul_op(cx, (a, b), wide.dtype, precision)
    if tile_type(out).shape != wide.shape:
        cx.type_error(
            node, f"the product has shape {shape_text(wide.shape)}, and {origin(cx, out)}", "make out with that shape"
        )
    if not T.scalar_of(out.type).is_float:
        cx.type_error(node, f"a product of floats is added to {origin(cx, out)}", "make out with dtype=float")
    return _matmul_op(cx, (a, b, out), tile_type(out).dtype, precision)


def _matmul_op(cx: Context, operands: tuple[Value, ...], dtype: T.Element, precision: str) -> Value:
    # The default is no attribute, so that the text of other programs does not mention it.
    attrs = {} if precision == "default" else {"precision": precision}
    return cx.b.one("tile_matmul", *operands, trans_a=False, trans_b=False, dtype=dtype, **attrs)


def _matmul(cx: Context, call: TileCall) -> Term:
    a, b = (call.tile(cx, k) for k in ("a", "b"))
    precision = word(cx, call, "precision", ("default", "tf32"))
    alpha, beta = (cx.expr(call[k]) if k in call else Const(1.0) for k in ("alpha", "beta"))
    if "out" not in call:
        if "beta" in call:
            call.refuse(cx, "beta scales out, and there is no out", "pass out, or leave beta out")
        return _scaled(cx, alpha, Val(product(cx, a, b, None, call.node, precision)), call.node)
    _, out = call.variable(cx, "out")
    # The tile would be read as a factor while it is changed.
    if out in (a, b):
        call.refuse(cx, f"{call.name} adds to one of its factors", "give another tile as out")
    if beta == Const(1.0) and alpha == Const(1.0):
        new = product(cx, a, b, out, call.node, precision)
    else:
        t = tile_type(out)
        # In the type of `out`, also where the factors are narrower.
        zero = cx.b.one("tile_fill", cx.b.zero(T.value_type(t.dtype)), type=t)
        result = _scaled(cx, alpha, Val(product(cx, a, b, zero, call.node, precision)), call.node)
        # As in BLAS, a constant 0 does not even read what was there.
        if not (isinstance(beta, Const) and beta.value == 0):
            result = binary(cx, "add", result, _kept(cx, beta, Val(out), call.node), call.node)
        new = result.value
        if new.type != t:
            remedy = "convert alpha and beta to the type of out's elements"
            call.refuse(cx, f"alpha and beta make the result {new.type}, and out is {t}", remedy)
    return update(cx, call, "out", new)


def _scaled(cx: Context, factor: Term, tile: Val, node: ast.AST) -> Val:
    if isinstance(factor, Const) and factor.value == 1:
        return tile
    return binary(cx, "mul", factor, tile, node)


def _kept(cx: Context, beta: Term, out: Val, node: ast.AST) -> Val:
    """Return what a product leaves of its tile: ``beta * out``, but 0 of NaN and infinity where beta is 0."""
    if isinstance(beta, Const):
        return _scaled(cx, beta, out, node)

    def element(terms: list[Term]) -> Term:
        factor, held = terms
        assert isinstance(factor, Val)
        assert isinstance(held, Val)
        b, value = cx.b, held.value
        dropped = b.one("and", b.one("eq", factor.value, b.zero(factor.type)), b.one("not", b.one("isfinite", value)))
        return arith.binary(cx, "mul", factor, Val(b.select(dropped, b.zero(value.type), value)), node)

    return map_terms(cx, (beta, out), element, node, "*")


def _square(cx: Context, node: ast.expr, what: str) -> Value:
    v = tile_argument(cx, node, what)
    t = tile_type(v)
    if t.ndim != 2 or t.shape[0] != t.shape[1] or t.dtype not in (T.FLOAT32, T.FLOAT64):
        remedy = "load a tile with as many rows as columns"
        cx.type_error(node, f"{what} must be a square tile of float32 or float64: {origin(cx, v)}", remedy)
    return v


def _cholesky(cx: Context, call: TileCall) -> Term:
    a = _square(cx, call["A"], f"the argument of {call.name}")
    if word(cx, call, "fill_mode", ("lower", "upper")) == "lower":
        return Val(cx.b.one("tile_cholesky", a))
    # The upper factor is the transpose of the lower one.
    lower = cx.b.one("tile_cholesky", cx.b.one("tile_permute", a, axes=(1, 0)))
    return Val(cx.b.one("tile_permute", lower, axes=(1, 0)))


def _solved(cx: Context, matrix: Value, y: Value, steps: Sequence[tuple[bool, bool]], node: ast.AST) -> Val:
    """Triangular solves one after the other: (which triangle, whether of the transpose)."""
    t = tile_type(y)
    if t.ndim > 2 or t.shape[0] != tile_type(matrix).shape[0] or t.dtype != tile_type(matrix).dtype:
        mismatch(cx, "a matrix and a right side that do not fit", matrix, y, node)
    # The ops take matrices, so a vector is one column.
    x = y if t.ndim == 2 else cx.b.one("tile_reshape", y, shape=(t.shape[0], 1))
    for lower, trans in steps:
        x = cx.b.one("tile_triangular_solve", matrix, x, lower=lower, trans=trans)
    return Val(x if t.ndim == 2 else cx.b.one("tile_reshape", x, shape=t.shape))


def _cholesky_solve(cx: Context, call: TileCall) -> Term:
    matrix = _square(cx, call["L"], f"the argument L of {call.name}")
    y = call.tile(cx, "y")
    lower = word(cx, call, "fill_mode", ("lower", "upper")) == "lower"
    # ``L L^T x = y``, or with the upper factor ``U^T U x = y``: one solve with each of the two.
    return _solved(cx, matrix, y, [(lower, not lower), (lower, lower)], call.node)


def _triangular(lower: bool) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        factor, side = (parameter.name for parameter in call.row.listed())
        matrix = _square(cx, call[factor], f"the argument {factor} of {call.name}")
        y = tile_argument(cx, call[side], f"the right side of {call.name}")
        return _solved(cx, matrix, y, [(lower, False)], call.node)

    return lowered


def _fft(*, inverse: bool) -> Call:
    def lowered(cx: Context, call: TileCall) -> Term:
        _, t = call.variable(cx, "inout")
        dtype = tile_type(t).dtype
        if not (isinstance(dtype, T.Vec) and dtype.length == 2 and dtype.dtype in (T.FLOAT32, T.FLOAT64)):
            remedy = "make complex numbers vectors of two floats, the real part first"
            call.refuse(cx, f"{call.name} takes a tile of vec2 or vec2d: {origin(cx, t)}", remedy)
        return update(cx, call, "inout", cx.b.one("tile_fft", t, inverse=inverse))

    return lowered


def _diag_add(cx: Context, call: TileCall) -> Term:
    a, d = (call.tile(cx, k) for k in ("a", "d"))
    t, along = tile_type(a), tile_type(d)
    if t.ndim != 2 or t.shape != along.shape * 2 or t.dtype != along.dtype:
        mismatch(cx, f"{call.name} takes a square tile and one with an element for each row", a, d, call.node)
    if t.dtype == T.BOOL:
        call.refuse(cx, f"{call.name} of a tile of {t.dtype}", "convert its elements with dk.tile_map first")
    rows = cx.b.one("tile_broadcast", cx.b.one("tile_reshape", d, shape=(t.shape[0], 1)), shape=t.shape)
    element = T.value_type(t.dtype)
    body = Region((Value(T.INT32), Value(T.INT32), Value(element), Value(element)))
    with cx.b.into(body):
        row, column, x, y = body.params
        # A where, rather than a sum with a matrix of zeros: ``-0.0 + 0.0`` and NaN off the diagonal would change.
        on = cx.b.one("eq", row, column)
        body.yields = (cx.b.select(on, cx.b.add(x, y), x),)
    return Val(cx.b.one("tile_map", a, rows, shape=t.shape, dtypes=(t.dtype,), body=body, indexed=True))


def _in_place(made: Call) -> Call:
    """Return a function whose result takes the place of the argument that its row marks as changed."""

    def lowered(cx: Context, call: TileCall) -> Term:
        (changed,) = call.row.changed
        # Checked first, so that the error is about the argument rather than the result.
        call.variable(cx, changed)
        new = made(cx, call)
        assert isinstance(new, Val)
        return update(cx, call, changed, new.value)

    return lowered


CALLS: Final[Mapping[str, Call]] = {
    "tile_map": _map,
    "tile_dot": _dot,
    "tile_axpy": _axpy,
    "tile_fft": _fft(inverse=False),
    "tile_ifft": _fft(inverse=True),
    "tile_matmul": _matmul,
    "tile_cholesky": _cholesky,
    "tile_cholesky_solve": _cholesky_solve,
    "tile_lower_solve": _triangular(True),
    "tile_upper_solve": _triangular(False),
    "tile_add_inplace": _added_in_place("add"),
    "tile_sub_inplace": _added_in_place("sub"),
    "tile_diag_add": _diag_add,
    "tile_cholesky_inplace": _in_place(_cholesky),
    "tile_cholesky_solve_inplace": _in_place(_cholesky_solve),
    "tile_lower_solve_inplace": _in_place(_triangular(True)),
    "tile_upper_solve_inplace": _in_place(_triangular(False)),
}
