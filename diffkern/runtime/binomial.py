"""Binomial schedules: where to keep states of a roll-out, so that going back through it repeats the fewest steps.

In: how many steps there are, and how many states may be kept at once, the first among them. Out: which state to keep
next, and how many steps are repeated in all. The schedules are those of Griewank and Walther (Algorithm 799: Revolve):
with `slots` states and each step repeated at most `repeats` times one goes back through ``C(slots + repeats, slots)``
steps, and no schedule does with fewer repetitions.
"""

from __future__ import annotations

from math import comb

__all__ = ["next_state", "reach", "repeated"]


def reach(slots: int, repeats: int) -> int:
    """Return through how many steps one can go back while no step runs more than so many times before its adjoint."""
    return comb(slots + repeats, slots) if repeats >= 0 else 0


def _repeats(steps: int, slots: int) -> int:
    """How many times a step has to run at most."""
    repeats = 0
    while reach(slots, repeats) < steps:
        repeats += 1
    return repeats


def repeated(steps: int, slots: int) -> int:
    """Return how many steps run in all to go back through `steps`, apart from the one before each step's adjoint."""
    repeats = _repeats(steps, slots)
    return repeats * steps - reach(slots + 1, repeats - 1)


def next_state(steps: int, slots: int) -> int:
    """Return how many steps behind the last state that is kept the next one is to be kept.

    Parameters
    ----------
    steps : int
        How many there are to go back through from the last state, at least 2.
    slots : int
        How many states may be kept, that one among them, at least 2.
    """
    repeats = _repeats(steps, slots)
    return max(1, reach(slots, repeats - 2), steps - reach(slots - 1, repeats))
