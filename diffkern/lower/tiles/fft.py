"""Fourier transforms along the last axis of tiles, whose elements are complex numbers as pairs.

In: the lowering (:mod:`lowering`) and an op. Out: loops in the current region, and memory that holds the result.

The length is factorised, 4 as often as it goes. A stage for each factor r makes, of transforms of length
n that are interleaved s-fold, r times as many of length n / r (Stockham's arrangement: stages go to and fro between two
buffers, and the result is in order). An element is a sum over r others times roots of unity, which are looked up in a
table. So a length with large prime factors costs more, as that of a plain sum does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import FLOAT64, INT32, INT64, Vec
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import elements

__all__ = ["OPS", "factors"]

_UNROLLED: Final = 8
"""Up to this factor the sum is written out."""


def factors(n: int) -> Iterator[int]:
    """Numbers whose product is n, each of them 4 or a prime."""
    r = 4
    while n > 1:
        while n % r:
            r = {4: 2, 2: 3}.get(r, r + 2)
            if r > 4 and r * r > n:
                r = n
        yield r
        n //= r


def _fft(low: Lowering, op: Op) -> None:
    source, borrowed = low.stored(op.operands[0])
    target, n = low.fresh(op.result), source.shape[-1]
    table = _roots(low, source.dtype, n, op.attrs["inverse"])
    steps = list(factors(n)) or [1]
    spare = low.allocate(source.dtype, elements(source.shape)) if len(steps) > 1 else target.buffer
    held, left = source.buffer, n
    for k, r in enumerate(steps):
        place = target.buffer if (len(steps) - k) % 2 else spare
        _stage(low, (held, place, table), elements(source.shape[:-1]), n, left, r)
        held, left = place, left // r
    for buffer in {table, spare} - {target.buffer}:
        low.release(buffer)
    low.give_back(borrowed)


def _roots(low: Lowering, dtype: object, n: int, inverse: bool) -> Value:
    """A buffer of the powers of the n-th root of unity."""
    assert isinstance(dtype, Vec)
    b, table = low.b, low.allocate(dtype, n)
    turn = 2.0 * math.pi / n * (1.0 if inverse else -1.0)

    def put(k: Value) -> None:
        angle = b.mul(b.cast(b.cast(k, INT32), FLOAT64), b.const(turn, FLOAT64))
        parts = [b.cast(b.one(name, angle), dtype.dtype) for name in ("cos", "sin")]
        b.op("buffer_set", table, k, b.construct(dtype, parts))

    low.m.cells(n, put, ungrouped=True)
    return table


def _stage(low: Lowering, buffers: tuple[Value, Value, Value], rows: int, n: int, length: int, r: int) -> None:
    """Of transforms of a length, r times as many that are shorter."""
    (held, place, table), m, b = buffers, low.m, low.b
    several, groups = n // length, length // r

    def at(index: list[Value]) -> None:
        row, group, k, lane = index
        start = b.add(b.mul(row, m.i64(n)), b.add(b.mul(group, m.i64(several)), lane))
        first = b.mul(b.mul(k, group), m.i64(several))  # below n

        def term(j: Value | int, so_far: list[Value]) -> Sequence[Value]:
            total, turns = so_far
            step = m.i64(j * groups * several) if isinstance(j, int) else b.mul(j, m.i64(groups * several))
            x = b.components(b.one("buffer_get", held, b.add(start, step)))
            w = b.components(b.one("buffer_get", table, _modulo(low, b.add(first, b.mul(turns, m.i64(n // r))), n)))
            real = b.sub(b.mul(x[0], w[0]), b.mul(x[1], w[1]))
            imaginary = b.add(b.mul(x[0], w[1]), b.mul(x[1], w[0]))
            return b.add(total, b.construct(total.type, [real, imaginary])), _modulo(low, b.add(turns, k), r)

        zero = b.zero(held.type.dtype)  # type: ignore[union-attr]
        found: Sequence[Value] = (zero, b.const(0, INT64))
        if r <= _UNROLLED:
            for j in range(r):
                found = term(j, list(found))
        else:
            found = m.loop(0, r, term, found)
        b.op("buffer_set", place, m.flat(index, (rows, groups, r, several)), found[0])

    m.grid((rows, groups, r, several), at, ungrouped=True)


def _modulo(low: Lowering, v: Value, n: int) -> Value:
    """A number below 2n modulo n."""
    limit = low.m.i64(n)
    return low.b.select(low.b.one("ge", v, limit), low.b.sub(v, limit), v)


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {"tile_fft": _fft}
