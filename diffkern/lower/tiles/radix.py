"""Sort of many keys of a tile by their digits, as loops.

A key becomes an unsigned integer, its *code*, that is in the same order: equal keys have the same code, the two zeros
too, and keys that are not a number have the last one. From the lowest digit to the highest, codes move to where their
digit begins, in the order in which they stand, so that equal ones keep their order. The time grows with the number of
keys times the digits of a code; a digit that all codes share is passed over. Digits have 8 bits, those of many keys 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Region, Value
from diffkern.ir.types import BOOL, INT32, INT64, UINT8, UINT16, UINT32, UINT64, Element, Kind, Scalar, value_type
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import Stored, elements

__all__ = ["digits", "radix_sort"]

_BITS: Final = 8
_WIDE_BITS: Final = 11
_MANY: Final = 4096
"""So many keys have wide digits: fewer passes are worth more counts."""
_UNSIGNED: Final = {8: UINT8, 16: UINT16, 32: UINT32, 64: UINT64}


def digits(dtype: Element) -> int | None:
    """Return the number of digits of a key's code; None of a key that has none."""
    held = value_type(dtype)
    return held.bits // _BITS if isinstance(held, Scalar) and held.bits in _UNSIGNED else None


def radix_sort(low: Lowering, keys: Stored, values: Stored, targets: Sequence[Stored]) -> None:
    """Sort by digits, alternating between the halves of memory of twice the size."""
    held = value_type(keys.dtype)
    assert isinstance(held, Scalar)
    m, b, size = low.m, low.b, elements(keys.shape)
    codes, order = low.allocate(_UNSIGNED[held.bits], 2 * size), low.allocate(INT32, 2 * size)
    wide = _WIDE_BITS if size >= _MANY else _BITS
    count = -(-held.bits // wide)
    passes = _Passes(low, codes, order, low.allocate(INT32, count << wide), size, wide)
    passes.count(lambda i: _code(b, keys.element_at(m, i), held))
    start = m.i64(0)
    for number in range(count):
        start = passes.move(number, start)

    def put(i: Value) -> None:
        origin = b.one("buffer_get", order, b.add(start, i))
        place = b.cast(origin, INT64)
        b.op("buffer_set", targets[0].buffer, i, keys.element_at(m, place))
        b.op("buffer_set", targets[1].buffer, i, values.element_at(m, place))
        b.op("buffer_set", targets[2].buffer, i, origin)

    m.cells(size, put)
    for buffer in (codes, order, passes.counts):
        low.release(buffer)


def _code(b: Builder, key: Value, t: Scalar) -> Value:
    """Return an unsigned integer whose order is that of keys."""
    code = _UNSIGNED[t.bits]
    sign, every = b.const(1 << (t.bits - 1), code), b.const((1 << t.bits) - 1, code)
    if not t.is_float:
        bits = b.cast(key, code)
        return b.one("xor", bits, sign) if t.kind is Kind.INT and t != BOOL else bits
    # Negative numbers grow with their bits the other way; those of a zero do not depend on its sign.
    bits = b.select(b.one("eq", key, b.zero(t)), b.const(0, code), b.one(f"bits_of_{t}", key))
    negative = b.one("ge", bits, sign)
    ordered = b.one("xor", bits, b.select(negative, every, sign))
    return b.select(b.one("isnan", key), every, ordered)


class _Passes:
    """The codes, where they come from, and how many there are of each digit."""

    def __init__(self, low: Lowering, codes: Value, order: Value, counts: Value, size: int, wide: int) -> None:
        self.m, self.b, self.wide, self.buckets = low.m, low.b, wide, 1 << wide
        self.codes, self.order, self.counts, self.size = codes, order, counts, size
        self.type: Scalar = codes.type.dtype  # type: ignore[union-attr, assignment]

    def bucket(self, code: Value, number: int) -> Value:
        """Return the position of the count of a code's digit."""
        b = self.b
        digit = code if number == 0 else b.one("shr", code, b.const(number * self.wide, self.type))
        if self.type.bits > self.wide:
            digit = b.one("and", digit, b.const(self.buckets - 1, self.type))
        return b.add(b.cast(digit, INT64), self.m.i64(number * self.buckets))

    def count(self, code_at: Callable[[Value], Value]) -> None:
        """Write all codes, and count their digits."""
        m, b, passes = self.m, self.b, -(-self.type.bits // self.wide)

        def clear(k: Value) -> None:
            b.op("buffer_set", self.counts, k, b.i32(0))

        def one(i: Value, _: list[Value]) -> Sequence[Value]:
            code = code_at(i)
            b.op("buffer_set", self.codes, i, code)
            b.op("buffer_set", self.order, i, b.cast(i, INT32))
            for number in range(passes):
                k = self.bucket(code, number)
                b.op("buffer_set", self.counts, k, b.add(b.one("buffer_get", self.counts, k), b.i32(1)))
            return ()

        m.cells(passes * self.buckets, clear)
        m.loop(0, self.size, one)

    def move(self, number: int, start: Value) -> Value:
        """Sort codes that begin at a position by one digit; return where they begin then."""
        m, b = self.m, self.b
        first = self.bucket(b.one("buffer_get", self.codes, start), number)
        shared = b.one("eq", b.one("buffer_get", self.counts, first), b.i32(self.size))
        other = b.sub(m.i64(self.size), start)
        moving, staying = Region(), Region()
        with b.into(moving):
            self._move(number, start, other)
        moving.yields, staying.yields = (other,), (start,)
        return b.if_(shared, staying, moving)[0]

    def _move(self, number: int, start: Value, to: Value) -> None:
        m, b = self.m, self.b

        def begin(k: Value, so_far: list[Value]) -> Sequence[Value]:
            place = b.add(k, m.i64(number * self.buckets))
            count = b.one("buffer_get", self.counts, place)
            b.op("buffer_set", self.counts, place, so_far[0])
            return (b.add(so_far[0], count),)

        def one(i: Value, _: list[Value]) -> Sequence[Value]:
            source = b.add(start, i)
            code = b.one("buffer_get", self.codes, source)
            bucket = self.bucket(code, number)
            place = b.one("buffer_get", self.counts, bucket)
            b.op("buffer_set", self.counts, bucket, b.add(place, b.i32(1)))
            target = b.add(to, b.cast(place, INT64))
            b.op("buffer_set", self.codes, target, code)
            b.op("buffer_set", self.order, target, b.one("buffer_get", self.order, source))
            return ()

        m.loop(0, self.buckets, begin, (b.i32(0),))
        m.loop(0, self.size, one)
