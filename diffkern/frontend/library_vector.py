"""The built-in functions of vectors and matrices, and those that work component by component (min, max, clamp, abs).

In: lowered arguments. Out: the result as a term.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend import coerce
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Static, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import resolve_dtype

__all__ = ["TABLE", "clamp"]

Handler: TypeAlias = Callable[[Context, Sequence[Term], ast.Call], Term]


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
        cx.type_error(node, f"{what} of {term.type}", "convert it to a vector of floats first, as in dk.vec3(v)")
    return term.value


def _vector(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    v = _composite(cx, term, node, what)
    if not isinstance(v.type, T.Vec):
        cx.type_error(node, f"{what} takes a vector, not {v.type}")
    return v


def _matrix(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    m = _composite(cx, term, node, what)
    if not isinstance(m.type, T.Mat):
        cx.type_error(node, f"{what} takes a matrix, not {m.type}")
    return m


def _square(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    m = _matrix(cx, term, node, what)
    assert isinstance(m.type, T.Mat)
    if m.type.rows != m.type.cols:
        cx.type_error(node, f"{what} takes a square matrix, not {m.type}")
    return m


def _pair(cx: Context, args: Sequence[Term], node: ast.AST, what: str) -> tuple[Value, Value]:
    """Two composites over one scalar type."""
    a, b = (_composite(cx, x, node, what) for x in args)
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


def _binary(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        return Val(cx.b.one(op, *_alike(cx, args, node, op)))

    return handler


def _cross(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    a, b = _alike(cx, args, node, "cross")
    if not isinstance(a.type, T.Vec) or a.type.length != 3:
        cx.type_error(node, f"cross of {a.type}", "cross takes vectors of length 3")
    return Val(cx.b.one("cross", a, b))


def _outer(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    for arg in args:
        _vector(cx, arg, node, "outer")
    return Val(cx.b.one("outer", *_pair(cx, args, node, "outer")))


def _diag(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    v = _vector(cx, args[0], node, "diag")
    assert isinstance(v.type, T.Vec)
    n, zero = v.type.length, cx.b.const(0, v.type.dtype)
    parts = [cx.b.extract(v, i) if i == j else zero for i in range(n) for j in range(n)]
    return Val(cx.b.construct(T.Mat(v.type.dtype, n, n), parts))


def _get_diag(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    m = _square(cx, args[0], node, "get_diag")
    assert isinstance(m.type, T.Mat)
    n = m.type.rows
    return Val(cx.b.construct(T.Vec(m.type.dtype, n), [cx.b.extract(m, k * n + k) for k in range(n)]))


def _skew(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    v = _vector(cx, args[0], node, "skew")
    if not isinstance(v.type, T.Vec) or v.type.length != 3:
        cx.type_error(node, f"skew of {v.type}", "skew takes a vector of length 3")
    x, y, z = cx.b.components(v)
    zero = cx.b.const(0, v.type.dtype)
    parts = [zero, cx.b.neg(z), y, z, zero, cx.b.neg(x), cx.b.neg(y), x, zero]
    return Val(cx.b.construct(T.Mat(v.type.dtype, 3, 3), parts))


def identity(cx: Context, name: str, node: ast.Call) -> Term:
    """``identity(n, dtype)``; looks at the syntax because it takes keyword arguments."""
    given = dict(zip(("n", "dtype"), node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    if "n" not in given or not set(given) <= {"n", "dtype"} or len(node.args) > 2:
        cx.type_error(node, f"{name} takes n and dtype")
    size = cx.expr(given["n"])
    if not isinstance(size, Const) or size.value not in (2, 3, 4):
        cx.type_error(given["n"], "the size of an identity matrix is 2, 3 or 4")
    scalar: T.Element = T.FLOAT32
    if "dtype" in given:
        dtype = cx.expr(given["dtype"])
        try:
            scalar = resolve_dtype(dtype.obj if isinstance(dtype, Static) else None)
        except TypeError as error:
            cx.type_error(given["dtype"], str(error))
    if not isinstance(scalar, T.Scalar) or not scalar.is_float:
        cx.type_error(node, f"an identity matrix of {scalar}", "use float or dk.float64")
    n = int(size.value)
    zero, one = cx.b.const(0, scalar), cx.b.const(1, scalar)
    return Val(cx.b.construct(T.Mat(scalar, n, n), [one if i == j else zero for i in range(n) for j in range(n)]))


def _from_vectors(by_rows: bool) -> Handler:
    what = "matrix_from_rows" if by_rows else "matrix_from_cols"

    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        vectors = [_vector(cx, a, node, what) for a in args]
        if not vectors or any(v.type != vectors[0].type for v in vectors):
            cx.type_error(node, f"{what} takes vectors of one type")
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
    """``min(a, b)`` or ``max(a, b)``; of composites, component by component."""
    if isinstance(a, Const) and isinstance(b, Const):
        return a if (a.value <= b.value) == (op == "min") else b
    if not isinstance(a, (Const, Val)) or not isinstance(b, (Const, Val)):
        cx.type_error(node, f"{op} of {describe(a)} and {describe(b)}", "index arrays, as in a[i]")
    left, right = coerce.unify(cx, a, b, node, op)
    if T.scalar_of(left.type) == T.BOOL:
        cx.type_error(node, f"{op} of bools", "write and / or")
    if isinstance(left.type, T.Scalar) and isinstance(right.type, T.Scalar):
        out = cx.b.one(op, left, right)
        both, either = left in cx.nonneg and right in cx.nonneg, left in cx.nonneg or right in cx.nonneg
        if both or (op == "max" and either):
            cx.nonneg.add(out)
        return Val(out)
    shape = left.type if not isinstance(left.type, T.Scalar) else right.type
    assert isinstance(shape, (T.Vec, T.Mat))
    if not isinstance(left.type, T.Scalar) and not isinstance(right.type, T.Scalar) and left.type != right.type:
        cx.type_error(node, f"{op} of {left.type} and {right.type}", "both must have the same shape")
    xs, ys = (_spread(cx, v, shape) for v in (left, right))
    return Val(cx.b.construct(shape, [cx.b.one(op, x, y) for x, y in zip(xs, ys, strict=True)]))


def _spread(cx: Context, v: Value, shape: T.Composite) -> list[Value]:
    return [v] * shape.size if isinstance(v.type, T.Scalar) else cx.b.components(v)


def _extreme(op: str) -> Handler:
    def handler(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
        if not args:
            cx.type_error(node, f"{op} needs at least one argument")
        items = list(args)
        if len(items) == 1:
            v = _composite(cx, items[0], node, f"{op} of one argument", floats=False)
            items = [Val(c) for c in cx.b.components(v)]
        result = items[0]
        for other in items[1:]:
            result = _fold_pair(cx, op, result, other, node)
        return result

    return handler


def clamp(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """``clamp(x, lo, hi)``."""
    x, lo, hi = args
    return _fold_pair(cx, "min", _fold_pair(cx, "max", x, lo, node), hi, node)


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


TABLE: Final[Mapping[str, tuple[int | None, Handler]]] = {
    "dot": (2, _binary("dot")),
    "ddot": (2, _binary("dot")),
    "cross": (2, _cross),
    "outer": (2, _outer),
    "length": (1, _unary("length", _composite)),
    "length_sq": (1, _unary("length_sq", _composite)),
    "normalize": (1, _unary("normalize", _vector)),
    "cw_mul": (2, _binary("cw_mul")),
    "cw_div": (2, _binary("cw_div")),
    "transpose": (1, _unary("transpose", _matrix)),
    "trace": (1, _unary("trace", _square)),
    "determinant": (1, _unary("determinant", _square)),
    "inverse": (1, _unary("inverse", _square)),
    "diag": (1, _diag),
    "get_diag": (1, _get_diag),
    "skew": (1, _skew),
    "matrix_from_rows": (None, _from_vectors(by_rows=True)),
    "matrix_from_cols": (None, _from_vectors(by_rows=False)),
    "min": (None, _extreme("min")),
    "max": (None, _extreme("max")),
    "clamp": (3, clamp),
    "abs": (1, _abs),
}
