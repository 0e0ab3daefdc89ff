"""Integer solutions of systems of linear equations and inequalities, by narrowing bounds and bisecting ranges.

A row is ``const + sum(coefficient * variable)``, which is to be equal to 0 or at least 0, and each variable has a
range. The result is ranges that contain all solutions, or none if there is no solution. The search is cut off after a
while, so ranges that are returned need not contain a solution, but a system that is said to have none has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from diffkern.process.dataclass import dataclass

__all__ = ["Row", "narrowed", "search"]

Ranges = list[tuple[int, int]]

_ROUNDS = 64
_HALVINGS = 400


@dataclass(frozen=True, slots=True)
class Row:
    """``const + sum(coefficient * variable)`` is 0, or at least 0; no coefficient is zero."""

    terms: tuple[tuple[int, int], ...]
    const: int
    is_zero: bool

    def bounds(self, ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The least and the greatest value in ranges."""
        low = high = self.const
        for variable, c in self.terms:
            first, last = ranges[variable]
            low += c * (first if c > 0 else last)
            high += c * (last if c > 0 else first)
        return low, high

    def holds(self, ranges: Sequence[tuple[int, int]]) -> bool:
        """Return whether the row is satisfied by all values in the ranges."""
        low, high = self.bounds(ranges)
        return low >= 0 and (high == 0 or not self.is_zero)


def narrowed(rows: Iterable[Row], ranges: Ranges) -> Ranges | None:
    """The ranges without values that no solution has; None if there is no solution."""
    ranges, rows = list(ranges), list(rows)
    # Bounds can creep towards each other by one in each round; stopping early leaves them wider, which is safe.
    for _ in range(_ROUNDS):
        before = list(ranges)
        for row in rows:
            if not _narrow(row, ranges):
                return None
        if ranges == before:
            break
    return ranges


def _narrow(row: Row, ranges: Ranges) -> bool:
    """Narrow the ranges of the variables of one row, in place; whether it can hold."""
    low, high = row.bounds(ranges)
    if high < 0 or (row.is_zero and low > 0):
        return False
    # An integer combination is a multiple of the greatest common divisor of its coefficients.
    if row.is_zero and row.terms and row.const % math.gcd(*(c for _, c in row.terms)):
        return False
    for variable, c in row.terms:
        first, last = ranges[variable]
        # c * variable is at least what is missing where all others are at their greatest
        rest_low, rest_high = low - c * (first if c > 0 else last), high - c * (last if c > 0 else first)
        least, most = -rest_high, -rest_low
        if c > 0:
            # Rounded inwards, as the variable is an integer: -(-a // b) is a / b rounded up.
            first = max(first, -(-least // c))
            last = min(last, most // c) if row.is_zero else last
        else:
            last = min(last, least // c)
            first = max(first, -(-most // c)) if row.is_zero else first
        if first > last:
            return False
        ranges[variable] = first, last
        # The row's bounds follow at once, so that the next variable profits.
        low, high = rest_low + c * (first if c > 0 else last), rest_high + c * (last if c > 0 else first)
    return True


def search(rows: Sequence[Row], ranges: Ranges) -> Ranges | None:
    """Ranges in which there is a solution as far as could be seen; None if there is none.

    Only variables of equations are fixed, one range after the other in halves; of the others ranges remain.
    """
    # An inequality over ranges is satisfied somewhere in them if its bounds allow it; equations need exact values.
    decided = {variable for row in rows if row.is_zero for variable, _ in row.terms}
    left, halvings = [ranges], 0
    while left:
        found = narrowed(rows, left.pop())
        if found is None:
            continue
        open_ = [(found[v][1] - found[v][0], v) for v in decided if found[v][0] < found[v][1]]
        if not open_ or halvings >= _HALVINGS:
            return found
        halvings += 1
        # The variable with the smallest range, as it is decided with the fewest halvings.
        _, v = min(open_)
        first, last = found[v]
        middle = (first + last) // 2
        # The lower half is popped first: examples with small thread indices are easier to read.
        left += [[*found[:v], half, *found[v + 1 :]] for half in ((middle + 1, last), (first, middle))]
    return None
