"""A chain of ordinary differential equations by Runge and Kutta's method, and the gradient of its last number.

The factors x of y₀' = x₀, yᵢ' = xᵢ yᵢ₋₁ are given, and how many steps lead to time 2. The result is y, or the gradient
of the last y by x. Time is the first axis of one array.
"""

from __future__ import annotations

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Given, Program

REAL = dk.float64
END = 2.0


@dk.func
def before(y: dk.array2d[REAL], t: int, i: int):
    """The number before one of the chain."""
    return y[t, i - 1] if i > 0 else REAL(0.0)


@dk.func
def slope(x: dk.array[REAL], i: int, left: REAL):
    """The right-hand side of one equation, from the number to its left."""
    return x[i] * left if i > 0 else x[0]


@dk.func
def first(x: dk.array[REAL], y: dk.array2d[REAL], t: int, i: int):
    """The slope at the beginning of the step; left of the chain there is none."""
    return slope(x, i, before(y, t, i)) if i >= 0 else REAL(0.0)


@dk.func
def second(x: dk.array[REAL], y: dk.array2d[REAL], t: int, i: int, h: REAL):
    """The slope in its middle, after the first one."""
    return slope(x, i, before(y, t, i) + 0.5 * h * first(x, y, t, i - 1)) if i >= 0 else REAL(0.0)


@dk.func
def third(x: dk.array[REAL], y: dk.array2d[REAL], t: int, i: int, h: REAL):
    """The slope in its middle, after the second one."""
    return slope(x, i, before(y, t, i) + 0.5 * h * second(x, y, t, i - 1, h)) if i >= 0 else REAL(0.0)


@dk.func
def fourth(x: dk.array[REAL], y: dk.array2d[REAL], t: int, i: int, h: REAL):
    """The slope at its end, after the third one."""
    return slope(x, i, before(y, t, i) + h * third(x, y, t, i - 1, h))


@dk.kernel
def step(x: dk.array[REAL], t: int, h: REAL, y: dk.array2d[REAL]):
    """A step of one number."""
    i = dk.tid()
    middle = second(x, y, t, i, h) + third(x, y, t, i, h)
    y[t + 1, i] = y[t, i] + h / 6.0 * (first(x, y, t, i) + 2.0 * middle + fourth(x, y, t, i, h))


def _record(given: Given):
    x = dk.array(np.array(given["x"]), dtype=REAL, requires_grad=True)
    steps = given["s"]
    y = dk.zeros((steps + 1, len(x)), dtype=REAL, requires_grad=True)
    with dk.record() as forward:
        for t in range(steps):
            dk.launch(step, len(x), [x, t, END / steps], [y])
    return x, y, forward


def primal(given: Given) -> Program:
    """The numbers at the end."""
    _, y, forward = _record(given)

    def output() -> list[float]:
        return y.numpy()[-1].tolist()

    return Program(forward.replay, output)


@dk.kernel
def last(y: dk.array2d[REAL], value: dk.array[REAL]):
    """The number whose gradient is asked for."""
    value[0] = y[y.shape[0] - 1, y.shape[1] - 1]


def gradient(given: Given) -> Program:
    """The gradient of the last number."""
    x, y, _ = _record(given)
    value = dk.zeros(1, dtype=REAL, requires_grad=True)
    steps = given["s"]
    with dk.record() as forward:
        for t in range(steps):
            dk.launch(step, len(x), [x, t, END / steps], [y])
        dk.launch(last, 1, [y], [value])
    return Program(forward.adjoint(value).replay, lambda: x.grad.numpy().tolist())


FUNCTIONS = {"primal": primal, "gradient": gradient}
