"""Softmax of each row of a matrix, a block for each row."""

import math

import numpy as np
from numba import cuda, float64

THREADS = 32


@cuda.jit
def softmax(x, out):
    cache = cuda.shared.array(THREADS, float64)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    cols = x.shape[1]

    largest = -math.inf
    for j in range(t, cols, THREADS):
        largest = max(largest, x[row, j])
    cache[t] = largest
    cuda.syncthreads()
    s = THREADS // 2
    while s > 0:
        if t < s:
            cache[t] = max(cache[t], cache[t + s])
        cuda.syncthreads()
        s //= 2
    largest = cache[0]
    cuda.syncthreads()

    total = 0.0
    for j in range(t, cols, THREADS):
        e = math.exp(x[row, j] - largest)
        out[row, j] = e
        total += e
    cache[t] = total
    cuda.syncthreads()
    s = THREADS // 2
    while s > 0:
        if t < s:
            cache[t] += cache[t + s]
        cuda.syncthreads()
        s >>= 1
    total = cache[0]

    for j in range(t, cols, THREADS):
        out[row, j] = out[row, j] / total


def main():
    x = np.random.default_rng(9).normal(size=(5, 50)) * 3
    out = np.zeros_like(x)
    softmax[x.shape[0], THREADS](x, out)
    return out, out.sum(axis=1)
