"""Right kernels of the families that the gradient tests' corpus has little of, in the three dialects.

Each is a plain function with its decorator's text, the launch's dimensions and its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda

__all__ = ["KERNELS"]

Entry = tuple[FunctionType, str, tuple[int, ...], Callable[[], list[Any]]]
KERNELS: dict[str, Entry] = {}
N = 8
WIDTHS = {"narrow": 3}
TILE = 4


def entry(decorator: str, *dim: int, arguments: Callable[[], list[Any]]) -> Callable[[Any], Any]:
    """Enter a function into the table."""

    def enter(function: Any) -> Any:
        KERNELS[function.__name__] = (function, decorator, dim, arguments)
        return function

    return enter


def floats(*shape: int) -> np.ndarray:
    """Numbers between 0.3 and 1.3."""
    return np.random.default_rng(3).uniform(0.3, 1.3, shape).astype(np.float32)


@dk.struct
class Particle:
    """A struct."""

    position: dk.vec3
    mass: float
    kind: int


def particle() -> Any:
    """One of them."""
    made = Particle()
    made.position, made.mass, made.kind = dk.vec3(1.0, 2.0, 3.0), 2.0, 1
    return made


@entry("dk.kernel", N, arguments=lambda: [floats(N, 3), floats(N, 4), floats(N, 3)])
def rotations(p: dk.array(dtype=dk.vec3), q: dk.array(dtype=dk.quat), out: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    unit = dk.normalize(q[i])
    turned = dk.quat_rotate(unit, p[i])
    axis, angle = dk.quat_to_axis_angle(unit)
    t = dk.transform(turned, unit)
    back = dk.transform_point(dk.transform_inverse(t), p[i])
    out[i] = turned + back * angle + axis


@entry("dk.kernel", N, arguments=lambda: [particle(), floats(N), floats(1)])
def structs(s: Particle, x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    r = Particle(s.position * x[i], s.mass, s.kind)
    if r.kind == 1 and i > 0:
        r.mass = r.mass * 2.0
    dk.atomic_add(total, 0, dk.dot(r.position, s.position) / r.mass)


@entry("dk.kernel", N, arguments=lambda: [floats(N), floats(N), 3])
def locals_and_static(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    kept = dk.vector(0.0, 0.0, 0.0, 0.0)
    for k in range(dk.static(WIDTHS["narrow"])):
        kept[k] = x[i] * dk.static(0.5) ** float(k)
    total = 0.0
    for k, weight in enumerate((0.25, 0.5, 0.25)):
        total += weight * kept[k]
    step = 0
    while step < n:
        total = total * 0.5 + dk.sin(total)
        step += 1
    match n:
        case 3:
            total += 1.0
        case _:
            total -= 1.0
    y[i] = total


@entry("dk.kernel", N, arguments=lambda: [floats(N), 7])
def random_and_noise(y: dk.array(dtype=float), seed: int):
    i = dk.tid()
    state = dk.rand_init(seed, i)
    a = dk.randf(state)
    b = dk.randf(state, -1.0, 1.0)
    y[i] = dk.noise(dk.rand_init(seed), dk.vec2(a, b)) + dk.randn(state)


@dk.func
def shear(m: dk.mat33, k: float = 1.0):
    """Shear a matrix."""
    m[0, 1] += k
    return m, dk.determinant(m)


@entry("dk.kernel", N, arguments=lambda: [floats(N, 3, 3), floats(N, 3), floats(N)])
def matrices(m: dk.array(dtype=dk.mat33), v: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    sheared, size = shear(m[i], k=2.0)
    w = sheared @ v[i] - dk.cross(v[i], dk.transpose(m[i])[0])
    y[i] = dk.length(w) + size + dk.trace(dk.outer(w, w)) + w.x * w[1]


@entry("dk.kernel", 2, arguments=lambda: [floats(8, 8), floats(8, 8), floats(8, 8)])
def tiles(a: dk.array(dtype=float, ndim=2), b: dk.array(dtype=float, ndim=2), c: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    acc = dk.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range(2):
        p = dk.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, k * TILE))
        q = dk.tile_load(b, shape=(TILE, TILE), offset=(k * TILE, i * TILE))
        dk.tile_matmul(p, q, acc)
    dk.tile_store(c, dk.tile_map(dk.exp, acc), offset=(i * TILE, 0))


@wp.func
def spring(a: wp.vec3, b: wp.vec3, rest: float):
    """A force."""
    d = b - a
    return wp.normalize(d) * (wp.length(d) - rest)


@entry("wp.kernel", N, arguments=lambda: [floats(N, 3), np.arange(N, dtype=np.int32), floats(N, 3)])
def of_warp(x: wp.array(dtype=wp.vec3), other: wp.array(dtype=wp.int32), f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    j = other[i]
    if j == i or j < 0:
        return
    force = spring(x[i], x[j], wp.float32(0.5)) * wp.float32(j % 3)
    wp.atomic_add(f, i, force)
    wp.atomic_sub(f, j, force)


@entry("wp.kernel", 4, 4, arguments=lambda: [floats(4, 4), floats(4, 4)])
def of_warp_in_two_axes(u: wp.array2d(dtype=float), v: wp.array2d(dtype=float)):
    i, j = wp.tid()
    left = u[wp.max(i - 1, 0), j]
    up = u[i, wp.clamp(j + 1, 0, u.shape[1] - 1)]
    wp.expect_eq(i >= 0, True)
    v[i, j] = wp.where(left > up, left / 4.0, wp.select(i == 0, up, left))


@entry("cuda.jit", N, arguments=lambda: [floats(N), floats(N)])
def of_numba(x, y):
    i = cuda.grid(1)
    s = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(y, i, math.exp(s[7 - t]) * np.float32(2))
