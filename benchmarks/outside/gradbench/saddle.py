"""Saddle points by gradient descent on a maximum that is found by gradient ascent: a derivative inside another.

From a starting point the two points of min over x of max over y of |x|² - |y|² are sought. The names of the four
functions say which mode differentiates the outer and the inner objective: ``f`` forward, ``r`` reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.descent import lowest
from benchmarks.outside.gradbench.protocol import Given, Program

POINT = dk.vec2d


@dk.func
def height(x: POINT, y: POINT):
    """The function whose saddle is sought."""
    return dk.dot(x, x) - dk.dot(y, y)


@dk.func
def depth(y: POINT, x: POINT):
    """The same upside down, of y first."""
    return -height(x, y)


@dk.func
def slope_reverse(y: POINT, x: POINT):
    """The derivative of the depth by y, in reverse mode."""
    return dk.grad(depth)(y, x)[0]


@dk.func
def slope_forward(y: POINT, x: POINT):
    """The derivative of the depth by y, in forward mode."""
    _, first = dk.jvp(depth)(y, x, POINT(1.0, 0.0), POINT())
    _, second = dk.jvp(depth)(y, x, POINT(0.0, 1.0), POINT())
    return POINT(first, second)


@dk.func
def top_reverse(x: POINT, start: POINT):
    """The largest height over y, where the inner search differentiates in reverse mode."""
    return height(x, lowest(depth, slope_reverse, dk.length, start, x))


@dk.func
def top_forward(x: POINT, start: POINT):
    """The largest height over y, where the inner search differentiates in forward mode."""
    return height(x, lowest(depth, slope_forward, dk.length, start, x))


def kernel(top: Any, inner: Any, *, forward: bool) -> Any:
    """The kernel of one of the four functions, for one thread."""

    @dk.func
    def by_reverse(x: POINT, start: POINT):
        return dk.grad(top)(x, start)[0]

    @dk.func
    def by_forward(x: POINT, start: POINT):
        _, first = dk.jvp(top)(x, start, POINT(1.0, 0.0), POINT())
        _, second = dk.jvp(top)(x, start, POINT(0.0, 1.0), POINT())
        return POINT(first, second)

    outer = by_forward if forward else by_reverse

    @dk.kernel
    def saddle(start: dk.array[POINT], found: dk.array[POINT]):
        x = lowest(top, outer, dk.length, start[0], start[0])
        found[0] = x
        found[1] = lowest(depth, inner, dk.length, start[0], x)

    return saddle


def _program(work: Any) -> Any:
    def prepare(given: Given) -> Program:
        start = dk.array(np.array([given["start"]]), dtype=POINT)
        found = dk.zeros(2, dtype=POINT)
        command = dk.launch(work, 1, [start], [found], record_cmd=True)
        return Program(command.launch, lambda: found.numpy().ravel().tolist())

    return prepare


FUNCTIONS = {
    "rr": _program(kernel(top_reverse, slope_reverse, forward=False)),
    "ff": _program(kernel(top_forward, slope_forward, forward=True)),
    "fr": _program(kernel(top_reverse, slope_reverse, forward=True)),
    "rf": _program(kernel(top_forward, slope_forward, forward=False)),
}
