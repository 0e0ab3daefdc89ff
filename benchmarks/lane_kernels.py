"""The functions of kernels that ``lanes.py`` measures."""

from __future__ import annotations

import diffkern as dk


def recurrence(x: dk.array(dtype=float), trips: int, rate: float, y: dk.array(dtype=float)):
    """A logistic recurrence over a run-time number of trips."""
    i = dk.tid()
    value = x[i]
    for _ in range(trips):
        value = rate * value * (1.0 - value)
    y[i] = value


def nbody(
    position: dk.array(dtype=dk.vec3), mass: dk.array(dtype=float), n: int, acceleration: dk.array(dtype=dk.vec3)
):
    """Softened gravity between all pairs of bodies."""
    i = dk.tid()
    here = position[i]
    total = dk.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = position[j] - here
        inverse = 1.0 / dk.sqrt(dk.dot(d, d) + 0.01)
        total += d * (mass[j] * inverse * inverse * inverse)
    acceleration[i] = total


def escape(c: dk.array(dtype=dk.vec2), most: int, y: dk.array(dtype=float)):
    """The Mandelbrot iteration, until it escapes: neighbours make different numbers of trips."""
    i = dk.tid()
    a, b = c[i][0], c[i][1]
    u, v = 0.0, 0.0
    trips = 0
    while trips < most and u * u + v * v < 4.0:
        u, v = u * u - v * v + a, 2.0 * u * v + b
        trips += 1
    y[i] = u * u + v * v
