"""PTX's types, and how a warp's lanes hold values of them.

A register holds the bits of 32 lanes: an array of unsigned integers of its size, or of bool for a predicate. Reading
gives an array of the instruction's type; bfloat16, which NumPy has not, is read as the float32 of the same value.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["BITS", "LANES", "Lanes", "Type", "bfloat16_bits", "decoded", "encoded", "type_named"]

LANES = 32

Lanes = np.ndarray[Any, np.dtype[Any]]
"""One value for each lane of a warp."""

BITS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_SIGNED = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_FLOAT = {2: np.dtype(np.float16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}
_NAME = re.compile(r"(bf|[busf])(8|16|32|64)(x2)?")


@dataclass(frozen=True)
class Type:
    """A type of PTX.

    Attributes
    ----------
    name
        As it is written: ``s32``.
    kind
        ``b``, ``u``, ``s``, ``f``, ``bf`` or ``pred``.
    size
        Bytes of one value.
    dtype
        How lanes of it are read; numbers of ``bf16`` are decoded from their bits.
    packed
        Whether a value is a pair of 16-bit floats.
    """

    name: str
    kind: str
    size: int
    dtype: np.dtype[Any]
    packed: bool = False

    @property
    def bits(self) -> int:
        return 8 * self.size

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf") and not self.packed

    @property
    def half(self) -> Type:
        """The type of each number of a pair."""
        return type_named(self.name.removesuffix("x2"))


@functools.cache
def type_named(name: str) -> Type:
    """Return a type by its name.

    Raises
    ------
    KeyError
        If there is none.
    """
    if name == "pred":
        return Type(name, "pred", 1, np.dtype(np.bool_))
    found = _NAME.fullmatch(name)
    if found is None:
        raise KeyError(name)
    kind, size = found[1], int(found[2]) // 8
    if found[3]:
        return Type(name, kind, 2 * size, BITS[2 * size], packed=True)
    known = {"s": _SIGNED, "f": _FLOAT}.get(kind, BITS)
    return Type(name, kind, size, known[size])


def decoded(t: Type, bits: Lanes) -> Lanes:
    """Return the values whose bits are given."""
    if t.kind == "bf" and not t.packed:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(t.dtype)


def encoded(t: Type, values: Lanes) -> Lanes:
    """Return the bits of values; numbers of ``bf16`` are rounded from float32."""
    if t.kind == "bf" and not t.packed:
        return bfloat16_bits(values)
    if t.kind == "pred":
        return values
    return np.ascontiguousarray(values).view(BITS[t.size])


def bfloat16_bits(values: Lanes) -> Lanes:
    """Return the bits of the bfloat16 that are nearest to float32, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)
