"""Exclusive prefix sum: Blelloch's scan in each block, and a second kernel that adds the sums of the blocks before."""

import numpy as np
from numba import cuda, int32

THREADS = 16
WIDTH = 2 * THREADS


@cuda.jit
def scan_blocks(data, out, sums):
    temp = cuda.shared.array(WIDTH, dtype=int32)
    t = cuda.threadIdx.x
    base = cuda.blockIdx.x * WIDTH
    n = data.shape[0]

    for k in range(2):
        i = base + 2 * t + k
        if i < n:
            temp[2 * t + k] = data[i]
        else:
            temp[2 * t + k] = 0

    offset = 1
    d = WIDTH >> 1
    while d > 0:
        cuda.syncthreads()
        if t < d:
            ai = offset * (2 * t + 1) - 1
            bi = offset * (2 * t + 2) - 1
            temp[bi] += temp[ai]
        offset <<= 1
        d >>= 1

    if t == 0:
        sums[cuda.blockIdx.x] = temp[WIDTH - 1]
        temp[WIDTH - 1] = 0

    d = 1
    while d < WIDTH:
        offset >>= 1
        cuda.syncthreads()
        if t < d:
            ai = offset * (2 * t + 1) - 1
            bi = offset * (2 * t + 2) - 1
            temp[ai], temp[bi] = temp[bi], temp[bi] + temp[ai]
        d *= 2
    cuda.syncthreads()

    for k in range(2):
        i = base + 2 * t + k
        if i < n:
            out[i] = temp[2 * t + k]


@cuda.jit
def add_offsets(out, offsets):
    i = cuda.blockIdx.x * WIDTH + cuda.threadIdx.x
    while i < min(out.shape[0], (cuda.blockIdx.x + 1) * WIDTH):
        out[i] += offsets[cuda.blockIdx.x]
        i += cuda.blockDim.x


def main():
    data = np.random.default_rng(7).integers(0, 9, 100).astype(np.int32)
    blocks = (data.size + WIDTH - 1) // WIDTH
    d_data = cuda.to_device(data)
    d_out = cuda.device_array_like(d_data)
    d_sums = cuda.device_array(blocks, np.int32)
    scan_blocks[blocks, THREADS](d_data, d_out, d_sums)
    sums = d_sums.copy_to_host()
    offsets = np.zeros(blocks, np.int32)
    offsets[1:] = np.cumsum(sums)[:-1]
    add_offsets[blocks, THREADS](d_out, offsets)
    return d_out.copy_to_host(), sums
