"""The source of a tile's elements during lowering: memory, or a computation on other tiles' elements.

Given an index per axis, a source appends the ops that compute the element to a builder.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Region, Value
from diffkern.ir.types import INT64, Element, Scalar
from diffkern.process.dataclass import dataclass

Index = Sequence[Value]


@dataclass(frozen=True, slots=True)
class BufferRead:
    """A read of a buffer by an element's computation; ``same``: of the element with the same position in memory."""

    buffer: Value
    same: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """A tile in memory, row-major."""

    buffer: Value
    shape: tuple[int, ...]
    dtype: Element

    def element(self, m: Maker, index: Index) -> Value:
        return m.b.one("buffer_get", self.buffer, m.flat(index, self.shape))

    def element_at(self, m: Maker, position: Value) -> Value:
        return m.b.one("buffer_get", self.buffer, position)

    def leaves(self) -> Iterator[BufferRead]:
        yield BufferRead(self.buffer, True)

    @property
    def is_flat(self) -> bool:
        return True

    @property
    def cost(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Computed:
    """A tile without memory: ``at`` computes an element from its indices.

    Attributes
    ----------
    at
        Appends the ops of an element.
    at_flat
        The same from the row-major position, where that is sufficient.
    reads
        The buffers that the elements are computed from.
    transposed
        The matrix in memory whose transpose this is.
    cost
        The approximate number of operations per element.
    """

    shape: tuple[int, ...]
    dtype: Element
    at: Callable[[Index], Value]
    reads: tuple[BufferRead, ...] = ()
    at_flat: Callable[[Value], Value] | None = None
    transposed: Stored | None = None
    cost: int = 0

    def element(self, m: Maker, index: Index) -> Value:
        return self.at(index)

    def element_at(self, m: Maker, position: Value) -> Value:
        assert self.at_flat is not None
        return self.at_flat(position)

    def leaves(self) -> Iterator[BufferRead]:
        yield from self.reads

    @property
    def is_flat(self) -> bool:
        return self.at_flat is not None


Source = Stored | Computed


class Maker:
    """Appends loops and index arithmetic.

    A loop of more trips than :attr:`rolled_above` is marked to stay one: unrolled it would no longer be vectorised. One
    whose trips wait for each other is not vectorised anyway, and may have one trip more.
    """

    rolled_above = 7
    shares = False
    """True if several threads visit the elements of one tile."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.known: dict[Value, int] = {}  # integer literals

    def i64(self, n: int) -> Value:
        out = self.b.const(n, INT64)
        self.known[out] = n
        return out

    def wide(self, v: Value) -> Value:
        """Return an integer as int64."""
        known = self.known.get(v)
        return self.b.cast(v, INT64) if known is None else self.i64(known)

    def flat(self, index: Index, shape: Sequence[int]) -> Value:
        """Return the row-major position of an element."""
        out = index[0]
        for i, n in zip(index[1:], shape[1:], strict=True):
            out = self.b.add(self.b.mul(out, self.i64(n)), i)
        return out

    def loop(
        self,
        lo: Value | int,
        hi: Value | int,
        body: Callable[[Value, list[Value]], Sequence[Value]],
        init: Sequence[Value] = (),
        *,
        step: int = 1,
        down: bool = False,
        in_turn: bool = False,
    ) -> tuple[Value, ...]:
        """Emit a loop over ``lo <= i < hi``, or the same range downwards, with carried values.

        With ``in_turn``, each trip needs what the one before it has made.
        """
        first, last = (self.i64(x) if isinstance(x, int) else x for x in (lo, hi))
        # The stop is exclusive in both directions.
        if down:
            first, last, step = self.b.sub(last, self.i64(1)), self.b.sub(first, self.i64(1)), -step
        region = Region((Value(INT64), *(Value(v.type) for v in init)))
        with self.b.into(region):
            region.yields = tuple(body(region.params[0], list(region.params[1:])))
        attrs: dict[str, Any] = {}
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo > (self.rolled_above + in_turn) * abs(step):
            attrs["rolled"] = True
        return self.b.op("for", first, last, self.i64(step), *init, regions=(region,), **attrs)

    def nest(
        self,
        shape: Sequence[int],
        body: Callable[[list[Value], list[Value]], Sequence[Value]],
        init: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """Emit loops over all indices of a shape, the last axis innermost; an axis of extent 1 takes no loop."""

        def level(axis: int, index: list[Value], carried: list[Value]) -> Sequence[Value]:
            if axis == len(shape):
                return body(index, carried)
            if shape[axis] == 1:
                return level(axis + 1, [*index, self.i64(0)], carried)
            return self.loop(0, shape[axis], lambda i, c: level(axis + 1, [*index, i], c), carried)

        return tuple(level(0, [], list(init)))

    def cells(self, count: int | Value, body: Callable[[Value], None], *, ungrouped: bool = False) -> None:
        """Do something for each position, in any order; for ``ungrouped`` see :meth:`grid`."""

        def one(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return ()

        self.loop(0, count, one)

    def grid(self, shape: Sequence[int], body: Callable[[list[Value]], None], *, ungrouped: bool = False) -> None:
        """Do something for each index of a shape, in any order.

        With ``ungrouped``, neighbouring threads of a block take neighbouring elements, none several.
        """

        def at(index: list[Value], _: list[Value]) -> Sequence[Value]:
            body(index)
            return ()

        self.nest(shape, at)

    def is_few(self, shape: Sequence[int]) -> bool:
        """Return whether testing each element of a tile is as cheap as testing the whole tile."""
        return False

    def takes_groups(self, array: Value, shape: Sequence[int]) -> bool:
        """Return whether a thread accesses neighbouring elements of an array as one."""
        return False

    def aligned(self, array: Value, offsets: Sequence[Value], whole: Value) -> Value:
        """Return whether a part of an array that lies inside, if `whole`, consists of aligned groups."""
        return whole

    def using_vectors(self, vectors: bool) -> contextlib.AbstractContextManager[None]:
        """Return a context in which visited elements are aligned, if `vectors`."""
        return contextlib.nullcontext()

    def hints(self, array: Value) -> Mapping[str, Any]:
        """Return the attributes known of the access to an array for the element that is being visited."""
        return {}

    def alone(self, body: Callable[[], None]) -> None:
        """Do something once, in order."""
        body()

    def step(self, body: Callable[[], None]) -> None:
        """Do something that depends on what was done before it."""
        body()

    def synchronize(self) -> None:
        """Make everything done before visible to everything that follows."""

    def when(self, condition: Value, then: Callable[[], None]) -> None:
        """Run something only where a condition holds."""
        region, other = Region(), Region()
        with self.b.into(region):
            then()
        self.b.if_(condition, region, other)

    def either(self, condition: Value, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        regions = (Region(), Region())
        for region, emit in zip(regions, (then, orelse), strict=True):
            with self.b.into(region):
                emit()
        self.b.if_(condition, *regions)

    def every(self, conditions: Sequence[Value]) -> Value | None:
        """Return the conjunction of some conditions; None if there are none."""
        out: Value | None = None
        for c in conditions:
            out = c if out is None else self.b.one("and", out, c)
        return out

    def inside(self, index: Value, extent: Value | int) -> list[Value]:
        """Return the conditions under which an index lies in an axis; none for a constant that does."""
        known = self.known.get(index)
        if known is not None and isinstance(extent, int) and 0 <= known < extent:
            return []
        limit = self.i64(extent) if isinstance(extent, int) else extent
        return [self.b.one("ge", index, self.i64(0)), self.b.one("lt", index, limit)]


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def is_number(dtype: Element) -> bool:
    """Return whether an element is a scalar."""
    return isinstance(dtype, Scalar)
