"""A solver for linear equations (Gauss) and inequalities (Fourier and Motzkin) over the integers.

:func:`unsolvable` takes rows ``const + sum(coefficient * variable)`` that are 0, or at least 0, in integer variables
without any bounds but the rows, and returns whether it is proved that no integers solve them all. The answer "not
proved" is always allowed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

from diffkern.process.dataclass import dataclass

__all__ = ["Inequality", "unsolvable"]

_ROWS = 400
"""The elimination ends where there would be more rows, and nothing is proved."""


@dataclass(frozen=True, slots=True)
class Inequality:
    """``const + sum(terms[v] * v)``; no coefficient is zero."""

    terms: Mapping[Hashable, int]
    const: int

    def plus(self, other: Inequality, factor: int = 1, own: int = 1) -> Inequality:
        """Return ``own * self + factor * other``."""
        terms = {v: own * c for v, c in self.terms.items()}
        for v, c in other.terms.items():
            terms[v] = terms.get(v, 0) + factor * c
        return Inequality({v: c for v, c in terms.items() if c}, own * self.const + factor * other.const)

    def tightened(self) -> Inequality:
        """Return the same inequality in smaller numbers: divide by the gcd and round the constant down."""
        divisor = math.gcd(*self.terms.values()) if self.terms else 1
        if divisor <= 1:
            return self
        return Inequality({v: c // divisor for v, c in self.terms.items()}, self.const // divisor)


def unsolvable(zero: Iterable[Inequality], positive: Iterable[Inequality]) -> bool:
    """Return whether it is proved that no integers make some rows 0 and the others at least 0."""
    equations, rows = list(zero), list(positive)
    while equations:
        equation = equations.pop()
        if not equation.terms:
            if equation.const:
                return True
            continue
        # An integer combination of the coefficients is a multiple of their gcd.
        if equation.const % math.gcd(*equation.terms.values()):
            return True
        # The smallest coefficient keeps the numbers small when the equation is multiplied into the others.
        variable = min(equation.terms, key=lambda v: abs(equation.terms[v]))
        equations = [_without(row, equation, variable) for row in equations]
        rows = [_without(row, equation, variable) for row in rows]
    return _contradictory(_strongest(map(Inequality.tightened, rows)))


def _without(row: Inequality, equation: Inequality, variable: Hashable) -> Inequality:
    """Return a row from which a variable is eliminated by an equation; its sign stays."""
    c, by = row.terms.get(variable, 0), equation.terms[variable]
    if not c:
        return row
    return row.plus(equation, -c if by > 0 else c, abs(by))


def _strongest(rows: Iterable[Inequality]) -> list[Inequality]:
    """Return the rows without those that others of the same terms imply."""
    found: dict[Hashable, Inequality] = {}
    for row in rows:
        key = frozenset(row.terms.items())
        known = found.get(key)
        if known is None or row.const < known.const:
            found[key] = row
    return list(found.values())


def _contradictory(rows: list[Inequality]) -> bool:
    """Return whether eliminating one variable after the other leads to a contradiction."""
    while True:
        # All variables are gone and a negative number would have to be at least 0.
        if any(not row.terms and row.const < 0 for row in rows):
            return True
        counts: dict[Hashable, list[int]] = {}
        for row in rows:
            for v, c in row.terms.items():
                counts.setdefault(v, [0, 0])[c > 0] += 1
        if not counts:
            return False
        # Each pair of a lower and an upper bound gives a row, so the variable with the fewest pairs goes first.
        variable = min(counts, key=lambda v: counts[v][0] * counts[v][1])
        if counts[variable][0] * counts[variable][1] > _ROWS:
            return False
        rows = _eliminated(rows, variable)
        if len(rows) > _ROWS:
            return False


def _eliminated(rows: list[Inequality], variable: Hashable) -> list[Inequality]:
    left = [row for row in rows if variable not in row.terms]
    above = [row for row in rows if row.terms.get(variable, 0) < 0]
    for low in rows:
        c = low.terms.get(variable, 0)
        # c * low + d * high cancels the variable; both factors are positive, so the inequality keeps its direction.
        if c > 0:
            left += [low.plus(high, c, -high.terms[variable]).tightened() for high in above]
    return _strongest(left)
