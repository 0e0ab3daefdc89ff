"""Operations on vectors and matrices; each stays one op through differentiation and is expanded per target."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from diffkern.ir.ops.row import BuiltIn, Entry, Infer, OpDef, Singular, Tangent, TypeRuleError, call
from diffkern.ir.ops.scalar import DIVISOR
from diffkern.ir.types import Composite, Mat, Role, Scalar, Type, Vec

Attrs = Mapping[str, Any]


def _composite(t: Type) -> Composite:
    if not isinstance(t, (Vec, Mat)):
        raise TypeRuleError(f"needs a vector or matrix, not {t}")
    return t


def _vec(t: Type) -> Vec:
    if not isinstance(t, Vec):
        raise TypeRuleError(f"needs a vector, not {t}")
    return t


def _mat(t: Type) -> Mat:
    if not isinstance(t, Mat):
        raise TypeRuleError(f"needs a matrix, not {t}")
    return t


def _square(t: Type) -> Mat:
    m = _mat(t)
    if m.rows != m.cols:
        raise TypeRuleError(f"needs a square matrix, not {t}")
    return m


def _same(a: Type, b: Type) -> Composite:
    if a != b:
        raise TypeRuleError(f"needs operands of one type, not {a} and {b}")
    return _composite(a)


def _element(t: Type, dtype: Scalar) -> None:
    if t != dtype:
        raise TypeRuleError(f"needs a {dtype}, not {t}")


def _inner(a: int, b: int, types: Sequence[Type]) -> None:
    if a != b:
        raise TypeRuleError(f"inner sizes differ: {types[0]} and {types[1]}")


def _construct(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _composite(attrs["type"])
    if len(types) != t.size:
        raise TypeRuleError(f"{t} needs {t.size} components, not {len(types)}")
    for component in types:
        _element(component, t.dtype)
    return (t,)


def _extract(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _composite(types[0])
    if not 0 <= attrs["index"] < t.size:
        raise TypeRuleError(f"component {attrs['index']} of {t}")
    return (t.dtype,)


def _insert(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _composite(types[0])
    _element(types[1], t.dtype)
    if not 0 <= attrs["index"] < t.size:
        raise TypeRuleError(f"component {attrs['index']} of {t}")
    return (t,)


def _integer(t: Type) -> None:
    if not (isinstance(t, Scalar) and t.is_integer):
        raise TypeRuleError(f"needs an integer index, not {t}")


def _extract_dyn(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _integer(types[1])
    return (_composite(types[0]).dtype,)


def _insert_dyn(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _composite(types[0])
    _element(types[1], t.dtype)
    _integer(types[2])
    return (t,)


def _scale(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _composite(types[0])
    _element(types[1], t.dtype)
    return (t,)


def _cross(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _same(*types)
    if _vec(t).length != 3:
        raise TypeRuleError(f"needs vectors of length 3, not {t}")
    return (t,)


def _matmul(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    a, b = _mat(types[0]), _mat(types[1])
    _inner(a.cols, b.rows, types)
    _element(b.dtype, a.dtype)
    return (Mat(a.dtype, a.rows, b.cols),)


def _matvec(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    m, v = _mat(types[0]), _vec(types[1])
    _inner(m.cols, v.length, types)
    _element(v.dtype, m.dtype)
    return (Vec(m.dtype, m.rows),)


def _vecmat(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    v, m = _vec(types[0]), _mat(types[1])
    _inner(v.length, m.rows, types)
    _element(v.dtype, m.dtype)
    return (Vec(m.dtype, m.cols),)


def _outer(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    v, w = _vec(types[0]), _vec(types[1])
    _element(w.dtype, v.dtype)
    return (Mat(v.dtype, v.length, w.length),)


def _quaternion(a: Type, b: Type) -> Vec:
    t = _vec(_same(a, b))
    if t.role is not Role.QUATERNION:
        raise TypeRuleError(f"needs quaternions, not {t}")
    return t


def _of(result: Callable[..., Type]) -> Infer:
    """Return the type rule of a result that follows from the operands' types alone."""
    return lambda types, attrs: (result(*types),)


def _built_in(name: str, infer: Infer, doc: str, entry: Entry, *, returns: str = "Any", **facts: Any) -> OpDef:
    """Return the row of a built-in function, whose parameters are those of its entry."""
    signature = ", ".join(takes.partition(" : ")[0] for takes in entry.takes.split("; "))
    arity = len(signature.split(", "))
    built_in = BuiltIn(doc, signature, returns=returns, entry=entry)
    return OpDef(name, "composite", arity, infer, py=call(name, arity), built_in=built_in, **facts)


_elementwise: Final = _of(_same)
_dot: Final = _of(lambda a, b: _same(a, b).dtype)
_transpose: Final = _of(lambda m: Mat(_mat(m).dtype, m.cols, m.rows))
_norm: Final = _of(lambda v: _composite(v).dtype)
_of_square: Final = _of(lambda m: _square(m).dtype)


_PAIR = "a, b : vector or matrix of floats"
_VECTOR = "a : vector of floats"
_SQUARE = "a : square matrix of floats"

ROWS: Final = (
    OpDef(
        "construct", "composite", None, _construct,
        attrs={"type": Composite}, cost=0.0, linear=True, tangent=Tangent.LINEAR,
    ),
    OpDef(
        "extract", "composite", 1, _extract,
        attrs={"index": int}, cost=0.0, linear=True, parity=-1, tangent=Tangent.LINEAR,
    ),
    OpDef("insert", "composite", 2, _insert, attrs={"index": int}, cost=0.0, linear=True, tangent=Tangent.LINEAR),
    OpDef("extract_dyn", "composite", 2, _extract_dyn, py="extract({0}, {1})", linear=True, tangent=Tangent.LINEAR),
    OpDef("insert_dyn", "composite", 3, _insert_dyn, py="insert({0}, {1}, {2})", linear=True, tangent=Tangent.LINEAR),
    OpDef("scale", "composite", 2, _scale, py="{0} * {1}", neutral=1, by_component=True, tangent=Tangent.BILINEAR),
    OpDef("unscale", "composite", 2, _scale, py="{0} / {1}", neutral=1, by_component=True, singular=DIVISOR),
    _built_in(
        "cw_mul", _elementwise, "The product, component by component.",
        Entry(_PAIR, "Of their type.", "b and a, by component.", "w[i] = dk.cw_mul(u, v)"),
        twin=operator.mul, by_component=True, definite=True, tangent=Tangent.BILINEAR,
    ),
    _built_in(
        "cw_div", _elementwise, "The quotient, component by component.",
        Entry(
            _PAIR, "Of their type.", "1 / b and -a / b**2, by component.", "w[i] = dk.cw_div(u, v)",
            "Not finite where a component of b is 0.",
        ),
        twin=operator.truediv, by_component=True, singular=DIVISOR,
    ),
    # the Frobenius product on matrices
    _built_in(
        "dot", _dot, "The scalar product of two vectors.",
        Entry("a, b : vector of floats, of one length", "float", "b and a.", "y[i] = dk.dot(u, v)"), returns="float",
        definite=True, tangent=Tangent.BILINEAR,
    ),
    _built_in(
        "cross", _cross, "The vector product of two vectors of length 3.",
        Entry(
            "a, b : vector of three floats", "A vector of three floats.",
            "A cotangent c goes on as cross(b, c) and cross(c, a).", "w[i] = dk.cross(u, v)",
        ),
        tangent=Tangent.BILINEAR,
    ),
    _built_in(
        "length", _norm, "The Euclidean norm of a vector.",
        Entry(_VECTOR, "float", "a / length(a).", "y[i] = dk.length(u)", "0 for the zero vector."),
        returns="float", least=0, parity=1, singular=Singular(),
    ),
    _built_in(
        "length_sq", _norm, "The square of the Euclidean norm.",
        Entry(_VECTOR, "float", "2 * a.", "y[i] = dk.length_sq(u)"), returns="float", least=0, parity=1,
    ),
    _built_in(
        "normalize", _of(_vec), "a / length(a); zero for the zero vector.",
        Entry(
            _VECTOR, "Of its type.", "(I - n n^T) / length(a) for the result n.", "w[i] = dk.normalize(u)",
            "0 for the zero vector.",
        ),
        parity=-1, singular=Singular(),
    ),
    OpDef("matmul", "composite", 2, _matmul, py="matmul({0}, {1})", tangent=Tangent.BILINEAR),
    OpDef("matvec", "composite", 2, _matvec, py="matvec({0}, {1})", tangent=Tangent.BILINEAR),
    OpDef("vecmat", "composite", 2, _vecmat, py="vecmat({0}, {1})", tangent=Tangent.BILINEAR),
    OpDef("quat_mul", "composite", 2, _of(_quaternion), py="quat_mul({0}, {1})", tangent=Tangent.BILINEAR),
    _built_in(
        "outer", _outer, "The matrix with component (i, j) = a[i] * b[j].",
        Entry(
            "a, b : vector of floats", "A matrix with a row for each component of a.",
            "A cotangent C goes on as C b and C^T a.", "e[i] = dk.outer(u, v)",
        ),
        twin=np.outer, tangent=Tangent.BILINEAR,
    ),
    _built_in(
        "transpose", _transpose, "The transposed matrix.",
        Entry("a : matrix of floats", "A matrix.", "A cotangent is transposed.", "e[i] = dk.transpose(m)"),
        twin=lambda m: m.T.copy(), linear=True, parity=-1, tangent=Tangent.LINEAR,
    ),
    _built_in(
        "trace", _of_square, "The sum of the diagonal.",
        Entry(_SQUARE, "float", "The identity matrix.", "y[i] = dk.trace(m)"), returns="float", linear=True,
        parity=-1, tangent=Tangent.LINEAR,
    ),
    _built_in(
        "determinant", _of_square, "The determinant of a square matrix.",
        Entry(_SQUARE, "float", "The matrix of cofactors.", "y[i] = dk.determinant(m)"), returns="float",
    ),
    _built_in(
        "inverse", _of(_square), "The inverse of a square matrix.",
        Entry(
            _SQUARE, "A matrix.",
            "A cotangent C goes on as -R^T C R^T for the result R.", "e[i] = dk.inverse(m)",
            "Not finite for a singular matrix.",
        ),
        singular=Singular(),
    ),
)  # fmt: skip

INSERTS = frozenset(row.name for row in ROWS if row.infer in (_insert, _insert_dyn))
AT_RUN_TIME = {"extract_dyn": "extract", "insert_dyn": "insert"}
"""The accesses of components whose index is an operand, the last one, and those whose index is an attribute."""
CONSTRUCTS = frozenset(row.name for row in ROWS if row.infer is _construct)
PARTS = frozenset(row.name for row in ROWS if not row.cost) - INSERTS
"""Operations that compose composites and take out their components."""
BILINEAR = frozenset({"mul"}).union(row.name for row in ROWS if row.tangent is Tangent.BILINEAR)
BY_DIVISOR = frozenset({"div"}).union(row.name for row in ROWS if row.singular is DIVISOR)
PRODUCTS, QUOTIENTS = frozenset({"mul", "scale"}), frozenset({"div", "unscale"})
"""Products and quotients of two numbers, or of a vector or matrix and a number."""
