"""The forms of scalar types as LLVM values and in LLVM memory, and the conversions between the two.

A bool is ``i1`` as a value and one byte in memory. float16 and bfloat16 exist in memory alone, as 16-bit integers: they
are widened and rounded here by integer arithmetic, because a processor without the instructions would make LLVM call
helpers of a compiler's run time that a plain process does not have. Every GPU has the instructions for float16. An
element that is stored as it was loaded is not rounded at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir

from diffkern.ir.types import BFLOAT16, BOOL, STORAGE_ONLY, Kind, Scalar
from diffkern.process.dataclass import dataclass

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F16 = ir.HalfType()
F32 = ir.FloatType()
F64 = ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

Builder: TypeAlias = Any
"""An ``llvmlite.ir.IRBuilder``; llvmlite has no type annotations."""


@dataclass(frozen=True, slots=True)
class Isa:
    """The facts about a target's instructions that the emitter needs.

    Attributes
    ----------
    triple, data_layout
        In LLVM's terms.
    fma
        Whether there is a fused multiply-add; None: as on this machine.
    halves
        Whether there are conversions between float16 and float32; LLVM would call a library's functions otherwise.
    signed_halves
        Whether LLVM converts to float16 with the right sign.
    atomic_bits
        The narrowest number with atomic operations of its own; narrower ones are compared and swapped.
    exchange_bits
        The narrowest integer that can be compared and swapped; for narrower ones the word around takes part.
    exchange
        Compares and swaps integers narrower than `atomic_bits`: takes a builder, an address, the expected integer and
        its replacement, and returns the old one. None: as LLVM does.
    vector_bytes
        The width of vectors.
    vector_registers
        How many of them there are.
    longest_unrolled
        How many instructions the body of a loop may have of which several trips are put in a row, if their number is
        known at run time only; None: as many as LLVM finds right.
    """

    triple: str
    data_layout: str
    fma: bool | None = None
    halves: bool = False
    signed_halves: bool = False
    atomic_bits: int = 8
    exchange_bits: int = 8
    exchange: Callable[[Builder, Any, Any, Any], Any] | None = None
    vector_bytes: int = 16
    vector_registers: int = 16
    longest_unrolled: int | None = None


class TargetModule(ir.Module):  # type: ignore[misc]
    """A module that knows its target's instructions."""

    def __init__(self, name: str, isa: Isa) -> None:
        super().__init__(name)
        self.isa = isa
        self.triple, self.data_layout = isa.triple, isa.data_layout


def value_type(t: Scalar) -> Any:
    """Return the LLVM type of a value in registers."""
    if t == BOOL:
        return I1
    if t.is_float:
        return F64 if t.bits == 64 else F32
    return ir.IntType(t.bits)


def memory_type(t: Scalar) -> Any:
    """Return the LLVM type of an element in memory."""
    if t == BOOL:
        return I8
    if t in STORAGE_ONLY:
        return I16
    return value_type(t)


def constant(t: Scalar, value: float) -> Any:
    """Return a literal of type ``t``; integers wrap to its width, floats are rounded to it."""
    if t == BOOL:
        return ir.Constant(I1, int(bool(value)))
    if t.is_float:
        return ir.Constant(value_type(t), float(value))
    return ir.Constant(value_type(t), wrapped(t, int(value)))


def wrapped(t: Scalar, value: int) -> int:
    """Return ``value`` reduced to the range of an integer type."""
    value &= (1 << t.bits) - 1
    if t.kind is Kind.INT and value >> (t.bits - 1):
        value -= 1 << t.bits
    return value


def i32(value: int) -> Any:
    return ir.Constant(I32, value)


def i64(value: int) -> Any:
    return ir.Constant(I64, value)


def from_memory(b: Builder, t: Scalar, raw: Any) -> Any:
    """Return the value of an element that was loaded as ``memory_type(t)``."""
    if t == BOOL:
        return b.icmp_unsigned("!=", raw, ir.Constant(I8, 0))
    if t not in STORAGE_ONLY:
        return raw
    if t == BFLOAT16:
        value = b.bitcast(b.shl(b.zext(raw, I32), i32(16)), F32)
    else:
        value = _half_to_float(b, raw)
    # Remembered, so that storing the value again needs no rounding.
    value.widened = (t, raw)
    return value


def to_memory(b: Builder, t: Scalar, value: Any) -> Any:
    """Return the bits to store for a value: rounded to nearest, ties to even, if the element is narrower."""
    if t == BOOL:
        return b.zext(value, I8)
    if t not in STORAGE_ONLY:
        return value
    source, raw = getattr(value, "widened", (None, None))
    if source == t:
        return raw
    if t == BFLOAT16:
        return _float_to_bfloat(b, value)
    if b.module.isa.signed_halves:
        return b.bitcast(b.fptrunc(value, F16), I16)
    return _float_to_half(b, value)


def _half_to_float(b: Builder, raw: Any) -> Any:
    if b.module.isa.halves:
        return b.fpext(b.bitcast(raw, F16), F32)
    # Exponent and fraction of the half are moved to their places in a float32.
    bits = b.zext(raw, I32)
    sign = b.shl(b.and_(bits, i32(0x8000)), i32(16))
    magnitude = b.and_(bits, i32(0x7FFF))
    # The exponent's bias changes from 15 to 127.
    normal = b.add(b.shl(magnitude, i32(13)), i32(112 << 23))
    infinite = b.add(normal, i32(112 << 23))  # infinity and NaN: the exponent becomes all ones
    # A subnormal half is an integer number of 2**-24, which float32 holds exactly.
    subnormal = b.bitcast(b.fmul(b.uitofp(magnitude, F32), ir.Constant(F32, 2.0**-24)), I32)
    out = b.select(b.icmp_unsigned(">=", magnitude, i32(0x7C00)), infinite, normal)
    out = b.select(b.icmp_unsigned("<", magnitude, i32(0x400)), subnormal, out)
    return b.bitcast(b.or_(out, sign), F32)


def _float_to_half(b: Builder, value: Any) -> Any:
    bits = b.bitcast(value, I32)
    sign = b.lshr(b.and_(bits, i32(-0x80000000)), i32(16))
    magnitude = b.and_(bits, i32(0x7FFFFFFF))
    if b.module.isa.halves:
        # Without the sign: LLVM would move the rounding into a copysign, and call a library to round the sign of a
        # double to half.
        rounded = b.bitcast(b.fptrunc(b.bitcast(magnitude, F32), F16), I16)
        return b.or_(rounded, b.trunc(sign, I16))
    # Round to nearest, ties to even: add just under half a unit, and the last kept bit.
    odd = b.and_(b.lshr(magnitude, i32(13)), i32(1))
    normal = b.lshr(b.sub(b.add(magnitude, b.add(odd, i32(0xFFF))), i32(112 << 23)), i32(13))
    # Below 2**-14: adding 0.5 leaves the value rounded to multiples of 2**-24 in the low bits.
    half = b.fadd(b.bitcast(magnitude, F32), ir.Constant(F32, 0.5))
    subnormal = b.sub(b.bitcast(half, I32), i32(0x3F000000))
    out = b.select(b.icmp_unsigned("<", magnitude, i32(0x38800000)), subnormal, normal)
    out = b.select(b.icmp_unsigned(">=", magnitude, i32(0x477FF000)), i32(0x7C00), out)  # rounds to infinity
    out = b.select(b.icmp_unsigned(">", magnitude, i32(0x7F800000)), i32(0x7E00), out)  # NaN
    return b.trunc(b.or_(out, sign), I16)


def _float_to_bfloat(b: Builder, value: Any) -> Any:
    bits = b.bitcast(value, I32)
    high = b.lshr(bits, i32(16))
    rounded = b.lshr(b.add(bits, b.add(b.and_(high, i32(1)), i32(0x7FFF))), i32(16))
    # Rounding could carry a NaN's fraction into infinity, so NaN is made quiet instead.
    nan = b.icmp_unsigned(">", b.and_(bits, i32(0x7FFFFFFF)), i32(0x7F800000))
    return b.trunc(b.select(nan, b.or_(high, i32(0x40)), rounded), I16)
