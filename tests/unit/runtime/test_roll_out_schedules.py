"""Binomial schedules against an exhaustive search, and what steps hand on."""

from __future__ import annotations

import functools
from math import comb

import pytest

from diffkern.runtime.rollouts.live_state import Places
from diffkern.runtime.rollouts.rollout import next_state, reach, repeated


@functools.cache
def fewest(steps: int, slots: int) -> int:
    """The fewest repetitions of any schedule."""
    if steps <= 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(k + fewest(steps - k, slots - 1) + fewest(k, slots) for k in range(1, steps))


@pytest.mark.parametrize("slots", range(1, 7))
def test_no_schedule_repeats_fewer_steps(slots: int) -> None:
    for steps in range(1, 50):
        assert repeated(steps, slots) == fewest(steps, slots)
        if slots > 1 and steps > 1:
            k = next_state(steps, slots)
            assert 0 < k < steps
            assert k + fewest(steps - k, slots - 1) + fewest(k, slots) == fewest(steps, slots)


def test_reach_is_the_binomial_coefficient() -> None:
    assert [reach(3, r) for r in range(-1, 5)] == [0, 1, 4, 10, 20, 35]
    assert reach(50, 3) == comb(53, 3)
    # As many steps as one can go back through with r repetitions of a step.
    for r in range(1, 5):
        steps = reach(4, r)
        assert repeated(steps, 4) == r * steps - reach(5, r - 1)
        assert repeated(steps + 1, 4) - repeated(steps, 4) == r + 1


def test_contents_made_anew_in_each_step_are_not_handed_on() -> None:
    places = Places()
    assert places.accessed(0, 8, 1, True)
    assert places.accessed(0, 8, 1, False)  # in the same step, behind the write
    assert places.accessed(0, 8, 2, True)
    assert places.anew(0, 8)
    assert not places.accessed(0, 8, 3, False)
    assert not places.accessed(0, 8, 4, True)
    assert not places.anew(0, 8)


def test_rows_are_apart_until_something_reaches_over_them() -> None:
    places = Places()
    for k in range(4):
        assert places.accessed(8 * k, 8 * k + 8, k, True)
    assert places.anew(0, 32)
    assert not places.accessed(12, 20, 9, False)
    assert places.anew(0, 8)
    assert not places.anew(0, 16)
    assert places.anew(24, 32)
    assert places.accessed(0, 8, 10, True)
    assert not places.accessed(0, 4, 11, True)  # the rest of the row may be needed
