"""The kernels of ``diffkern bench``, two of which measure the machine, and that of ``diffkern doctor``."""

from __future__ import annotations

import diffkern as dk

__all__ = ["area", "chains", "energy", "gravity", "heat", "logistic", "triad", "wave"]


@dk.kernel
def triad(b: dk.array[dk.float32], c: dk.array[dk.float32], s: float, a: dk.array[dk.float32]) -> None:
    i = dk.tid()
    a[i] = b[i] + s * c[i]


@dk.kernel(lanes=True)
def chains(x: dk.array[dk.float32], trips: int, y: dk.array[dk.float32]) -> None:
    i = dk.tid()
    v = x[i]
    # Eight independent chains hide the latency of a fused product and sum.
    a, b, c, d, e, f, g, h = v, v + 1.0, v + 2.0, v + 3.0, v + 4.0, v + 5.0, v + 6.0, v + 7.0
    for _ in range(trips):
        a = a * v + 0.5
        b = b * v + 0.5
        c = c * v + 0.5
        d = d * v + 0.5
        e = e * v + 0.5
        f = f * v + 0.5
        g = g * v + 0.5
        h = h * v + 0.5
    y[i] = ((a + b) + (c + d)) + ((e + f) + (g + h))


@dk.kernel
def wave(x: dk.array[dk.float32], y: dk.array[dk.float32], a: float, z: dk.array[dk.float32]) -> None:
    i = dk.tid()
    z[i] = dk.sin(a * x[i]) + y[i] * dk.exp(-x[i] * x[i])


@dk.kernel
def heat(u: dk.array2d[dk.float32], n: int, k: float, out: dk.array2d[dk.float32]) -> None:
    i, j = dk.tid()
    if i > 0 and i < n - 1 and j > 0 and j < n - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
    else:
        out[i, j] = u[i, j]


@dk.kernel
def logistic(x: dk.array[dk.float32], trips: int, rate: float, y: dk.array[dk.float32]) -> None:
    i = dk.tid()
    value = x[i]
    for _ in range(trips):
        value = rate * value * (1.0 - value)
    y[i] = value


@dk.kernel
def gravity(position: dk.array[dk.vec3], mass: dk.array[dk.float32], n: int, acceleration: dk.array[dk.vec3]) -> None:
    i = dk.tid()
    here = position[i]
    total = dk.vec3(0.0, 0.0, 0.0)
    # Softened, so that a body's distance from itself gives 0 and not NaN.
    for j in range(n):
        d = position[j] - here
        inverse = 1.0 / dk.sqrt(dk.dot(d, d) + 0.01)
        total += d * (mass[j] * inverse * inverse * inverse)
    acceleration[i] = total


@dk.kernel
def area(vertex: dk.array[dk.vec3], face: dk.array2d[dk.int32], share: dk.array[dk.float32]) -> None:
    t = dk.tid()
    a, b, c = vertex[face[t, 0]], vertex[face[t, 1]], vertex[face[t, 2]]
    third = dk.length(dk.cross(b - a, c - a)) / 6.0
    for k in range(3):
        dk.atomic_add(share, face[t, k], third)


@dk.kernel
def energy(x: dk.array[dk.float64], total: dk.array[dk.float64]) -> None:
    """Add up sines: compiled and checked by ``diffkern doctor``."""
    i = dk.tid()
    dk.atomic_add(total, 0, dk.sin(x[i]))
