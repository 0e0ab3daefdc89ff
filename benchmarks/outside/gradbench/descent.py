"""Gradient descent as the evals ``particle`` and ``saddle`` have it: the rate doubles after ten steps that helped."""

from __future__ import annotations

from typing import Any

import diffkern as dk

REAL = dk.float64
CLOSE, FIRST_RATE, STEPS_OF_A_RATE = 1e-5, 1e-5, 10


@dk.func
def lowest(objective: Any, slope: Any, size: Any, start: Any, given: Any):
    """Where a function of (x, given) is lowest, from a start, with functions for its derivative by x and for sizes."""
    x = start
    value = objective(x, given)
    down = slope(x, given)
    rate, steps = REAL(FIRST_RATE), 0
    moved = REAL(1.0)
    while size(down) > CLOSE and moved > CLOSE:
        if steps == STEPS_OF_A_RATE:
            rate *= 2.0
            steps = 0
        else:
            trial = x - rate * down
            moved = size(trial - x)
            if moved > CLOSE:
                reached = objective(trial, given)
                if reached < value:
                    x = trial
                    value = reached
                    down = slope(x, given)
                    steps += 1
                else:
                    rate *= 0.5
                    steps = 0
    return x
