"""Two vectors are added, one thread for each element."""

import numpy as np
from numba import cuda


@cuda.jit
def vector_add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def main():
    n = 1000
    x = np.arange(n, dtype=np.float32)
    y = 0.25 * np.ones_like(x)
    d_x = cuda.to_device(x)
    d_y = cuda.to_device(y)
    d_out = cuda.device_array_like(d_x)

    threads = 128
    blocks = (n + threads - 1) // threads
    vector_add[blocks, threads](d_x, d_y, d_out)
    return d_out.copy_to_host()
