"""The built-in functions of vectors and matrices, and those that work component by component (min, max, clamp, abs).

Lowered arguments give the result as a term.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang.dialects import Nan

__all__ = ["TABLE", "clamp", "tests"]

Handler: TypeAlias = Callable[[Context, Sequence[Term], ast.Call], Term]


_VECTOR_OF_FLOATS: Final = "vector of floats first, as in dk.vec3(v)"


def _composite(cx: Context, term: Term, node: ast.AST, what: str, *, floats: bool = True) -> Value:
    if not isinstance(term, Val) or isinstance(term.type, T.Scalar):
        remedy = "of numbers the length is abs(x), and the product x * y"
        if isinstance(term, View):
            remedy = (
                "an array, or a row of one, is no vector: loop over its elements, or make it an array of vectors, as "
                "in dk.array(dtype=dk.vec3)"
            )
        cx.type_error(node, f"{what} takes a vector or matrix, not {describe(term)}", remedy)
    if floats and not T.scalar_of(term.type).is_float:
        of_floats = "matrix of floats first, as in dk.mat33(m)" if isinstance(term.type, T.Mat) else _VECTOR_OF_FLOATS
        cx.type_error(node, f"{what} of {term.type}", f"convert it to a {of_floats}")
    return term.value


def _of_numbers(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    """Return a vector or matrix of floats or integers."""
    v = _composite(cx, term, node, what, floats=False)
    if T.scalar_of(v.type) == T.BOOL:
        cx.type_error(node, f"{what} of {v.type}", "convert it to a vector of numbers first, as in dk.vec3i(v)")
    return v


def _vector(cx: Context, term: Term, node: ast.AST, what: str, *, floats: bool = True) -> Value:
    v = _composite(cx, term, node, what, floats=floats)
    if not isinstance(v.type, T.Vec):
        cx.type_error(node, f"{what} takes a vector, not {v.type}", "take a row of the matrix, as in m[0]")
    return v


def _any_vector(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    return _vector(cx, term, node, what, floats=False)


def _matrix(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    m = _composite(cx, term, node, what, floats=False)
    if not isinstance(m.type, T.Mat):
        cx.type_error(node, f"{what} takes a matrix, not {m.type}", "make one of vectors: dk.matrix_from_rows(a, b)")
    return m


def _square(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    m = _matrix(cx, term, node, what)
    assert isinstance(m.type, T.Mat)
    if m.type.rows != m.type.cols:
        cx.type_error(node, f"{what} takes a square matrix, not {m.type}", "m @ dk.transpose(m) is square")
    return m


def _square_of_numbers(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    """Return a square matrix of numbers."""
    return _square(cx, Val(_of_numbers(cx, term, node, what)), node, what)


def _square_of_floats(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    return _square(cx, Val(_composite(cx, term, node, what)), node, what)


def _pair(cx: Context, args: Sequence[Term], node: ast.AST, what: str) -> tuple[Value, Value]:
    """Return two composites over one scalar type."""
    a, b = (_of_numbers(cx, x, node, what) for x in args)
    left, right = coerce.unify(cx, Val(a), Val(b), node, what)
    return left, right


def _alike(cx: Context, args: Sequence[Term], node: ast.AST, what: str) -> tuple[Value, Value]:
    a, b = _pair(cx, args, node, what)
    if a.type != b.type:
        cx.type_error(node, f"{what} of {a.type} and {b.type}", "both must have the same shape")
    return a, b


def _unary(op: str, check: Callable[[Context, Term, ast.AST, str], Value]) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        return Val(cx.b.one(op, check(cx, args[0], node, op)))

    return handler


def _normalize(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``normalize(v)``; a quaternion without direction becomes the one of no rotation."""
    v = _vector(cx, args[0], node, "normalize")
    out = cx.b.one("normalize", v)
    if not isinstance(v.type, T.Vec) or v.type.role is not T.Role.QUATERNION:
        return Val(out)
    # The op gives zeros for a vector of length 0, and zeros are no rotation.
    *xyz, w = cx.b.components(out)
    some = cx.b.one("gt", cx.b.one("length", v), cx.b.const(0, v.type.dtype))
    return Val(cx.b.construct(v.type, [*xyz, cx.b.select(some, w, cx.b.const(1, v.type.dtype))]))


def _binary(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        return Val(cx.b.one(op, *_alike(cx, args, node, op)))

    return handler


def _cw_div(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    a, b = _alike(cx, args, node, "cw_div")
    if T.scalar_of(a.type).is_float:
        return Val(cx.b.one("cw_div", a, b))
    pairs = zip(cx.b.components(a), cx.b.components(b), strict=True)
    # Integers divide towards zero, as the operator does.
    return Val(cx.b.construct(a.type, [cx.b.one("truncdiv", x, y) for x, y in pairs]))


def _cross(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    a, b = _alike(cx, args, node, "cross")
    if not isinstance(a.type, T.Vec) or a.type.length != 3:
        cx.type_error(node, f"cross of {a.type}", "cross takes vectors of length 3")
    return Val(cx.b.one("cross", a, b))


def _outer(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    for arg in args:
        _any_vector(cx, arg, node, "outer")
    return Val(cx.b.one("outer", *_pair(cx, args, node, "outer")))


def _diag(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    v = _any_vector(cx, args[0], node, "diag")
    assert isinstance(v.type, T.Vec)
    n, zero = v.type.length, cx.b.zero(v.type.dtype)
    parts = [cx.b.extract(v, i) if i == j else zero for i in range(n) for j in range(n)]
    return Val(cx.b.construct(T.Mat(v.type.dtype, n, n), parts))


def _get_diag(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    m = _square(cx, args[0], node, "get_diag")
    assert isinstance(m.type, T.Mat)
    n = m.type.rows
    return Val(cx.b.construct(T.Vec(m.type.dtype, n), [cx.b.extract(m, k * n + k) for k in range(n)]))


def _skew(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    v = _any_vector(cx, Val(_of_numbers(cx, args[0], node, "skew")), node, "skew")
    if not isinstance(v.type, T.Vec) or v.type.length != 3:
        cx.type_error(node, f"skew of {v.type}", "skew takes a vector of length 3")
    x, y, z = cx.b.components(v)
    zero = cx.b.const(0, v.type.dtype)
    minus = [arith.negate(cx, Val(c), node) for c in (x, y, z)]
    nx, ny, nz = (coerce.value(cx, m, node) for m in minus)
    parts = [zero, nz, y, z, zero, nx, ny, x, zero]
    return Val(cx.b.construct(T.Mat(v.type.dtype, 3, 3), parts))


def _from_vectors(by_rows: bool) -> Handler:
    what = "matrix_from_rows" if by_rows else "matrix_from_cols"

    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        vectors = [_any_vector(cx, a, node, what) for a in args]
        if not vectors or any(v.type != vectors[0].type for v in vectors):
            cx.type_error(node, f"{what} takes vectors of one type", "convert one of them, as in dk.vec3d(v)")
        t = vectors[0].type
        assert isinstance(t, T.Vec)
        table = [cx.b.components(v) for v in vectors]
        if by_rows:
            return Val(cx.b.construct(T.Mat(t.dtype, len(table), t.length), [c for row in table for c in row]))
        flat = [column[i] for i in range(t.length) for column in table]
        return Val(cx.b.construct(T.Mat(t.dtype, t.length, len(table)), flat))

    return handler


# -- component by component --------------------------------------------------------------------------------------------


def _fold_pair(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Term:
    """Lower ``min(a, b)`` or ``max(a, b)``; for composites, component by component."""
    if isinstance(a, Const) and isinstance(b, Const):
        return a if (a.value <= b.value) == (op == "min") else b
    if not isinstance(a, (Const, Val)) or not isinstance(b, (Const, Val)):
        cx.type_error(node, f"{op} of {describe(a)} and {describe(b)}", "index arrays, as in a[i]")
    left, right = coerce.unify(cx, a, b, node, op)
    if T.scalar_of(left.type) == T.BOOL:
        cx.type_error(node, f"{op} of bools", "write and / or")
    if isinstance(left.type, T.Scalar) and isinstance(right.type, T.Scalar):
        out = _extremum(cx, op, left, right)
        both, either = left in cx.nonneg and right in cx.nonneg, left in cx.nonneg or right in cx.nonneg
        # The maximum with a non-negative number is not negative, whatever the other one is.
        if both or (op == "max" and either):
            cx.nonneg.add(out)
        return Val(out)
    shape = left.type if not isinstance(left.type, T.Scalar) else right.type
    assert isinstance(shape, (T.Vec, T.Mat))
    if not isinstance(left.type, T.Scalar) and not isinstance(right.type, T.Scalar) and left.type != right.type:
        cx.type_error(node, f"{op} of {left.type} and {right.type}", "both must have the same shape")
    xs, ys = (_spread(cx, v, shape) for v in (left, right))
    return Val(cx.b.construct(shape, [_extremum(cx, op, x, y) for x, y in zip(xs, ys, strict=True)]))


def _extremum(cx: Context, op: str, x: Value, y: Value) -> Value:
    """Return the smaller or larger of two numbers; for equal ones, and for a NaN and a number, by the
    dialect's rule.
    """
    if cx.dialect.nan is Nan.PASSED_ON or not T.scalar_of(x.type).is_float:
        return cx.b.one(op, x, y)
    # By comparisons: they are false for a NaN, and decide which of two equal numbers is the result.
    if cx.dialect.later_of_equals:
        first = cx.b.one("or", cx.b.one("lt" if op == "min" else "gt", x, y), cx.b.one("isnan", y))
        return cx.b.select(first, x, y)
    second = cx.b.one("or", cx.b.one("lt" if op == "min" else "gt", y, x), cx.b.one("isnan", x))
    return cx.b.select(second, y, x)


def _spread(cx: Context, v: Value, shape: T.Composite) -> list[Value]:
    return [v] * shape.size if isinstance(v.type, T.Scalar) else cx.b.components(v)


def _extreme(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        if not args:
            cx.type_error(node, f"{op} needs at least one argument", "pass two numbers")
        items = list(args)
        if len(items) == 1:
            v = _composite(cx, items[0], node, f"{op} of one argument", floats=False)
            items = [Val(c) for c in cx.b.components(v)]
            if cx.dialect.later_of_equals:  # of a vector's equal components the first one has the derivative
                items.reverse()
        result = items[0]
        for other in items[1:]:
            result = _fold_pair(cx, op, result, other, node)
        return result

    return handler


def clamp(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``clamp(x, lo, hi)``."""
    x, lo, hi = args
    # The order of the operands decides which one has the derivative at a bound.
    pair = (lo, x) if cx.dialect.later_of_equals else (x, lo)
    return _fold_pair(cx, "min", _fold_pair(cx, "max", *pair, node), hi, node)


def _abs(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    arg = args[0]
    if isinstance(arg, Const):
        return Const(abs(arg.value))
    if not isinstance(arg, Val):
        cx.type_error(node, f"abs of {describe(arg)}", "index arrays, as in a[i]")
    t = T.scalar_of(arg.type)
    if t == T.BOOL:
        cx.type_error(node, "abs of a bool", "write int(b)")
    if t.kind is T.Kind.UINT:
        return arg
    if isinstance(arg.type, T.Scalar):
        return Val(cx.b.one("abs", arg.value))  # of the least integer of a type it is negative
    return Val(cx.b.construct(arg.type, [cx.b.one("abs", c) for c in cx.b.components(arg.value)]))


def _places(better: str) -> Handler:
    """Return the lowering of ``argmin`` and ``argmax``: the first of equals; a NaN is never chosen over a number."""

    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        b, v = cx.b, _any_vector(cx, Val(_of_numbers(cx, args[0], node, f"arg{better}")), node, f"arg{better}")
        best, *others = b.components(v)
        place = b.const(0, T.UINT32)
        for k, c in enumerate(others, 1):
            take = b.one("lt" if better == "min" else "gt", c, best)
            if T.scalar_of(c.type).is_float:
                take = b.one("or", take, b.one("and", b.one("isnan", best), b.one("not", b.one("isnan", c))))
            best, place = b.select(take, c, best), b.select(take, b.const(k, T.UINT32), place)
        cx.nonneg.add(place)
        return Val(place)

    return handler


def tests(cx: Context, op: str, v: Value) -> Value:
    """Test a vector or matrix by ``isnan``, ``isinf`` and ``isfinite``: any component, or for ``isfinite`` all."""
    join = "and" if op == "isfinite" else "or"
    return functools.reduce(lambda x, y: cx.b.one(join, x, y), [cx.b.one(op, c) for c in cx.b.components(v)])


TABLE: Final[Mapping[str, tuple[int | None, Handler]]] = {
    "dot": (2, _binary("dot")),
    "ddot": (2, _binary("dot")),
    "cross": (2, _cross),
    "outer": (2, _outer),
    "length": (1, _unary("length", _composite)),
    "length_sq": (1, _unary("length_sq", _of_numbers)),
    "normalize": (1, _normalize),
    "cw_mul": (2, _binary("cw_mul")),
    "cw_div": (2, _cw_div),
    "transpose": (1, _unary("transpose", _matrix)),
    "trace": (1, _unary("trace", _square_of_numbers)),
    "determinant": (1, _unary("determinant", _square_of_numbers)),
    "inverse": (1, _unary("inverse", _square_of_floats)),
    "diag": (1, _diag),
    "get_diag": (1, _get_diag),
    "skew": (1, _skew),
    "matrix_from_rows": (None, _from_vectors(by_rows=True)),
    "matrix_from_cols": (None, _from_vectors(by_rows=False)),
    "argmin": (1, _places("min")),
    "argmax": (1, _places("max")),
    "min": (None, _extreme("min")),
    "max": (None, _extreme("max")),
    "clamp": (3, clamp),
    "abs": (1, _abs),
}
