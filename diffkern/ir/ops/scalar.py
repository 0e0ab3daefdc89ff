"""Scalar operations (and elementwise add, sub, neg, select on composites).

Conventions at kinks and ends of domains (also stated in the documentation): ``abs`` has derivative 0 at 0; ties of
``min`` and ``max`` go to the first argument; ``d(x**p)/dx`` is 0 for p = 0 and ``d(x**p)/dp`` is 0 at x = 0.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from diffkern.ir.ops.polygamma import MAX_ORDER, digamma, polygamma
from diffkern.ir.ops.row import (
    FIRST,
    TAKEN,
    BuiltIn,
    Diff,
    Entry,
    Infer,
    Library,
    OpDef,
    Singular,
    Tangent,
    TypeRuleError,
    call,
)
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    STORAGE_ONLY,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Element,
    Kind,
    Mat,
    Scalar,
    Stack,
    Type,
    Vec,
)


def _scalar(t: Type) -> Scalar:
    if not isinstance(t, Scalar):
        raise TypeRuleError(f"needs a scalar, not {t}")
    if t in STORAGE_ONLY:
        raise TypeRuleError(f"{t} is a storage type; values are float32")
    return t


def _equal(types: Sequence[Type]) -> Type:
    if any(t is not types[0] and t != types[0] for t in types):
        raise TypeRuleError(f"needs operands of one type, not {' and '.join(map(str, types))}")
    return types[0]


def _require(ok: bool, what: str, t: Type) -> None:
    if not ok:
        raise TypeRuleError(f"needs {what}, not {t}")


def same(what: str, *, composite: bool = False, kinds: frozenset[Kind] = frozenset(Kind)) -> Infer:
    """Return the rule that all operands and the result have one type of these kinds; optionally also composites."""

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


def _single(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    (t,) = types
    _require((t.dtype if isinstance(t, (Vec, Mat)) else t) == FLOAT32, "float32", t)
    return (t,)


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


LN2 = "0.6931471805599453"
LN10 = "2.302585092994046"
TWO_OVER_SQRT_PI = "1.1283791670955126"

DIVISOR: Final = Singular(((1.0, 0.0),), guarded=True, operand=1, nonzero=True)
AT_ZERO: Final = Singular(((0.0,),), guarded=True, operand=0)
STEEP_AT_ZERO: Final = AT_ZERO._replace(steep=True)
AT_ENDS: Final = Singular(((1.0,),), guarded=True)
STEEP_AT_ENDS: Final = AT_ENDS._replace(steep=True)
OVERFLOWING: Final = Singular(((1e5,),))
AT_POLES: Final = Singular(((0.0,), (-1.0,)), guarded=True, operand=0)
"""Partial derivatives that are infinite where the divisor or the operand is 0, at the ends of the domain, and where the
result is infinite as well."""

INFINITE_AT_ZERO: Final = "Infinite at x = 0."
AT_JUMPS: Final = "0 at the jumps as well."

_VECTORS: Final = "or vectors of them"
_COMPONENTS: Final = "or vectors or matrices of them"
INFINITE_AT_ENDS: Final = "Infinite at x = -1 and x = 1."


def function(
    name: str,
    doc: str,
    host: Callable[..., Any],
    twin: Callable[..., Any] | None,
    *partials: str,
    singular: Singular | None,
    signature: str = "x",
    fast: str = "",
    least: int | None = None,
    kinks: str = "",
    library: str = "",
) -> OpDef:
    """Return the row of an elementary function of floats, which libm and libdevice have as ``name`` or ``library``.

    Without ``twin``, generated Python calls ``host`` in double precision; the result is infinite where that overflows,
    and NaN outside its domain.
    """

    def in_double(*args: Any) -> Any:
        try:
            return type(args[0])(host(*map(float, args)))
        except ArithmeticError:
            return type(args[0])(math.inf)
        except ValueError:
            return type(args[0])(math.nan)

    return _of_floats(
        name, doc, host, arity=len(partials), signature=signature, twin=twin or in_double,
        library=Library(libm=library or name, libdevice=library or name, fast=fast),
        cost=10.0, elementary=True, ways=math.inf, least=least, partials=partials, singular=singular, kinks=kinks,
    )  # fmt: skip


def _of_floats(
    name: str,
    doc: str,
    host: Callable[..., Any],
    *,
    arity: int = 1,
    infer: Infer | None = None,
    signature: str = "",
    returns: str = "float",
    entry: Entry | None = None,
    kinks: str = "",
    also: str = "",
    **facts: Any,
) -> OpDef:
    """Return the row of a built-in function of floats."""
    infer = infer or same("floats" if arity > 1 else "a float", kinds=FLOATS)
    signature = signature or ("x, y" if arity > 1 else "x")
    built_in = BuiltIn(doc, signature, host, returns, of_floats=True, entry=entry, kinks=kinks, also=also)
    return OpDef(name, "scalar", arity, infer, py=call(name, arity), built_in=built_in, **facts)


def _rounding(name: str, doc: str, twin: Callable[..., Any]) -> OpDef:
    library = Library(llvm=name, libdevice=name)
    host, kinks = lambda x: float(twin(x)), AT_JUMPS
    return _of_floats(name, doc, host, diff=Diff.ZERO, twin=twin, library=library, kinks=kinks, jumps=True)


def _half_away(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.copysign(type(x)(1), x) if abs(x - whole) >= 0.5 else whole


def _to_half(x: Any) -> Any:
    """Round to the nearest number of float16, ties to even; the result is a float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x, np.float32).astype(np.float16).astype(np.float32)[()]


def _to_bfloat(x: Any) -> Any:
    """Round to the nearest number of bfloat16, ties to even; the result is a float32."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32))[()]


def _bits_of(t: Scalar) -> Callable[[Any], Any]:
    def bits(x: Any) -> Any:
        if t == BFLOAT16:
            return np.uint16(np.asarray(_to_bfloat(x), np.float32).view(np.uint32) >> np.uint32(16))
        with np.errstate(over="ignore"):
            return np.asarray(x).astype(t.name).view(f"uint{8 * t.itemsize}")[()]

    return bits


def _of_bits(t: Scalar) -> Callable[[Any], Any]:
    def number(x: Any) -> Any:
        if t == BFLOAT16:
            return (np.asarray(x, np.uint32) << np.uint32(16)).view(np.float32)[()]
        found = np.asarray(x, f"uint{8 * t.itemsize}").view(t.name)[()]
        return np.float32(found) if t == FLOAT16 else found

    return number


def _between_bits(t: Scalar) -> tuple[OpDef, OpDef]:
    """Return the ops from a float to the unsigned integer of its bits and back; narrow types have float32 values."""
    value, held = FLOAT32 if t in STORAGE_ONLY else t, {16: UINT16, 32: UINT32, 64: UINT64}[8 * t.itemsize]

    def infer(takes: Scalar, gives: Scalar) -> Infer:
        def rule(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
            _require(types[0] == takes, str(takes), types[0])
            return (gives,)

        return rule

    there, back = f"bits_of_{t}", f"{t}_of_bits"
    return (
        OpDef(there, "scalar", 1, infer(value, held), diff=Diff.ZERO, py=call(there, 1), twin=_bits_of(t)),
        OpDef(back, "scalar", 1, infer(held, value), diff=Diff.ZERO, py=call(back, 1), twin=_of_bits(t)),
    )


def _comparison(name: str, sign: str, mirrored: str, negated: str) -> OpDef:
    return OpDef(
        name, "scalar", 2, _compare, diff=Diff.ZERO, py=f"{{0}} {sign} {{1}}", optional={"range_step": bool},
        fold=getattr(operator, name), mirrored=mirrored, negated=negated, commutative=mirrored == name,
    )  # fmt: skip


def _truncated(x: Any, y: Any) -> Any:
    """Return the quotient of two integers rounded toward zero; 0 if the divisor is 0."""
    if y == 0:
        return type(x)(0)
    down = np.floor_divide(x, y) if isinstance(x, np.generic) else x // y
    return down + type(x)(down * y != x and (x < 0) != (y < 0))


def _rest(x: Any, y: Any) -> Any:
    """Return the remainder, with the sign of x; that of two integers is exact."""
    return math.fmod(x, y) if isinstance(x, float) or isinstance(y, float) else x - y * _truncated(x, y)


def _bitwise(name: str, sign: str, fold: Callable[..., Any]) -> OpDef:
    """Return the row of a bitwise operation, on bools the logical operation without short-circuiting."""
    return OpDef(
        name, "scalar", 2, same("bools or integers", kinds=BITS), diff=Diff.ZERO, py=f"{{0}} {sign} {{1}}",
        built_in=BuiltIn(f"a {sign} b.", "a, b", fold, name=f"bit_{name}", also=_COMPONENTS),
        commutative=True, fold=fold, modular=True,
    )  # fmt: skip


def _shift(name: str, sign: str, host: Callable[..., Any]) -> OpDef:
    return OpDef(
        name, "scalar", 2, same("integers", kinds=INTEGER), diff=Diff.ZERO, py=f"{{0}} {sign} {{1}}",
        built_in=BuiltIn(f"a {sign} b.", "a, b", host, name=host.__name__, also=_COMPONENTS), ways=3.0,
    )  # fmt: skip


def _question(name: str, doc: str, host: Callable[..., Any], twin: Callable[..., Any]) -> OpDef:
    return _of_floats(
        name, doc, host, infer=_test, returns="bool", diff=Diff.ZERO, twin=twin, fold=host,
        also="or a vector, matrix or quaternion",
    )  # fmt: skip


def _extremum(name: str, word: str, fold: Callable[..., Any]) -> OpDef:
    doc = f"The {word}; of vectors, component by component; of one vector, its {word} component."
    result = "Of their type; of one vector a number."
    example = f"y[i] = dk.{name}(x[i], 1.0)"
    kinks = f"{FIRST} Where one is NaN, that is the result and has the derivative."
    entry = Entry("a, b, ... : number, vector or matrix", result, TAKEN, example, kinks)
    return OpDef(
        name, "scalar", 2, same("numbers", kinds=NUMERIC), py=call(name, 2),
        built_in=BuiltIn(doc, "a, b, ...", fold, entry=entry),
        flop=True, ways=4.0, fold=fold, chooses=True, linear=True,
    )  # fmt: skip


def _of_pair(name: str, derivative: str) -> Entry:
    return Entry(
        "a, b : number, vector, matrix or quaternion", "Of their type.", derivative, f"y[i] = dk.{name}(x[i], 1.0)"
    )


def _of_one(takes: str, name: str, derivative: str, kinks: str = "") -> Entry:
    return Entry(takes, "Of its type.", derivative, f"y[i] = dk.{name}(x[i])", kinks)


def _gamma(x: Any) -> Any:
    """Return the gamma function as C does where Python raises an error: ±inf at ±0, NaN at negative integers."""
    try:
        return type(x)(math.gamma(x))
    except OverflowError:
        return type(x)(math.inf)
    except ValueError:
        return np.copysign(type(x)(math.inf), x) if x == 0 else type(x)(math.nan)


def _lgamma(x: Any) -> Any:
    """Return the log-gamma function as in C: infinite at 0 and negative integers, and where it overflows."""
    try:
        return type(x)(math.lgamma(x))
    except (ValueError, OverflowError):
        return type(x)(math.inf)


def _polygamma(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    if not 1 <= attrs["order"] <= MAX_ORDER:
        raise TypeRuleError(f"needs an order from 1 to {MAX_ORDER}, not {attrs['order']}")
    return same("a float", kinds=FLOATS)(types, attrs)


ROWS: Final = (
    OpDef("const", "scalar", 0, _const, diff=Diff.ZERO, attrs={"value": bool | int | float, "type": Scalar}, cost=0.0),
    OpDef("cast", "scalar", 1, _cast, py="cast({0}, {to})", attrs={"to": Element}, linear=True),
    OpDef(
        "round_float16", "scalar", 1, _single, py=call("round_float16", 1),
        twin=_to_half, fold=lambda x: float(_to_half(x)), linear=True, by_component=True,
    ),
    OpDef(
        "round_bfloat16", "scalar", 1, _single, py=call("round_bfloat16", 1),
        twin=_to_bfloat, fold=lambda x: float(_to_bfloat(x)), linear=True, by_component=True,
    ),
    *(row for t in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64) for row in _between_bits(t)),
    # picked: the last of a chain that picks one of so many components by its number
    OpDef(
        "select", "scalar", 3, _select, py="select({0}, {1}, {2})", linear=True, chooses=True, optional={"picked": int},
    ),
    OpDef(
        "add", "scalar", 2, same("numbers", composite=True, kinds=NUMERIC), py="{0} + {1}",
        optional={"reassoc": bool, "as_written": bool},
        built_in=BuiltIn("a + b.", "a, b", operator.add, entry=_of_pair("add", "1 with respect to each.")),
        commutative=True, neutral=0, fold=operator.add,
        flop=True, modular=True, affine=True, linear=True, by_component=True,
    ),
    OpDef(
        "sub", "scalar", 2, same("numbers", composite=True, kinds=NUMERIC), py="{0} - {1}",
        optional={"reassoc": bool, "as_written": bool},
        built_in=BuiltIn("a - b.", "a, b", operator.sub, entry=_of_pair("sub", "1 and -1.")),
        neutral=0, fold=operator.sub,
        flop=True, modular=True, affine=True, linear=True, by_component=True,
    ),
    OpDef(
        "neg", "scalar", 1, same("a signed number", composite=True, kinds=SIGNED), py="-{0}",
        built_in=BuiltIn(
            "-x.", "x", operator.neg, entry=_of_one("x : number, vector, matrix or quaternion", "neg", "-1."),
        ),
        fold=operator.neg,
        flop=True, modular=True, affine=True, linear=True, by_component=True, tangent=Tangent.LINEAR,
    ),
    OpDef(
        "mul", "scalar", 2, same("numbers", kinds=NUMERIC), py="{0} * {1}", optional={"as_written": bool},
        built_in=BuiltIn(
            "a * b.", "a, b", operator.mul, also="or vectors, matrices and quaternions, as ``a * b`` takes them",
        ),
        commutative=True, neutral=1, fold=operator.mul,
        flop=True, modular=True, affine=True, definite=True, partials=("y", "x"),
    ),
    OpDef(
        "div", "scalar", 2, same("floats", kinds=FLOATS), py="{0} / {1}", optional={"as_written": bool},
        built_in=BuiltIn(
            "a / b.", "a, b", operator.truediv, kinks="Not finite at b = 0.",
            also="int, or one of the two a vector, matrix or quaternion",
        ),
        flop=True, cost=4.0, neutral=1, fold=operator.truediv,
        partials=("1/y", "-r/y"), singular=DIVISOR,
    ),
    OpDef(
        "floordiv", "scalar", 2, same("numbers", kinds=NUMERIC), diff=Diff.ZERO, py="floordiv({0}, {1})",
        twin=np.floor_divide,
        built_in=BuiltIn(
            "a // b, rounded down as in Python.", "a, b", operator.floordiv, kinks=AT_JUMPS, also=_VECTORS,
        ),
        cost=6.0, ways=30.0, fold=operator.floordiv, divides=True, jumps=True,
    ),
    OpDef(
        "mod", "scalar", 2, same("numbers", kinds=NUMERIC), py="mod({0}, {1})",
        twin=np.remainder, built_in=BuiltIn(
            "a % b, with the sign of b as in Python.", "a, b", operator.mod, kinks="The formula, at the jumps as well.",
            also=_VECTORS,
        ),
        cost=6.0, ways=30.0, fold=operator.mod, divides=True, jumps=True,
        partials=("1", "-floor(x/y)"), singular=Singular(((1.0, 0.0),)),
    ),
    OpDef(
        "truncdiv", "scalar", 2, same("integers", kinds=INTEGER), diff=Diff.ZERO, py="truncdiv({0}, {1})",
        twin=_truncated, cost=6.0, ways=30.0, fold=_truncated, divides=True,
    ),
    OpDef(
        "rem", "scalar", 2, same("numbers", kinds=NUMERIC), py="rem({0}, {1})", twin=np.fmod, cost=6.0, ways=30.0,
        fold=_rest, divides=True, jumps=True, partials=("1", "-trunc(x/y)"), singular=Singular(((1.0, 0.0),)),
    ),
    OpDef(
        "abs", "scalar", 1, same("a number", kinds=NUMERIC), py="abs({0})", twin=np.abs,
        built_in=BuiltIn(
            "Absolute value; of a vector or matrix, of each component.", "x", builtins.abs,
            entry=_of_one("x : number, vector or matrix", "abs", "The sign of x.", "0 at x = 0."),
        ),
        flop=True, ways=3.0, least=0, parity=1, partials=("sign(x)",),
    ),
    OpDef(
        "sign", "scalar", 1, same("a signed number", kinds=SIGNED), diff=Diff.ZERO, py="sign({0})", twin=np.sign,
        ways=4.0, jumps=True,
    ),
    _extremum("min", "smallest", builtins.min),
    _extremum("max", "largest", builtins.max),
    OpDef(
        "pow", "scalar", 2, same("floats", kinds=FLOATS), py="pow({0}, {1})", twin=np.power,
        library=Library(libm="pow", libdevice="pow", fast="fast_pow"),
        built_in=BuiltIn(
            "x to the power y.", "x, y", builtins.pow, "float",
            kinks="With respect to x, infinite at x = 0 for y < 1; with respect to y, NaN for x < 0.",
        ),
        cost=10.0, elementary=True, ways=math.inf,
        partials=("0 if y == 0 else y*pow(x, y - 1)", "0 if x == 0 else r*log(x)"),
        singular=Singular(((0.0, 0.5), (-1.0, 0.5)), guarded=True, operand=0, steep=True),
    ),
    function(
        "atan2", "The angle of the point (x, y).", math.atan2, np.arctan2,
        "0 if abs(x) + abs(y) == 0 else y/(x*x + y*y)", "0 if abs(x) + abs(y) == 0 else -x/(x*x + y*y)",
        singular=Singular(((1e-310, 1e-310),)), signature="y, x", kinks="0 at the origin.",
    ),
    _of_floats(
        "hypot", "sqrt(x*x + y*y), also where the squares overflow or vanish.", math.hypot, arity=2, twin=np.hypot,
        cost=6.0, least=0, partials=("0 if r == 0 else x/r", "0 if r == 0 else y/r"), kinks="0 at the origin.",
    ),
    _of_floats(
        "copysign", "x with the sign of y.", math.copysign, arity=2, twin=np.copysign,
        library=Library(llvm="copysign", libdevice="copysign"),
        entry=Entry(
            "x, y : float", "float",
            "1 with respect to x if its sign bit is that of y, else -1; 0 with respect to y.",
            "y[i] = dk.copysign(x[i], -1.0)", "At 0.0 and -0.0 the sign bits decide as well.",
        ),
    ),
    _of_floats(
        "sqrt", "Square root.", math.sqrt, twin=np.sqrt, library=Library(llvm="sqrt", libdevice="sqrt"),
        flop=True, cost=4.0, elementary=True, least=0, partials=("0.5/r",), singular=STEEP_AT_ZERO,
        kinks=f"{INFINITE_AT_ZERO[:-1]}, but 0 of the root of a sum of squares.",
    ),
    _of_floats(
        "rsqrt", "One over the square root.", lambda x: 1.0 / math.sqrt(x), twin=lambda x: type(x)(1) / np.sqrt(x),
        library=Library(libdevice="rsqrt"), cost=10.0, elementary=True, partials=("-0.5*r*r*r",), singular=AT_ZERO,
        kinks=INFINITE_AT_ZERO,
    ),
    function(
        "cbrt", "Cube root.", lambda x: float(np.cbrt(x)), np.cbrt, "1/(3*r*r)", singular=STEEP_AT_ZERO,
        kinks=INFINITE_AT_ZERO,
    ),
    function("exp", "e to the power x.", math.exp, np.exp, "r", singular=OVERFLOWING, fast="fast_exp", least=0),
    function("exp2", "2 to the power x.", lambda x: 2.0**x, np.exp2, f"{LN2}*r", singular=OVERFLOWING, least=0),
    function("expm1", "exp(x) - 1, accurate near 0.", math.expm1, np.expm1, "r + 1", singular=OVERFLOWING),
    function(
        "log", "Natural logarithm.", math.log, np.log, "1/x", singular=AT_ZERO, fast="fast_log", kinks=INFINITE_AT_ZERO,
    ),
    function(
        "log2", "Logarithm to base 2.", math.log2, np.log2, f"1/({LN2}*x)", singular=AT_ZERO, fast="fast_log2",
        kinks=INFINITE_AT_ZERO,
    ),
    function(
        "log10", "Logarithm to base 10.", math.log10, np.log10, f"1/({LN10}*x)", singular=AT_ZERO, fast="fast_log10",
        kinks=INFINITE_AT_ZERO,
    ),
    function(
        "log1p", "log(1 + x), accurate near 0.", math.log1p, np.log1p, "1/(1 + x)",
        singular=Singular(((-1.0,),), guarded=True), kinks="Infinite at x = -1.",
    ),
    function("sin", "Sine.", math.sin, np.sin, "cos(x)", singular=None),
    function("cos", "Cosine.", math.cos, np.cos, "-sin(x)", singular=None),
    function("tan", "Tangent.", math.tan, np.tan, "1 + r*r", singular=Singular(), fast="fast_tan"),  # huge near poles
    function(
        "asin", "Inverse sine.", math.asin, np.arcsin, "rsqrt((1 - x)*(1 + x))", singular=STEEP_AT_ENDS,
        kinks=INFINITE_AT_ENDS,
    ),
    function(
        "acos", "Inverse cosine.", math.acos, np.arccos, "-rsqrt((1 - x)*(1 + x))", singular=STEEP_AT_ENDS,
        kinks=INFINITE_AT_ENDS,
    ),
    function("atan", "Inverse tangent.", math.atan, np.arctan, "1/(1 + x*x)", singular=None),
    function("sinh", "Hyperbolic sine.", math.sinh, np.sinh, "cosh(x)", singular=OVERFLOWING),
    function("cosh", "Hyperbolic cosine.", math.cosh, np.cosh, "sinh(x)", singular=OVERFLOWING, least=1),
    function("tanh", "Hyperbolic tangent.", math.tanh, np.tanh, "(1 - r)*(1 + r)", singular=None),
    function("asinh", "Inverse hyperbolic sine.", math.asinh, np.arcsinh, "rsqrt(1 + x*x)", singular=None),
    function(
        "acosh", "Inverse hyperbolic cosine.", math.acosh, np.arccosh, "rsqrt((x - 1)*(x + 1))", singular=STEEP_AT_ENDS,
        kinks="Infinite at x = 1.",
    ),
    function(
        "atanh", "Inverse hyperbolic tangent.", math.atanh, np.arctanh, "1/((1 - x)*(1 + x))", singular=AT_ENDS,
        kinks=INFINITE_AT_ENDS,
    ),
    function("erf", "Error function.", math.erf, None, f"{TWO_OVER_SQRT_PI}*exp(-x*x)", singular=None),
    function("erfc", "Complementary error function.", math.erfc, None, f"-{TWO_OVER_SQRT_PI}*exp(-x*x)", singular=None),
    function(
        "gamma", "Gamma function, whose value at n + 1 is the factorial of n.", math.gamma, _gamma, "r*digamma(x)",
        singular=AT_POLES, library="tgamma",
        kinks="NaN at negative integers, where the value is as well; not finite at 0, where that is infinite.",
    ),
    function(
        "lgamma", "Logarithm of the absolute value of the gamma function.", math.lgamma, _lgamma, "digamma(x)",
        singular=AT_POLES,
        kinks="NaN at negative integers, and infinite at 0; the value is infinite at all of them.",
    ),
    _of_floats(
        "digamma", "The derivative of lgamma.", digamma, twin=lambda x: type(x)(digamma(float(x))),
        cost=40.0, elementary=True, ways=math.inf, partials=("polygamma(x, order=1)",), singular=AT_POLES,
        entry=Entry(
            "x : float", "float", "The trigamma function; derivatives of all orders up to 100 follow.",
            "y[i] = dk.digamma(x[i])",
            "Infinite at 0 and at negative integers, where the value is infinite and NaN. "
            "A cotangent that is exactly zero stays zero there.",
        ),
    ),
    OpDef(
        "polygamma", "scalar", 1, _polygamma, py="polygamma({0}, {order})", attrs={"order": int},
        twin=lambda x, order: type(x)(polygamma(order, float(x))),
        cost=60.0, elementary=True, ways=math.inf, singular=AT_POLES,
    ),
    _rounding("floor", "The largest integer not above x, as a float.", np.floor),
    _rounding("ceil", "The smallest integer not below x, as a float.", np.ceil),
    _rounding("trunc", "x without its fraction, as a float.", np.trunc),
    _rounding("round", "The nearest integer, halves away from zero, as a float.", _half_away),
    _rounding("rint", "The nearest integer, halves to even, as a float.", np.rint),
    _comparison("lt", "<", "gt", "ge"),
    _comparison("le", "<=", "ge", "gt"),
    _comparison("gt", ">", "lt", "le"),
    _comparison("ge", ">=", "le", "lt"),
    _comparison("eq", "==", "eq", "ne"),
    _comparison("ne", "!=", "ne", "eq"),
    _bitwise("and", "&", operator.and_),
    _bitwise("or", "|", operator.or_),
    _bitwise("xor", "^", operator.xor),
    OpDef(
        "not", "scalar", 1, same("a bool", kinds=frozenset({Kind.BOOL})), diff=Diff.ZERO, py="not {0}",
        built_in=BuiltIn("Logical not.", "x", operator.not_, name="unot"), fold=operator.not_,
    ),
    OpDef(
        "invert", "scalar", 1, same("an integer", kinds=INTEGER), diff=Diff.ZERO, py="~{0}",
        built_in=BuiltIn("Bitwise complement of an integer.", "x", operator.invert, also=_COMPONENTS), modular=True,
    ),
    _shift("shl", "<<", operator.lshift),
    _shift("shr", ">>", operator.rshift),
    _question("isnan", "Whether x, or a component, is not a number.", math.isnan, np.isnan),
    _question("isinf", "Whether x, or a component, is infinite.", math.isinf, np.isinf),
    _question("isfinite", "Whether x, or every component, is finite.", math.isfinite, np.isfinite),
    # Checkpoint schedule: where the next snapshot goes on the way from iteration {0} to {1} with {2} free slots.
    OpDef(
        "next_checkpoint", "scalar", 3, _next_checkpoint, diff=Diff.INTERNAL,
        py="next_checkpoint({0}, {1}, {2})",
    ),
)  # fmt: skip


def _all(has: Callable[[OpDef], bool]) -> frozenset[str]:
    return frozenset(row.name for row in ROWS if has(row))


LITERALS = _all(lambda row: row.arity == 0)
CASTS = _all(lambda row: row.infer is _cast)
NEGATIVES = _all(lambda row: row.affine and row.arity == 1)
SUMS = _all(lambda row: row.affine and row.linear and row.arity == 2)
DIFFERENCES = _all(lambda row: row.affine and row.linear and row.arity == 2 and not row.commutative)
AFFINE_PAIRS = _all(lambda row: row.affine and row.arity == 2)
"""Sums, differences and products."""
ROOTS = frozenset({"sqrt"})
"""Functions that every target rounds correctly."""
DIVISIONS = _all(lambda row: row.divides)
UNPIPELINED = frozenset({"div", "sqrt", "rsqrt"})
"""Operations on floats of which a processor does not begin one in each cycle."""
FLOORED = _all(lambda row: row.divides and row.built_in is not None)
"""Python's quotient and remainder of whole numbers; the others are those of C."""
WHOLE_QUOTIENTS = _all(lambda row: row.divides and row.diff is Diff.ZERO)
BITWISE = _all(lambda row: row.built_in is not None and row.built_in.also is _COMPONENTS and row.arity == 2)
SELECTIONS = _all(lambda row: row.chooses and row.arity == 3)
QUESTIONS = _all(lambda row: row.infer is _test)
FLOAT_FUNCTIONS = _all(lambda row: row.arity == 1 and row.built_in is not None and row.built_in.of_floats) - QUESTIONS
"""Functions of one float whose value is a float."""
JUMPS = _all(lambda row: row.jumps)
BOUNDS = _all(lambda row: row.chooses and row.arity == 2)
LOGIC = _all(lambda row: row.modular and row.commutative and not row.affine)
EQUALITIES = _all(lambda row: bool(row.negated) and row.commutative)
ORDERS = _all(lambda row: bool(row.negated) and not row.commutative)
LESS = _all(lambda row: row.name in ORDERS and row.fold is not None and row.fold(0, 1))
STRICT = _all(lambda row: row.name in ORDERS and row.fold is not None and not row.fold(0, 0))
AT_LEAST = _all(lambda row: bool(row.negated) and row.fold is not None and row.fold(0, 0) and not row.fold(0, 1))
"""Orders of a smaller number before a greater one, those of numbers that differ, and what only x >= y satisfies."""
