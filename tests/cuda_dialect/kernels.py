"""Kernels in numba's spelling, each with a launch: run by diffkern, and by numba's simulator in a child process.

``python kernels.py FILE`` runs all of them with ``numba.cuda`` and writes their results to FILE.
"""

from __future__ import annotations

import importlib
import math
import os
import sys

import numpy as np

cuda = importlib.import_module(os.environ.get("KERNELS_OF", "diffkern.cuda"))

CASES = {}
WEIGHTS = np.array([[0.25, -1.5], [2.0, 0.125]])
TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.int32)
WIDTH = 8
DOUBLE = np.dtype(np.float64)


def case(blocks, threads, *arguments, shared=0):
    """Note a kernel with its launch and what makes its arguments."""

    def note(kernel):
        CASES[kernel.py_func.__name__ if hasattr(kernel, "py_func") else kernel.fn.__name__] = (
            kernel, (blocks, threads, 0, shared), arguments,
        )  # fmt: skip
        return kernel

    return note


def rng():
    return np.random.default_rng(5)


def doubles(*shape):
    return rng().uniform(-2.0, 2.0, shape)


def integers(*shape, dtype=np.int64):
    return rng().integers(-50, 50, shape).astype(dtype)


@case((3, 2), (4, 2), np.zeros((2, 4, 12)))
@cuda.jit
def two_axes(out):
    x, y = cuda.grid(2)
    out[0, y, x] = x + 100 * y
    width, height = cuda.gridsize(2)
    out[1, y, x] = width + 100 * height


@case((2, 3, 2), (2, 1, 3), np.zeros((2, 6, 3, 4)))
@cuda.jit
def three_axes(out):
    x, y, z = cuda.grid(3)
    out[0, z, y, x] = x + 10 * y + 100 * z
    sx, sy, sz = cuda.gridsize(3)
    out[1, z, y, x] = sx + 10 * sy + 100 * sz


@case((2, 3, 2), (4, 2, 3), np.zeros((288, 12), np.int64))
@cuda.jit
def where_threads_stand(out):
    width = cuda.gridDim.x * cuda.blockDim.x
    height = cuda.gridDim.y * cuda.blockDim.y
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y = cuda.threadIdx.y + cuda.blockIdx.y * cuda.blockDim.y
    z = cuda.threadIdx.z + cuda.blockIdx.z * cuda.blockDim.z
    i = (z * height + y) * width + x
    out[i, 0], out[i, 1], out[i, 2] = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    out[i, 3], out[i, 4], out[i, 5] = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    out[i, 6], out[i, 7], out[i, 8] = cuda.blockDim.x, cuda.blockDim.y, cuda.blockDim.z
    out[i, 9], out[i, 10], out[i, 11] = cuda.gridDim.x, cuda.gridDim.y, cuda.gridDim.z


@case((2, 3, 2), (4, 2, 3), np.zeros((288, 12), np.int64))
@cuda.jit
def where_they_stand_together(out):
    seen = cuda.shared.array((3, 2, 4), np.int64)
    tx, ty, tz = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    x, y, z = cuda.grid(3)
    width, height, _ = cuda.gridsize(3)
    seen[tz, ty, tx] = (z * height + y) * width + x
    cuda.syncthreads()
    i = seen[2 - tz, 1 - ty, 3 - tx]
    out[i, 0], out[i, 1], out[i, 2] = tx, ty, tz
    out[i, 3], out[i, 4], out[i, 5] = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    out[i, 6], out[i, 7], out[i, 8] = cuda.blockDim.x, cuda.blockDim.y, cuda.blockDim.z
    out[i, 9], out[i, 10], out[i, 11] = cuda.gridDim.x, cuda.gridDim.y, cuda.gridDim.z


@case(2, 8, doubles(50), np.zeros(50))
@cuda.jit
def strided(x, out):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.size, stride):
        out[i] = x[i] * stride + start


@case(4, 16, integers(64), integers(64) * 40_000_000, np.zeros((64, 12), np.int64))
@cuda.jit
def of_integers(a, b, out):
    i = cuda.grid(1)
    out[i, 0] = a[i] // 7
    out[i, 1] = a[i] % 7
    out[i, 2] = a[i] // -3
    out[i, 3] = a[i] % -3
    out[i, 4] = b[i] * b[i]
    out[i, 5] = b[i] + b[i]
    out[i, 6] = -b[i]
    out[i, 7] = int(a[i] / 4)
    out[i, 8] = int(a[i] > 0) + int(b[i] > 0)
    out[i, 9] = a[i] << 3 | i
    out[i, 10] = ~a[i] & 255
    seed = 12345 + int(i)
    for _ in range(5):
        seed = (seed * 1103515245 + 12345) % 2147483648
    out[i, 11] = seed % 1000


@case(1, 16, doubles(16), np.zeros((16, 4), np.int32), np.zeros((16, 3)))
@cuda.jit
def converted(x, whole, out):
    i = cuda.grid(1)
    whole[i, 0] = x[i] * 10
    whole[i, 1] = int(x[i] * 10)
    whole[i, 2] = math.floor(x[i])
    whole[i, 3] = x[i] > 0
    out[i, 0] = np.float32(x[i])
    out[i, 1] = np.int32(x[i] * 100)
    out[i, 2] = i / 3


@case(1, 32, 32, 2.5, doubles(32), np.zeros((32, 8)))
@cuda.jit
def of_numbers(n, scale, x, out):
    i = cuda.grid(1)
    if i >= n:
        return
    total = 0
    for k in range(n):
        if k == i:
            continue
        total += x[k] * scale
    out[i, 0] = total
    out[i, 1] = math.sin(x[i]) + math.exp(-(x[i] ** 2)) * math.sqrt(abs(x[i]))
    out[i, 2] = math.atan2(x[i], scale) + math.pow(2.0, x[i]) + math.hypot(x[i], 3)
    out[i, 3] = np.sqrt(np.abs(x[i])) + np.cos(x[i])
    out[i, 4] = max(x[i], 0.5, scale - 2) - min(x[i], -0.5)
    out[i, 5] = x[i] if x[i] > 0 else -2 * x[i]
    count = 0
    value = abs(x[i]) + 1
    while value < 100:
        value *= 1.5
        count += 1
        if count > 8:
            break
    out[i, 6] = value
    out[i, 7] = count


@cuda.jit(device=True)
def rotated(x, y, angle):
    c, s = math.cos(angle), math.sin(angle)
    return c * x - s * y, s * x + c * y


@cuda.jit(device=True)
def exchange(a, i, j):
    held = a[i]
    a[i] = a[j]
    a[j] = held


@case(2, 16, doubles(32), np.zeros((32, 4)))
@cuda.jit
def with_functions(x, out):
    i = cuda.grid(1)
    own = cuda.local.array(4, np.float64)
    for k in range(4):
        own[k] = x[(i + k) % x.shape[0]]
    for k in range(3):
        for j in range(3 - k):
            if own[j] > own[j + 1]:
                exchange(own, j, j + 1)
    own[0], own[3] = rotated(own[0], own[3], 0.5)
    for k in range(4):
        out[i, k] = own[k]


@case(2, 16, doubles(32), np.zeros((32, 3)))
@cuda.jit
def with_constants(x, out):
    i = cuda.grid(1)
    weights = cuda.const.array_like(WEIGHTS)
    table = cuda.const.array_like(TABLE)
    out[i, 0] = x[i] * weights[i % 2, 1] + weights[1, 0]
    out[i, 1] = table[i % table.shape[0]]
    for k in (-1, 0, 2):
        if k == 0:
            continue
        out[i, 2] += k * x[i]


@case(4, 8, doubles(32), np.zeros(32), shared=64)
@cuda.jit
def with_dynamic_memory(x, out):
    held = cuda.shared.array(0, DOUBLE)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    held[t] = x[i]
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            held[t] += held[t + step]
        cuda.syncthreads()
        step //= 2
    out[i] = held[0]


@case((3, 2), (8, 8), doubles(16, 24), np.zeros((24, 16)))
@cuda.jit
def transposed(a, out):
    held = cuda.shared.array((WIDTH, WIDTH + 1), np.float64)
    x, y = cuda.grid(2)
    held[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    row = cuda.blockIdx.x * WIDTH + cuda.threadIdx.y
    column = cuda.blockIdx.y * WIDTH + cuda.threadIdx.x
    out[row, column] = held[cuda.threadIdx.x, cuda.threadIdx.y]


@case(4, 16, integers(64), np.zeros((2, 8), np.int64), np.array([[500, -500, 0, 255, 0, 77]]), np.zeros(2, np.uint32))
@cuda.jit
def with_atomics(a, counts, found, wrapped):
    i = cuda.grid(1)
    cuda.atomic.add(counts, (i % 2, a[i] % 8), 1)
    cuda.atomic.min(found, (0, 0), a[i])
    cuda.atomic.max(found, (0, 1), a[i])
    cuda.atomic.sub(found, (0, 2), a[i])
    cuda.atomic.and_(found, (0, 3), a[i] | 8)
    cuda.atomic.or_(found, (0, 4), a[i] & 3)
    cuda.atomic.xor(found, (0, 5), a[i])
    cuda.atomic.inc(wrapped, 0, 9)
    cuda.atomic.dec(wrapped, 1, 6)


@case(1, 1, np.array([7, 7, 3], np.int64), np.zeros(6, np.int64))
@cuda.jit
def old_values(a, out):
    out[0] = cuda.atomic.add(a, 0, 5)
    out[1] = cuda.atomic.cas(a, 0, 12, 99)
    out[2] = cuda.atomic.cas(a, 1, 12, 99)
    out[3] = cuda.atomic.exch(a, 2, 1)
    out[4] = a[0]
    out[5] = a[1]


@case(3, 32, doubles(96), np.zeros((96, 3), np.int64))
@cuda.jit
def with_votes(x, out):
    i = cuda.grid(1)
    out[i, 0] = cuda.syncthreads_count(x[i] > 0)
    out[i, 1] = cuda.syncthreads_and(x[i] > -1.9)
    out[i, 2] = cuda.syncthreads_or(x[i] > 1.95)


@case(2, 16, doubles(32), np.zeros(2))
@cuda.jit
def until_all_agree(x, out):
    t = cuda.threadIdx.x
    held = cuda.shared.array(16, np.float64)
    held[t] = abs(x[cuda.grid(1)]) + 0.1
    cuda.syncthreads()
    rounds = 0
    while cuda.syncthreads_or(held[t] < 4.0):
        held[t] *= 1.25
        rounds += 1
    if t == 0:
        out[cuda.blockIdx.x] = rounds


def results(name):
    """Run a kernel; returns what its arguments are then."""
    kernel, launch, arguments = CASES[name]
    own = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[launch](*own)
    return [a for a in own if isinstance(a, np.ndarray)]


if __name__ == "__main__":
    importlib.import_module("support.simulator_lock")
    np.savez(sys.argv[1], **{f"{name}-{k}": a for name in CASES for k, a in enumerate(results(name))})
