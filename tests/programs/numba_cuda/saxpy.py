"""``a*x + y`` with a signature, a loop over the grid, and NumPy arrays given to the kernel as they are."""

import numpy as np
from numba import cuda


@cuda.jit("void(float32, float32[:], float32[:], float32[:])")
def saxpy(a, x, y, out):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        out[i] = a * x[i] + y[i]


@cuda.jit
def saxpy_in_place(a, x, y):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    step = cuda.blockDim.x * cuda.gridDim.x
    while i < len(x):
        y[i] += a * x[i]
        i += step


def main():
    rng = np.random.default_rng(1)
    x = rng.random(777, dtype=np.float32)
    y = rng.random(777, dtype=np.float32)
    out = np.zeros_like(x)
    saxpy[4, 64](np.float32(2.5), x, y, out)
    saxpy_in_place[3, 32](np.float32(-0.5), x, y)
    return out, y
