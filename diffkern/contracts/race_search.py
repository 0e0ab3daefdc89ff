"""The search for two threads of a launch that touch one element, by a load and a write with linear indices.

It takes a :class:`~diffkern.contracts.manifest.RaceCheck`, the dimensions of the launch and the numbers that the
coefficients are made of, and finds two such threads or shows that there are none. The unknowns are the integers of the
writing thread, and the differences of the loading thread from them. Anything unknown adds solutions and never removes
one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from diffkern.contracts.integer_systems import Ranges, Row, narrowed, search
from diffkern.contracts.manifest import IntegerForm, Monomial, Order, RaceCheck, Touch
from diffkern.process.dataclass import dataclass

__all__ = ["Numbers", "Threads", "needed", "racing"]

Threads: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A thread that loads and one that writes; empty where it is not known which."""

Numbers = Mapping[tuple[int, int], int]
"""Extents by parameter and axis; integer arguments by parameter and -1."""

_LIMIT = 2**31
"""Beyond this an index of 32 bits may have wrapped around."""


def needed(checks: Sequence[RaceCheck]) -> tuple[tuple[int, int], ...]:
    """Return which extents (parameter, axis) and arguments (parameter, -1) checks look at."""
    found: set[tuple[int, int]] = set()
    for check in checks:
        for touch in (check.load, check.write):
            # A negative index counts from the end, so the extent takes part in it.
            found |= {(check.array, axis) for axis, wraps in enumerate(touch.wrap) if wraps}
            forms = [*touch.index, *(form for order in touch.under for form in (order.less, order.more))]
            for form in forms:
                found |= {place for p in (form.const, *(c for _, c in form.terms)) for one in p for place in one.of}
        found |= {place for p in check.positive for one in p for place in one.of}
    return tuple(sorted(found))


def racing(check: RaceCheck, dims: Sequence[int], numbers: Numbers) -> Threads | None:
    """Return two threads of a launch that touch one element, the one that loads first; None if there are none.

    Parameters
    ----------
    check : RaceCheck
        The two accesses.
    dims : sequence of int
        The launch's dimensions.
    numbers : mapping
        The numbers that :func:`needed` asks for.
    """
    return _Pair(check, dims, numbers).racing()


@dataclass(frozen=True, slots=True)
class _Linear:
    """A form with the launch's numbers."""

    terms: tuple[tuple[int, int], ...]
    const: int


@dataclass(frozen=True, slots=True)
class _Way:
    """Indices of an access, None where numbers may wrap around, and what has to hold for them."""

    index: list[_Linear | None]
    rows: list[Row]


_Alone: TypeAlias = "tuple[list[Row], Ranges]"
"""The conditions on a thread that makes an access, and the ranges of its integers."""


class _Pair:
    """A load and a write in one launch."""

    def __init__(self, check: RaceCheck, dims: Sequence[int], numbers: Numbers) -> None:
        self.check, self.dims, self.numbers = check, dims, numbers
        self.count = len(check.ranges)

    def racing(self) -> Threads | None:
        check = self.check
        # The check assumed that these numbers are positive; without that nothing is ruled out.
        if any(self.value(p) <= 0 for p in check.positive):
            return (), ()
        both = [self.alone(touch) for touch in (check.load, check.write)]
        for rows, ranges, is_known in self.variants(*both):
            # Two threads differ along some axis, which is a disjunction: one system for each axis and direction.
            for apart in self.disjoint(ranges):
                found = search(rows, apart)
                if found is not None:
                    # A system that leaves out an axis may have solutions that are no race, so it names no threads.
                    return self.threads(rows, found) if is_known else ((), ())
        return None

    def threads(self, rows: list[Row], found: Ranges) -> Threads:
        arity, n = len(self.dims), self.count
        # The ranges may have no solution: only a point that satisfies all rows is shown as an example.
        point = [(low, low) for low, _ in found]
        if not all(row.holds(point) for row in rows):
            return (), ()
        writing = tuple(found[k][0] for k in range(arity))
        # Variables n to 2n are the differences of the reading thread.
        reading = tuple(found[k][0] + found[n + k][0] for k in range(arity))
        return reading, writing

    # -- numbers -----------------------------------------------------------------------------------------------------

    def value(self, p: Sequence[Monomial]) -> int:
        return sum(one.factor * math.prod(self.numbers[place] for place in one.of) for one in p)

    def linear(self, form: IntegerForm) -> _Linear:
        terms = ((k, self.value(c)) for k, c in form.terms)
        return _Linear(tuple((k, c) for k, c in terms if c), self.value(form.const))

    def alone(self, touch: Touch) -> _Alone | None:
        """Return the conditions on a thread that makes an access, and its integers' ranges; None if none makes it."""
        ranges = list(self.check.ranges)
        for axis, extent in enumerate(self.dims):
            ranges[axis] = 0, extent - 1
        rows: list[Row] = []
        # A comparison can only be used if its sides cannot wrap around at 32 bits. Each one that is used narrows the
        # ranges, by which others may fit: repeat until none is added.
        orders = list(touch.under)
        while orders:
            admitted = [(order, row) for order in orders if (row := self.row(order, ranges)) is not None]
            if not admitted:
                break
            orders = [order for order in orders if all(order is not one for one, _ in admitted)]
            rows += [row for _, row in admitted]
            found = narrowed(rows, ranges)
            if found is None:
                return None
            ranges = found
        return rows, ranges

    def row(self, order: Order, ranges: Ranges) -> Row | None:
        """Return a comparison as a row of the system; None if its numbers may have wrapped around."""
        less, more = self.linear(order.less), self.linear(order.more)
        # The bound of a divided comparison was multiplied out, so it is no number that the kernel computes.
        if not (_fits(less, ranges) and (order.divided or _fits(more, ranges))):
            return None
        # `less <= more` is the row `more - less >= 0`.
        terms = dict(more.terms)
        for k, c in less.terms:
            terms[k] = terms.get(k, 0) - c
        return Row(tuple((k, c) for k, c in terms.items() if c), more.const - less.const, order.equal)

    # -- both accesses -----------------------------------------------------------------------------------------------

    def variants(self, load: _Alone | None, write: _Alone | None) -> Iterator[tuple[list[Row], Ranges, bool]]:
        """Systems of both accesses, one for each way in which negative indices may count, and if they say all."""
        if load is None or write is None:
            return
        n = self.count
        # The conditions of both threads, about variables of one system.
        rows = [*map(self.shifted, load[0]), *write[0]]
        differences = ((a[0] - b[1], a[1] - b[0]) for a, b in zip(load[1], write[1], strict=True))
        ranges = [*write[1], *differences]
        # A uniform integer is the same for all threads.
        for k in self.check.uniform:
            ranges[n + k] = 0, 0
        loading, writing = (_integers(touch, len(self.dims)) for touch in (self.check.load, self.check.write))
        # Integers that the writing thread does not have are fixed at 0, so that the difference is the reading thread's
        # own value.
        for k in set(range(n)) - writing:
            ranges[k], ranges[n + k] = (0, 0), load[1][k]
        for k in set(range(n)) - loading:
            ranges[n + k] = 0, 0
        for k in loading:  # the reading thread's integers are sums
            first, last = load[1][k]
            rows.append(Row(((k, 1), (n + k, 1)), -first, False))
            rows.append(Row(((k, -1), (n + k, -1)), last, False))
        both = self.ways(self.check.load, load[1]), self.ways(self.check.write, write[1])
        for at, to in itertools.product(*both):
            more = [*map(self.shifted, at.rows), *to.rows]
            pairs = zip(at.index, to.index, strict=True)
            # An axis whose index may wrap around is left out, which only adds solutions.
            equal = [self.equal(x, y) for x, y in pairs if x is not None and y is not None]
            yield [*rows, *more, *equal], ranges, len(equal) == len(at.index)

    def ways(self, touch: Touch, ranges: Ranges) -> list[_Way]:
        """The indices, as they are or from the end where they are negative, with what then holds of them."""
        found = [_Way([], [])]
        for axis, (form, wraps) in enumerate(zip(touch.index, touch.wrap, strict=True)):
            index = self.linear(form)
            low, high = Row(index.terms, index.const, False).bounds(ranges)
            choices: list[_Way] = []
            if not _fits(index, ranges):
                choices.append(_Way([None], []))
            elif not wraps or low >= 0:
                choices.append(_Way([index], []))
            else:
                extent = self.numbers[self.check.array, axis]
                # -1 - index >= 0: the index is negative.
                below = Row(tuple((k, -c) for k, c in index.terms), -1 - index.const, False)
                choices.append(_Way([_Linear(index.terms, index.const + extent)], [below]))
                if high >= 0:
                    choices.append(_Way([index], [Row(index.terms, index.const, False)]))
            # Each axis chooses independently.
            found = [_Way([*w.index, *c.index], [*w.rows, *c.rows]) for w in found for c in choices]
        return found

    def shifted(self, row: Row) -> Row:
        """A row about the reading thread, whose integers are those of the writing one and the differences."""
        return Row((*row.terms, *((self.count + k, c) for k, c in row.terms)), row.const, row.is_zero)

    def equal(self, load: _Linear, write: _Linear) -> Row:
        terms = {**dict(load.terms), **{self.count + k: c for k, c in load.terms}}
        for k, c in write.terms:
            terms[k] = terms.get(k, 0) - c
        return Row(tuple((k, c) for k, c in terms.items() if c), load.const - write.const, True)

    def disjoint(self, ranges: Ranges) -> Iterator[Ranges]:
        """The ranges for two threads, which differ along one axis at least; or for any two."""
        if self.check.same_thread:
            yield ranges
            return
        for axis in range(len(self.dims)):
            k = self.count + axis
            low, high = ranges[k]
            # The difference is at least 1, or at most -1.
            if high >= 1:
                yield [*ranges[:k], (max(low, 1), high), *ranges[k + 1 :]]
            if low <= -1:
                yield [*ranges[:k], (low, min(high, -1)), *ranges[k + 1 :]]


def _integers(touch: Touch, axes: int) -> set[int]:
    """The integers of a thread that an access has to do with, those of the thread index among them."""
    forms = [*touch.index, *(form for order in touch.under for form in (order.less, order.more))]
    return {*range(axes), *(k for form in forms for k, _ in form.terms)}


def _fits(index: _Linear, ranges: Ranges) -> bool:
    low, high = Row(index.terms, index.const, False).bounds(ranges)
    return low >= -_LIMIT and high <= _LIMIT
