"""Kernels of one thread, or one row for each thread, that overwrite what they have read, again and again."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1, f2 = (dk.array(dtype=F, ndim=n) for n in (1, 2))
RNG = np.random.default_rng(15)


def some(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 1.6, shape)


@natural(1, x=some(4, 2) + np.arange(4)[:, None] * [1.0, 0.0], v=some(4, 2), k=some(3), steps=4, dt=0.05)
@dk.kernel
def mass_spring_sweeps(x: dk.array(dtype=dk.vec2d), v: dk.array(dtype=dk.vec2d), k: f1, steps: int, dt: F):
    for _ in range(steps):
        for s in range(k.shape[0]):
            d = x[s + 1] - x[s]
            length = dk.length(d)
            f = k[s] * (length - 1.0) / length * d
            v[s] = v[s] + dt * f
            v[s + 1] = v[s + 1] - dt * f
        for i in range(x.shape[0]):
            x[i] = x[i] + dt * v[i]


@natural(2, q=some(2, 2), k=some(4, 2), v=some(4, 2), out=np.zeros((2, 2)), n=4, d=2)
@dk.kernel
def attention_online(q: f2, k: f2, v: f2, out: f2, n: int, d: int):
    """The result is scaled anew whenever a greater score comes."""
    i = dk.tid()
    m, total = F(-1e30), F(0.0)
    for j in range(n):
        s = F(0.0)
        for c in range(d):
            s += q[i, c] * k[j, c]
        new = dk.max(m, s)
        old, p = dk.exp(m - new), dk.exp(s - new)
        total = total * old + p
        for c in range(d):
            out[i, c] = out[i, c] * old + p * v[j, c]
        m = new
    for c in range(d):
        out[i, c] /= total


@natural(2, x=some(2, 8))
@dk.kernel
def bitonic_sort(x: f2):
    """A sorting network over loops whose bounds change."""
    r = dk.tid()
    n = x.shape[1]
    size = 2
    while size <= n:
        stride = size // 2
        while stride > 0:
            for i in range(n):
                j = i ^ stride
                if j > i:
                    a, b = x[r, i], x[r, j]
                    up = (i & size) == 0
                    if (a > b) == up:
                        x[r, i] = b * 1.1
                        x[r, j] = a * 0.9
            stride = stride // 2
        size *= 2


@natural(2, x=some(2, 6))
@dk.kernel
def insertion_sort(x: f2):
    r = dk.tid()
    for i in range(1, x.shape[1]):
        key = x[r, i]
        j = i - 1
        while j >= 0 and x[r, j] > key:
            x[r, j + 1] = x[r, j]
            j -= 1
        x[r, j + 1] = key * key


@natural(1, a=some(3, 3) + some(3, 3).T + np.eye(3) * 4, sweeps=3)
@dk.kernel
def jacobi_rotations(a: f2, sweeps: int):
    """Eigenvalues by rotations of rows and columns in place."""
    n = a.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                theta = 0.5 * dk.atan2(2.0 * a[p, q], a[q, q] - a[p, p])
                c, s = dk.cos(theta), dk.sin(theta)
                for k in range(n):
                    u, w = a[k, p], a[k, q]
                    a[k, p] = c * u - s * w
                    a[k, q] = s * u + c * w
                for k in range(n):
                    u, w = a[p, k], a[q, k]
                    a[p, k] = c * u - s * w
                    a[q, k] = s * u + c * w


@natural(2, x=some(2, 8), y=some(2, 8))
@dk.kernel
def fourier_in_place(x: f2, y: f2):
    """Butterflies over run-time strides."""
    r = dk.tid()
    n = x.shape[1]
    half = n // 2
    while half > 0:
        for start in range(0, n, 2 * half):
            for k in range(half):
                angle = -3.141592653589793 * F(k) / F(half)
                c, s = dk.cos(angle), dk.sin(angle)
                i, j = start + k, start + k + half
                u, v = x[r, i] - x[r, j], y[r, i] - y[r, j]
                x[r, i], y[r, i] = x[r, i] + x[r, j], y[r, i] * y[r, j]
                x[r, j], y[r, j] = c * u - s * v, s * u + c * v
        half = half // 2


@natural(1, h=some(6), u=some(6) * 0.1, steps=3, dt=0.05)
@dk.kernel
def shallow_water_in_place(h: f1, u: f1, steps: int, dt: F):
    n = h.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            u[i] = u[i] - dt * (u[i] * (u[i + 1] - u[i - 1]) + 9.81 * (h[i + 1] - h[i - 1]))
        for i in range(1, n - 1):
            h[i] = h[i] - dt * (h[i + 1] * u[i + 1] - h[i - 1] * u[i - 1])
