"""Fourier transforms along the last axis of tiles, whose elements are complex numbers as pairs.

Each function takes the lowering (:mod:`lowering`) and an op, and emits loops in the current region, and memory that
holds the result.

The length is factorised, with 4 as often as possible. A stage for each factor r turns interleaved transforms of length
n, s of them, into r times as many of length n / r (Stockham's arrangement: stages alternate between two buffers, and
the result is in order). An element is a sum over r others times roots of unity, which the program holds as a table in
the elements' type. So a length with large prime factors is slower, in the limit as slow as a plain sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final

import numpy as np

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT64, Array, Buffer, Scalar, Vec
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import elements

__all__ = ["OPS", "factors"]

_UNROLLED: Final = 8
"""Up to this factor the sum is written out."""

Complex = Sequence[Value]
"""Real and imaginary part."""


def factors(n: int) -> Iterator[int]:
    """Iterate over numbers whose product is n, each of them 4 or a prime."""
    r = 4
    while n > 1:
        while n % r:
            r = {4: 2, 2: 3}.get(r, r + 2)
            # Beyond the square root only the number itself can be a factor.
            if r > 4 and r * r > n:
                r = n
        yield r
        n //= r


def _fft(low: Lowering, op: Op) -> None:
    source, borrowed = low.stored(op.operands[0])
    target, n = low.fresh(op.result), source.shape[-1]
    sign = 1.0 if op.attrs["inverse"] else -1.0
    table = _roots(low, source.dtype, n)
    steps = list(factors(n)) or [1]
    # Two buffers alternate; with a single stage the source is only read, and no second one is needed.
    spare = low.allocate(source.dtype, elements(source.shape)) if len(steps) > 1 else target.buffer
    held, left = source.buffer, n
    for k, r in enumerate(steps):
        # The last stage has to write the target, so the alternation is counted from the end.
        place = target.buffer if (len(steps) - k) % 2 else spare
        _stage(low, (held, place, table), elements(source.shape[:-1]), n, left, r, sign)
        held, left = place, left // r
    if spare is not target.buffer:
        low.release(spare)
    low.give_back(borrowed)


def _roots(low: Lowering, dtype: object, n: int) -> Value:
    """Return the powers of the n-th root of unity, as an array of cosines and sines."""
    assert isinstance(dtype, Vec)
    numbers = np.array([_on_circle(k, n) for k in range(n)], dtype.dtype.name)
    return low.table(dtype.dtype, numbers, "roots")


def _on_circle(k: int, n: int) -> tuple[float, float]:
    """Return cosine and sine of k n-ths of a turn, from an angle of at most an eighth of it: exact at quarters."""
    quarter, rest = divmod(4 * k, n)
    near, far = (math.pi / 2.0 * part / n for part in (rest, n - rest))
    x, y = (math.cos(near), math.sin(near)) if 2 * rest <= n else (math.sin(far), math.cos(far))
    return ((x, y), (-y, x), (-x, -y), (y, -x))[quarter]


def _stage(
    low: Lowering, buffers: tuple[Value, Value, Value], rows: int, n: int, length: int, r: int, sign: float
) -> None:
    """Emit a stage from transforms of a length to r times as many shorter ones."""
    form = _Stage(low, *buffers, rows, n, n // length, length // r, r, sign)
    if r <= _UNROLLED:
        low.m.grid((rows, form.groups, form.several), form.butterfly, ungrouped=True)
    else:
        low.m.grid((rows, form.groups, r, form.several), form.element, ungrouped=True)


@dataclass(frozen=True)
class _Stage:
    """A stage for a factor r, of `several` interleaved transforms; each reads r elements `groups` apart."""

    low: Lowering
    held: Value
    place: Value
    table: Value
    rows: int
    n: int
    several: int
    groups: int
    r: int
    sign: float

    def butterfly(self, index: list[Value]) -> None:
        """Emit all r elements that are computed from the same r ones."""
        row, group, lane = index
        m, b = self.low.m, self.low.b
        start = self.start(row, group, lane)
        taken = [self.read(start, m.i64(j * self.groups * self.several)) for j in range(self.r)]
        for k, made in enumerate(_transformed(b, taken, self.sign)):
            turned = made
            # The twiddle factor; for k = 0 and for the last stage it is 1.
            if k and self.groups > 1:
                turned = _product(b, made, self.root(b.mul(group, m.i64(k * self.several))))
            self.write([row, group, m.i64(k), lane], turned)

    def element(self, index: list[Value]) -> None:
        """Emit one element, as a sum over r others."""
        row, group, k, lane = index
        m, b = self.low.m, self.low.b
        start, first = self.start(row, group, lane), b.mul(b.mul(k, group), m.i64(self.several))  # below n

        def term(j: Value, so_far: list[Value]) -> Sequence[Value]:
            # The index of the root is kept modulo r and n by selections, since an integer division per term is slow.
            *total, turns = so_far
            x = self.read(start, b.mul(j, m.i64(self.groups * self.several)))
            w = self.root(self.modulo(b.add(first, b.mul(turns, m.i64(self.n // self.r))), self.n))
            return *_sum(b, total, _product(b, x, w)), self.modulo(b.add(turns, k), self.r)

        zero = b.zero(self.number)
        *found, _ = m.loop(0, self.r, term, (zero, zero, b.const(0, INT64)))
        self.write(index, found)

    @property
    def number(self) -> Scalar:
        """The type of a real number."""
        t = self.table.type
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Scalar)
        return t.dtype

    def start(self, row: Value, group: Value, lane: Value) -> Value:
        """Return the position of the first element that a group reads."""
        m, b = self.low.m, self.low.b
        return b.add(b.mul(row, m.i64(self.n)), b.add(b.mul(group, m.i64(self.several)), lane))

    def read(self, start: Value, step: Value) -> Complex:
        b = self.low.b
        return b.components(b.one("buffer_get", self.held, b.add(start, step)))

    def write(self, index: list[Value], x: Complex) -> None:
        low, t = self.low, self.place.type
        assert isinstance(t, Buffer)
        place = low.m.flat(index, (self.rows, self.groups, self.r, self.several))
        low.b.op("buffer_set", self.place, place, low.b.construct(t.dtype, x))

    def root(self, k: Value) -> Complex:
        m, b = self.low.m, self.low.b
        cosine, sine = (b.one("load", self.table, k, m.i64(part), wrap=(False, False)) for part in (0, 1))
        return [cosine, sine if self.sign > 0.0 else b.neg(sine)]

    def modulo(self, v: Value, n: int) -> Value:
        """Return a number below 2n modulo n."""
        b, limit = self.low.b, self.low.m.i64(n)
        return b.select(b.one("ge", v, limit), b.sub(v, limit), v)


def _transformed(b: Builder, x: Sequence[Complex], sign: float) -> list[Complex]:
    """Return the transform of a few numbers, without loops."""
    r = len(x)
    if r == 1:
        return [x[0]]
    # Cooley and Tukey: the transforms of the even and odd elements, the odd ones turned.
    if r % 2 == 0:
        halves = (_transformed(b, x[0::2], sign), _transformed(b, x[1::2], sign))
        turned = [_times(b, y, k, r, sign) for k, y in enumerate(halves[1])]
        pairs = list(zip(halves[0], turned, strict=True))
        return [_sum(b, *pair) for pair in pairs] + [
            [b.sub(*parts) for parts in zip(*pair, strict=True)] for pair in pairs
        ]
    return [reduce(partial(_sum, b), [_times(b, y, j * k % r, r, sign) for j, y in enumerate(x)]) for k in range(r)]


def _times(b: Builder, x: Complex, k: int, n: int, sign: float) -> Complex:
    """Return a number turned by k n-ths of a turn, where k < n."""
    if 4 * k % n:
        (cosine, sine), t = _on_circle(k, n), x[0].type
        assert isinstance(t, Scalar)
        w = [b.const(float(part), t) for part in (cosine, sign * sine)]
        return _product(b, x, w)
    # Quarter turns only exchange and negate the parts.
    real, imaginary = x
    quarters = 4 * k // n if sign > 0.0 else -4 * k // n % 4
    match quarters:
        case 0:
            return [real, imaginary]
        case 1:
            return [b.neg(imaginary), real]
        case 2:
            return [b.neg(real), b.neg(imaginary)]
        case _:
            return [imaginary, b.neg(real)]


def _product(b: Builder, x: Complex, y: Complex) -> Complex:
    return [
        b.sub(b.mul(x[0], y[0]), b.mul(x[1], y[1])),
        b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0])),
    ]


def _sum(b: Builder, x: Complex, y: Complex) -> Complex:
    return [b.add(*pair) for pair in zip(x, y, strict=True)]


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {"tile_fft": _fft}
