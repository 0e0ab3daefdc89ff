"""The LLVM form of every scalar operation: operand values in, one value out, appended to a builder.

No operation traps or has undefined behaviour: an integer division by zero gives 0, a cast from float to integer
saturates (NaN gives 0), a shift by the width or more shifts everything out. ``diffkern.printing.prims`` is the pure
Python twin of this table, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from llvmlite import ir

from diffkern import vecmath
from diffkern.errors import CompileError
from diffkern.ir.nodes import Op
from diffkern.ir.ops.table import all_ops, lookup
from diffkern.ir.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, STORAGE_ONLY, Kind, Scalar, scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.checkpoint import next_function
from diffkern.targets.emit.types import I1, I64, Builder, TargetModule, constant, from_memory, to_memory, value_type


@dataclass(slots=True)
class ScalarEmitter:
    """Emits scalar operations, with a licence for floating point.

    ``contract`` lets LLVM fuse a product and a sum into one rounding; ``fast`` gives it every liberty. Arithmetic that
    is marked to be as written has no licence. ``chosen_by`` holds the tests for equality that have decided a choice.
    """

    builder: Builder
    module: ir.Module
    flags: tuple[str, ...] = ("contract",)
    chosen_by: set[Any] = field(default_factory=set)

    def emit(self, op: Op, args: list[Any]) -> Any:
        """Return the value of a scalar op's only result."""
        t = op.operands[0].type if op.operands else op.results[0].type
        assert isinstance(t, Scalar)
        return _TABLE.get(op.name, _from_library)(self, t, args, op)

    def intrinsic(self, name: str, t: Scalar, *args: Any) -> Any:
        """Call an LLVM intrinsic overloaded on the type of its operands."""
        ty = value_type(t)
        fn = self.module.declare_intrinsic(f"llvm.{name}", [ty], ir.FunctionType(ty, [a.type for a in args]))
        return self.builder.call(fn, args, fastmath=self.flags)

    def elementary(self, name: str, t: Scalar, args: list[Any]) -> Any:
        """Call a mathematical function."""
        return self.builder.call(math_function(self.module, name, t), args, fastmath=self.flags)

    def converted(self, name: str, target: Any, source: Scalar, x: Any) -> Any:
        """Call an LLVM intrinsic that converts a number, overloaded on both types."""
        fn = self.module.declare_intrinsic(name, [target, x.type], ir.FunctionType(target, [x.type]))
        return self.builder.call(fn, [x])

    def quotient(self, t: Scalar, x: Any, y: Any) -> Any:
        """Return a quotient, correctly rounded or nearly so."""
        return self.builder.fdiv(x, y)

    def root(self, t: Scalar, x: Any) -> Any:
        """Return a square root, correctly rounded or nearly so."""
        return self.intrinsic("sqrt", t, x)

    def remainder(self, t: Scalar, x: Any, y: Any) -> Any:
        """Return the exact remainder of a truncated division, with the sign of the dividend."""
        return self.builder.frem(x, y)


Spelling: TypeAlias = Callable[[ScalarEmitter, Scalar, "list[Any]", Op], Any]


def is_scalar_op(name: str) -> bool:
    """Return whether the op is one of this module's."""
    return lookup(name).family == "scalar"


def _const(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return constant(t, op.attrs["value"])


def _arith(integer: str, floating: str) -> Spelling:
    def emit(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
        if t.is_float:
            flags = (*e.flags, "reassoc") if op.attrs.get("reassoc") else e.flags
            return getattr(e.builder, floating)(*args, flags=() if op.attrs.get("as_written") else flags)
        return getattr(e.builder, integer)(*args)

    return emit


def _div(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return e.builder.fdiv(args[0], args[1], flags=() if op.attrs.get("as_written") else e.flags)


def _neg(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return e.builder.fneg(args[0], flags=e.flags) if t.is_float else e.builder.neg(args[0])


def _abs(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    (x,) = args
    if t.is_float:
        return e.intrinsic("fabs", t, x)
    if t.kind is Kind.UINT:
        return x
    return e.builder.select(e.builder.icmp_signed("<", x, constant(t, 0)), e.builder.neg(x), x)


def _sign(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    (x,) = args
    b, zero, one, minus = e.builder, constant(t, 0), constant(t, 1), constant(t, -1)
    if not t.is_float:
        return b.select(b.icmp_signed(">", x, zero), one, b.select(b.icmp_signed("<", x, zero), minus, zero))
    # A NaN stays NaN.
    nan_or_zero = b.select(b.fcmp_unordered("uno", x, x), x, zero)
    return b.select(b.fcmp_ordered(">", x, zero), one, b.select(b.fcmp_ordered("<", x, zero), minus, nan_or_zero))


def extremum(b: Builder, t: Scalar, sign: str, x: Any, y: Any) -> Any:
    """Return the first of two values if it compares ``sign`` (``<=`` or ``>=``) or is NaN, otherwise the second.

    A NaN on either side is passed on; ties go to the first.
    """
    if not t.is_float:
        return b.select(compare(b, t, sign, x, y), x, y)
    first = b.or_(b.fcmp_ordered(sign, x, y), b.fcmp_unordered("uno", x, x))
    return b.select(first, x, y)


def _extremum(sign: str) -> Spelling:
    return lambda e, t, args, op: extremum(e.builder, t, sign, args[0], args[1])


def compare(b: Builder, t: Scalar, sign: str, x: Any, y: Any) -> Any:
    """Return a comparison; with a NaN only ``!=`` holds."""
    if t.is_float:
        return b.fcmp_unordered(sign, x, y) if sign == "!=" else b.fcmp_ordered(sign, x, y)
    if t.kind is Kind.INT:
        return b.icmp_signed(sign, x, y)
    return b.icmp_unsigned(sign, x, y)


def _safe_divisor(e: ScalarEmitter, t: Scalar, y: Any) -> tuple[Any, Any, Any]:
    """Return a divisor that cannot trap, and whether the given one was 0 and -1."""
    b = e.builder
    # Division traps on x86 and is undefined in LLVM for these divisors, even where the result is discarded.
    zero = b.icmp_unsigned("==", y, constant(t, 0))
    if t.kind is Kind.UINT:
        return b.select(zero, constant(t, 1), y), zero, ir.Constant(I1, 0)
    minus = b.icmp_signed("==", y, constant(t, -1))  # the most negative number over -1 overflows
    return b.select(b.or_(zero, minus), constant(t, 1), y), zero, minus


def _exponent(y: Any) -> int | None:
    """Return the n of a constant integer 2**n; None for any other divisor."""
    value = y.constant if isinstance(y, ir.Constant) and isinstance(y.type, ir.IntType) else 0
    return value.bit_length() - 1 if isinstance(value, int) and value > 0 and not value & (value - 1) else None


def _floordiv(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, (x, y) = e.builder, args
    if t.is_float:
        return _float_divmod(e, t, x, y)[0]
    if t.kind is Kind.INT and (n := _exponent(y)) is not None:
        # An arithmetic shift rounds toward minus infinity, as floor division does.
        return b.ashr(x, constant(t, n))
    divisor, zero, minus = _safe_divisor(e, t, y)
    if t.kind is Kind.UINT:
        return b.select(zero, constant(t, 0), b.udiv(x, divisor))
    quotient = b.sdiv(x, divisor)
    rest = b.sub(x, b.mul(quotient, divisor))
    # LLVM's division truncates: where the remainder and the divisor have different signs it is one too high.
    down = b.and_(b.icmp_signed("!=", rest, constant(t, 0)), b.icmp_signed("<", b.xor(rest, divisor), constant(t, 0)))
    floored = b.sub(quotient, b.zext(down, value_type(t)))
    # The safe divisor has replaced 0 and -1, so their quotients are selected here.
    return b.select(zero, constant(t, 0), b.select(minus, b.neg(x), floored))


def _mod(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, (x, y) = e.builder, args
    if t.is_float:
        return _float_divmod(e, t, x, y)[1]
    if t.kind is Kind.INT and _exponent(y) is not None:
        # The remainder of a power of two is its low bits, for negative numbers too.
        return b.and_(x, constant(t, y.constant - 1))
    divisor, zero, minus = _safe_divisor(e, t, y)
    if t.kind is Kind.UINT:
        return b.select(zero, constant(t, 0), b.urem(x, divisor))
    rest = b.srem(x, divisor)
    up = b.and_(b.icmp_signed("!=", rest, constant(t, 0)), b.icmp_signed("<", b.xor(rest, divisor), constant(t, 0)))
    floored = b.select(up, b.add(rest, divisor), rest)
    return b.select(b.or_(zero, minus), constant(t, 0), floored)


def _truncdiv(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, (x, y) = e.builder, args
    divisor, zero, minus = _safe_divisor(e, t, y)
    if t.kind is Kind.UINT:
        return b.select(zero, constant(t, 0), b.udiv(x, divisor))
    return b.select(zero, constant(t, 0), b.select(minus, b.neg(x), b.sdiv(x, divisor)))


def _rem(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, (x, y) = e.builder, args
    if t.is_float:
        return e.remainder(t, x, y)
    divisor, zero, minus = _safe_divisor(e, t, y)
    rest = b.urem(x, divisor) if t.kind is Kind.UINT else b.srem(x, divisor)
    return b.select(b.or_(zero, minus), constant(t, 0), rest)


def _float_divmod(e: ScalarEmitter, t: Scalar, x: Any, y: Any) -> tuple[Any, Any]:
    """Return Python's ``x // y`` and ``x % y``: the remainder has the divisor's sign and is exact."""
    b, zero, one = e.builder, constant(t, 0), constant(t, 1)
    # As CPython does it: adjust the remainder to the divisor's sign, and recompute the quotient from the exact
    # difference.
    rest = e.remainder(t, x, y)
    other_sign = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    nonzero = b.fcmp_unordered("!=", rest, zero)
    fix = b.and_(nonzero, other_sign)
    quotient = e.quotient(t, b.fsub(x, rest), y)
    quotient = b.select(fix, b.fsub(quotient, one), quotient)
    rest = b.select(fix, b.fadd(rest, y), b.select(nonzero, rest, e.intrinsic("copysign", t, zero, y)))
    plain = e.quotient(t, x, y)
    floored = e.intrinsic("floor", t, quotient)
    floored = b.select(b.fcmp_ordered(">", b.fsub(quotient, floored), constant(t, 0.5)), b.fadd(floored, one), floored)
    floored = b.select(b.fcmp_ordered("==", quotient, zero), e.intrinsic("copysign", t, zero, plain), floored)
    # A zero divisor gives what IEEE division gives for the quotient, and NaN for the remainder.
    by_zero = b.fcmp_ordered("==", y, zero)
    return b.select(by_zero, plain, floored), b.select(by_zero, constant(t, float("nan")), rest)


def _bits(method: str) -> Spelling:
    return lambda e, t, args, op: getattr(e.builder, method)(*args)


def _not(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return e.builder.not_(args[0])


def _shift(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, (x, n) = e.builder, args
    counted = scalar_of(op.operands[1].type)
    # LLVM's shifts are undefined for counts of the width and more.
    inside = b.icmp_unsigned("<", n, constant(counted, t.bits))  # a negative count is a huge unsigned one
    count = b.select(inside, n, constant(counted, 0))
    if op.name == "shl":
        return b.select(inside, b.shl(x, count), constant(t, 0))
    if t.kind is Kind.UINT:
        return b.select(inside, b.lshr(x, count), constant(t, 0))
    # A negative number shifts out to -1.
    return b.select(inside, b.ashr(x, count), b.ashr(x, constant(t, t.bits - 1)))


_SCALES: Mapping[int, tuple[int, int, int, int]] = {32: (62, -66, -50, 88), 64: (510, -520, -450, 600)}
"""By bits: above which power of two numbers are multiplied by which other one before they are squared, and below which
by which, so that the sum of two squares neither overflows nor loses digits."""


def _hypot(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    """Return the length of a vector of two components; infinite where one of them is, as in C."""
    b, (x, y) = e.builder, (e.intrinsic("fabs", t, a) for a in args)
    high, down, low, up = _SCALES[64 if t.bits == 64 else 32]
    largest = b.select(b.fcmp_ordered(">", x, y), x, y)
    big = b.fcmp_ordered(">", largest, constant(t, 2.0**high))
    small = b.fcmp_ordered("<", largest, constant(t, 2.0**low))

    def scale(sign: int) -> Any:
        bigs, smalls = (constant(t, 2.0 ** (sign * power)) for power in (down, up))
        return b.select(big, bigs, b.select(small, smalls, constant(t, 1.0)))

    flags = tuple(flag for flag in e.flags if flag == "contract")  # reassociated, the scale would be squared by itself
    x1, y1 = (b.fmul(a, scale(1), flags=flags) for a in (x, y))
    total = b.fadd(b.fmul(x1, x1, flags=flags), b.fmul(y1, y1, flags=flags), flags=flags)
    # Scaled by a power of two before squaring and back afterwards, which is exact.
    found = b.fmul(e.root(t, total), scale(-1))
    infinity = constant(t, float("inf"))
    infinite = b.or_(b.fcmp_ordered("==", x, infinity), b.fcmp_ordered("==", y, infinity))
    return b.select(infinite, infinity, found)


def _rsqrt(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return e.builder.fdiv(constant(t, 1.0), e.intrinsic("sqrt", t, *args), flags=e.flags)


def _from_library(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    library = lookup(op.name).library
    if library is not None and library.llvm:
        return e.intrinsic(library.llvm, t, *args)
    return e.elementary(op.name, t, args)


def _comparison(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    sign = lookup(op.name).py.split()[1]
    return compare(e.builder, t, sign, args[0], args[1])


def _isnan(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return e.builder.fcmp_unordered("uno", args[0], args[0])


def _against_infinity(sign: str) -> Spelling:
    def emit(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
        return e.builder.fcmp_ordered(sign, e.intrinsic("fabs", t, *args), constant(t, float("inf")))

    return emit


def _select(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    """Return a choice; a second one by the same test for equality asks for the opposite.

    Outside of vector loops LLVM carries a test that two choices share through flags and general registers to the mask
    of an AVX-512 move, or branches: in a chain of cotangents that doubles the time. A test of its own goes straight
    into the mask.
    """
    condition, x, y = args
    if isinstance(condition, ir.FCMPInstr) and condition.op == "oeq":
        if condition in e.chosen_by:
            return e.builder.select(e.builder.fcmp_unordered("!=", *condition.operands), y, x)
        e.chosen_by.add(condition)
    return e.builder.select(condition, x, y)


def _cast(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    return cast(e, t, op.attrs["to"], args[0])


def cast(e: ScalarEmitter, source: Scalar, to: Scalar, x: Any) -> Any:
    """Return a value as another scalar type. Casts to float16 and bfloat16 round, and stay float32 in the register."""
    b = e.builder
    if to == BOOL:
        return compare(b, source, "!=", x, constant(source, 0))
    if source.is_float:
        return _cast_float(e, source, to, x)
    if to.is_float:
        # Narrow floating-point types are float32 in registers; the caller rounds where one is stored.
        return (b.sitofp if source.kind is Kind.INT else b.uitofp)(x, value_type(to))
    target, held = value_type(to), value_type(source)
    if target.width == held.width:
        return x
    if target.width < held.width:
        return b.trunc(x, target)
    return (b.sext if source.kind is Kind.INT else b.zext)(x, target)


def _cast_float(e: ScalarEmitter, source: Scalar, to: Scalar, x: Any) -> Any:
    b = e.builder
    if to.is_float:
        if source == FLOAT32 and to == FLOAT64:
            return b.fpext(x, value_type(to))
        return b.fptrunc(x, value_type(to)) if source == FLOAT64 and to == FLOAT32 else x
    # The plain conversions are undefined for numbers out of range; these saturate, and give 0 for NaN.
    name = "llvm.fptosi.sat" if to.kind is Kind.INT else "llvm.fptoui.sat"
    target = value_type(to)
    return e.converted(name, target, source, x)


def _next_checkpoint(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
    b, target = e.builder, value_type(t)
    wide = [a if a.type.width == 64 else b.sext(a, I64) for a in args]
    position = b.call(next_function(e.module), wide)
    return position if target.width == 64 else b.trunc(position, target)


def _rounded(stored: Scalar) -> Spelling:
    def spelling(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
        return from_memory(e.builder, stored, to_memory(e.builder, stored, args[0]))

    return spelling


def _bits_of(stored: Scalar) -> Spelling:
    def spelling(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
        raw = to_memory(e.builder, stored, args[0])
        target = value_type(scalar_of(op.result.type))
        return raw if raw.type == target else e.builder.bitcast(raw, target)

    return spelling


def _of_bits(stored: Scalar) -> Spelling:
    def spelling(e: ScalarEmitter, t: Scalar, args: list[Any], op: Op) -> Any:
        raw = args[0] if stored in STORAGE_ONLY else e.builder.bitcast(args[0], value_type(stored))
        return from_memory(e.builder, stored, raw)

    return spelling


_TABLE: Mapping[str, Spelling] = {
    "const": _const,
    "cast": _cast,
    "round_float16": _rounded(FLOAT16),
    "round_bfloat16": _rounded(BFLOAT16),
    **{f"bits_of_{t}": _bits_of(t) for t in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)},
    **{f"{t}_of_bits": _of_bits(t) for t in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)},
    "select": _select,
    "add": _arith("add", "fadd"),
    "sub": _arith("sub", "fsub"),
    "mul": _arith("mul", "fmul"),
    "div": _div,
    "neg": _neg,
    "abs": _abs,
    "hypot": _hypot,
    "rsqrt": _rsqrt,
    "sign": _sign,
    "min": _extremum("<="),
    "max": _extremum(">="),
    "floordiv": _floordiv,
    "mod": _mod,
    "truncdiv": _truncdiv,
    "rem": _rem,
    "and": _bits("and_"),
    "or": _bits("or_"),
    "xor": _bits("xor"),
    "not": _not,
    "invert": _not,
    "shl": _shift,
    "shr": _shift,
    "isnan": _isnan,
    "isinf": _against_infinity("=="),
    "isfinite": _against_infinity("<"),
    "next_checkpoint": _next_checkpoint,
    **{name: _comparison for name, row in all_ops().items() if row.mirrored},
}
"""Those that are no function of a library."""


# -- transcendental functions ------------------------------------------------------------------------------------------
# The function that computes a transcendental operation: an own vectorisable one if there is one, otherwise libm's.


def math_function(module: ir.Module, name: str, t: Scalar) -> Any:
    """Return the function in ``module`` that computes operation ``name`` on values of type ``t``."""
    # Masked forms let the vectoriser call the function in lanes that a branch has turned off.
    if name in vecmath.NAMES:
        fma = module.isa.fma if isinstance(module, TargetModule) else None
        return vecmath.declare(module, name, "float64" if t.bits == 64 else "float32", fma=fma, masked=True)
    row, ty = lookup(name), value_type(t)
    if row.library is None or not row.library.libm:
        raise CompileError(f"the C library has no function {name}")
    symbol = row.library.libm if t.bits == 64 else f"{row.library.libm}f"
    known = module.globals.get(symbol)
    if known is not None:
        return known
    fn = ir.Function(module, ir.FunctionType(ty, [ty] * (row.arity or 0)), symbol)
    # errno is never read, so the call is pure and may be moved or dropped.
    fn.attributes.add("readnone")
    fn.attributes.add("nounwind")
    return fn
