"""The kernels of the traced programs: few, so that few are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk

N = 6
FLOATS, INTS = dk.array(dtype=float), dk.array(dtype=int)
Programs = dict[str, Callable[..., None]]


@dk.kernel
def square(x: FLOATS, y: FLOATS, a: float):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def total(x: FLOATS, s: FLOATS):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i])


@dk.kernel
def move(x: FLOATS, v: FLOATS, dt: float):
    i = dk.tid()
    v[i] = v[i] - dt * dk.sin(x[i])
    x[i] = x[i] + dt * v[i] * x[i]


@dk.kernel
def smooth(x: FLOATS, y: FLOATS):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1]


@dk.kernel
def scatter(x: FLOATS, where: INTS, y: FLOATS):
    i = dk.tid()
    dk.atomic_add(y, where[i], x[i] * x[i])


@dk.kernel
def settle(x: dk.array2d(dtype=float)):
    """Its adjoint needs values that it overwrites, how many its data say."""
    i = dk.tid()
    worst = 1.0
    while worst > 0.05:
        worst = 0.0
        for j in range(x.shape[1]):
            change = 0.3 * x[i, j] * x[i, j]
            worst = dk.max(worst, dk.abs(change))
            x[i, j] = x[i, j] - change


@dk.kernel
def slots(x: FLOATS, count: INTS, out: FLOATS):
    """Its adjoint needs what the counter returned."""
    i = dk.tid()
    k = dk.atomic_add(count, 0, 1)
    out[k] = x[i] * x[i]


@dk.kernel
def countdown(left: INTS, x: FLOATS):
    left[0] = left[0] - 1
    x[0] = 2.0 * x[0]


@dk.struct
class State:
    x: FLOATS
    v: FLOATS
    mass: float


@dk.kernel
def energy(state: State, s: FLOATS):
    i = dk.tid()
    dk.atomic_add(s, 0, state.mass * state.v[i] * state.v[i] + state.x[i] * state.x[i])


def ramp(n: int = N, **options: Any) -> Any:
    """An array that is differentiated for, unless it is said otherwise."""
    return dk.array(np.linspace(0.25, 1.0, n, dtype=np.float32), **{"requires_grad": True, **options})


def number(**options: Any) -> Any:
    """A sum that begins at zero."""
    return dk.zeros(1, **{"requires_grad": True, **options})


@dk.kernel
def permuted(x: FLOATS, to: INTS, of: INTS, y: FLOATS):
    """Whether a thread reads what another one writes is seen by looking."""
    i = dk.tid()
    y[to[i]] = dk.sin(y[of[i]]) + x[i]


@dk.kernel
def near(grid: dk.uint64, points: dk.array(dtype=dk.vec3), s: FLOATS):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, points[i], 0.5):
        dk.atomic_add(s, 0, dk.length_sq(points[j] - points[i]))


@dk.kernel
def faces(mesh: dk.uint64, s: FLOATS):
    i = dk.tid()
    held = dk.mesh_get(mesh)
    a, b = held.points[held.indices[3 * i]], held.points[held.indices[3 * i + 1]]
    dk.atomic_add(s, 0, dk.dot(a, b))


@dk.kernel
def sampled(t: dk.Texture2D, s: FLOATS):
    i = dk.tid()
    u = 0.2 + 0.2 * float(i)
    dk.atomic_add(s, 0, dk.texture_sample(t, u, 1.0 - u, dtype=float, lod=0.5) * u)


@dk.struct
class Part:
    scale: float
    x: FLOATS


@dk.kernel
def of_parts(parts: dk.array(dtype=Part), y: FLOATS):
    i = dk.tid()
    part = parts[i]
    y[i] = part.scale * part.x[0] * part.x[1]


@dk.kernel
def rows(x: dk.array2d(dtype=float), s: FLOATS):
    i = dk.tid()
    row = dk.tile_load(x[i], shape=4)
    dk.tile_atomic_add(s, dk.tile_sum(row * row))


@dk.kernel
def picked(a: dk.indexedarray(dtype=float), y: FLOATS):
    i = dk.tid()
    y[i] = a[i] * a[i]
