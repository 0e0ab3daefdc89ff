"""Binomial schedules: which states of a roll-out to keep so that going back through it repeats the fewest steps.

From the number of steps and the number of states that may be kept at once, the first among them, follow the state to
keep next and the number of steps repeated in all. The schedules are those of Griewank and Walther (Algorithm 799:
Revolve): with `slots` states and each step repeated at most `repeats` times one goes back through
``C(slots + repeats, slots)`` steps, and no schedule needs fewer repetitions.
"""

from __future__ import annotations

from math import comb

__all__ = ["next_state", "reach", "repeated"]


def reach(slots: int, repeats: int) -> int:
    """Return the number of steps that can be reversed if each runs at most `repeats` times before its adjoint."""
    return comb(slots + repeats, slots) if repeats >= 0 else 0


def _repeats(steps: int, slots: int) -> int:
    """Return the number of times that a step has to run at most."""
    repeats = 0
    while reach(slots, repeats) < steps:
        repeats += 1
    return repeats


def repeated(steps: int, slots: int) -> int:
    """Return the total number of steps that run to reverse `steps`, except the one before each step's adjoint."""
    repeats = _repeats(steps, slots)
    # The minimum t * l - C(s + t, t - 1) of Griewank and Walther for l steps, s slots and t repeats.
    return repeats * steps - reach(slots + 1, repeats - 1)


def next_state(steps: int, slots: int) -> int:
    """Return the distance, in steps, from the last state that is kept to the next one to keep.

    Parameters
    ----------
    steps : int
        Number of steps to reverse from the last state, at least 2.
    slots : int
        Number of states that may be kept, that one among them, at least 2.
    """
    repeats = _repeats(steps, slots)
    # Any distance between these bounds is optimal. The smallest is taken, such that the part behind the new state fits
    # into one slot less and that in front of it is run one time less.
    return max(1, reach(slots, repeats - 2), steps - reach(slots - 1, repeats))
