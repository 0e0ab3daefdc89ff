"""The memory in which a deterministic program for a GPU adds up floats exactly, in any order of its threads.

For each scalar of an array that threads add to there is a row of int64 words. All but the last are digits of one
number with a fixed point: digit ``k`` counts multiples of ``2**(k * bits)`` times the smallest positive number of the
type, so that integer additions in any order give the same row. The last word has a bit for each kind of value that has
no digits. A row is zero before a launch. After it a second kernel adds the element itself, rounds once, stores the
result in the element if anything was added to it, and leaves zeros.

A digit of a float takes `bits` bits of a word, so that an element can take ``2**(63 - bits)`` additions in one launch.

The memory has one or more *copies* of all rows of an array, among which warps are distributed, so that not all of them
wait for one word; their digits are added up. After the parameters of its argument block a program has three int64
numbers for each such array, in the order of the parameters: the address of the first copy, the bytes of a copy, and
the number of copies minus 1, which is a power of two minus 1.

The second kernel is of a scalar type and has the numbers of :class:`Finish` as its block.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

__all__ = ["DIGITS", "FINISH_FIELDS", "FINISH_THREADS", "INFINITE", "NEGATIVE", "NOT_A_NUMBER", "TAIL_BYTES", "Digits",
           "Finish", "finish_symbol"]  # fmt: skip


class Digits(NamedTuple):
    """The form of a row.

    Attributes
    ----------
    bits
        The bits of a digit.
    length
        The number of digits.
    """

    bits: int
    length: int

    @property
    def words(self) -> int:
        """The words of a row: its digits, and one for values without digits."""
        return self.length + 1

    @property
    def nbytes(self) -> int:
        """The bytes of a row."""
        return 8 * self.words


_SINGLE, _DOUBLE = Digits(26, 11), Digits(27, 78)
DIGITS: Final = {"float16": _SINGLE, "bfloat16": _SINGLE, "float32": _SINGLE, "float64": _DOUBLE}
"""By the scalar type of an array; numbers of 16 bits are added up as float32, which they are computed in."""

INFINITE, NEGATIVE, NOT_A_NUMBER = 1, 2, 4
"""Bits of the last word: infinity, minus infinity and NaN were added."""

TAIL_BYTES = 24
"""Bytes after the parameters for each array."""
FINISH_THREADS = 256
"""Threads of a block of the second kernel."""
_AXES = 4
_block = struct.Struct(f"{6 + 2 * _AXES}q")
FINISH_FIELDS = _block.size // 8
"""int64 numbers in the second kernel's block."""


class Finish(NamedTuple):
    """The block of the second kernel.

    Attributes
    ----------
    data, rows
        The addresses of the array and of the first copy of its rows.
    scalars
        The number of its scalars.
    copies, stride
        The number of copies and the bytes of one.
    components
        The scalars of an element.
    shape, strides
        The array's extents in elements and strides in bytes.
    """

    data: int
    rows: int
    scalars: int
    copies: int
    stride: int
    components: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def packed(self) -> bytes:
        """Return the bytes; missing axes have one element."""
        missing = _AXES - len(self.shape)
        shape, strides = (*self.shape, *(1,) * missing), (*self.strides, *(0,) * missing)
        return _block.pack(*self[:6], *shape, *strides)


def finish_symbol(symbol: str, scalar: str) -> str:
    """Return the name of the second kernel for a scalar type, of a program with a name."""
    return f"{symbol}_finish_{scalar}"
