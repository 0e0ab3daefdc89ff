"""Element by element, across elements, and linear algebra: the functions of tiles that compute.

In: a call, or an operator with a tile on one side. Out: the op it becomes. What works element by element is a region
over the elements, lowered once by the very code that lowers numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend import arith, coerce, inline, library
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Static, Term, Val, describe
from diffkern.frontend.tile_terms import (
    arguments,
    check_update,
    constant_int,
    is_tile,
    mismatch,
    origin,
    spelled,
    tile_argument,
    tile_type,
    update,
    variable,
    word,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value, walk
from diffkern.lang import Func
from diffkern.lang.intrinsics import lowering_key

__all__ = ["CALLS", "Call", "apply", "binary", "compare", "map_terms", "negate", "storage_dtype"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]


# -- element by element ------------------------------------------------------------------------------------------------


def storage_dtype(operands: Sequence[Term], result: T.Element) -> T.Element:
    """What the elements of a result are stored as: as those of the operands, if these are float16 or bfloat16."""
    dtypes = {tile_type(x.value).dtype for x in operands if isinstance(x, Val) and is_tile(x)}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        if T.value_type(dtype) == result:
            return dtype
    return result


def map_terms(
    cx: Context, operands: Sequence[Term], body: Callable[[list[Term]], Term], node: ast.AST, what: str
) -> Val:
    """A tile whose elements are a function of the elements of some tiles, and of values that are the same for all."""
    tiles = [x.value for x in operands if isinstance(x, Val) and is_tile(x)]
    for other in tiles[1:]:
        if tile_type(other).shape != tile_type(tiles[0]).shape:
            remedy = "shapes must be equal; extend one with dk.tile_broadcast(tile, shape=…)"
            if 1 in (tile_type(other).size, tile_type(tiles[0]).size):
                remedy += ", or take the number out of the tile that has one, as in tile[0]"
            mismatch(cx, f"{what} of tiles of two shapes", tiles[0], other, node, remedy)
    values: list[Value] = []
    params: list[Value] = []
    terms: list[Term] = []
    for x in operands:
        if not isinstance(x, Val):
            terms.append(x)
            continue
        t = x.value.type
        param = Value(T.value_type(t.dtype) if isinstance(t, T.Tile) else t, x.value.name)
        values.append(x.value)
        params.append(param)
        terms.append(Val(param))
    region = Region(tuple(params))
    if cx.in_map:
        cx.type_error(node, "a tile inside the function of a map", "compute the tile before, and pass its elements")
    cx.in_map = True
    try:
        with cx.b.into(region):
            result = body(terms)
            value = coerce.value(cx, result, node)
    finally:
        cx.in_map = False
    region.yields = (value,)
    if any(op.name.startswith("tile") or op.name in ("load", "store", "atomic") for op in walk(region)):
        cx.type_error(node, f"{what}: the function uses more than its arguments", "pass what it needs as arguments")
    dtype = storage_dtype(operands, value.type)  # type: ignore[arg-type]
    (out,) = cx.b.op("tile_map", *values, shape=tile_type(tiles[0]).shape, dtypes=(dtype,), body=region, indexed=False)
    return Val(out)


def binary(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Val:
    """``a op b`` where one of the two is a tile."""
    for x in (a, b):
        if not isinstance(x, (Const, Val)):
            cx.type_error(node, f"{arith.SIGN[op]} of {describe(a)} and {describe(b)}")
    if op == "matmul":
        if is_tile(a) and is_tile(b):
            assert isinstance(a, Val)
            assert isinstance(b, Val)
            return Val(product(cx, a.value, b.value, None, node))
        cx.type_error(node, f"@ of {describe(a)} and {describe(b)}", "write * for the product with a number")
    return map_terms(cx, (a, b), lambda x: arith.binary(cx, op, x[0], x[1], node), node, arith.SIGN[op])


def compare(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Val:
    """``a op b`` for a comparison where one of the two is a tile: a tile of bools."""
    return map_terms(cx, (a, b), lambda x: arith.compare(cx, op, x[0], x[1], node), node, arith.SIGN[op])


def negate(cx: Context, a: Term, node: ast.AST) -> Val:
    """``-a`` of a tile."""
    return map_terms(cx, (a,), lambda x: arith.negate(cx, x[0], node), node, "-")


def apply(cx: Context, function: Term, terms: Sequence[Term], node: ast.Call) -> Term:
    """Call a built-in or a func with arguments that are lowered already."""
    obj = function.obj if isinstance(function, Static) else None
    key = lowering_key(obj)
    if key is not None:
        return library.apply(cx, key, getattr(function, "name", key), terms, node)
    if isinstance(obj, Func):
        return inline.inline(cx, obj, node, terms)
    remedy = "decorate it with @dk.func" if callable(obj) else None
    cx.type_error(node, f"{describe(function)} is no function of the kernel language", remedy)


def _map(cx: Context, name: str, node: ast.Call) -> Term:
    if node.keywords or len(node.args) < 2:
        cx.type_error(node, f"{name} takes a function and one or more tiles")
    function = cx.expr(node.args[0])
    terms = [cx.expr(arg) for arg in node.args[1:]]
    if not any(map(is_tile, terms)):
        cx.type_error(node, f"{name} of {', '.join(map(describe, terms))}", "one argument at least must be a tile")
    for term in terms:
        if not isinstance(term, (Const, Val)):
            cx.type_error(node, f"{name} of {describe(term)}", "pass tiles and numbers")
    return map_terms(cx, terms, lambda x: apply(cx, function, x, node), node, name)


def _dot(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a", "b"))
    a, b = (tile_argument(cx, given[k], f"the argument {k} of {name}") for k in ("a", "b"))
    dtype = tile_type(a).dtype

    def body(x: list[Term]) -> Term:
        left, right = (coerce.value(cx, term, node) for term in x)
        if left.type != right.type:
            mismatch(cx, f"{name} of tiles of two dtypes", a, b, node)
        return Val(cx.b.mul(left, right) if isinstance(dtype, T.Scalar) else cx.b.one("dot", left, right))

    products = map_terms(cx, (Val(a), Val(b)), body, node, name)
    return Val(cx.b.one("tile_reduce", products.value, kind="add", axis=None))


def _axpy(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("alpha", "src", "dest"))
    alpha = cx.expr(given["alpha"])
    src = tile_argument(cx, given["src"], f"the argument src of {name}")
    _, dest = variable(cx, given["dest"], f"the argument dest of {name}")
    if tile_type(src) != tile_type(dest):
        mismatch(cx, f"{name} of tiles of two types", src, dest, node)

    def body(x: list[Term]) -> Term:
        return arith.binary(cx, "add", x[2], arith.binary(cx, "mul", x[0], x[1], node), node)

    new = map_terms(cx, (alpha, Val(src), Val(dest)), body, node, name).value
    if new.type != dest.type:
        cx.type_error(node, f"{name}: alpha makes the sum {new.type}, and dest is {dest.type}")
    update(cx, node, "tile_axpy", given["dest"], new)
    return Static(None, "None")


def _added_in_place(key: str, op: str) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, ("a", "b"))
        _, a = variable(cx, given["a"], f"the argument a of {name}")
        b = tile_argument(cx, given["b"], f"the argument b of {name}")
        if tile_type(a) != tile_type(b):
            mismatch(cx, f"{name} of tiles of two types", a, b, node)
        update(cx, node, key, given["a"], binary(cx, op, Val(a), Val(b), node).value)
        return Static(None, "None")

    return call


# -- reductions --------------------------------------------------------------------------------------------------------


def _axis(cx: Context, given: Mapping[str, ast.expr], t: T.Tile) -> int | None:
    node = given.get("axis")
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    axis = constant_int(cx, cx.expr(node), node, "axis")
    if not -t.ndim <= axis < t.ndim:
        cx.type_error(node, f"axis {axis} of a tile of shape {spelled(t.shape)}")
    return axis % t.ndim


def _reduction(kind: str) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, ("a",), ("axis",))
        a = tile_argument(cx, given["a"], f"the argument of {name}")
        return _reduced(cx, kind, a, _axis(cx, given, tile_type(a)), node, name)

    return call


def _reduced(cx: Context, kind: str, a: Value, axis: int | None, node: ast.AST, name: str) -> Term:
    t = tile_type(a)
    if t.dtype == T.BOOL or (kind != "add" and not isinstance(t.dtype, T.Scalar)):
        cx.type_error(node, f"{name} of a tile of {t.dtype}", "convert its elements with dk.tile_map first")
    return Val(cx.b.one("tile_reduce", a, kind=kind, axis=axis))


def _reduce(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("op", "a"), ("axis",))
    function = cx.expr(given["op"])
    a = tile_argument(cx, given["a"], f"the argument a of {name}")
    axis = _axis(cx, given, tile_type(a))
    key = lowering_key(function.obj) if isinstance(function, Static) else None
    if key in ("add", "min", "max"):
        return _reduced(cx, key, a, axis, node, name)
    if axis is not None:
        cx.type_error(node, f"{name} along an axis takes dk.add, dk.min or dk.max", "leave out axis, or write a loop")
    return Val(_folded(cx, function, a, node, name))


def _folded(cx: Context, function: Term, a: Value, node: ast.Call, name: str) -> Value:
    """Any other function: of neighbours, then of the results of neighbours, and so on. What is left over comes last."""
    t = tile_type(a)
    out = cx.b.one("tile_reshape", a, shape=(t.size,))

    element = T.value_type(t.dtype)

    def body(x: list[Term]) -> Term:
        made = apply(cx, function, x, node)
        if not isinstance(made, Val) or made.value.type != element:
            cx.type_error(node, f"the function of {name} makes {describe(made)} of two {element}")
        return made

    size = t.size
    while size > 1:
        half, rest = divmod(size, 2)
        sides = [cx.b.one("tile_view", out, cx.b.i32(k), shape=(half,), steps=(2,)) for k in (0, 1)]
        joined = map_terms(cx, [Val(v) for v in sides], body, node, name).value
        if rest:
            last = cx.b.one("tile_view", out, cx.b.i32(size - 1), shape=(1,), steps=(1,))
            whole = cx.b.zero(T.Tile(t.dtype, (half + 1,)))
            whole = cx.b.one("tile_insert", whole, joined, cx.b.i32(0), steps=(1,))
            joined = cx.b.one("tile_insert", whole, last, cx.b.i32(half), steps=(1,))
        out, size = joined, half + rest
    return out


def _arg(kind: str) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, ("a",))
        a = tile_argument(cx, given["a"], f"the argument of {name}")
        if not isinstance(tile_type(a).dtype, T.Scalar) or tile_type(a).dtype == T.BOOL:
            cx.type_error(node, f"{name} of a tile of {tile_type(a).dtype}")
        return Val(cx.b.one("tile_argreduce", a, kind=kind, axis=None))

    return call


def _scan(exclusive: bool) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, ("a",))
        a = tile_argument(cx, given["a"], f"the argument of {name}")
        if not isinstance(tile_type(a).dtype, T.Scalar) or tile_type(a).dtype == T.BOOL:
            cx.type_error(node, f"{name} of a tile of {tile_type(a).dtype}", "a scan takes a tile of numbers")
        return Val(cx.b.one("tile_scan", a, exclusive=exclusive, backwards=False))

    return call


def _sort(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("keys", "values"))
    held = [variable(cx, given[k], f"the argument {k} of {name}") for k in ("keys", "values")]
    if held[0][0] == held[1][0]:
        cx.type_error(node, f"{name} of one tile as keys and as values")
    (_, keys), (_, values) = held
    if tile_type(keys).shape != tile_type(values).shape:
        mismatch(cx, f"{name} of tiles of two shapes", keys, values, node)
    if not isinstance(tile_type(keys).dtype, T.Scalar) or tile_type(keys).dtype == T.BOOL:
        cx.type_error(node, f"{name} by keys of {tile_type(keys).dtype}", "keys are numbers")
    for (variable_name, _), k in zip(held, ("keys", "values"), strict=True):
        check_update(cx, variable_name, given[k])
    new_keys, new_values, _ = cx.b.op("tile_sort", keys, values)
    update(cx, node, "tile_sort", given["keys"], new_keys)
    update(cx, node, "tile_sort", given["values"], new_values)
    return Static(None, "None")


# -- linear algebra ----------------------------------------------------------------------------------------------------


def product(cx: Context, a: Value, b: Value, out: Value | None, node: ast.AST, precision: str = "default") -> Value:
    """``a @ b``, added to ``out`` if there is one."""
    ta, tb = tile_type(a), tile_type(b)
    for v, t in ((a, ta), (b, tb)):
        if t.ndim != 2 or not (isinstance(t.dtype, T.Scalar) and t.dtype.is_float):
            cx.type_error(node, f"a matrix product needs tiles of floats with two axes: {origin(cx, v)}")
    if ta.shape[1] != tb.shape[0]:
        mismatch(cx, f"a matrix product of {ta.shape[1]} columns and {tb.shape[0]} rows", a, b, node)
    wide = T.Tile(ta.dtype, (ta.shape[0], tb.shape[1]))
    if out is None:
        if ta.dtype != tb.dtype:
            remedy = "convert one with dk.tile_astype, or give the tile to add to as a third argument"
            mismatch(cx, "a matrix product of two dtypes", a, b, node, remedy)
        return _matmul_op(cx, (a, b), wide.dtype, precision)
    if tile_type(out).shape != wide.shape:
        cx.type_error(node, f"the product has shape {spelled(wide.shape)}, and {origin(cx, out)}")
    if not T.scalar_of(out.type).is_float:
        cx.type_error(node, f"a product of floats is added to {origin(cx, out)}")
    return _matmul_op(cx, (a, b, out), tile_type(out).dtype, precision)


def _matmul_op(cx: Context, operands: tuple[Value, ...], dtype: T.Element, precision: str) -> Value:
    attrs = {} if precision == "default" else {"precision": precision}
    return cx.b.one("tile_matmul", *operands, trans_a=False, trans_b=False, dtype=dtype, **attrs)


def _matmul(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a", "b"), ("out", "alpha", "beta", "precision"))
    a, b = (tile_argument(cx, given[k], f"the argument {k} of {name}") for k in ("a", "b"))
    precision = word(cx, given, "precision", ("default", "tf32"))
    alpha, beta = (cx.expr(given[k]) if k in given else Const(1.0) for k in ("alpha", "beta"))
    if "out" not in given:
        if "beta" in given:
            cx.type_error(node, "beta scales out, and there is no out")
        return _scaled(cx, alpha, Val(product(cx, a, b, None, node, precision)), node)
    _, out = variable(cx, given["out"], f"the argument out of {name}")
    if out in (a, b):
        cx.type_error(node, f"{name} adds to one of its factors", "give another tile as out")
    if beta == Const(1.0) and alpha == Const(1.0):
        new = product(cx, a, b, out, node, precision)
    else:
        t = tile_type(out)
        zero = cx.b.one("tile_fill", cx.b.zero(T.value_type(t.dtype)), type=t)
        result = _scaled(cx, alpha, Val(product(cx, a, b, zero, node, precision)), node)
        if not (isinstance(beta, Const) and beta.value == 0):
            result = binary(cx, "add", result, _scaled(cx, beta, Val(out), node), node)
        new = result.value
        if new.type != t:
            cx.type_error(node, f"alpha and beta make the result {new.type}, and out is {t}")
    update(cx, node, "tile_matmul", given["out"], new)
    return Static(None, "None")


def _scaled(cx: Context, factor: Term, tile: Val, node: ast.AST) -> Val:
    if isinstance(factor, Const) and factor.value == 1:
        return tile
    return binary(cx, "mul", factor, tile, node)


def _square(cx: Context, node: ast.expr, what: str) -> Value:
    v = tile_argument(cx, node, what)
    t = tile_type(v)
    if t.ndim != 2 or t.shape[0] != t.shape[1] or t.dtype not in (T.FLOAT32, T.FLOAT64):
        cx.type_error(node, f"{what} must be a square tile of float32 or float64: {origin(cx, v)}")
    return v


def _cholesky(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("A",), ("fill_mode",))
    a = _square(cx, given["A"], f"the argument of {name}")
    if word(cx, given, "fill_mode", ("lower", "upper")) == "lower":
        return Val(cx.b.one("tile_cholesky", a))
    lower = cx.b.one("tile_cholesky", cx.b.one("tile_permute", a, axes=(1, 0)))
    return Val(cx.b.one("tile_permute", lower, axes=(1, 0)))


def _solved(cx: Context, matrix: Value, y: Value, steps: Sequence[tuple[bool, bool]], node: ast.AST) -> Val:
    """Triangular solves one after the other: (which triangle, whether of the transpose)."""
    t = tile_type(y)
    if t.ndim > 2 or t.shape[0] != tile_type(matrix).shape[0] or t.dtype != tile_type(matrix).dtype:
        mismatch(cx, "a matrix and a right side that do not fit", matrix, y, node)
    x = y if t.ndim == 2 else cx.b.one("tile_reshape", y, shape=(t.shape[0], 1))
    for lower, trans in steps:
        x = cx.b.one("tile_triangular_solve", matrix, x, lower=lower, trans=trans)
    return Val(x if t.ndim == 2 else cx.b.one("tile_reshape", x, shape=t.shape))


def _cholesky_solve(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("L", "y"), ("fill_mode",))
    matrix = _square(cx, given["L"], f"the argument L of {name}")
    y = tile_argument(cx, given["y"], f"the argument y of {name}")
    lower = word(cx, given, "fill_mode", ("lower", "upper")) == "lower"
    return _solved(cx, matrix, y, [(lower, not lower), (lower, lower)], node)


def _triangular(lower: bool) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        parameter = "L" if lower else "U"
        given = arguments(cx, name, node, (parameter, "y" if lower else "z"))
        matrix = _square(cx, given[parameter], f"the argument {parameter} of {name}")
        y = tile_argument(cx, given["y" if lower else "z"], f"the right side of {name}")
        return _solved(cx, matrix, y, [(lower, False)], node)

    return call


def _diag_add(cx: Context, name: str, node: ast.Call) -> Term:
    given = arguments(cx, name, node, ("a", "d"))
    a, d = (tile_argument(cx, given[k], f"the argument {k} of {name}") for k in ("a", "d"))
    t, along = tile_type(a), tile_type(d)
    if t.ndim != 2 or t.shape != along.shape * 2 or t.dtype != along.dtype:
        mismatch(cx, f"{name} takes a square tile and one with an element for each row", a, d, node)
    if t.dtype == T.BOOL:
        cx.type_error(node, f"{name} of a tile of {t.dtype}", "convert its elements with dk.tile_map first")
    rows = cx.b.one("tile_broadcast", cx.b.one("tile_reshape", d, shape=(t.shape[0], 1)), shape=t.shape)
    element = T.value_type(t.dtype)
    body = Region((Value(T.INT32), Value(T.INT32), Value(element), Value(element)))
    with cx.b.into(body):
        row, column, x, y = body.params
        on = cx.b.one("eq", row, column)
        body.yields = (cx.b.select(on, cx.b.add(x, y), x),)
    return Val(cx.b.one("tile_map", a, rows, shape=t.shape, dtypes=(t.dtype,), body=body, indexed=True))


def _in_place(key: str, made: Call, parameters: tuple[str, ...], changed: str) -> Call:
    """A function whose result takes the place of one of its arguments."""

    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = arguments(cx, name, node, parameters, ("fill_mode",) if made in (_cholesky, _cholesky_solve) else ())
        variable(cx, given[changed], f"the argument {changed} of {name}")
        new = made(cx, name, node)
        assert isinstance(new, Val)
        update(cx, node, key, given[changed], new.value)
        return Static(None, "None")

    return call


CALLS: Final[Mapping[str, Call]] = {
    "tile_map": _map,
    "tile_dot": _dot,
    "tile_axpy": _axpy,
    "tile_sum": _reduction("add"),
    "tile_min": _reduction("min"),
    "tile_max": _reduction("max"),
    "tile_reduce": _reduce,
    "tile_argmin": _arg("min"),
    "tile_argmax": _arg("max"),
    "tile_scan_inclusive": _scan(False),
    "tile_scan_exclusive": _scan(True),
    "tile_sort": _sort,
    "tile_matmul": _matmul,
    "tile_cholesky": _cholesky,
    "tile_cholesky_solve": _cholesky_solve,
    "tile_lower_solve": _triangular(True),
    "tile_upper_solve": _triangular(False),
    "tile_add_inplace": _added_in_place("tile_add_inplace", "add"),
    "tile_sub_inplace": _added_in_place("tile_sub_inplace", "sub"),
    "tile_diag_add": _diag_add,
    "tile_cholesky_inplace": _in_place("tile_cholesky_inplace", _cholesky, ("A",), "A"),
    "tile_cholesky_solve_inplace": _in_place("tile_cholesky_solve_inplace", _cholesky_solve, ("L", "y"), "y"),
    "tile_lower_solve_inplace": _in_place("tile_lower_solve_inplace", _triangular(True), ("L", "y"), "y"),
    "tile_upper_solve_inplace": _in_place("tile_upper_solve_inplace", _triangular(False), ("U", "z"), "z"),
}
