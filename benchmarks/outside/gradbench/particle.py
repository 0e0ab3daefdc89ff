"""A charged particle that is to hit the origin: descent on the end of a path whose forces are derivatives.

A first guess of the control parameter is given, and the parameter is found. The names of the four functions say which
mode differentiates the outer and the inner function: ``f`` forward, ``r`` reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.descent import lowest
from benchmarks.outside.gradbench.protocol import Given, Program

REAL, POINT = dk.float64, dk.vec2d
STEP = 0.1


@dk.func
def potential(x: POINT, w: REAL):
    """Of two charges, of which the parameter moves one."""
    return 1.0 / dk.length(x - POINT(10.0, 10.0 - w)) + 1.0 / dk.length(x - POINT(10.0, 0.0))


@dk.func
def field_reverse(x: POINT, w: REAL):
    """The derivative of the potential by the place, in reverse mode."""
    return dk.grad(potential)(x, w)[0]


@dk.func
def field_forward(x: POINT, w: REAL):
    """The derivative of the potential by the place, in forward mode."""
    _, first = dk.jvp(potential)(x, w, POINT(1.0, 0.0), REAL(0.0))
    _, second = dk.jvp(potential)(x, w, POINT(0.0, 1.0), REAL(0.0))
    return POINT(first, second)


def miss(field: Any) -> Any:
    """The square of where the particle crosses the axis: steps of Euler's method, and a line through the last one."""

    @dk.func
    def crossing(w: REAL, unused: REAL):
        x, v = POINT(0.0, 8.0), POINT(0.75, 0.0)
        force = -field(x, w)
        x = x + STEP * v
        while x[1] > 0.0:
            v = v + STEP * force
            force = -field(x, w)
            x = x + STEP * v
        end = x[0] - x[1] / v[1] * v[0]
        return end * end

    return crossing


def kernel(crossing: Any, *, forward: bool) -> Any:
    """The kernel of one of the four functions, for one thread."""

    @dk.func
    def by_reverse(w: REAL, unused: REAL):
        return dk.grad(crossing)(w, unused)[0]

    @dk.func
    def by_forward(w: REAL, unused: REAL):
        _, slope = dk.jvp(crossing)(w, unused, REAL(1.0), REAL(0.0))
        return slope

    outer = by_forward if forward else by_reverse

    @dk.kernel
    def particle(start: dk.array[REAL], found: dk.array[REAL]):
        found[0] = lowest(crossing, outer, dk.abs, start[0], REAL(0.0))

    return particle


def _program(work: Any) -> Any:
    def prepare(given: Given) -> Program:
        start, found = dk.array(np.array([given["w"]]), dtype=REAL), dk.zeros(1, dtype=REAL)
        command = dk.launch(work, 1, [start], [found], record_cmd=True)
        return Program(command.launch, lambda: float(found.numpy()[0]))

    return prepare


FUNCTIONS = {
    "rr": _program(kernel(miss(field_reverse), forward=False)),
    "ff": _program(kernel(miss(field_forward), forward=True)),
    "fr": _program(kernel(miss(field_reverse), forward=True)),
    "rf": _program(kernel(miss(field_forward), forward=False)),
}
