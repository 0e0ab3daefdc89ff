"""The rows of the table that compute with floats.

Sums and products are rounded once, in the direction asked for. For types of up to 32 bits the exact result is formed in
float64 and rounded to odd there (Boldo and Melquiond, *Emulation of FMA and correctly rounded sums*, IEEE Transactions
on Computers 57, 2008), after which rounding to the type gives what rounding the exact result would give.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .opcode import Opcode, Row
from .types import BITS, Lanes, Type, decoded, encoded

__all__ = ["ROWS", "flushed", "limited", "rounded"]

_LEAST_NORMAL = np.float32(2.0**-126)

# -- rounding ----------------------------------------------------------------------------------------------------------


def flushed(op: Opcode, a: Lanes) -> Lanes:
    """Zero in the place of subnormal float32, where the opcode says so."""
    if "ftz" not in op.parts or a.dtype != np.float32:
        return a
    return np.where(np.abs(a) < _LEAST_NORMAL, np.copysign(np.float32(0), a), a)


def limited(op: Opcode, a: Lanes) -> Lanes:
    """Numbers between 0 and 1, where the opcode says so; NaN becomes 0."""
    if "sat" not in op.parts:
        return a
    return np.where(np.isnan(a), a.dtype.type(0), np.clip(a, 0, 1)).astype(a.dtype)


def rounded(t: Type, exact: Lanes, mode: str) -> Lanes:
    """Round float64 (or wider) that no rounding has spoilt to a type: nearest, to zero, down or up."""
    if t.kind == "bf":
        return _rounded_to_bfloat16(exact, mode)
    near = exact.astype(t.dtype)
    if mode == "rn":
        return near
    too_high, too_low = near.astype(exact.dtype) > exact, near.astype(exact.dtype) < exact
    down = too_high & ((mode == "rm") | (exact > 0) & (mode == "rz"))
    up = too_low & ((mode == "rp") | (exact < 0) & (mode == "rz"))
    near = np.where(down, np.nextafter(near, t.dtype.type(-np.inf)), near)
    return np.where(up, np.nextafter(near, t.dtype.type(np.inf)), near)


def _rounded_to_bfloat16(exact: Lanes, mode: str) -> Lanes:
    """As float32 of the same value, which :func:`~support.ptx.types.encoded` keeps."""
    single = _to_odd(exact.astype(np.float32), exact - exact.astype(np.float32).astype(np.float64))
    if mode == "rz":
        return (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert mode == "rn", mode
    return single


def _to_odd(near: Lanes, rest: Lanes) -> Lanes:
    """Of the two floats around ``near + rest`` the one whose last bit is set, unless the rest is zero."""
    integer = BITS[near.itemsize]
    bits = near.view(integer)
    wrong = (rest != 0) & np.isfinite(near) & (bits & integer.type(1) == 0)
    if not wrong.any():
        return near
    larger = (rest > 0) == ~np.signbit(near)
    return np.where(wrong, np.where(larger, bits + integer.type(1), bits - integer.type(1)), bits).view(near.dtype)


def _odd_sum(a: Lanes, b: Lanes) -> Lanes:
    """The sum of float64, rounded to odd."""
    total = a + b
    share = total - a
    return _to_odd(total, (a - (total - share)) + (b - share))


def _arithmetic(native: Callable[..., Lanes], exact: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """An operation by NumPy in the type itself, or exactly where that would not round as asked."""

    def compute(op: Opcode, *operands: Lanes) -> Lanes:
        given = [flushed(op, a) for a in operands]
        if op.type.size >= 4 and op.rounding == "rn":
            result = native(*given)
        elif op.type.size == 8:
            raise NotImplementedError
        else:
            result = rounded(op.type, exact(*(a.astype(np.float64) for a in given)), op.rounding)
        return limited(op, flushed(op, result))

    return compute


def _fused(op: Opcode, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    a, b, c = (flushed(op, x) for x in (a, b, c))
    if op.type.size == 8:
        return _fused_double(a, b, c)
    exact = _odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return limited(op, flushed(op, rounded(op.type, exact, op.rounding)))


_fma = ctypes.CDLL(None).fma
_fma.argtypes, _fma.restype = (ctypes.c_double,) * 3, ctypes.c_double


def _fused_double(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return np.array([_fma(*each) for each in zip(a, b, c, strict=True)], np.float64)


def _pairs(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """An operation on both halves of pairs."""

    def each(op: Opcode, *operands: Lanes) -> Lanes:
        half = Opcode((*op.written[:-1], op.type.half.name))
        halves = [a.view(np.uint16) for a in operands]
        result = compute(half, *(decoded(half.type, h) for h in halves))
        return encoded(half.type, result).view(np.uint32)

    return each


# -- functions ---------------------------------------------------------------------------------------------------------


def _function(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """A function computed in float64, or in float64's own precision, and rounded."""

    def apply(op: Opcode, *operands: Lanes) -> Lanes:
        given = [flushed(op, a).astype(np.float64) for a in operands]
        return flushed(op, rounded(op.type, np.asarray(compute(*given)), "rn"))

    return apply


def _approximate_quotient(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    """A quotient of the hardware: zero for the largest divisors, whose inverse it does not represent."""
    a, b = flushed(op, a), flushed(op, b)
    quotient = np.divide(a, b)
    if "full" not in op.parts:
        huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        quotient = np.where(huge, np.where(np.isinf(a), np.float32(np.nan), np.copysign(np.float32(0), quotient)),
                            quotient)  # fmt: skip
    return flushed(op, quotient)


def _extremum(choose: Callable[..., Lanes], negative_first: bool) -> Callable[..., Lanes]:
    """The smaller or the larger number; -0 is smaller than +0, and NaN no number unless that is asked for."""

    def compute(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
        a, b = flushed(op, a), flushed(op, b)
        zeros = np.where(np.signbit(a) == negative_first, a, b)
        found = np.where(a == b, zeros, choose(a, b))
        return np.where(np.isnan(a) | np.isnan(b), found.dtype.type(np.nan), found) if "NaN" in op.parts else found

    return compute


def _sign_of(op: Opcode, sign: Lanes, a: Lanes) -> Lanes:
    return np.copysign(a, sign)


def _unary(compute: Callable[[Lanes], Lanes]) -> Callable[..., Lanes]:
    return lambda op, a: flushed(op, compute(a))


# -- comparisons -------------------------------------------------------------------------------------------------------

_ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "ne": lambda a, b: (a < b) | (a > b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
_RELATIONS = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"


def _holds(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    """A comparison that NaN fails; with a ``u`` behind its name, one that NaN fulfils."""
    a, b = flushed(op, a), flushed(op, b)
    relation = op.written[1]
    if relation in _ORDERED:
        return _ORDERED[relation](a, b)
    return _ORDERED[relation.removesuffix("u")](a, b) | np.isnan(a) | np.isnan(b)


def _compare(op: Opcode, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    holds = _holds(op, a, b)
    return holds, ~holds


def _compare_and(op: Opcode, a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    combine = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[op.written[2]]
    holds = _holds(op, a, b)
    return combine(holds, c), combine(~holds, c)


_KINDS: dict[str, Callable[[Lanes], Lanes]] = {
    "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda a: ~np.isnan(a),
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}  # fmt: skip


def _test(op: Opcode, a: Lanes) -> Lanes:
    return _KINDS[op.written[1]](a)


_sum = _arithmetic(operator.add, _odd_sum)
_difference = _arithmetic(operator.sub, lambda a, b: _odd_sum(a, -b))
_product = _arithmetic(operator.mul, operator.mul)
_least, _most = _extremum(np.fmin, True), _extremum(np.fmax, False)
_negative, _magnitude = _unary(operator.neg), _unary(np.abs)

ROWS = [
    Row("add{.<round>}{.ftz}{.sat}.f32", _sum),
    Row("add{.rn}.f64", _sum),
    Row("add{.rn}.<half>", _sum),
    Row("sub{.<round>}{.ftz}{.sat}.f32", _difference),
    Row("sub{.rn}.f64", _difference),
    Row("sub{.rn}.<half>", _difference),
    Row("mul{.<round>}{.ftz}{.sat}.f32", _product),
    Row("mul{.rn}.f64", _product),
    Row("mul{.rn}.<half>", _product),
    Row("fma.<round>{.ftz}{.sat}.f32", _fused, takes="t t t"),
    Row("fma.rn.f64", _fused, takes="t t t"),
    Row("fma.rn.<half>", _fused, takes="t t t"),
    Row("add{.rn}.<pair>", _pairs(_sum)),
    Row("sub{.rn}.<pair>", _pairs(_difference)),
    Row("mul{.rn}.<pair>", _pairs(_product)),
    Row("fma.rn.<pair>", _pairs(_fused), takes="t t t"),
    Row("div.rn{.ftz}.f32", _function(np.divide)),
    Row("div.rn.f64", _function(np.divide)),
    Row("div.(approx|full){.ftz}.f32", _approximate_quotient),
    Row("rcp.(rn|approx){.ftz}.f32", _function(np.reciprocal), takes="t"),
    Row("rcp.rn.f64", _function(np.reciprocal), takes="t"),
    Row("rcp.approx.ftz.f64", _function(np.reciprocal), takes="t"),
    Row("sqrt.(rn|approx){.ftz}.f32", _function(np.sqrt), takes="t"),
    Row("sqrt.rn.f64", _function(np.sqrt), takes="t"),
    Row("rsqrt.approx{.ftz}.(f32|f64)", _function(lambda a: 1.0 / np.sqrt(a)), takes="t"),
    Row("sin.approx{.ftz}.f32", _function(np.sin), takes="t"),
    Row("cos.approx{.ftz}.f32", _function(np.cos), takes="t"),
    Row("tanh.approx.f32", _function(np.tanh), takes="t"),
    Row("ex2.approx{.ftz}.f32", _function(np.exp2), takes="t"),
    Row("lg2.approx{.ftz}.f32", _function(np.log2), takes="t"),
    Row("neg{.ftz}.<float>", _negative, takes="t"),
    Row("abs{.ftz}.<float>", _magnitude, takes="t"),
    Row("neg.<pair>", _pairs(_negative), takes="t"),
    Row("abs.<pair>", _pairs(_magnitude), takes="t"),
    Row("min{.ftz}{.NaN}.<float>", _least),
    Row("max{.ftz}{.NaN}.<float>", _most),
    Row("copysign.(f32|f64)", _sign_of),
    Row(f"setp.({_RELATIONS}){{.ftz}}.<float>", _compare, gives="pred pred"),
    Row(f"setp.({_RELATIONS}).(and|or|xor){{.ftz}}.<float>", _compare_and, takes="t t pred", gives="pred pred"),
    Row("testp.(finite|infinite|number|notanumber|normal|subnormal).(f32|f64)", _test, takes="t", gives="pred"),
]  # fmt: skip
