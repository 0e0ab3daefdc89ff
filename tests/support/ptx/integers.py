"""The rows of the table that compute with integers, bits and predicates.

Each function takes the opcode and one array for each operand, and returns an array. Sums and products wrap, as NumPy's
do. Where NumPy has no operation, Python's integers compute one lane after the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .opcode import Opcode, Row
from .types import BITS, Lanes

__all__ = ["ROWS"]


def _unsigned(a: Lanes) -> Lanes:
    return a.view(BITS[a.itemsize])


def _by_lane(compute: Callable[..., int], dtype: Any, *operands: Lanes) -> Lanes:
    """Compute in Python's integers, and keep as many bits as the type has."""
    dtype = np.dtype(dtype)
    bits = [compute(*map(int, each)) & ((1 << 8 * dtype.itemsize) - 1) for each in zip(*operands, strict=True)]
    return np.array(bits, BITS[dtype.itemsize]).view(dtype)


# -- products ----------------------------------------------------------------------------------------------------------


def _low(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    return a * b


def _wide(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    double = np.dtype(f"{a.dtype.kind}{2 * a.itemsize}")
    return a.astype(double) * b.astype(double)


def _high(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    if a.itemsize == 8:
        return _by_lane(lambda x, y: x * y >> 64, a.dtype, a, b)
    return (_wide(op, a, b) >> (8 * a.itemsize)).astype(a.dtype)


def _with_sum(product: Callable[..., Lanes]) -> Callable[..., Lanes]:
    return lambda op, a, b, c: product(op, a, b) + c


def _product_24(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    """The low half of the product of 24-bit numbers."""
    shift = a.dtype.type(8)
    return (a << shift >> shift) * (b << shift >> shift)


def _dot_2(op: Opcode, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Two 16-bit numbers of one operand by two bytes of the other: the lower ones, or the upper ones."""
    halves, quarters = a.view(np.uint16).reshape(-1, 2), b.view(np.uint8).reshape(-1, 4)
    pair = quarters[:, 2:] if "hi" in op.parts else quarters[:, :2]
    return (halves.astype(np.uint32) * pair).sum(axis=1, dtype=np.uint32) + c


# -- quotients ---------------------------------------------------------------------------------------------------------


def _quotient(x: int, y: int) -> int:
    """Towards zero; all bits set for a divisor of zero, as the hardware gives."""
    if y == 0:
        return -1
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def _divide(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    return _by_lane(_quotient, a.dtype, a, b)


def _remainder(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    return _by_lane(lambda x, y: x - _quotient(x, y) * y if y else x, a.dtype, a, b)


# -- carries -----------------------------------------------------------------------------------------------------------


def _sum_and_carry(a: Lanes, b: Lanes, carry: Any) -> tuple[Lanes, Lanes]:
    a, b = _unsigned(a), _unsigned(b)
    partial = a + b
    total = partial + np.asarray(carry, a.dtype)
    return total, (partial < a) | (total < partial)


def _difference_and_borrow(a: Lanes, b: Lanes, borrow: Any) -> tuple[Lanes, Lanes]:
    a, b = _unsigned(a), _unsigned(b)
    partial = a - b
    return partial - np.asarray(borrow, a.dtype), (a < b) | (partial < np.asarray(borrow, a.dtype))


def _carrying(combine: Callable[..., tuple[Lanes, Lanes]]) -> Callable[..., Any]:
    """Compute with the carry flag, as the opcode says: ``c`` behind the name takes it in, ``.cc`` sets it."""

    def compute(op: Opcode, a: Lanes, b: Lanes, carry: Lanes) -> Any:
        total, after = combine(a, b, carry if op.name.endswith("c") else False)
        return total.view(a.dtype), (after if "cc" in op.parts else carry)

    return compute


def _product_carrying(op: Opcode, a: Lanes, b: Lanes, c: Lanes, carry: Lanes) -> Any:
    product = _high(op, a, b) if "hi" in op.parts else _low(op, a, b)
    return _carrying(_sum_and_carry)(op, product, c, carry)


# -- shifts and fields -------------------------------------------------------------------------------------------------


def _shift_left(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    n = 8 * a.itemsize
    return np.where(b < n, a << np.minimum(b, n - 1).astype(a.dtype), a.dtype.type(0))


def _shift_right(op: Opcode, a: Lanes, b: Lanes) -> Lanes:
    """Numbers with a sign are filled with it; a shift by all bits or more leaves nothing else."""
    n = 8 * a.itemsize
    beyond = a >> a.dtype.type(n - 1) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(b < n, a >> np.minimum(b, n - 1).astype(a.dtype), beyond)


def _funnel(op: Opcode, low: Lanes, high: Lanes, distance: Lanes) -> Lanes:
    n = (distance & np.uint32(31) if "wrap" in op.parts else np.minimum(distance, np.uint32(32))).astype(np.uint64)
    both = high.astype(np.uint64) << np.uint64(32) | low
    return (both << n >> np.uint64(32) if "l" in op.parts else both >> n).astype(np.uint32)


def _extract(op: Opcode, a: Lanes, position: Lanes, length: Lanes) -> Lanes:
    n, signed = 8 * a.itemsize, a.dtype.kind == "i"

    def field(x: int, at: int, count: int) -> int:
        at, count = at & 255, count & 255
        x &= (1 << n) - 1
        value = x >> at & ((1 << count) - 1)
        negative = signed and count and x >> min(at + count - 1, n - 1) & 1
        # Bits beyond the number are its sign.
        return value | -1 << max(min(count, n - at), 0) if negative else value

    return _by_lane(field, a.dtype, a, position, length)


def _insert(op: Opcode, a: Lanes, b: Lanes, position: Lanes, length: Lanes) -> Lanes:
    def field(x: int, into: int, at: int, count: int) -> int:
        mask = ((1 << (count & 255)) - 1) << (at & 255)
        return into & ~mask | x << (at & 255) & mask

    return _by_lane(field, b.dtype, a, b, position, length)


def _permute(op: Opcode, a: Lanes, b: Lanes, selector: Lanes) -> Lanes:
    """Choose four of eight bytes; with its highest bit a selector takes the byte's sign instead."""

    def choose(x: int, y: int, how: int) -> int:
        given, out = (x | y << 32).to_bytes(8, "little"), 0
        for k in range(4):
            which = how >> 4 * k & 15
            byte = given[which & 7]
            out |= (0xFF * (byte >> 7) if which & 8 else byte) << 8 * k
        return out

    return _by_lane(choose, np.uint32, a, b, selector)


def _logic_3(op: Opcode, a: Lanes, b: Lanes, c: Lanes, table: Lanes) -> Lanes:
    """Any function of three bits, by the table of its results."""
    out = np.zeros_like(a)
    for k in range(8):
        row = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        out |= row & -(table >> np.uint32(k) & np.uint32(1))
    return out


def _bits(count: Callable[[int, int], int], dtype: Any = np.uint32) -> Callable[..., Lanes]:
    """A function of a number without sign and of how many bits it has."""
    return lambda op, a: _by_lane(lambda x: count(x, 8 * a.itemsize), dtype or a.dtype, _unsigned(a))


def _reverse(x: int, n: int) -> int:
    return int(format(x, f"0{n}b")[::-1], 2)


def _highest(op: Opcode, a: Lanes) -> Lanes:
    """The place of the highest bit that is not the sign; all bits set where there is none."""

    def place(x: int) -> int:
        found = (~x if x < 0 else x).bit_length() - 1
        return 8 * a.itemsize - 1 - found if found >= 0 and "shiftamt" in op.parts else found

    return _by_lane(place, np.uint32, a)


# -- comparisons and choices -------------------------------------------------------------------------------------------

_ORDER = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def _compare(op: Opcode, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    order = _ORDER[op.written[1]]
    return _both(op, order(a, b), None)


def _compare_and(op: Opcode, a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    return _both(op, _ORDER[op.written[1]](a, b), c)


def _both(op: Opcode, holds: Lanes, other: Lanes | None) -> tuple[Lanes, Lanes]:
    """A comparison and its opposite, each combined with a predicate."""
    if other is None:
        return holds, ~holds
    combine = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[op.written[2]]
    return combine(holds, other), combine(~holds, other)


def _apply(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, *operands: compute(*operands)


def _select(op: Opcode, a: Lanes, b: Lanes, chosen: Lanes) -> Lanes:
    return np.where(chosen, a, b)


def _saturated(compute: Callable[[Any, Any], Any]) -> Callable[..., Lanes]:
    """A sum of s32 that stays at the limits."""
    return lambda op, a, b: np.clip(compute(a.astype(np.int64), b.astype(np.int64)), -(2**31), 2**31 - 1).astype("i4")


_PREDICATES = "pred|b16|b32|b64"

ROWS = [
    Row("add.<int>", _apply(operator.add)),
    Row("sub.<int>", _apply(operator.sub)),
    Row("add.sat.s32", _saturated(operator.add)),
    Row("sub.sat.s32", _saturated(operator.sub)),
    Row("mul.lo.<int>", _low),
    Row("mul.hi.<int>", _high),
    Row("mul.wide.(s16|u16|s32|u32)", _wide, gives="w"),
    Row("mul24.lo.(s32|u32)", _product_24),
    Row("mad.lo.<int>", _with_sum(_low), takes="t t t"),
    Row("mad.hi.<int>", _with_sum(_high), takes="t t t"),
    Row("mad.wide.(s16|u16|s32|u32)", _with_sum(_wide), takes="t t w", gives="w"),
    Row("dp2a.(lo|hi).u32.u32", _dot_2, takes="t t t"),
    Row("div.<int>", _divide),
    Row("rem.<int>", _remainder),
    Row("(add.cc|addc{.cc}).(s32|u32|s64|u64)", _carrying(_sum_and_carry), takes="t t carry", gives="t carry"),
    Row("(sub.cc|subc{.cc}).(s32|u32|s64|u64)", _carrying(_difference_and_borrow), takes="t t carry",
        gives="t carry"),
    Row("(mad.(lo|hi).cc|madc.(lo|hi){.cc}).(s32|u32|s64|u64)", _product_carrying, takes="t t t carry",
        gives="t carry"),
    Row("neg.(s16|s32|s64)", _apply(operator.neg), takes="t"),
    Row("abs.(s16|s32|s64)", _apply(np.abs), takes="t"),
    Row("min.<int>", _apply(np.minimum)),
    Row("max.<int>", _apply(np.maximum)),
    Row(f"and.({_PREDICATES})", _apply(operator.and_)),
    Row(f"or.({_PREDICATES})", _apply(operator.or_)),
    Row(f"xor.({_PREDICATES})", _apply(operator.xor)),
    Row(f"not.({_PREDICATES})", _apply(operator.invert), takes="t"),
    Row("lop3.b32", _logic_3, takes="t t t u32"),
    Row("shl.(b16|b32|b64)", _shift_left, takes="t u32"),
    Row("shr.(b16|b32|b64|s16|s32|s64|u16|u32|u64)", _shift_right, takes="t u32"),
    Row("shf.(l|r).(wrap|clamp).b32", _funnel, takes="t t u32"),
    Row("bfe.(s32|u32|s64|u64)", _extract, takes="t u32 u32"),
    Row("bfi.(b32|b64)", _insert, takes="t t u32 u32"),
    Row("prmt.b32", _permute, takes="t t u32"),
    Row("popc.(b32|b64)", _bits(lambda x, n: x.bit_count()), takes="t", gives="u32"),
    Row("clz.(b32|b64)", _bits(lambda x, n: n - x.bit_length()), takes="t", gives="u32"),
    Row("brev.(b32|b64)", _bits(_reverse, None), takes="t"),
    Row("bfind{.shiftamt}.(s32|u32|s64|u64)", _highest, takes="t", gives="u32"),
    Row("setp.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs).<whole>", _compare, gives="pred pred"),
    Row("setp.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs).(and|or|xor).<whole>", _compare_and, takes="t t pred",
        gives="pred pred"),
    Row("selp.<any>", _select, takes="t t pred"),
]  # fmt: skip
