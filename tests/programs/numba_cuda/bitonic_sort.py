"""Bitonic sort, a launch for each step of the network."""

import numpy as np
from numba import cuda


@cuda.jit
def bitonic_step(values, j, k):
    i = cuda.grid(1)
    partner = i ^ j
    if partner > i:
        ascending = (i & k) == 0
        a = values[i]
        b = values[partner]
        if (a > b) == ascending:
            values[i] = b
            values[partner] = a


def main():
    n = 64
    values = np.random.default_rng(12).random(n).astype(np.float32)
    d_values = cuda.to_device(values)
    k = 2
    while k <= n:
        j = k >> 1
        while j > 0:
            bitonic_step[2, n // 2](d_values, j, k)
            j >>= 1
        k <<= 1
    return d_values.copy_to_host()
