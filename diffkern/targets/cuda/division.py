"""Index arithmetic with the multipliers that the header of a GPU's argument block has for the extents of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.targets.emit.types import I8, I32, I64, Builder, i64

__all__ = ["Dividers", "header_bit"]


def header_bit(b: Builder, block: Any, bit: int) -> Any:
    """Return whether a bit of a header is set, by its number."""
    bits, zero = b.load(b.gep(block, [i64(abi.GPU_BITS)], inbounds=True, source_etype=I8), typ=I8), ir.Constant(I8, 0)
    if bit == I8.width - 1:
        return b.icmp_signed("<", bits, zero)
    return b.icmp_unsigned("!=", b.and_(bits, ir.Constant(I8, 1 << bit)), zero)


class Dividers:
    """The multipliers and shifts that divide by the extents of a launch but the first.

    Parameters
    ----------
    b
        The builder.
    block
        The argument block.
    count
        How many extents the launch has.
    """

    def __init__(self, b: Builder, block: Any, count: int) -> None:
        self.b = b

        def field(offset: int, ty: Any) -> Any:
            return b.load(b.gep(block, [i64(offset)], inbounds=True, source_etype=I8), typ=ty)

        self._lengths = [b.trunc(field(abi.DIMS + 8 * k, I64), I32) for k in range(1, count)]
        self._multipliers = [field(abi.MULTIPLIERS + 4 * k, I32) for k in range(count - 1)]
        self._shifts = [b.zext(field(abi.SHIFTS + k, I8), I32) for k in range(count - 1)]
        self.one_round = header_bit(b, block, abi.ONE_ROUND.bit_length() - 1)

    def quotient(self, axis: int, number: Any, *, is_large: bool) -> Any:
        """Return a number divided by the extent of an axis, rounded down.

        Parameters
        ----------
        axis
            From 1.
        number
            Unsigned, of 32 bits.
        is_large
            Whether it may have the highest bit.
        """
        b, multiplier, shift = self.b, self._multipliers[axis - 1], self._shifts[axis - 1]
        product = b.lshr(b.mul(b.zext(number, I64), b.zext(multiplier, I64)), i64(32))
        if is_large:
            return b.trunc(b.lshr(b.add(product, b.zext(number, I64)), b.zext(shift, I64)), I32)
        return b.lshr(b.add(b.trunc(product, I32), number, flags=("nuw",)), shift)

    def split(self, index: Sequence[Any], *, is_large: bool = True) -> list[Any]:
        """Return an index whose components but the first are within their axes: what exceeds one is carried on.

        The last component is a number of any size; `is_large` says whether it, or one that is carried to, may have the
        highest bit.
        """
        b, out = self.b, list(index)
        for axis in range(len(out) - 1, 0, -1):
            quotient = self.quotient(axis, out[axis], is_large=is_large)
            out[axis] = b.sub(out[axis], b.mul(quotient, self._lengths[axis - 1]))
            before = out[axis - 1]
            out[axis - 1] = quotient if before is None else b.add(before, quotient)
        return out
