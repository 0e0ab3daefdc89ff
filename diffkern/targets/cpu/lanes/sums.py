"""Sums over lanes.

For each of some vectors, the sum of its elements. A vector in several registers is first reduced to one. Several
vectors are added up together: two of them become one, whose elements are alternately partial sums of the one and of the
other, so that four take hardly more instructions than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from diffkern.targets.cpu.lanes.builder import LaneBuilder
from diffkern.targets.emit.types import I32
from diffkern.vecmath import literals

__all__ = ["add_up"]

_GROUP_BITS = 128
"""Shuffles inside of so many bits are one quick instruction."""


def add_up(b: LaneBuilder, values: Sequence[Any], flags: Sequence[str]) -> list[Any]:
    """Return the sums over the lanes of values that are 0 in inactive lanes."""
    found: list[Any] = []
    rest = [b.spread(v) for v in values]
    # Integers have a reduction instruction of their own, which needs no grouping.
    group = 1 if not rest or isinstance(rest[0].type.element, ir.IntType) else _group(b, rest[0].type.element)
    while rest:
        several, rest = rest[:group], rest[group:]
        found += [_alone(b, several[0], flags)] if len(several) == 1 else _together(b, several, group, flags)
    return found


def _group(b: LaneBuilder, t: Any) -> int:
    """Return how many values are added up together: as many as there are elements in a group."""
    return min(b.lanes, _GROUP_BITS // _bits(t))


def _bits(t: Any) -> int:
    return 64 if isinstance(t, ir.DoubleType) else 32


def _alone(b: LaneBuilder, wide: Any, flags: Sequence[str]) -> Any:
    t = wide.type.element
    name = f"v{b.lanes}{t.intrinsic_name}"
    if isinstance(t, ir.IntType):
        return b.intrinsic(f"llvm.vector.reduce.add.{name}", t, [wide])
    # -0.0 is the neutral element of floating-point addition: it keeps the sign of a zero sum.
    return b.intrinsic(f"llvm.vector.reduce.fadd.{name}", t, [ir.Constant(t, -0.0), wide], fastmath=("reassoc", *flags))


def _together(b: LaneBuilder, values: Sequence[Any], group: int, flags: Sequence[str]) -> list[Any]:
    """Return the sums of at most as many values as a group has elements."""
    plain, period, licence = b.plain, 1, ("reassoc", *flags)

    def shuffled(x: Any, y: Any, places: Sequence[int]) -> Any:
        return plain.shuffle_vector(x, y, literals.numbers(I32, places))

    def folded(x: Any, length: int) -> Any:
        while x.type.count > length:
            half = x.type.count // 2
            low, high = (shuffled(x, x, range(start, start + half)) for start in (0, half))
            x = plain.fadd(low, high, flags=licence)
        return x

    # Vectors in several registers are first folded to one, which needs no shuffles within a register.
    register = 8 * b.plain.module.isa.vector_bytes // _bits(values[0].type.element)
    sums = [folded(v, max(group, register)) for v in values]
    length = sums[0].type.count
    while period < group:
        # An odd vector is paired with itself.
        sums += [sums[-1]] * (len(sums) % 2)
        halves = [_interleaved(length, group, period, half) for half in (0, 1)]
        sums = [
            plain.fadd(*(shuffled(x, y, places) for places in halves), flags=licence)
            for x, y in zip(sums[::2], sums[1::2], strict=True)
        ]
        period *= 2
    total = folded(sums[0], group)
    return [plain.extract_element(total, ir.Constant(I32, k)) for k in range(len(values))]


def _interleaved(lanes: int, group: int, period: int, half: int) -> list[int]:
    """Return one half of each group of two vectors: parts of so many elements, alternately of the one and the other."""
    places = []
    for start in range(0, lanes, group):
        for part in range(start + half * group // 2, start + (half + 1) * group // 2, period):
            places += [*range(part, part + period), *range(lanes + part, lanes + part + period)]
    return places
