"""Shared memory whose size the launch gives: Hillis and Steele's scan, and a vector turned round in each block."""

import numpy as np
from numba import cuda, float32, int64


@cuda.jit
def inclusive_scan(x, out):
    buffer = cuda.shared.array(0, dtype=float32)
    t = cuda.threadIdx.x
    n = cuda.blockDim.x
    i = cuda.grid(1)
    buffer[t] = x[i]
    cuda.syncthreads()
    offset = 1
    while offset < n:
        value = buffer[t]
        if t >= offset:
            value += buffer[t - offset]
        cuda.syncthreads()
        buffer[t] = value
        cuda.syncthreads()
        offset *= 2
    out[i] = buffer[t]


@cuda.jit
def reverse_blocks(x):
    block = cuda.shared.array(shape=0, dtype=int64)
    i = cuda.grid(1)
    block[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    x[i] = block[cuda.blockDim.x - 1 - cuda.threadIdx.x]


def main():
    x = np.linspace(0, 1, 96).astype(np.float32)
    out = np.zeros_like(x)
    inclusive_scan[3, 32, 0, 32 * 4](x, out)
    numbers = np.arange(64)
    stream = cuda.stream()
    reverse_blocks[4, 16, stream, 16 * numbers.itemsize](numbers)
    stream.synchronize()
    return out, numbers
