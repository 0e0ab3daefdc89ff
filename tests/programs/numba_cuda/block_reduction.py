"""The sum and the largest of a vector: a tree in shared memory for each block, and the host adds what is left."""

import numpy as np
from numba import cuda, float64

THREADS = 64


@cuda.jit
def block_sums(data, partial):
    cache = cuda.shared.array(THREADS, dtype=float64)
    tid = cuda.threadIdx.x
    i = cuda.grid(1)

    total = 0.0
    while i < data.size:
        total += data[i]
        i += cuda.gridsize(1)
    cache[tid] = total
    cuda.syncthreads()

    half = cuda.blockDim.x // 2
    while half > 0:
        if tid < half:
            cache[tid] += cache[tid + half]
        cuda.syncthreads()
        half //= 2
    if tid == 0:
        partial[cuda.blockIdx.x] = cache[0]


@cuda.jit
def block_maxima(data, partial):
    cache = cuda.shared.array(shape=THREADS, dtype=float64)
    tid = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + tid
    cache[tid] = data[i] if i < data.size else -np.inf
    cuda.syncthreads()
    stride = 1
    while stride < cuda.blockDim.x:
        if tid % (2 * stride) == 0:
            cache[tid] = max(cache[tid], cache[tid + stride])
        cuda.syncthreads()
        stride *= 2
    if tid == 0:
        partial[cuda.blockIdx.x] = cache[0]


def main():
    data = np.sin(np.arange(500, dtype=np.float64))
    sums = np.zeros(3)
    block_sums[3, THREADS](data, sums)
    blocks = -(-data.size // THREADS)
    maxima = cuda.device_array(blocks, dtype=np.float64)
    block_maxima[blocks, THREADS](cuda.to_device(data), maxima)
    return sums, sums.sum(), maxima.copy_to_host().max()
