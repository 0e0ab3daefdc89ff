"""Solutions of equations in one call of a function, which its next calls find again.

A Jacobian by columns calls a function once for each direction, at the same place. What takes time there are often
solutions of equations, which are the same in each call. While :class:`KeptSolutions` are met they are kept in the order
in which they were solved for; a solution serves again if the equation was given the same numbers and maps the solution
to the same numbers, bit by bit. So a function that does something else each time is solved for again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import numpy as np

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.memory.state import is_recorded
from diffkern.transforms.gmres import Numbers

__all__ = ["KeptSolutions", "found_again"]


class KeptSolutions:
    """Solutions of a function's equations, in their order."""

    def __init__(self) -> None:
        self._known: list[tuple[Numbers, Numbers, array]] = []
        self._next = 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Begin a call of the function."""
        self._next = 0
        with _met_by(self):
            yield

    def solution(self, given: Numbers, image: Callable[[array], Numbers], solve: Callable[[], array]) -> array:
        """Return the next solution."""
        k, self._next = self._next, self._next + 1
        # Equations within this one are no equations of the function: how many there are depends on the iterations.
        with _met_by(None):
            if k < len(self._known):
                known, mapped, x = self._known[k]
                if np.array_equal(known, given) and np.array_equal(mapped, image(x)):
                    return clone(x, requires_grad=False)
            x = solve()
            self._known[k:] = [(given, image(x), clone(x, requires_grad=False)), *self._known[k + 1 :]]
        return x


_met: ContextVar[KeptSolutions | None] = ContextVar("solutions", default=None)


@contextlib.contextmanager
def _met_by(kept: KeptSolutions | None) -> Iterator[None]:
    token = _met.set(kept)
    try:
        yield
    finally:
        _met.reset(token)


def found_again(given: Callable[[], Numbers], image: Callable[[array], Numbers], solve: Callable[[], array]) -> array:
    """Return the solution of an equation, that of an earlier call if there is one.

    Parameters
    ----------
    given : callable
        Returns the numbers that the equation is given: a right side, where to begin.
    image : callable
        What the equation maps an unknown to: a product, a residual.
    solve : callable
        Solves it.
    """
    kept = _met.get()
    if kept is None or is_recorded():
        return solve()
    return kept.solution(given(), image, solve)
