"""Derivatives of vector and matrix operations, as vector calculus (Giles, "Collected matrix derivative results", 2008).

``length`` and ``normalize`` have the zero vector as gradient at the zero vector: a finite choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ad.rules.bilinear import cotangent, product
from diffkern.ad.rules.rule import Rule, RuleArguments, along_unit, over_norm, scaled, sum_of_products
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import Mat, Scalar, Vec

Cotangents = Sequence[Value | None]


def _construct(b: Builder, a: RuleArguments) -> Cotangents:
    return [b.extract(a.ct, k) if want else None for k, want in enumerate(a.want)]


def _extract_dyn(b: Builder, a: RuleArguments) -> Cotangents:
    return [b.one("insert_dyn", b.zero(a.x[0].type), a.ct, a.x[1]), None]


def _insert_dyn(b: Builder, a: RuleArguments) -> Cotangents:
    index = a.x[2]
    return [b.one("insert_dyn", a.ct, b.zero(a.x[1].type), index), b.one("extract_dyn", a.ct, index), None]


def _scale(b: Builder, a: RuleArguments) -> Cotangents:
    v, s = a.x
    # d(v s) = dv s + v ds: the vector gets ct scaled by s, the scalar the inner product of ct and v.
    return [
        scaled(b, a.ct, s, steep=a.steep, again=a.again) if a.want[0] else None,
        sum_of_products(b, a.ct, v, steep=a.steep, again=a.again) if a.want[1] else None,
    ]


def _unscale(b: Builder, a: RuleArguments) -> Cotangents:
    _, s = a.x
    return [
        b.one("unscale", a.ct, s) if a.want[0] else None,
        # d(v / s)/ds = -v / s^2 = -r / s, which reuses the result.
        b.neg(b.div(sum_of_products(b, a.ct, a.r, steep=a.steep, again=a.again), s)) if a.want[1] else None,
    ]


def _cw_mul(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x
    return [
        b.one("cw_mul", a.ct, y) if a.want[0] else None,
        b.one("cw_mul", a.ct, x) if a.want[1] else None,
    ]


def _cw_div(b: Builder, a: RuleArguments) -> Cotangents:
    over = b.one("cw_div", a.ct, a.x[1])
    if not a.want[1]:
        return [over, None]
    # As for a scalar quotient: ct / y, and -(ct / y) r.
    if a.steep:
        return [over, b.neg(product(b, "cw_mul", over, a.r, first=True, result=a.r.type, again=a.again))]
    return [over, b.neg(b.one("cw_mul", over, a.r))]


def _dot(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x
    if a.op.operands[0] is a.op.operands[1]:
        # The dot product of a vector with itself: one contribution of 2 ct x instead of two of ct x.
        return [*_length_sq(b, a), None]
    return [
        scaled(b, a.ct, y, steep=a.steep, again=a.again) if a.want[0] else None,
        scaled(b, a.ct, x, steep=a.steep, again=a.again) if a.want[1] else None,
    ]


def _cross(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x
    # ct . (dx x y) = dx . (y x ct) by the triple product.
    return [
        b.one("cross", y, a.ct) if a.want[0] else None,
        b.one("cross", a.ct, x) if a.want[1] else None,
    ]


def _length(b: Builder, a: RuleArguments) -> Cotangents:
    return [scaled(b, over_norm(b, a.ct, a.r), a.x[0], steep=a.steep, again=a.again)]


def _length_sq(b: Builder, a: RuleArguments) -> Cotangents:
    assert isinstance(a.ct.type, Scalar)
    return [scaled(b, b.mul(b.const(2.0, a.ct.type), a.ct), a.x[0], steep=a.steep, again=a.again)]


def _normalize(b: Builder, a: RuleArguments) -> Cotangents:
    assert isinstance(a.r.type, Vec)
    length = b.one("length", a.x[0])
    # The derivative projects onto the plane perpendicular to r and divides by the length.
    tangential = b.sub(a.ct, along_unit(b, a.ct, a.r, steep=a.steep, again=a.again))
    inverse = over_norm(b, b.const(1.0, a.r.type.dtype), length)
    return [scaled(b, tangential, inverse, steep=a.steep, again=a.again)]


def _matmul(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x
    return [
        # R = X Y gives ct_X = ct Y^T and ct_Y = X^T ct.
        b.one("matmul", a.ct, b.one("transpose", y)) if a.want[0] else None,
        b.one("matmul", b.one("transpose", x), a.ct) if a.want[1] else None,
    ]


def _matvec(b: Builder, a: RuleArguments) -> Cotangents:
    m, v = a.x
    return [
        b.one("outer", a.ct, v) if a.want[0] else None,
        b.one("vecmat", a.ct, m) if a.want[1] else None,
    ]


def _vecmat(b: Builder, a: RuleArguments) -> Cotangents:
    v, m = a.x
    return [
        b.one("matvec", m, a.ct) if a.want[0] else None,
        b.one("outer", v, a.ct) if a.want[1] else None,
    ]


def _conjugate(b: Builder, q: Value) -> Value:
    x, y, z, w = b.components(q)
    return b.construct(q.type, [b.neg(x), b.neg(y), b.neg(z), w])


def _quat_mul(b: Builder, a: RuleArguments) -> Cotangents:
    x, y = a.x
    # Multiplication by a quaternion is linear, and its transpose is multiplication by the conjugate, on the same side.
    return [
        b.one("quat_mul", a.ct, _conjugate(b, y)) if a.want[0] else None,
        b.one("quat_mul", _conjugate(b, x), a.ct) if a.want[1] else None,
    ]


def _outer(b: Builder, a: RuleArguments) -> Cotangents:
    v, w = a.x
    return [
        b.one("matvec", a.ct, w) if a.want[0] else None,
        b.one("vecmat", v, a.ct) if a.want[1] else None,
    ]


def _transpose(b: Builder, a: RuleArguments) -> Cotangents:
    return [b.one("transpose", a.ct)]


def _trace(b: Builder, a: RuleArguments) -> Cotangents:
    t = a.x[0].type
    assert isinstance(t, Mat)
    zero = b.const(0.0, t.dtype)
    return [b.construct(t, [a.ct if r == c else zero for r in range(t.rows) for c in range(t.cols)])]


def _determinant(b: Builder, a: RuleArguments) -> Cotangents:
    # Right for singular matrices too, unlike det * inverse(m).T.
    return [scaled(b, a.ct, cofactors(b, a.x[0]), steep=a.steep, again=a.again)]


def cofactors(b: Builder, matrix: Value) -> Value:
    """Return the matrix of cofactors: the derivative of the determinant, of singular matrices too."""
    t = matrix.type
    assert isinstance(t, Mat)
    n = t.rows
    m = [[b.extract(matrix, r * n + c) for c in range(n)] for r in range(n)]
    return b.construct(t, [_cofactor(b, m, r, c) for r in range(n) for c in range(n)])


def _cofactor(b: Builder, m: list[list[Value]], row: int, col: int) -> Value:
    t = m[0][0].type
    assert isinstance(t, Scalar)
    n = len(m) - 1
    if n == 0:
        return b.const(1.0, t)
    minor = [v for r, line in enumerate(m) for c, v in enumerate(line) if r != row and c != col]
    value = minor[0] if n == 1 else b.one("determinant", b.construct(Mat(t, n, n), minor))
    return b.neg(value) if (row + col) % 2 else value


def _inverse(b: Builder, a: RuleArguments) -> Cotangents:
    # d(M^-1) = -M^-1 dM M^-1, so ct_M = -R^T ct R^T.
    r_t = b.one("transpose", a.r)
    if a.steep:
        ahead = product(b, "matmul", a.ct, r_t, first=False, result=a.r.type, again=a.again)
        return [b.neg(product(b, "matmul", ahead, r_t, first=True, result=a.r.type, again=a.again))]
    return [b.neg(b.one("matmul", b.one("matmul", r_t, a.ct), r_t))]


def _by_component(rule: Rule) -> Rule:
    """Return the rule of a product that multiplies component by component where the cotangent may be infinite."""

    def either(b: Builder, a: RuleArguments) -> Cotangents:
        if not a.steep:
            return rule(b, a)
        return [cotangent(b, a, k) if want else None for k, want in enumerate(a.want)]

    return either


COMPOSITE_RULES: dict[str, Rule] = {
    "construct": _construct,
    "extract_dyn": _extract_dyn,
    "insert_dyn": _insert_dyn,
    "scale": _scale,
    "unscale": _unscale,
    "cw_mul": _by_component(_cw_mul),
    "cw_div": _cw_div,
    "dot": _dot,
    "cross": _by_component(_cross),
    "length": _length,
    "length_sq": _length_sq,
    "normalize": _normalize,
    "matmul": _by_component(_matmul),
    "matvec": _by_component(_matvec),
    "vecmat": _by_component(_vecmat),
    "quat_mul": _by_component(_quat_mul),
    "outer": _by_component(_outer),
    "transpose": _transpose,
    "trace": _trace,
    "determinant": _determinant,
    "inverse": _inverse,
}
