"""Barriers that count and vote, and a grid in three dimensions."""

import numpy as np
from numba import cuda


@cuda.jit
def votes(x, counts, everyone, anyone):
    i = cuda.grid(1)
    inside = i < x.size
    positive = inside and x[min(i, x.size - 1)] > 0
    number = cuda.syncthreads_count(positive)
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = number
    every = cuda.syncthreads_and(positive)
    some = cuda.syncthreads_or(positive)
    if cuda.threadIdx.x == 0:
        everyone[cuda.blockIdx.x] = 1 if every else 0
        anyone[cuda.blockIdx.x] = 1 if some else 0


@cuda.jit
def fill(volume):
    x, y, z = cuda.grid(3)
    _, ny, nz = cuda.gridsize(3)
    if x < volume.shape[0] and y < volume.shape[1] and z < volume.shape[2]:
        volume[x, y, z] = x * ny * nz + y * nz + z


@cuda.jit
def where_am_i(out):
    row = cuda.blockIdx.x + cuda.gridDim.x * cuda.blockIdx.y
    column = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    out[row, column] = 100 * cuda.blockIdx.y + 10 * cuda.threadIdx.z + cuda.threadIdx.y


def main():
    x = np.concatenate([np.ones(32), -np.ones(32), np.cos(np.arange(40.0))])
    counts, everyone, anyone = (np.zeros(4, dtype=np.int32) for _ in range(3))
    votes[4, 32](x, counts, everyone, anyone)
    volume = np.zeros((3, 5, 7), dtype=np.int64)
    fill[(1, 2, 4), (4, 4, 2)](volume)
    out = np.zeros((6, 12), dtype=np.int32)
    where_am_i[(2, 3), (2, 3, 2)](out)
    return counts, everyone, anyone, volume, out
