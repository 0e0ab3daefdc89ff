"""Tables that are filled step by step: alignments, shortest paths, sorting, scans."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
i1 = dk.array(dtype=int)

RNG = np.random.default_rng(3)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@natural(1, x=some(4), y=some(5), d=np.zeros((5, 6)))
@dk.kernel
def dynamic_time_warping(x: f1, y: f1, d: f2):
    n, m = x.shape[0], y.shape[0]
    for i in range(n + 1):
        for j in range(m + 1):
            d[i, j] = 1.0e6
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (x[i - 1] - y[j - 1]) * (x[i - 1] - y[j - 1])
            d[i, j] = cost + dk.min(d[i - 1, j - 1], dk.min(d[i - 1, j], d[i, j - 1]))


@natural(1, source=np.array([0, 0, 1, 1, 2, 3]), target=np.array([1, 2, 2, 3, 4, 4]), w=RNG.uniform(1, 3, 6),
         dist=np.array([0.0, 50, 60, 70, 80]))  # fmt: skip
@dk.kernel
def bellman_ford(source: i1, target: i1, w: f1, dist: f1):
    for _ in range(dist.shape[0] - 1):
        for e in range(source.shape[0]):
            via = dist[source[e]] + w[e]
            if via < dist[target[e]]:
                dist[target[e]] = via


@natural(1, d=RNG.uniform(1, 9, (4, 4)))
@dk.kernel
def floyd_warshall(d: f2):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = dk.min(d[i, j], d[i, k] + d[k, j])


@natural(2, a=some(2, 5), n=5)
@dk.kernel
def bubble_sort(a: f2, n: int):
    r = dk.tid()
    for i in range(n):
        for j in range(n - 1 - i):
            if a[r, j] > a[r, j + 1]:
                t = a[r, j]
                a[r, j] = a[r, j + 1]
                a[r, j + 1] = t


@natural(3, a=some(6), launches=[{"phase": k % 2} for k in range(4)], phase=0)
@dk.kernel
def odd_even_sort(a: f1, phase: int):
    i = 2 * dk.tid() + phase
    if i + 1 < a.shape[0]:
        low = dk.min(a[i], a[i + 1])
        high = dk.max(a[i], a[i + 1])
        a[i] = low
        a[i + 1] = high


@natural(1, x=some(6))
@dk.kernel
def prefix_sum_in_place(x: f1):
    for i in range(1, x.shape[0]):
        x[i] = x[i] * x[i] + x[i - 1]


@natural(2, b=some(2, 4, 2), p=np.zeros((2, 2)), t=0.3)
@dk.kernel
def de_casteljau_in_place(b: dk.array(dtype=dk.vec2d, ndim=2), p: dk.array(dtype=dk.vec2d), t: F):
    c = dk.tid()
    n = b.shape[1]
    for k in range(1, n):
        for i in range(n - k):
            b[c, i] = (1.0 - t) * b[c, i] + t * b[c, i + 1]
    p[c] = b[c, 0]


@natural(3, a=some(3, 4))
@dk.kernel
def sorting_network(a: f2):
    i = dk.tid()
    p, q, r, s = a[i, 0], a[i, 1], a[i, 2], a[i, 3]
    p, q = dk.min(p, q), dk.max(p, q)
    r, s = dk.min(r, s), dk.max(r, s)
    p, r = dk.min(p, r), dk.max(p, r)
    q, s = dk.min(q, s), dk.max(q, s)
    q, r = dk.min(q, r), dk.max(q, r)
    a[i, 0] = p
    a[i, 1] = q * q
    a[i, 2] = r
    a[i, 3] = s


@natural(4, a=some(8), launches=[{"stride": s} for s in (4, 2, 1)], stride=4)
@dk.kernel
def bitonic_merge(a: f1, stride: int):
    k = dk.tid()
    i = (k // stride) * 2 * stride + k % stride
    low = dk.min(a[i], a[i + stride])
    high = dk.max(a[i], a[i + stride])
    a[i] = low
    a[i + stride] = high


@natural(1, x=some(6), y=np.zeros(6))
@dk.kernel
def prefix_sum(x: f1, y: f1):
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = y[i - 1] + x[i] * x[i]


@natural(1, x=some(4), y=some(5), d=np.zeros(6), gap=0.7)
@dk.kernel
def alignment_in_one_row(x: f1, y: f1, d: f1, gap: F):
    for j in range(d.shape[0]):
        d[j] = gap * F(j)
    for i in range(x.shape[0]):
        corner = d[0]
        d[0] = d[0] + gap
        for j in range(1, d.shape[0]):
            old = d[j]
            cost = (x[i] - y[j - 1]) * (x[i] - y[j - 1])
            d[j] = dk.min(corner + cost, dk.min(old + gap, d[j - 1] + gap))
            corner = old


@natural(2, c=some(2, 5), x=some(2), y=np.zeros(2), slope=np.zeros(2))
@dk.kernel
def horner(c: f2, x: f1, y: f1, slope: f1):
    i = dk.tid()
    n = c.shape[1]
    y[i] = c[i, n - 1]
    for k in range(n - 2, -1, -1):
        slope[i] = slope[i] * x[i] + y[i]
        y[i] = y[i] * x[i] + c[i, k]


@natural(3, a=RNG.uniform(1, 3, 3), x=np.ones(3))
@dk.kernel
def newton_in_place(a: f1, x: f1):
    i = dk.tid()
    while dk.abs(x[i] * x[i] * x[i] - a[i]) > 1e-13:
        x[i] = x[i] - (x[i] * x[i] * x[i] - a[i]) / (3.0 * x[i] * x[i])


@natural(4, d=np.array([0.0, 9, 9, 9, 9]), source=np.array([0, 0, 1, 2]), target=np.array([1, 2, 3, 3]),
         w=RNG.uniform(1, 3, 4), out=np.full(5, 50.0))  # fmt: skip
@dk.kernel
def relax_edges(d: f1, source: i1, target: i1, w: f1, out: f1):
    e = dk.tid()
    dk.atomic_min(out, target[e], d[source[e]] + w[e])


@natural(4, d=np.array([0.0, 9, 8, 7]), w=RNG.uniform(1, 3, (4, 4)), out=np.zeros(4))
@dk.kernel
def relax_vertices(d: f1, w: f2, out: f1):
    v = dk.tid()
    least = d[v]
    for u in range(d.shape[0]):
        least = dk.min(least, d[u] + w[u, v])
    out[v] = least
