"""Fourier transforms along the last axis of tiles, whose elements are complex numbers as pairs.

Each function takes the lowering (:mod:`lowering`) and an op, and emits loops in the current region, and memory that
holds the result.

The length is factorised, with 8 and 4 as often as possible. A stage for each factor r turns interleaved transforms of
length n, s of them, into r times as many of length n / r (Stockham's arrangement: stages alternate between two buffers,
and the result is in order). An element is a sum over r others times roots of unity, which the program holds as a table.
So a length with large prime factors is slower, in the limit as slow as a plain sum.

Between stages real and imaginary parts lie in two planes, which vectors of neighbours are read from; on one thread they
are float64, so that the result is the exact one but for its own rounding and that of the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import FLOAT64, INT64, Buffer, Scalar, Vec
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import elements
from diffkern.process.dataclass import dataclass

__all__ = ["OPS", "factors"]

_UNROLLED: Final = 8
"""Up to this factor the sum is written out."""

Complex = Sequence[Value]
"""Real and imaginary part."""


def factors(n: int) -> list[int]:
    """Return numbers whose product is n: 8, 4, one 2 at most, and primes; those that are no sum written out last."""
    twos, found = 0, []
    while n % 2 == 0:
        twos, n = twos + 1, n // 2
    # 16 is 4 * 4 rather than 8 * 2: the same number of stages, and less work.
    fours = {0: 0, 1: 2, 2: 1}[twos % 3] if twos > 1 else 0
    found += [8] * ((twos - 2 * fours) // 3) + [4] * fours + [2] * (twos == 1)
    r = 3
    while n > 1:
        # Beyond the square root only the number itself can be a factor.
        r = n if r * r > n else r
        while n % r == 0:
            found.append(r)
            n //= r
        r += 2
    # Large ones first, since inner loops of a stage are as long as the product of the factors before it.
    return sorted(found, key=lambda f: f if f > _UNROLLED else -f)


def _fft(low: Lowering, op: Op) -> None:
    source, borrowed = low.stored(op.operands[0])
    n, total = source.shape[-1], elements(source.shape)
    steps = factors(n) or [1]
    # With two stages, the last one writes when the source has been read.
    reused = low.reuse(op.result, [op.operands[0]]) if len(steps) > 1 and borrowed is None else None
    target = reused or low.fresh(op.result)
    assert isinstance(source.dtype, Vec)
    number = FLOAT64 if low.widens else source.dtype.dtype
    sign = 1.0 if op.attrs["inverse"] else -1.0
    spares = [low.allocate(number, 2 * total) for _ in range(min(len(steps) - 1, 2))]
    parts = _tables(n, steps)
    roots = np.concatenate(parts).astype(number.name)
    table = low.table(number, roots, "roots") if len(roots) else None
    held: _Pairs | _Planes = _Pairs(low, source.buffer, number)
    left, begin = n, 0
    for k, r in enumerate(steps):
        last = k == len(steps) - 1
        place = _Pairs(low, target.buffer, number) if last else _Planes(low, spares[k % 2], total)
        stage = _Stage(
            low, held, place, (table, begin), elements(source.shape[:-1]), n, n // left, left // r, r, sign, number
        )
        stage.emit()
        held, left, begin = place, left // r, begin + len(parts[k])
    for spare in spares:
        low.release(spare)
    low.give_back(borrowed)


def _tables(n: int, steps: Sequence[int]) -> list[npt.NDArray[Any]]:
    """Return the roots of unity of each stage: cosines in the order in which loops read them, then sines."""
    roots = np.array([_on_circle(k, n) for k in range(n)])
    found, left = [], n
    for r in steps:
        if r > _UNROLLED:
            taken = np.arange(n)
        else:
            # In the last stage all twiddle factors are 1.
            groups = left // r if left > r else 0
            taken = np.outer(np.arange(1, r), np.arange(groups)).ravel() * (n // left)
        found.append(roots[taken].T.ravel())
        left //= r
    return found


def _on_circle(k: int, n: int) -> tuple[float, float]:
    """Return cosine and sine of k n-ths of a turn, from an angle of at most an eighth of it: exact at quarters."""
    quarter, rest = divmod(4 * k, n)
    near, far = (math.pi / 2.0 * part / n for part in (rest, n - rest))
    x, y = (math.cos(near), math.sin(near)) if 2 * rest <= n else (math.sin(far), math.cos(far))
    return ((x, y), (-y, x), (-x, -y), (y, -x))[quarter]


@dataclass(frozen=True)
class _Pairs:
    """The numbers of a tile, in memory as pairs."""

    low: Lowering
    buffer: Value
    number: Scalar

    def read(self, at: Value) -> Complex:
        b = self.low.b
        return [_converted(b, part, self.number) for part in b.components(b.one("buffer_get", self.buffer, at))]

    def write(self, at: Value, x: Complex) -> None:
        b, t = self.low.b, self.buffer.type
        assert isinstance(t, Buffer)
        assert isinstance(t.dtype, Vec)
        parts = [_converted(b, part, t.dtype.dtype) for part in x]
        b.op("buffer_set", self.buffer, at, b.construct(t.dtype, parts))


@dataclass(frozen=True)
class _Planes:
    """The numbers between two stages: real parts, then imaginary parts."""

    low: Lowering
    buffer: Value
    total: int

    def read(self, at: Value) -> Complex:
        b = self.low.b
        return [b.one("buffer_get", self.buffer, place) for place in self._places(at)]

    def write(self, at: Value, x: Complex) -> None:
        for place, part in zip(self._places(at), x, strict=True):
            self.low.b.op("buffer_set", self.buffer, place, part)

    def _places(self, at: Value) -> tuple[Value, Value]:
        return at, self.low.b.add(at, self.low.m.i64(self.total))


def _converted(b: Builder, v: Value, t: Scalar) -> Value:
    return v if v.type == t else b.cast(v, t)


@dataclass(frozen=True)
class _Stage:
    """A stage for a factor r, of `several` interleaved transforms; each reads r elements `groups` apart."""

    low: Lowering
    held: _Pairs | _Planes
    place: _Pairs | _Planes
    table: tuple[Value | None, int]
    rows: int
    n: int
    several: int
    groups: int
    r: int
    sign: float
    number: Scalar

    def emit(self) -> None:
        """Emit the loops over all elements."""
        if self.r <= _UNROLLED:
            self.low.m.grid((self.rows, self.groups, self.several), self.butterfly, ungrouped=True)
        else:
            self.low.m.grid((self.rows, self.groups, self.r, self.several), self.element, ungrouped=True)

    def butterfly(self, index: list[Value]) -> None:
        """Emit all r elements that are computed from the same r ones."""
        row, group, lane = index
        m, b = self.low.m, self.low.b
        start = self.start(row, group, lane)
        taken = [self.held.read(b.add(start, m.i64(j * self.groups * self.several))) for j in range(self.r)]
        for k, made in enumerate(_transformed(b, taken, self.sign)):
            turned = made
            # The twiddle factor; for k = 0 and for the last stage it is 1.
            if k and self.groups > 1:
                at = b.add(group, m.i64((k - 1) * self.groups))
                turned = _turned(b, made, self.root(at, (self.r - 1) * self.groups), self.sign)
            self.write([row, group, m.i64(k), lane], turned)

    def element(self, index: list[Value]) -> None:
        """Emit one element, as a sum over r others."""
        row, group, k, lane = index
        m, b = self.low.m, self.low.b
        start, first = self.start(row, group, lane), b.mul(b.mul(k, group), m.i64(self.several))  # below n

        def term(j: Value, so_far: list[Value]) -> Sequence[Value]:
            # The index of the root is kept modulo r and n by selections, since an integer division per term is slow.
            *total, turns = so_far
            x = self.held.read(b.add(start, b.mul(j, m.i64(self.groups * self.several))))
            w = self.root(self.modulo(b.add(first, b.mul(turns, m.i64(self.n // self.r))), self.n), self.n)
            return *_sum(b, total, _turned(b, x, w, self.sign)), self.modulo(b.add(turns, k), self.r)

        zero = b.zero(self.number)
        *found, _ = m.loop(0, self.r, term, (zero, zero, b.const(0, INT64)))
        self.write(index, found)

    def start(self, row: Value, group: Value, lane: Value) -> Value:
        """Return the position of the first element that a group reads."""
        m, b = self.low.m, self.low.b
        return b.add(b.mul(row, m.i64(self.n)), b.add(b.mul(group, m.i64(self.several)), lane))

    def write(self, index: list[Value], x: Complex) -> None:
        self.place.write(self.low.m.flat(index, (self.rows, self.groups, self.r, self.several)), x)

    def root(self, k: Value, sines: int) -> Complex:
        """Return a cosine of the stage's table, and the sine that stands `sines` places after it."""
        m, b = self.low.m, self.low.b
        table, begin = self.table
        assert table is not None
        return [b.one("load", table, b.add(k, m.i64(begin + to)), wrap=(False,)) for to in (0, sines)]

    def modulo(self, v: Value, n: int) -> Value:
        """Return a number below 2n modulo n."""
        b, limit = self.low.b, self.low.m.i64(n)
        return b.select(b.one("ge", v, limit), b.sub(v, limit), v)


def _transformed(b: Builder, x: Sequence[Complex], sign: float) -> list[Complex]:
    """Return the transform of a few numbers, without loops."""
    r = len(x)
    if r == 1:
        return [x[0]]
    if r % 2:
        return _of_odd(b, x, sign)
    # Cooley and Tukey: the transforms of the even and odd elements, the odd ones turned.
    halves = (_transformed(b, x[0::2], sign), _transformed(b, x[1::2], sign))
    pairs = [(y, _by_root(b, z, k, r, sign)) for k, (y, z) in enumerate(zip(*halves, strict=True))]
    return [_sum(b, *pair) for pair in pairs] + [_difference(b, *pair) for pair in pairs]


def _of_odd(b: Builder, x: Sequence[Complex], sign: float) -> list[Complex]:
    """Return the transform of an odd number of numbers: terms of j and r - j share cosines, and sines but for signs."""
    r = len(x)
    sums = [_sum(b, x[j], x[r - j]) for j in range(1, r // 2 + 1)]
    differences = [_difference(b, x[j], x[r - j]) for j in range(1, r // 2 + 1)]
    total = x[0]
    for y in sums:
        total = _sum(b, total, y)
    found, mirrored = [total], []
    for k in range(1, r // 2 + 1):
        even, odd = x[0], None
        for j, (y, z) in enumerate(zip(sums, differences, strict=True), 1):
            cosine, sine = _on_circle(j * k % r, r)
            even, term = _sum(b, even, _scaled(b, y, cosine)), _scaled(b, z, sign * sine)
            odd = term if odd is None else _sum(b, odd, term)
        assert odd is not None
        # Plus and minus i times the odd part.
        found.append([b.sub(even[0], odd[1]), b.add(even[1], odd[0])])
        mirrored.append([b.add(even[0], odd[1]), b.sub(even[1], odd[0])])
    return found + mirrored[::-1]


def _by_root(b: Builder, x: Complex, k: int, r: int, sign: float) -> Complex:
    """Return a number turned by k r-ths of a turn, where r is 2, 4 or 8."""
    real, imaginary = x
    eighths = (8 * k // r) * (1 if sign > 0.0 else -1) % 8
    if eighths % 2:
        x = _scaled(b, [b.sub(real, imaginary), b.add(real, imaginary)], math.sqrt(0.5))
        real, imaginary = x
    # Quarter turns only exchange and negate the parts.
    match eighths // 2:
        case 0:
            return [real, imaginary]
        case 1:
            return [b.neg(imaginary), real]
        case 2:
            return [b.neg(real), b.neg(imaginary)]
        case _:
            return [imaginary, b.neg(real)]


def _scaled(b: Builder, x: Complex, factor: float) -> Complex:
    t = x[0].type
    assert isinstance(t, Scalar)
    number = b.const(factor, t)
    return [b.mul(part, number) for part in x]


def _turned(b: Builder, x: Complex, w: Complex, sign: float) -> Complex:
    """Return a number times a root of unity, or its conjugate if the sign is negative."""
    real, imaginary = (b.mul(part, w[0]) for part in x)
    across = [b.mul(part, w[1]) for part in x]
    if sign > 0.0:
        return [b.sub(real, across[1]), b.add(imaginary, across[0])]
    return [b.add(real, across[1]), b.sub(imaginary, across[0])]


def _sum(b: Builder, x: Complex, y: Complex) -> Complex:
    return [b.add(*pair) for pair in zip(x, y, strict=True)]


def _difference(b: Builder, x: Complex, y: Complex) -> Complex:
    return [b.sub(*pair) for pair in zip(x, y, strict=True)]


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {"tile_fft": _fft}
