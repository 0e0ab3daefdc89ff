"""Least squares of a polynomial and the sign function at equidistant places, and the gradient by its coefficients."""

from __future__ import annotations

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Given, Program

REAL = dk.float64


@dk.kernel
def misfit(x: dk.array[REAL], places: int, value: dk.array[REAL]):
    """Half the square of the difference at one place."""
    t = -1.0 + 2.0 * dk.tid() / (places - 1.0)
    rest = REAL(dk.sign(t))
    power = REAL(1.0)
    for j in range(len(x)):
        rest -= x[j] * power
        power *= t
    dk.atomic_add(value, 0, 0.5 * rest * rest)


def _record(given: Given):
    x = dk.array(np.array(given["x"]), dtype=REAL, requires_grad=True)
    value = dk.zeros(1, dtype=REAL, requires_grad=True)
    with dk.record() as forward:
        value.zero_()
        dk.launch(misfit, given["n"], [x, given["n"]], [value])
    return x, value, forward


def primal(given: Given) -> Program:
    """The value."""
    _, value, forward = _record(given)
    return Program(forward.replay, lambda: float(value.numpy()[0]))


def gradient(given: Given) -> Program:
    """The gradient by the coefficients."""
    x, value, forward = _record(given)
    return Program(forward.adjoint(value).replay, lambda: x.grad.numpy().tolist())


FUNCTIONS = {"primal": primal, "gradient": gradient}
