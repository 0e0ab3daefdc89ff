"""Waves: finite differences in time, fields that are overwritten or kept for all times."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
f3 = dk.array(dtype=F, ndim=3)

RNG = np.random.default_rng(2)
N = 6


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@natural(N, p=some(6, N), c=some(N), launches=[{"t": t} for t in range(2, 6)], t=2)
@dk.kernel
def wave_in_time(p: f2, c: f1, t: int):
    i = dk.tid()
    if i > 0 and i < p.shape[1] - 1:
        lap = p[t - 1, i - 1] - 2.0 * p[t - 1, i] + p[t - 1, i + 1]
        p[t, i] = 2.0 * p[t - 1, i] - p[t - 2, i] + c[i] * c[i] * lap


@natural(N, p=some(6 * N), c=some(N), launches=[{"t": t} for t in range(2, 6)], t=2, n=N)
@dk.kernel
def wave_in_time_flat(p: f1, c: f1, t: int, n: int):
    i = dk.tid()
    if i > 0 and i < n - 1:
        k = (t - 1) * n + i
        lap = p[k - 1] - 2.0 * p[k] + p[k + 1]
        p[t * n + i] = 2.0 * p[k] - p[(t - 2) * n + i] + c[i] * c[i] * lap


@natural(1, p=some(6, N), c=some(N), steps=6, n=N)
@dk.kernel
def wave_by_one_thread(p: f2, c: f1, steps: int, n: int):
    for t in range(2, steps):
        for i in range(1, n - 1):
            lap = p[t - 1, i - 1] - 2.0 * p[t - 1, i] + p[t - 1, i + 1]
            p[t, i] = 2.0 * p[t - 1, i] - p[t - 2, i] + c[i] * c[i] * lap


@natural((N, N), p=some(3, N, N), c=some(N, N), launches=[{"now": t % 3, "last": (t - 1) % 3, "next": (t + 1) % 3}
         for t in range(1, 4)], now=1, last=0, next=2)  # fmt: skip
@dk.kernel
def wave_three_levels(p: f3, c: f2, now: int, last: int, next: int):
    i, j = dk.tid()
    n, m = p.shape[1], p.shape[2]
    if 0 < i < n - 1 and 0 < j < m - 1:
        lap = p[now, i - 1, j] + p[now, i + 1, j] + p[now, i, j - 1] + p[now, i, j + 1] - 4.0 * p[now, i, j]
        p[next, i, j] = 2.0 * p[now, i, j] - p[last, i, j] + c[i, j] * lap


@natural(N, e=some(N), h=some(N), eps=some(N), dt=0.3)
@dk.kernel
def fdtd_electric(e: f1, h: f1, eps: f1, dt: F):
    i = dk.tid()
    if i > 0:
        e[i] += dt * eps[i] * (h[i] - h[i - 1])


@natural(1, e=some(N), h=some(N), eps=some(N), probe=np.zeros(5), dt=0.3, steps=5)
@dk.kernel
def fdtd_all_steps(e: f1, h: f1, eps: f1, probe: f1, dt: F, steps: int):
    n = e.shape[0]
    for t in range(steps):
        for i in range(n - 1):
            h[i] = h[i] + dt * (e[i + 1] - e[i])
        for i in range(1, n):
            e[i] = e[i] + dt * eps[i] * (h[i] - h[i - 1])
        probe[t] = e[n // 2]


@natural((N, N), ez=some(N, N), hx=some(N, N), hy=some(N, N), ca=some(N, N), cb=some(N, N))
@dk.kernel
def fdtd_te(ez: f2, hx: f2, hy: f2, ca: f2, cb: f2):
    i, j = dk.tid()
    if i == 0 or j == 0:
        return
    curl = hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1]
    ez[i, j] = ca[i, j] * ez[i, j] + cb[i, j] * curl


@natural(1, u=some(N), k=0.4, steps=4)
@dk.kernel
def heat_in_place(u: f1, k: F, steps: int):
    n = u.shape[0]
    for _ in range(steps):
        before = u[0]
        for i in range(1, n - 1):
            here = u[i]
            u[i] = here + k * (before - 2.0 * here + u[i + 1]) + 0.1 * here * here
            before = here


@natural(N, re=some(5, N), im=some(5, N), v=some(N), launches=[{"t": t} for t in range(4)], t=0, dt=0.1)
@dk.kernel
def schroedinger(re: f2, im: f2, v: f1, t: int, dt: F):
    i = dk.tid()
    n = v.shape[0]
    left = (i - 1 + n) % n
    right = (i + 1) % n
    hr = v[i] * re[t, i] - 0.5 * (re[t, left] - 2.0 * re[t, i] + re[t, right])
    hi = v[i] * im[t, i] - 0.5 * (im[t, left] - 2.0 * im[t, i] + im[t, right])
    re[t + 1, i] = re[t, i] + dt * hi
    im[t + 1, i] = im[t, i] - dt * hr
