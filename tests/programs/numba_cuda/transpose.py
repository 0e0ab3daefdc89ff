"""The transpose of a matrix through a padded tile, and one by strides."""

import numpy as np
from numba import cuda

TILE = 8


@cuda.jit
def transpose(a, out):
    tile = cuda.shared.array((TILE, TILE + 1), dtype=np.float32)
    x = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    y = cuda.blockIdx.y * TILE + cuda.threadIdx.y
    if y < a.shape[0] and x < a.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + cuda.threadIdx.x
    y = cuda.blockIdx.x * TILE + cuda.threadIdx.y
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@cuda.jit
def scale(a, factor):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] *= factor


def main():
    a = np.arange(13 * 22, dtype=np.float32).reshape(13, 22)
    d_a = cuda.to_device(a)
    d_out = cuda.device_array((22, 13), dtype=np.float32)
    blocks = (-(-22 // TILE), -(-13 // TILE))
    transpose[blocks, (TILE, TILE)](d_a, d_out)
    scale[(3, 3), (8, 8)](d_out[2:20, ::2], np.float32(10))
    d_out[0] = 5.0
    first = d_out.copy_to_host()
    transposed = d_a.T
    scale[(3, 2), (8, 8)](transposed, np.float32(0.5))
    return first, d_a.copy_to_host(), d_a[3].copy_to_host(), np.array(transposed.shape)
