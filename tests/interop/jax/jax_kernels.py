"""Kernels of the JAX tests, and the same functions written in JAX."""

from __future__ import annotations

import diffkern as dk


@dk.kernel
def wave(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = dk.sin(a * x[i]) * y[i]


@dk.kernel
def wave64(x: dk.array(dtype=dk.float64), a: dk.float64, out: dk.array(dtype=dk.float64)):
    i = dk.tid()
    out[i] = dk.sin(a * x[i]) * x[i]


@dk.kernel
def smooth(x: dk.array(dtype=float), out: dk.array(dtype=float)):
    """Reads neighbours and its own length: rolled into one axis, a batch would give something else."""
    i = dk.tid()
    n = x.shape[0]
    left = x[dk.max(i - 1, 0)]
    right = x[dk.min(i + 1, n - 1)]
    out[i] = (left * x[i] + right) / float(n)


@dk.kernel
def heat(x: dk.array2d(dtype=float), k: float, out: dk.array2d(dtype=float)):
    i, j = dk.tid()
    if i > 0 and j > 0 and i + 1 < x.shape[0] and j + 1 < x.shape[1]:
        out[i, j] = x[i, j] + k * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4.0 * x[i, j])


@dk.kernel
def energy(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, 0.5 * x[i] * x[i])


@dk.kernel
def gather(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = x[at[i]] * x[at[i]]


@dk.kernel
def square(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def mirrored(y: dk.array(dtype=float), x: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] + x[x.shape[0] - 1 - i]


@dk.kernel
def decay(y: dk.array(dtype=float), k: float, trace: dk.array(dtype=float)):
    """Changes its first argument, and needs what it held before for the gradient."""
    i = dk.tid()
    old = y[i]
    y[i] = old * old * k
    trace[i] = old + y[i]


@dk.kernel
def stretch(x: dk.array(dtype=dk.vec3), edges: dk.array2d(dtype=int), shift: dk.vec3, out: dk.array(dtype=float)):
    e = dk.tid()
    out[e] = dk.length(x[edges[e, 0]] - x[edges[e, 1]] + shift)


@dk.kernel
def mixed(x: dk.array(dtype=dk.float16), flag: dk.array(dtype=bool), n: int, out: dk.array(dtype=dk.float16)):
    i = dk.tid()
    if flag[i]:
        out[i] = x[i] * float(n)


@dk.kernel
def two(x: dk.array(dtype=float), a: dk.array(dtype=float), b: dk.array2d(dtype=float)):
    i = dk.tid()
    a[i] = dk.exp(x[i])
    b[i, 1] = x[i] * x[i]


@dk.kernel
def plain(x, a, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = a * x[i] * x[i]


def scaled(n):
    """A kernel of its own for each number."""

    @dk.kernel
    def scale(x: dk.array(dtype=float), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i] = x[i] * float(n)

    return scale


@dk.kernel
def cubes_of_tiles(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.tile_load(x, shape=8, offset=i * 8)
    dk.tile_store(y, t * t * t, offset=i * 8)


@dk.kernel
def turned_in_blocks(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(256, float)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[n - 1 - t]


COLUMNS = dk.constant(12)


@dk.kernel
def softmax(x: dk.array(dtype=float, ndim=2), out: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    row = dk.tile_load(x[i], shape=COLUMNS)
    e = dk.tile_map(dk.exp, row - dk.tile_max(row)[0])
    dk.tile_store(out[i], e / dk.tile_sum(e)[0])


@dk.kernel
def twice(x: dk.array(dtype=dk.vec2), out: dk.array(dtype=dk.vec2)):
    i = dk.tid()
    out[i] = 2.0 * x[i]
