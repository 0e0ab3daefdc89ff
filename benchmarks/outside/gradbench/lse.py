"""The logarithm of a sum of exponentials, and its gradient."""

from __future__ import annotations

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Given, Program

REAL = dk.float64


@dk.kernel
def largest(x: dk.array[REAL], top: dk.array[REAL]):
    """The largest number, which is taken out of the exponentials."""
    dk.atomic_max(top, 0, x[dk.tid()])


@dk.kernel
def exponentials(x: dk.array[REAL], top: dk.array[REAL], total: dk.array[REAL]):
    """Their sum. It does not matter for the derivative how much is taken out."""
    dk.atomic_add(total, 0, dk.exp(x[dk.tid()] - dk.stop_gradient(top[0])))


@dk.kernel
def logarithm(total: dk.array[REAL], top: dk.array[REAL], value: dk.array[REAL]):
    """The logarithm, with what was taken out."""
    value[0] = dk.log(total[0]) + dk.stop_gradient(top[0])


def _record(given: Given):
    x = dk.array(np.array(given["x"]), dtype=REAL, requires_grad=True)
    top = dk.zeros(1, dtype=REAL)
    total, value = (dk.zeros(1, dtype=REAL, requires_grad=True) for _ in range(2))
    with dk.record() as forward:
        top.fill_(-np.inf)
        total.zero_()
        dk.launch(largest, len(x), [x], [top])
        dk.launch(exponentials, len(x), [x, top], [total])
        dk.launch(logarithm, 1, [total, top], [value])
    return x, value, forward


def primal(given: Given) -> Program:
    """The value."""
    _, value, forward = _record(given)
    return Program(forward.replay, lambda: float(value.numpy()[0]))


def gradient(given: Given) -> Program:
    """The gradient by all numbers."""
    x, value, forward = _record(given)
    return Program(forward.adjoint(value).replay, lambda: x.grad.numpy().tolist())


FUNCTIONS = {"primal": primal, "gradient": gradient}
