"""Operators: arithmetic on scalars, vectors and matrices, powers, comparisons, bit operations.

Two operands as terms are combined, folded if both are literals, with the types of :mod:`coerce`.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from diffkern.frontend.builtins import complexes
from diffkern.frontend.numba import numba_grid
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK_FLOAT, Const, Term, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.scalar import BITWISE, EQUALITIES, FLOORED, LOGIC, SUMS
from diffkern.ir.ops.table import lookup
from diffkern.lang.dialects import IntegerQuotient, Remainder

__all__ = ["BINARY", "COMPARE", "binary", "compare", "integer_power", "negate", "power", "product"]

# AST class → (op of the IR, Python's operator, sign for messages)
BINARY: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip

COMPARE: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip

SIGN: Final[Mapping[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip

_MAX_UNROLLED_POWER = 16


def _function(op: str) -> Callable[[Any, Any], Any]:
    """Return the function of Python's numbers for an op."""
    row = lookup(op)
    function = row.fold if row.built_in is None else row.built_in.host
    assert function is not None
    return function


def binary(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Const | Val:
    """Return ``a op b`` for an op named as in :data:`BINARY`."""
    # Literals stay literals, so that the result is as weak as its parts and takes the type of what it meets.
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(cx, op, a, b, node)
    if not isinstance(a, (Const, Val)) or not isinstance(b, (Const, Val)):
        cx.type_error(node, f"{SIGN[op]} of {describe(a)} and {describe(b)}", _operand_hint(a, b, node))
    if not (coerce.is_number(a) and coerce.is_number(b)):
        return _composite(cx, op, a, b, node)
    if op == "matmul":
        cx.type_error(node, "@ of two numbers", "write * instead")
    # In numba's spelling an index composed of blockIdx, blockDim and threadIdx is recognized as one grid index.
    if cx.stands and (known := numba_grid.combined(cx, op, a, b)) is not None:
        return known
    if not (op in LOGIC and _are_bools(a, b)):
        a, b = coerce.widened(cx, a, b)
    if op == "pow":
        return power(cx, a, b, node)
    if op == "div":
        return _divide(cx, a, b, node)
    left, right = coerce.unify(cx, a, b, node, SIGN[op])
    _check_kinds(cx, op, left, node)
    if op == "mod" and cx.dialect.remainder is Remainder.OF_DIVIDEND and not _both_nonneg(cx, left, right):
        return Val(cx.b.one("rem", left, right))
    if op == "floordiv" and cx.dialect.floored_quotients and T.scalar_of(left.type).is_float:
        return Val(cx.b.one("floor", cx.b.div(left, right)))
    out = cx.b.one(op, left, right)
    # Sums and products may wrap around: what can be said of them is the business of ``opt.ranges``.
    # These cannot leave the non-negative integers. A quotient of both, a remainder, an `and`, a shift to the right.
    if _both_nonneg(cx, left, right) and op in ("floordiv", "mod", "and", "shr"):
        cx.nonneg.add(out)
    elif op == "mod" and right in cx.nonneg:
        cx.nonneg.add(out)  # the sign of Python's remainder is that of the divisor
    return Val(out)


def _both_nonneg(cx: Context, left: Value, right: Value) -> bool:
    return left in cx.nonneg and right in cx.nonneg


def _are_bools(*terms: Const | Val) -> bool:
    return all(isinstance(t.value, bool) if isinstance(t, Const) else t.type == T.BOOL for t in terms)


def _operand_hint(a: Term, b: Term, node: ast.AST) -> str | None:
    parts = [p for p in ast.iter_child_nodes(node) if isinstance(p, ast.expr)]
    for term, part in zip((a, b), parts, strict=False):
        # An index for some of the axes leaves an array of the others.
        if "array" in describe(term) and isinstance(part, ast.Subscript):
            if any(isinstance(index, ast.Slice) for index in ast.walk(part.slice)):
                continue
            return f"kernels work on elements: index every axis, as in {ast.unparse(part)[:-1]}, j]"
    if "array" in describe(a) or "array" in describe(b):
        return "kernels work on elements: index the array, as in a[i]"
    return "write it for numbers, vectors or matrices"


def _fold(cx: Context, op: str, a: Const, b: Const, node: ast.AST) -> Const:
    if op == "matmul":
        cx.type_error(node, "@ of two numbers", "write * instead")
    # Python would compute an integer of any length.
    if op == "pow" and isinstance(b.value, int) and abs(b.value) > 4096:
        cx.type_error(
            node, f"the power {b.value} is too large for a constant", "take a variable as its base, or a smaller power"
        )
    # Floats divide by 0 as in IEEE 754; integers are an error, as in Python.
    by_zero = (op == "div" or op in FLOORED) and b.value == 0 and isinstance(a.value + b.value, float)
    if by_zero:
        return Const(_by_zero(cx, op, float(a.value), float(b.value), node))
    try:
        result = _function(_in_dialect(cx, op, a, b))(a.value, b.value)
    except ZeroDivisionError:
        cx.type_error(
            node,
            f"division by zero: {a.value} {SIGN[op]} {b.value}",
            "write a divisor other than 0",
        )
    except (TypeError, ValueError, OverflowError) as error:
        cx.type_error(node, f"{a.value} {SIGN[op]} {b.value}: {error}", "write constants that Python can compute")
    if isinstance(result, complex):
        cx.type_error(
            node,
            f"{a.value} {SIGN[op]} {b.value} is not a real number",
            "kernels compute with real numbers: take the absolute value of the base",
        )
    return Const(result)


def _in_dialect(cx: Context, op: str, a: Const, b: Const) -> str:
    """Return the op of an operator on literals, in the current dialect."""
    integers = isinstance(a.value, int) and isinstance(b.value, int)
    if op == "div" and integers and cx.dialect.integer_quotient is IntegerQuotient.TRUNCATED and b.value != 0:
        return "truncdiv"
    return "rem" if op == "mod" and cx.dialect.remainder is Remainder.OF_DIVIDEND and b.value != 0 else op


def _by_zero(cx: Context, op: str, a: float, b: float, node: ast.AST) -> float:
    """Return a quotient of literals, or its remainder, as IEEE 754 defines it for a divisor of 0."""
    loc = cx.loc(node)
    result = math.nan if op == "mod" or a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    warnings.warn_explicit(f"{a} {SIGN[op]} {b} is {result}", RuntimeWarning, loc.file, loc.line)
    return result


def _check_kinds(cx: Context, op: str, left: Value, node: ast.AST) -> None:
    t = T.scalar_of(left.type)
    if t == T.BOOL and op not in LOGIC:
        cx.type_error(node, f"{SIGN[op]} of two bools", "convert them first: int(b) or float(b)")
    if t.is_float and op in BITWISE:
        cx.type_error(node, f"{SIGN[op]} of {t}", "bit operations take integers; for conditions write and / or")


def _divide(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST) -> Val:
    left, right = coerce.unify(cx, a, b, node, "/")
    if T.scalar_of(left.type).is_integer:
        return _quotient(cx, left, right)
    if left.type == T.BOOL:
        cx.type_error(node, "/ of two bools", "convert them first: float(b)")
    return Val(cx.b.div(left, right))


def _quotient(cx: Context, left: Value, right: Value) -> Val:
    """Return ``/`` of two integers."""
    if cx.dialect.integer_quotient is IntegerQuotient.TRUNCATED:
        nonneg = _both_nonneg(cx, left, right)
        whole = cx.b.one("floordiv" if nonneg else "truncdiv", left, right)
        if nonneg:
            cx.nonneg.add(whole)
        return Val(whole)
    out = cx.b.div(cx.b.cast(left, WEAK_FLOAT), cx.b.cast(right, WEAK_FLOAT))
    # So that `int(a / b)` can be lowered to an integer division, without rounding through floats.
    cx.quotients[out] = left, right
    return Val(out)


# -- powers ------------------------------------------------------------------------------------------------------------


def power(cx: Context, a: Const | Val, b: Const | Val, node: ast.AST) -> Const | Val:
    """Return ``a ** b``: multiplications for small integer exponents, roots for 0.5, else ``pow``."""
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(cx, "pow", a, b, node)
    if isinstance(b, Const) and isinstance(a, Val) and isinstance(a.type, T.Scalar):
        exponent = b.value
        is_float = a.type.is_float
        if a.type == T.BOOL:
            cx.type_error(node, "** of a bool", "convert it first: int(b) or float(b)")
        # Both are exact where `pow` rounds, and have cheaper derivatives.
        if is_float and exponent == 0.5:
            return Val(cx.b.one("sqrt", a.value))
        if is_float and exponent == -0.5:
            return Val(cx.b.one("rsqrt", a.value))
        whole = isinstance(exponent, int) or (is_float and exponent == int(exponent)) if _finite(exponent) else False
        if whole and abs(exponent) <= _MAX_UNROLLED_POWER and (is_float or exponent >= 0):
            return _unrolled(cx, a, int(exponent))
        if whole and not is_float:
            cx.type_error(node, f"an integer to the power {exponent}", "write float(i) ** ..., or multiply in a loop")
    left, right = coerce.unify(cx, a, b, node, "**")
    if not T.scalar_of(left.type).is_float and cx.layout is not None:
        return Val(integer_power(cx, left, right))
    if not T.scalar_of(left.type).is_float:
        cx.type_error(node, f"** of {left.type} with an exponent known only at run time", "write float(a) ** float(b)")
    return Val(cx.b.one("pow", left, right))


def _finite(number: float) -> bool:
    return math.isfinite(number)


def _unrolled(cx: Context, a: Val, exponent: int) -> Val:
    """Return a power by repeated squaring; for a negative exponent the product is inverted at the end."""
    t = T.scalar_of(a.type)
    if exponent == 0:
        return Val(cx.b.const(1, t))
    result: Value | None = None
    square, left = a.value, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else cx.b.mul(result, square)
        left >>= 1
        if left:
            square = cx.b.mul(square, square)
    assert result is not None
    if exponent < 0:
        result = cx.b.div(cx.b.const(1, t), result)
    return Val(result)


# -- vectors and matrices ----------------------------------------------------------------------------------------------


_BY_COMPONENT = BITWISE | FLOORED | {"div"}


def _composite(cx: Context, op: str, a: Const | Val, b: Const | Val, node: ast.AST) -> Val:
    if complexes.any_complex((a, b)):
        return complexes.binary(cx, op, SIGN[op], a, b, node)
    t = coerce.common(cx, a, b, node, SIGN[op])
    left, right = coerce.to_scalar(cx, a, t, node), coerce.to_scalar(cx, b, t, node)
    ta, tb = left.type, right.type
    scalar_a, scalar_b = isinstance(ta, T.Scalar), isinstance(tb, T.Scalar)
    _check_kinds(cx, op, left, node)
    # Vectors of any role add by components; products of quaternions and transforms have rules of their own.
    if op in SUMS and ta == tb:
        return Val(cx.b.one(op, left, right))
    if op == "mul" and scalar_b:
        return Val(cx.b.one("scale", left, right))
    if op == "mul" and scalar_a:
        return Val(cx.b.one("scale", right, left))
    if op == "div" and scalar_b and t.is_float:
        return Val(cx.b.one("unscale", left, right))
    if op in ("mul", "matmul"):
        product = _product(cx, op, left, right)
        if product is not None:
            return Val(product)
    fits = scalar_a or scalar_b or (ta == tb and op != "div")
    if op in _BY_COMPONENT and fits and (op == "div" or _are_plain(ta, tb)):
        return _by_component(cx, op, left, right, node)
    cx.type_error(node, f"{SIGN[op]} of {ta} and {tb}", _composite_hint(op, ta, tb))


def _are_plain(*types: T.Type) -> bool:
    return not any(isinstance(t, T.Vec) and t.role is not T.Role.VECTOR for t in types)


def _by_component(cx: Context, op: str, a: Value, b: Value, node: ast.AST) -> Val:
    """Apply an operator component by component; a number is combined with each component."""
    shape = b.type if isinstance(a.type, T.Scalar) else a.type
    assert isinstance(shape, (T.Vec, T.Mat))
    # A number divided by a vector: the op needs two vectors.
    if op == "div" and shape.dtype.is_float:
        return Val(cx.b.one("cw_div", cx.b.construct(shape, [a] * shape.size), b))
    xs, ys = ([v] * shape.size if isinstance(v.type, T.Scalar) else cx.b.components(v) for v in (a, b))
    values = [coerce.value(cx, binary(cx, op, Val(x), Val(y), node), node) for x, y in zip(xs, ys, strict=True)]
    return Val(cx.b.construct(T.with_scalar(shape, T.scalar_of(values[0].type)), values))


def _product(cx: Context, op: str, a: Value, b: Value) -> Value | None:
    ta, tb = a.type, b.type
    if not _are_plain(ta, tb):
        return product(cx, a, b) if op == "mul" else None
    if isinstance(ta, T.Mat) and isinstance(tb, T.Mat) and ta.cols == tb.rows:
        return cx.b.one("matmul", a, b)
    if isinstance(ta, T.Mat) and isinstance(tb, T.Vec) and ta.cols == tb.length:
        return cx.b.one("matvec", a, b)
    if isinstance(ta, T.Vec) and isinstance(tb, T.Mat) and ta.length == tb.rows:
        return cx.b.one("vecmat", a, b)
    return None


def _composite_hint(op: str, ta: T.Type, tb: T.Type) -> str | None:
    if op in SUMS and (isinstance(ta, T.Scalar) or isinstance(tb, T.Scalar)):
        return "add a vector with that number in each component, as in v + dk.vec3(s)"
    if op == "mul" and ta == tb:
        return "write dk.dot(a, b) for the scalar product, dk.cw_mul(a, b) for the product by components"
    if op == "div":
        return "write dk.cw_div(a, b) for the quotient by components"
    return "the sizes do not fit this operator"


# -- comparisons and negation ------------------------------------------------------------------------------------------


def compare(cx: Context, op: str, a: Term, b: Term, node: ast.AST) -> Const | Val:
    """Return ``a op b`` for a comparison."""
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(cx, op, a, b, node)
    if not isinstance(a, (Const, Val)) or not isinstance(b, (Const, Val)):
        cx.type_error(node, f"{SIGN[op]} of {describe(a)} and {describe(b)}", _operand_hint(a, b, node))
    if not (coerce.is_number(a) and coerce.is_number(b)):
        return _compare_composites(cx, op, a, b, node)
    if cx.dialect.bools_are_numbers:
        a, b = _as_number(cx, a, b, op, node), _as_number(cx, b, a, op, node)
    left, right = coerce.unify(cx, a, b, node, SIGN[op])
    # The IR compares numbers only; equality of bools is the negated exclusive or.
    if left.type == T.BOOL and op in EQUALITIES:
        differ = cx.b.one("xor", left, right)
        return Val(differ if op == "ne" else cx.b.one("not", differ))
    if left.type == T.BOOL:
        cx.type_error(node, f"{SIGN[op]} of two bools", "convert them first: int(b)")
    return Val(cx.b.one(op, left, right))


def _as_number(cx: Context, side: Const | Val, other: Const | Val, op: str, node: ast.AST) -> Const | Val:
    """Return a bool that is compared with a number, or by order, as 0 or 1 of the number's type."""
    if not _is_bool(side) or (_is_bool(other) and op in EQUALITIES):
        return side
    if isinstance(side, Const):
        return Const(int(side.value))
    is_float = isinstance(other, Const) and isinstance(other.value, float)
    t = other.type if isinstance(other, Val) and not _is_bool(other) else T.FLOAT32 if is_float else T.INT32
    assert isinstance(t, T.Scalar)
    return Val(coerce.to_scalar(cx, side, t, node))


def _is_bool(term: Const | Val) -> bool:
    return isinstance(term.value, bool) if isinstance(term, Const) else term.type == T.BOOL


def _compare_composites(cx: Context, op: str, a: Const | Val, b: Const | Val, node: ast.AST) -> Const | Val:
    if complexes.any_complex((a, b)):
        return complexes.compare(cx, op, SIGN[op], a, b, node)
    if op not in EQUALITIES or not isinstance(a, Val) or not isinstance(b, Val) or a.type != b.type:
        cx.type_error(node, f"{SIGN[op]} of {describe(a)} and {describe(b)}", "compare components or lengths")
    pairs = zip(cx.b.components(a.value), cx.b.components(b.value), strict=True)
    results = [coerce.value(cx, compare(cx, op, Val(x), Val(y), node), node) for x, y in pairs]
    if not results:
        # Vectors without components are equal.
        return Const(op == "eq")
    out = results[0]
    for other in results[1:]:
        out = cx.b.one("and" if op == "eq" else "or", out, other)
    return Val(out)


def negate(cx: Context, a: Term, node: ast.AST) -> Const | Val:
    """Return ``-a``."""
    if isinstance(a, Const):
        return Const(-a.value)
    if not isinstance(a, Val):
        cx.type_error(node, f"- of {describe(a)}", _operand_hint(a, a, node))
    if cx.layout is not None and isinstance(a.type, T.Scalar):
        if a.type.kind is T.Kind.UINT:
            return Val(cx.b.sub(cx.b.const(0, a.type), a.value))
        a, _ = coerce.widened(cx, a, Const(0))
        assert isinstance(a, Val)
    t = T.scalar_of(a.type)
    if t == T.BOOL:
        cx.type_error(node, "- of a bool", "write not b, or convert it first: int(b)")
    if t.kind is T.Kind.UINT:
        # There is no negation of unsigned integers in the IR; 0 - a wraps around as C's does.
        return Val(cx.b.sub(cx.b.zero(a.type), a.value))
    return Val(cx.b.neg(a.value))


def invert(cx: Context, a: Term, node: ast.AST) -> Const | Val:
    """Return ``~a``."""
    if isinstance(a, Const):
        if isinstance(a.value, bool):
            return Const(not a.value)
        if isinstance(a.value, int):
            return Const(~a.value)
    if not isinstance(a, Val) or isinstance(a.value.type, T.Tile):
        cx.type_error(node, f"~ of {describe(a)}", "bit operations take integers")
    t = T.scalar_of(a.type)
    if t.is_float or not _are_plain(a.type):
        cx.type_error(node, f"~ of {describe(a)}", "bit operations take integers")
    op = "not" if t == T.BOOL else "invert"
    return Val(cx.b.construct(a.type, [cx.b.one(op, c) for c in cx.b.components(a.value)]))


# -- powers of integers ------------------------------------------------------------------------------------------------
# Powers of integers whose exponent is known at run time, as numba computes them.


def integer_power(cx: Context, base: Value, exponent: Value) -> Value:
    """Return a power of integers, by repeated squaring; for a negative exponent the inverse as an integer, else 0."""
    b, t = cx.b, T.scalar_of(base.type)
    one, zero = b.const(1, t), b.const(0, t)
    signed = T.scalar_of(exponent.type).kind is T.Kind.INT
    negative = b.one("lt", exponent, zero) if signed else b.const(False, T.BOOL)
    left = b.select(negative, b.neg(exponent), exponent) if signed else exponent
    test, body = Region((Value(t), Value(t), Value(t))), Region((Value(t), Value(t), Value(t)))
    with b.into(test):
        test.yields = (b.one("ne", test.params[2], zero),)
    with b.into(body):
        result, square, rest = body.params
        odd = b.one("ne", b.one("and", rest, one), zero)
        result = b.select(odd, b.mul(result, square), result)
        body.yields = (result, b.mul(square, square), b.one("shr", rest, one))
    found, _, _ = b.while_((one, base, left), test, body)
    if not signed:
        # Only 1 and -1 have an inverse among the integers, and their powers are right already.
        return found
    unit = b.one("eq", b.mul(base, base), one)
    return b.select(b.one("and", negative, b.one("not", unit)), zero, found)


# -- quaternions and transforms ----------------------------------------------------------------------------------------
# Products of quaternions and of transforms, as the operator ``*`` has them.
#
# Two values of one type give their product. A quaternion is (x, y, z, w), a transform a translation and a quaternion.


def product(cx: Context, a: Value, b: Value) -> Value | None:
    """Return ``a * b`` of two quaternions or two transforms of one type, or None for anything else."""
    if a.type != b.type or not isinstance(a.type, T.Vec):
        return None
    if a.type.role is T.Role.QUATERNION:
        return cx.b.one("quat_mul", a, b)
    if a.type.role is T.Role.TRANSFORM:
        return _compose(cx, a, b)
    return None


def _compose(cx: Context, a: Value, b: Value) -> Value:
    """Return the transform of first ``b``, then ``a``: translation a.p + rotate(a.q, b.p), rotation a.q * b.q."""
    (pa, qa), (pb, qb) = _parts(cx, a), _parts(cx, b)
    p = cx.b.add(pa, _rotated(cx, qa, pb))
    q = cx.b.one("quat_mul", qa, qb)
    assert isinstance(a.type, T.Vec)
    return cx.b.construct(a.type, [*cx.b.components(p), *cx.b.components(q)])


def _parts(cx: Context, t: Value) -> tuple[Value, Value]:
    dtype, numbers = T.scalar_of(t.type), cx.b.components(t)
    return cx.b.construct(T.Vec(dtype, 3), numbers[:3]), cx.b.construct(T.quaternion(dtype), numbers[3:])


def _rotated(cx: Context, q: Value, v: Value) -> Value:
    """Return ``v * (2w² - 1) + 2 (u·v) u + 2w u×v`` for q = (u, w), which is a rotation if q has length 1."""
    b, dtype = cx.b, T.scalar_of(q.type)
    *xyz, w = b.components(q)
    u, two = b.construct(T.Vec(dtype, 3), xyz), b.const(2.0, dtype)
    twice = b.mul(two, w)
    along = b.one("scale", u, b.mul(two, b.one("dot", u, v)))
    across = b.one("scale", b.one("cross", u, v), twice)
    kept = b.one("scale", v, b.sub(b.mul(twice, w), b.const(1.0, dtype)))
    return b.add(b.add(kept, along), across)
