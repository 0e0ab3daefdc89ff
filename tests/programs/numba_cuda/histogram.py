"""Histograms: atomics on global memory, and counts of each block in shared memory first."""

import numpy as np
from numba import cuda

BINS = 16


@cuda.jit
def histogram(x, low, high, counts):
    width = (high - low) / counts.shape[0]
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        b = int((x[i] - low) / width)
        if b >= 0 and b < counts.shape[0]:
            cuda.atomic.add(counts, b, 1)


@cuda.jit
def histogram_shared(values, counts):
    local = cuda.shared.array(BINS, dtype=np.int32)
    t = cuda.threadIdx.x
    for b in range(t, BINS, cuda.blockDim.x):
        local[b] = 0
    cuda.syncthreads()

    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(local, values[i] & (BINS - 1), 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()

    if t < BINS:
        cuda.atomic.add(counts, t, local[t])


def main():
    rng = np.random.default_rng(5)
    x = rng.normal(size=400).astype(np.float32)
    counts = np.zeros(10, dtype=np.int32)
    histogram[4, 32](x, np.float32(-4.0), np.float32(4.0), counts)

    values = rng.integers(0, 256, size=500, dtype=np.uint8)
    d_counts = cuda.to_device(np.zeros(BINS, dtype=np.int32))
    histogram_shared[3, 32](cuda.to_device(values), d_counts)
    return counts, d_counts.copy_to_host()
