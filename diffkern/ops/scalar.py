"""Scalar operations (and elementwise add, sub, neg, select on composites)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.types import BOOL, INT32, STORAGE_ONLY, Array, Element, Kind, Mat, Scalar, Stack, Type, Vec
from diffkern.ops.table import Diff, Infer, OpDef, TypeRuleError, register


def _scalar(t: Type) -> Scalar:
    if not isinstance(t, Scalar):
        raise TypeRuleError(f"needs a scalar, not {t}")
    if t in STORAGE_ONLY:
        raise TypeRuleError(f"{t} is a storage type; values are float32")
    return t


def _equal(types: Sequence[Type]) -> Type:
    if any(t != types[0] for t in types):
        raise TypeRuleError(f"needs operands of one type, not {' and '.join(map(str, types))}")
    return types[0]


def _require(ok: bool, what: str, t: Type) -> None:
    if not ok:
        raise TypeRuleError(f"needs {what}, not {t}")


def same(what: str, *, composite: bool = False, kinds: frozenset[Kind] = frozenset(Kind)) -> Infer:
    """All operands and the result have one type, of the given kinds; optionally composites elementwise."""

    def infer(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
        t = _equal(types)
        if isinstance(t, (Vec, Mat)) and composite:
            _require(t.dtype.kind in kinds, what, t)
            return (t,)
        _require(_scalar(t).kind in kinds, what, t)
        return (t,)

    return infer


NUMERIC = frozenset({Kind.INT, Kind.UINT, Kind.FLOAT})
SIGNED = frozenset({Kind.INT, Kind.FLOAT})
INTEGER = frozenset({Kind.INT, Kind.UINT})
BITS = frozenset({Kind.BOOL, Kind.INT, Kind.UINT})
FLOATS = frozenset({Kind.FLOAT})


def _const(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return (_scalar(attrs["type"]),)


def _cast(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, to = types[0], attrs["to"]
    if isinstance(source, (Vec, Mat)):
        _require(isinstance(to, (Vec, Mat)) and to.shape == source.shape, f"a target of shape {source.shape}", to)
        return (to,)
    _scalar(source)
    return (_scalar(to),)


def _compare(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    _scalar(_equal(types))
    return (BOOL,)


def _select(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    _require(types[0] == BOOL, "a bool condition", types[0])
    t = _equal(types[1:])
    _require(not isinstance(t, (Array, Stack)), "scalar or composite choices", t)
    return (t,)


def _test(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    _require(_scalar(types[0]).is_float, "a float", types[0])
    return (BOOL,)


def _next_checkpoint(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    _require(_scalar(_equal(types[:2])).is_integer, "integer iteration numbers", types[0])
    _require(types[2] == INT32, "an int32 number of slots", types[2])
    return (types[0],)


register(OpDef("const", "scalar", 0, _const, diff=Diff.ZERO, attrs={"value": bool | int | float, "type": Scalar}))
register(OpDef("cast", "scalar", 1, _cast, py="cast({0}, {to})", attrs={"to": Element}))
register(OpDef("select", "scalar", 3, _select, py="select({0}, {1}, {2})"))

for _name, _py in (("add", "{0} + {1}"), ("sub", "{0} - {1}")):
    register(
        OpDef(_name, "scalar", 2, same("numbers", composite=True, kinds=NUMERIC), py=_py, optional={"reassoc": bool})
    )
register(OpDef("neg", "scalar", 1, same("a signed number", composite=True, kinds=SIGNED), py="-{0}"))
register(OpDef("mul", "scalar", 2, same("numbers", kinds=NUMERIC), py="{0} * {1}"))
register(OpDef("div", "scalar", 2, same("floats", kinds=FLOATS), py="{0} / {1}"))
register(OpDef("floordiv", "scalar", 2, same("numbers", kinds=NUMERIC), diff=Diff.ZERO, py="floordiv({0}, {1})"))
register(OpDef("mod", "scalar", 2, same("numbers", kinds=NUMERIC), py="mod({0}, {1})"))
register(OpDef("abs", "scalar", 1, same("a number", kinds=NUMERIC), py="abs({0})"))
register(OpDef("sign", "scalar", 1, same("a signed number", kinds=SIGNED), diff=Diff.ZERO, py="sign({0})"))
for _name in ("min", "max"):
    register(OpDef(_name, "scalar", 2, same("numbers", kinds=NUMERIC), py=f"{_name}({{0}}, {{1}})"))

BINARY_MATH = ("pow", "atan2")
for _name in (*BINARY_MATH, "hypot", "copysign"):
    register(OpDef(_name, "scalar", 2, same("floats", kinds=FLOATS), py=f"{_name}({{0}}, {{1}})"))

UNARY_MATH = (
    "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
for _name in UNARY_MATH:
    register(OpDef(_name, "scalar", 1, same("a float", kinds=FLOATS), py=f"{_name}({{0}})"))

ROUNDING = ("floor", "ceil", "trunc", "round", "rint")  # round: halves away from zero; rint: halves to even
for _name in ROUNDING:
    register(OpDef(_name, "scalar", 1, same("a float", kinds=FLOATS), diff=Diff.ZERO, py=f"{_name}({{0}})"))

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
for _name, _sign in COMPARISONS.items():
    register(
        OpDef(_name, "scalar", 2, _compare, diff=Diff.ZERO, py=f"{{0}} {_sign} {{1}}", optional={"range_step": bool})
    )

for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^")):  # on bools the eager logical operations
    register(
        OpDef(_name, "scalar", 2, same("bools or integers", kinds=BITS), diff=Diff.ZERO, py=f"{{0}} {_sign} {{1}}")
    )
register(OpDef("not", "scalar", 1, same("a bool", kinds=frozenset({Kind.BOOL})), diff=Diff.ZERO, py="not {0}"))
register(OpDef("invert", "scalar", 1, same("an integer", kinds=INTEGER), diff=Diff.ZERO, py="~{0}"))
for _name, _sign in (("shl", "<<"), ("shr", ">>")):
    register(OpDef(_name, "scalar", 2, same("integers", kinds=INTEGER), diff=Diff.ZERO, py=f"{{0}} {_sign} {{1}}"))

for _name in ("isnan", "isinf", "isfinite"):
    register(OpDef(_name, "scalar", 1, _test, diff=Diff.ZERO, py=f"{_name}({{0}})"))

# Checkpoint schedule: where the next snapshot goes on the way from iteration {0} to {1} with {2} free slots.
register(
    OpDef(
        "next_checkpoint",
        "scalar",
        3,
        _next_checkpoint,
        diff=Diff.INTERNAL,
        py="next_checkpoint({0}, {1}, {2})",
    )
)
