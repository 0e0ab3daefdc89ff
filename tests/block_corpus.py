"""Kernels whose threads work together in blocks, each with what it must compute, said in NumPy.

The CPU and numba's CUDA simulator run them; what is expected was written down by hand, not taken from either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffkern as dk

BLOCKS: dict[str, Case] = {}

f1, f2, i1 = dk.array(dtype=float), dk.array(dtype=float, ndim=2), dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3)
WIDTH = 4


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, fresh arguments, and the arguments as the launch must leave them."""

    kernel: dk.Kernel
    dim: tuple[int, ...]
    block_dim: int
    arguments: Callable[[], list[Any]]
    expected: Callable[..., list[Any]]


def case(*dim: int, block_dim: int, arguments: Callable[[], list[Any]], expected: Callable[..., list[Any]]) -> Any:
    def enter(function: Callable[..., Any]) -> dk.Kernel:
        kernel = dk.kernel(function)
        BLOCKS[function.__name__] = Case(kernel, dim, block_dim, arguments, expected)
        return kernel

    return enter


def floats(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def empty(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@case(
    12,
    block_dim=4,
    arguments=lambda: [floats(12), empty(12)],
    expected=lambda x, y: [x, x.reshape(3, 4)[:, ::-1].ravel()],
)
def reversed_in_blocks(x: f1, y: f1):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(16, float)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[n - 1 - t]


@case(
    24,
    block_dim=8,
    arguments=lambda: [floats(24), empty(3)],
    expected=lambda x, y: [x, x.reshape(3, 8).sum(axis=1)],
)
def sum_by_halves(x: f1, y: f1):
    """A while loop around a barrier, its counter the same for all threads."""
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(64)
    s[t] = x[i]
    dk.syncthreads()
    k = dk.block_dim() // 2
    while k > 0:
        if t < k:
            s[t] = s[t] + s[t + k]
        dk.syncthreads()
        k = k // 2
    if t == 0:
        y[dk.block_index()] = s[0]


@case(
    15,
    block_dim=5,
    arguments=lambda: [floats(15), empty(15)],
    expected=lambda x, y: [x, np.cumsum(x.reshape(3, 5), axis=1).ravel()],
)
def prefix_sums(x: f1, y: f1):
    """Two barriers in a loop; each thread carries a value of its own through it."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(shape=32, dtype=float)
    total = x[i]
    k = 1
    while k < n:
        s[t] = total
        dk.syncthreads()
        if t >= k:
            total = total + s[t - k]
        dk.syncthreads()
        k = k * 2
    y[i] = total


@case(
    8,
    8,
    block_dim=16,
    arguments=lambda: [floats(8, 8), floats(8, 8, seed=2), empty(8, 8)],
    expected=lambda a, b, c: [a, b, a @ b],
)
def product_by_strips(a: f2, b: f2, c: f2):
    """Blocks of two rows: a strip of b in shared memory at a time; a sum that each thread carries over the strips."""
    i, j = dk.tid()
    t = dk.thread_index()
    strip = dk.shared_array((WIDTH, 8), float)
    total = 0.0
    for k in range(8 // WIDTH):
        for r in range(2):
            at = t + r * 16
            strip[at // 8, at % 8] = b[k * WIDTH + at // 8, at % 8]
        dk.syncthreads()
        for m in range(WIDTH):
            total += a[i, k * WIDTH + m] * strip[m, j]
        dk.syncthreads()
    c[i, j] = total


# The strips above are loaded by 16 threads in two rounds of 16: 4 rows of 8.


@case(
    12,
    block_dim=6,
    arguments=lambda: [np.array([0, 1, 1, 2, 0, 1, 2, 2, 2, 1, 0, 2], np.int32), np.zeros((2, 3), np.int32)],
    expected=lambda k, counts: [k, np.array([np.bincount(part, minlength=3) for part in k.reshape(2, 6)])],
)
def histograms(k: i1, counts: dk.array(dtype=int, ndim=2)):  # type: ignore[valid-type]
    """Atomics on shared memory."""
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(3, int)
    if t < 3:
        s[t] = 0
    dk.syncthreads()
    dk.atomic_add(s, k[i], 1)
    dk.syncthreads()
    if t < 3:
        counts[dk.block_index(), t] = s[t]


@case(
    10,
    block_dim=5,
    arguments=lambda: [floats(10, 3), empty(10, 3), np.int32(1)],
    expected=lambda x, y, turn: [x, np.roll(x.reshape(2, 5, 3), -1, axis=1).reshape(10, 3), turn],
)
def vectors_under_a_condition(x: v1, y: v1, turn: int):
    """A barrier under a condition that is the same for all; a vector that is kept across it."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(8, dk.vec3)
    v = x[i]
    s[t] = v
    if turn > 0:
        dk.syncthreads()
        v = s[(t + 1) % n]
    else:
        v = v * 2.0
    y[i] = v


@case(
    18,
    block_dim=3,
    arguments=lambda: [floats(18), empty(1)],
    expected=lambda x, y: [x, np.array([x.sum()])],
)
def one_total(x: f1, total: f1):
    """Each block adds its sum to one element: thread 0 alone, by an atomic."""
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(4, float)
    s[t] = x[i]
    dk.syncthreads()
    if t == 0:
        part = 0.0
        for k in range(dk.block_dim()):
            part += s[k]
        dk.atomic_add(total, 0, part)


@case(
    8,
    block_dim=4,
    arguments=lambda: [floats(8), empty(8), np.int32(3)],
    expected=lambda x, y, n: [x, np.repeat(x.reshape(2, 4).sum(axis=1), 4), n],
)
def rotating_values(x: f1, y: f1, n: int):
    """Two values of each thread that change places in a loop around barriers."""
    i, t, size = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(4, float)
    mine = x[i]
    total = x[i]
    for _k in range(n):
        s[t] = mine
        dk.syncthreads()
        mine = s[(t + 1) % size]
        total += mine
        dk.syncthreads()
    y[i] = total


def windows(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    rows = x.reshape(2, 4)
    last = np.stack([np.roll(rows, -k, axis=1) for k in range(3)], axis=2)
    scaled = last * rows[:, :, None]
    return [x, (scaled.sum(axis=2) + scaled[:, ::-1, 1] + 2 * last[:, :, 2]).ravel()]


@case(8, block_dim=4, arguments=lambda: [floats(8), empty(8)], expected=windows)
def arrays_of_threads(x: f1, y: f1):
    """Each thread has arrays for itself, which it keeps across barriers."""
    i, t, size = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(4, float)
    window = dk.zeros(3, dtype=float)
    pairs = dk.zeros((2, 1), dtype=dk.vec2)
    s[t] = x[i]
    dk.syncthreads()
    for k in range(3):
        window[k] = s[(t + k) % size]
    pairs[1, 0] = dk.vec2(window[2], window[t % 3])
    dk.syncthreads()
    for k in range(3):
        window[k] *= x[i]
        s[t] = window[k]
        dk.syncthreads()
        if k == 1:
            pairs[k, 0][1] = s[size - 1 - t]
        dk.syncthreads()
    y[i] = window[0] + window[1] + window[2] + pairs[1, 0][1] + 2.0 * pairs[1, 0][0]
