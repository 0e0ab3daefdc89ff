"""Operations on vectors and matrices. Each stays one op through differentiation and is expanded per target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.types import Composite, Mat, Scalar, Type, Vec
from diffkern.ops.table import OpDef, TypeRuleError, register

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


def _same(types: Sequence[Type]) -> Composite:
    if types[0] != types[1]:
        raise TypeRuleError(f"needs operands of one type, not {types[0]} and {types[1]}")
    return _composite(types[0])


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


def _elementwise(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_same(types),)


def _dot(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_same(types).dtype,)


def _cross(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    t = _same(types)
    if _vec(t).length != 3:
        raise TypeRuleError(f"needs vectors of length 3, not {t}")
    return (t,)


def _norm(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_composite(types[0]).dtype,)


def _normalize(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_vec(types[0]),)


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


def _transpose(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    m = _mat(types[0])
    return (Mat(m.dtype, m.cols, m.rows),)


def _square_to_scalar(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_square(types[0]).dtype,)


def _inverse(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (_square(types[0]),)


for _row in (
    OpDef("construct", "composite", None, _construct, attrs={"type": Composite}),
    OpDef("extract", "composite", 1, _extract, attrs={"index": int}),
    OpDef("insert", "composite", 2, _insert, attrs={"index": int}),
    OpDef("extract_dyn", "composite", 2, _extract_dyn, py="extract({0}, {1})"),
    OpDef("insert_dyn", "composite", 3, _insert_dyn, py="insert({0}, {1}, {2})"),
    OpDef("scale", "composite", 2, _scale, py="{0} * {1}"),
    OpDef("unscale", "composite", 2, _scale, py="{0} / {1}"),
    OpDef("cw_mul", "composite", 2, _elementwise, py="cw_mul({0}, {1})"),
    OpDef("cw_div", "composite", 2, _elementwise, py="cw_div({0}, {1})"),
    OpDef("dot", "composite", 2, _dot, py="dot({0}, {1})"),  # the Frobenius product on matrices
    OpDef("cross", "composite", 2, _cross, py="cross({0}, {1})"),
    OpDef("length", "composite", 1, _norm, py="length({0})"),
    OpDef("length_sq", "composite", 1, _norm, py="length_sq({0})"),
    OpDef("normalize", "composite", 1, _normalize, py="normalize({0})"),
    OpDef("matmul", "composite", 2, _matmul, py="matmul({0}, {1})"),
    OpDef("matvec", "composite", 2, _matvec, py="matvec({0}, {1})"),
    OpDef("vecmat", "composite", 2, _vecmat, py="vecmat({0}, {1})"),
    OpDef("outer", "composite", 2, _outer, py="outer({0}, {1})"),
    OpDef("transpose", "composite", 1, _transpose, py="transpose({0})"),
    OpDef("trace", "composite", 1, _square_to_scalar, py="trace({0})"),
    OpDef("determinant", "composite", 1, _square_to_scalar, py="determinant({0})"),
    OpDef("inverse", "composite", 1, _inverse, py="inverse({0})"),
):
    register(_row)
