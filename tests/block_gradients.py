"""Kernels whose threads work together, to be differentiated: how each is launched with blocks of any size.

Shared arrays are as large as the largest block; a case makes its launch and arguments for the number of threads of a
block and the number of blocks. Arguments are float32 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import diffkern as dk

GRADIENTS: dict[str, Case] = {}

f1, f2, i1 = dk.array(dtype=float), dk.array(dtype=float, ndim=2), dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3)
MOST = 64
SIDE = 4


@dataclass(frozen=True)
class Launch:
    """Dimensions and arguments."""

    dim: tuple[int, ...]
    arguments: list[Any]


@dataclass(frozen=True)
class Case:
    """A kernel, what makes its launch from the sizes of a block and of the grid, and the sizes to try."""

    function: Callable[..., Any]
    launch: Callable[[int, int], Launch]
    blocks: tuple[int, ...] = (1, 3, 32, 64)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> dk.Kernel:
        return dk.kernel(self.function, **self.options)


def case(launch: Callable[[int, int], Launch], *, blocks: tuple[int, ...] = (1, 3, 32, 64), **options: Any) -> Any:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        GRADIENTS[function.__name__] = Case(function, launch, blocks, options)
        return function

    return enter


def numbers(*shape: int, seed: int = 1, lo: float = 0.5, hi: float = 1.5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(lo, hi, shape).astype(np.float32)


def empty(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def of_each_thread(*more: Any, per_block: bool = False) -> Callable[[int, int], Launch]:
    """One number in and one out for each thread (or block), and further arguments."""
    return lambda n, blocks: Launch(
        (n * blocks,), [numbers(n * blocks), empty(blocks if per_block else n * blocks), *more]
    )


@case(of_each_thread(per_block=True))
def largest_by_halves(x: f1, y: f1):
    """A reduction that is not linear, in any size of block: the contents at each level are needed."""
    t = dk.thread_index()
    s = dk.shared_array(MOST, float)
    s[t] = x[dk.tid()]
    dk.syncthreads()
    n = dk.block_dim()
    while n > 1:
        half = (n + 1) // 2
        if t < n - half:
            s[t] = dk.max(s[t], s[t + half]) + 0.1 * s[t] * s[t + half]
        dk.syncthreads()
        n = half
    if t == 0:
        y[dk.block_index()] = s[0]


@case(of_each_thread(per_block=True))
def sum_in_one_thread(x: f1, y: f1):
    """A loop of one thread over what all have stored."""
    t = dk.thread_index()
    s = dk.shared_array(MOST, float)
    s[t] = x[dk.tid()] * x[dk.tid()]
    dk.syncthreads()
    if t == 0:
        part = 0.0
        for k in range(dk.block_dim()):
            part += s[k] * s[k]
        y[dk.block_index()] = part


@case(lambda n, blocks: Launch((n * blocks,), [numbers(n * blocks + 2), empty(n * blocks)]))
def stencil_with_halo(x: f1, y: f1):
    """Neighbours of the block's ends are loaded by its first and last thread."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST + 2, float)
    s[t + 1] = x[i + 1]
    if t == 0:
        s[0] = x[i]
    if t == n - 1:
        s[n + 1] = x[i + 2]
    dk.syncthreads()
    y[i] = s[t] * s[t + 1] - 0.5 * s[t + 1] * s[t + 2]


@case(of_each_thread())
def products_of_neighbours(x: f1, y: f1):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST)
    s[t] = dk.sin(x[i])
    dk.syncthreads()
    y[i] = s[t] * s[(t + 1) % n] * s[(t + n - 1) % n]


@case(of_each_thread())
def reused_at_once(x: f1, y: f1):
    """One shared array filled twice, used in a condition and in a loop of the thread each time."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    s[t] = x[i]
    dk.syncthreads()
    total = 0.0
    if t % 2 == 0:
        total = s[n - 1 - t] * s[t]
    for k in range(t + 1):
        total += s[k] * s[k]
    dk.syncthreads()
    s[t] = total * x[i]
    dk.syncthreads()
    for k in range(n - t):
        total += s[t + k] * s[t + k]
    dk.syncthreads()
    s[n - 1 - t] = total
    dk.syncthreads()
    y[i] = s[t] * s[n - 1 - t]


def _square(n: int, blocks: int) -> Launch:
    """Blocks of SIDE x SIDE threads; the launch has one axis."""
    k = 3 * SIDE - 1
    m = SIDE * blocks
    return Launch((n * blocks,), [numbers(m, k), numbers(k, SIDE, seed=2), empty(m, SIDE)])


@case(_square, blocks=(SIDE * SIDE,))
def product_of_tiles(a: f2, b: f2, c: f2):
    """A tiled product; the last tiles are filled up with zeros, and the number of tiles is known at run time."""
    t, block = dk.thread_index(), dk.block_index()
    i, j = t // SIDE, t % SIDE
    left = dk.shared_array((SIDE, SIDE), float)
    right = dk.shared_array((SIDE, SIDE), float)
    total = 0.0
    for k in range((a.shape[1] + SIDE - 1) // SIDE):
        u, v = 0.0, 0.0
        if k * SIDE + j < a.shape[1]:
            u = a[block * SIDE + i, k * SIDE + j]
        if k * SIDE + i < a.shape[1]:
            v = b[k * SIDE + i, j]
        left[i, j] = u
        right[i, j] = v
        dk.syncthreads()
        for m in range(SIDE):
            total += left[i, m] * right[m, j]
        dk.syncthreads()
    c[block * SIDE + i, j] = total


@case(_square, blocks=(SIDE * SIDE,))
def product_of_three_tiles(a: f2, b: f2, c: f2):
    """The number of tiles is a constant, the loops within too long to be unrolled, and what is added is not linear."""
    t, block = dk.thread_index(), dk.block_index()
    i, j = t // SIDE, t % SIDE
    left = dk.shared_array((SIDE, SIDE), float)
    right = dk.shared_array((SIDE, SIDE), float)
    total = 1.0
    for k in range(2):
        left[i, j] = a[block * SIDE + i, k * SIDE + j]
        right[i, j] = b[k * SIDE + i, j] * total
        dk.syncthreads()
        for m in range(4 * SIDE):
            total += left[i, m % SIDE] * right[m % SIDE, j]
        dk.syncthreads()
    c[block * SIDE + i, j] = total


@case(
    lambda n, blocks: Launch((SIDE * blocks, SIDE), [numbers(SIDE * blocks, SIDE), empty(SIDE, SIDE * blocks)]),
    blocks=(16,),
)
def transpose(a: f2, b: f2):
    """Rows come in, columns go out."""
    i, j = dk.tid()
    t, block = dk.thread_index(), dk.block_index()
    s = dk.shared_array((SIDE, SIDE + 1), float)
    s[t // SIDE, t % SIDE] = a[i, j] * a[i, j]
    dk.syncthreads()
    b[t // SIDE, block * SIDE + t % SIDE] = s[t % SIDE, t // SIDE]


@case(of_each_thread())
def running_products(x: f1, y: f1):
    """Hillis and Steele's scan between two arrays, of products."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    a = dk.shared_array(MOST, float)
    b = dk.shared_array(MOST, float)
    a[t] = x[i]
    dk.syncthreads()
    k = 1
    while k < n:
        if t >= k:
            b[t] = a[t] * a[t - k]
        else:
            b[t] = a[t]
        dk.syncthreads()
        a[t] = b[t]
        dk.syncthreads()
        k = k * 2
    y[i] = a[t]


@case(of_each_thread())
def running_sums_in_two_rows(x: f1, y: f1):
    """The two arrays are rows of one; which is read changes from trip to trip."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array((2, MOST), float)
    s[0, t] = x[i]
    dk.syncthreads()
    row = 0
    k = 1
    while k < n:
        value = s[row, t]
        if t >= k:
            value = value + s[row, t - k] * value
        s[1 - row, t] = value
        row = 1 - row
        k = k * 2
        dk.syncthreads()
    y[i] = s[row, t]


def _weighted(n: int, blocks: int) -> Launch:
    keys = np.random.default_rng(5).integers(0, 3, n * blocks).astype(np.int32)
    return Launch((n * blocks,), [keys, numbers(n * blocks), empty(n * blocks)])


@case(_weighted)
def weighted_histogram(k: i1, w: f1, y: f1):
    """Atomic additions to shared memory; what comes out is used by all."""
    i, t = dk.tid(), dk.thread_index()
    s = dk.shared_array(3, float)
    for j in range(3):
        if t == 0:
            s[j] = 0.0
    dk.syncthreads()
    dk.atomic_add(s, k[i], w[i] * w[i])
    dk.syncthreads()
    y[i] = s[k[i]] * s[2] * w[i]


@case(of_each_thread(np.int32(5)))
def steps_in_shared_memory(x: f1, y: f1, steps: int):
    """Every step overwrites the array with a function of neighbours in it."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    s[t] = x[i]
    dk.syncthreads()
    for _k in range(steps):
        new = dk.sin(s[t] + 0.5 * s[(t + 1) % n] * s[(t + n - 1) % n])
        dk.syncthreads()
        s[t] = new
        dk.syncthreads()
    y[i] = s[t] * s[n - 1 - t]


@case(of_each_thread(np.int32(4)), stack_bytes=16)
def steps_from_checkpoints(x: f1, y: f1, steps: int):
    """With room for two snapshots, and a value that each thread carries besides; a loop in the loop."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    mine = x[i]
    s[t] = mine
    dk.syncthreads()
    for k in range(steps):
        for j in range(k):
            other = s[(t + j + 1) % n]
            dk.syncthreads()
            s[t] = dk.cos(other) * mine + s[t]
            mine = mine * other
            dk.syncthreads()
        mine = dk.sin(mine * 0.5 + s[t] * s[t])
    y[i] = mine


@case(of_each_thread(np.int32(3)))
def turns_and_conditions(x: f1, y: f1, turns: int):
    """Barriers under conditions that all threads share, loops around them in there, and values from both ways."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    r = dk.shared_array(MOST, float)
    v = x[i]
    r[t] = v * v
    for k in range(turns):
        s[t] = v
        dk.syncthreads()
        if k % 2 == 0:
            v = s[(t + 1) % n] * v
            for j in range(turns - k):
                dk.syncthreads()
                s[t] = v * r[(t + j) % n]
                dk.syncthreads()
                v = s[n - 1 - t] * 0.7
            dk.syncthreads()
            v = v * v + s[t]
        else:
            v = v * s[t] * r[n - 1 - t]
        dk.syncthreads()
    y[i] = v


@case(lambda n, blocks: Launch((n * blocks,), [numbers(n * blocks, 3), empty(n * blocks, 3), np.float32(0.7)]))
def vectors(x: v1, y: v1, scale: float):
    """Shared vectors, and a number by value."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, dk.vec3)
    s[t] = dk.normalize(x[i]) * scale
    dk.syncthreads()
    a = s[(t + 1) % n]
    y[i] = dk.cross(a, x[i]) * dk.dot(a, s[t]) + a * scale


@case(of_each_thread())
def places_from_shared_numbers(x: f1, y: f1):
    """Integers in shared memory say where to read."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    place = dk.shared_array(MOST, int)
    s = dk.shared_array(MOST, float)
    place[t] = (t * 5 + 1) % n
    s[t] = x[i]
    dk.syncthreads()
    total = 1.0
    for k in range(3):
        total = total * s[place[(t + k) % n]]
    y[i] = total


@case(lambda n, blocks: Launch((n * blocks,), [numbers(n * blocks), empty(1)]))
def one_loss(x: f1, loss: f1):
    """A tree in each block, and one atomic addition to the loss."""
    t = dk.thread_index()
    s = dk.shared_array(MOST, float)
    s[t] = x[dk.tid()] * x[dk.tid()]
    dk.syncthreads()
    n = dk.block_dim()
    while n > 1:
        half = (n + 1) // 2
        if t < n - half:
            s[t] += s[t + half]
        dk.syncthreads()
        n = half
    if t == 0:
        dk.atomic_add(loss, 0, dk.sqrt(s[0]))


@case(lambda n, blocks: Launch((n * blocks,), [numbers(n * blocks), numbers(n * blocks, seed=3)]))
def in_place(x: f1, y: f1):
    """What the kernel overwrites is needed: the adjoint fills shared memory from the saved contents."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    s[t] = y[i] * x[i]
    dk.syncthreads()
    y[i] = s[n - 1 - t] * s[t] + y[i]


@case(of_each_thread(np.int32(4)), blocks=(3, 32))
def a_loop_of_each_thread_afterwards(x: f1, y: f1, steps: int):
    """Snapshots of the block's loop begin where those of the threads' own loop end."""
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(MOST, float)
    mine = x[i]
    for _k in range(steps):
        s[t] = mine
        dk.syncthreads()
        mine = dk.sin(mine + s[(t + 1) % n])
        dk.syncthreads()
    for _k in range(steps + 2):
        mine = dk.cos(mine) * x[i]
    y[i] = mine
