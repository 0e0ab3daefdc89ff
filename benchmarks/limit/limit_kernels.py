"""The kernels that are set beside hand-written programs, written once for both libraries.

In: a module with Warp's kernel language (``warp`` or ``diffkern``). Out: its kernels, made from the same text.
The annotations are evaluated where the kernel is defined (no ``from __future__ import annotations`` here), because they
name the library through the factory's parameter.
"""
# ruff: noqa: UP018, RUF046  (variables of loops that Warp knows by their calls)
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from types import SimpleNamespace
from typing import Any


def make(w: Any) -> SimpleNamespace:
    """Return the kernels of one library."""

    @w.kernel
    def recurrence(x: w.array(dtype=float), trips: int, rate: float, y: w.array(dtype=float)):
        i = w.tid()
        value = x[i]
        for _ in range(trips):
            value = rate * value * (1.0 - value)
        y[i] = value

    @w.kernel
    def escape(c: w.array(dtype=w.vec2), most: int, y: w.array(dtype=float)):
        i = w.tid()
        a = c[i][0]
        b = c[i][1]
        u = float(0.0)
        v = float(0.0)
        trips = int(0)
        while trips < most and u * u + v * v < 4.0:
            t = u * u - v * v + a
            v = 2.0 * u * v + b
            u = t
            trips += 1
        y[i] = u * u + v * v

    @w.func
    def pull(d: w.vec3, stiffness: float, rest: float):
        return d * (stiffness * (1.0 - rest / w.length(d)))

    @w.kernel
    def cloth(
        x: w.array2d(dtype=w.vec3), v: w.array2d(dtype=w.vec3), side: int, dt: float,
        x_out: w.array2d(dtype=w.vec3), v_out: w.array2d(dtype=w.vec3),
    ):  # fmt: skip
        i, j = w.tid()
        here = x[i, j]
        force = w.vec3(0.0, -9.8, 0.0) - 0.5 * v[i, j]
        if i > 0:
            force += pull(x[i - 1, j] - here, 200.0, 0.05)
        if i < side - 1:
            force += pull(x[i + 1, j] - here, 200.0, 0.05)
        if j > 0:
            force += pull(x[i, j - 1] - here, 200.0, 0.05)
        if j < side - 1:
            force += pull(x[i, j + 1] - here, 200.0, 0.05)
        new = v[i, j] + dt * force
        v_out[i, j] = new
        x_out[i, j] = here + dt * new

    @w.kernel
    def mlp(
        x: w.array(dtype=w.vec3), first: w.array(dtype=w.vec3), bias: w.array(dtype=float),
        second: w.array(dtype=float), units: int, y: w.array(dtype=float),
    ):  # fmt: skip
        i = w.tid()
        here = x[i]
        total = float(0.0)
        for k in range(units):
            total += second[k] * w.tanh(w.dot(first[k], here) + bias[k])
        y[i] = total

    @w.kernel
    def natural(
        x: w.array(dtype=w.vec3), v: w.array(dtype=w.vec3), neighbour: w.array2d(dtype=int), rest: float,
        centre: w.array(dtype=w.vec3), radius: w.array(dtype=float), balls: int, dt: float,
        x_out: w.array(dtype=w.vec3), v_out: w.array(dtype=w.vec3),
    ):  # fmt: skip
        i = w.tid()
        p = x[i]
        u = v[i]
        force = w.vec3(0.0, -9.8, 0.0)
        for k in range(4):  # springs with dampers
            j = neighbour[i, k]
            if j >= 0:
                d = x[j] - p
                size = w.length(d)
                along = w.dot(v[j] - u, d) / size
                force += d * ((500.0 * (size - rest) + 2.0 * along) / size)
        wind = w.vec3(1.0, 0.0, 0.5) - u  # drag
        force += wind * (0.1 * w.length(wind))
        steps = int(1.0 + 2.0 * w.length(u))  # the faster, the smaller the steps
        h = dt / float(steps)
        done = int(0)
        while done < steps:
            a = force
            for b in range(balls):  # contacts
                r = p - centre[b]
                distance = w.length(r)
                depth = radius[b] - distance
                if depth > 0.0:
                    a += r * (2000.0 * depth / distance)
            u = u + h * a
            p = p + h * u
            done += 1
        x_out[i] = p
        v_out[i] = u

    return SimpleNamespace(recurrence=recurrence, escape=escape, cloth=cloth, mlp=mlp, natural=natural)
