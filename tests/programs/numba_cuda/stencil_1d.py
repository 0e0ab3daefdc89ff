"""A weighted moving average: blocks read a part and a halo into shared memory, the weights are constant memory."""

import numpy as np
from numba import cuda

THREADS = 32
RADIUS = 3
WEIGHTS = np.array([0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05])


@cuda.jit
def smooth(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    tile = cuda.shared.array(THREADS + 2 * RADIUS, dtype=np.float64)
    i = cuda.grid(1)
    t = cuda.threadIdx.x + RADIUS
    n = x.shape[0]

    tile[t] = x[i] if i < n else 0.0
    if cuda.threadIdx.x < RADIUS:
        left = i - RADIUS
        right = i + THREADS
        tile[t - RADIUS] = x[left] if left >= 0 else 0.0
        tile[t + THREADS] = x[right] if right < n else 0.0
    cuda.syncthreads()

    if i < n:
        acc = 0.0
        for k in range(-RADIUS, RADIUS + 1):
            acc += weights[k + RADIUS] * tile[t + k]
        out[i] = acc


def main():
    x = np.random.default_rng(3).random(150)
    out = np.empty_like(x)
    smooth[(x.size + THREADS - 1) // THREADS, THREADS](x, out)
    return out
