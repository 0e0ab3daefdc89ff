"""Kernels with second derivatives: loops, atomics, structs, tiles, what is changed in place, several results."""

from __future__ import annotations

import diffkern as dk

Floats = dk.array(dtype=dk.float64)
Table = dk.array2d(dtype=dk.float64)
Vectors = dk.array(dtype=dk.vec3d)

COLUMNS = dk.constant(5)


@dk.kernel
def product(x: Floats, y: Floats, a: dk.float64, out: Floats):
    i = dk.tid()
    out[i] = a * x[i] * x[i] * dk.sin(y[i])


@dk.kernel
def iterated(x: Floats, n: int, out: Floats):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        s = dk.sin(s) + x[i] * s
    out[i] = s


@dk.kernel
def until(x: Floats, out: Floats):
    """A loop whose trips depend on what is computed."""
    i = dk.tid()
    s = dk.float64(1.0) + x[i] * x[i]
    while s < dk.float64(20.0):
        s = dk.float64(1.5) * s * s + dk.float64(0.1) * x[i]
    out[i] = dk.log(s)


@dk.kernel
def rows(m: Table, x: Floats, out: Floats):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(x.shape[0]):
        s += m[i, j] * x[j] * x[j]
    out[i] = dk.exp(-s)


@dk.kernel
def energy(x: Floats, total: Floats):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i] * x[i] * x[i])


@dk.kernel
def peaks(x: Floats, at: dk.array(dtype=int), out: Floats):
    i = dk.tid()
    dk.atomic_max(out, at[i], dk.cos(x[i]) + 2.0)


@dk.kernel
def scatter(x: Floats, at: dk.array(dtype=int), out: Floats):
    i = dk.tid()
    dk.atomic_add(out, at[i], dk.cos(x[i]) * x[at[i]])


@dk.kernel
def pairs(p: Vectors, softening: dk.float64, force: Vectors):
    i, j = dk.tid()
    if i != j:
        d = p[j] - p[i]
        r = dk.sqrt(dk.dot(d, d) + softening)
        dk.atomic_add(force, i, d / (r * r * r))


@dk.kernel
def neighbours(x: Floats, out: Floats):
    i = dk.tid()
    n = x.shape[0]
    left = x[dk.max(i - 1, 0)]
    right = x[dk.min(i + 1, n - 1)]
    out[i] = left * x[i] * right / dk.float64(n)


@dk.kernel
def decay(y: Floats, k: dk.float64, trace: Floats):
    """Overwrites what its derivative needs."""
    i = dk.tid()
    old = y[i]
    y[i] = old * old * k
    trace[i] = old * y[i]


@dk.struct
class Body:
    mass: dk.float64
    at: dk.vec3d


@dk.func
def attraction(a: Body, b: Body):
    d = b.at - a.at
    return a.mass * b.mass / (dk.dot(d, d) + dk.float64(0.1))


@dk.kernel
def bodies(p: Vectors, m: Floats, out: Floats):
    i = dk.tid()
    a, b = Body(), Body()
    a.mass = m[i]
    a.at = p[i]
    b.mass = m[0] * m[0]
    b.at = p[0] * dk.float64(0.5)
    out[i] = attraction(a, b)


@dk.kernel
def turned(p: Vectors, m: dk.mat33d, v: dk.vec3d, out: Vectors):
    i = dk.tid()
    out[i] = dk.cross(m * p[i], v) * dk.dot(p[i], v)


@dk.kernel
def softmax(x: Table, out: Table):
    i = dk.tid()
    row = dk.tile_load(x[i], shape=COLUMNS)
    e = dk.tile_map(dk.exp, row)
    dk.tile_store(out[i], e / dk.tile_sum(e)[0])


@dk.kernel
def squared_tiles(x: Table, out: Table):
    t = dk.tile_load(x, shape=(4, 4))
    dk.tile_store(out, dk.tile_matmul(t, t))


@dk.kernel(block_dim=4)
def block_products(x: Floats, out: Floats):
    """Each block sums its squares in shared memory, and scales its numbers by the sum."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    part = dk.shared_array(4, dk.float64)
    part[t] = x[i] * x[i]
    dk.syncthreads()
    s = dk.float64(0.0)
    for k in range(n):
        s += part[k]
    out[i] = s * dk.sin(x[i])


@dk.kernel
def two(x: Table, a: Table, b: Floats):
    i, j = dk.tid()
    a[i, j] = x[i, j] * x[j, i]
    if i == j:
        b[i] = dk.exp(x[i, j] * x[0, j])


@dk.kernel
def pieces(x: Floats, out: Floats):
    i = dk.tid()
    if x[i] > dk.float64(0.1):
        out[i] = dk.sqrt(x[i])
    elif x[i] < dk.float64(-0.5):
        out[i] = x[i] * x[i] * x[i]


@dk.kernel
def recurrence(x: Table, out: Table):
    """A table in which a row is made of the row before."""
    j = dk.tid()
    out[0, j] = x[0, j]
    for i in range(1, x.shape[0]):
        out[i, j] = dk.sin(out[i - 1, j]) * x[i, j]
