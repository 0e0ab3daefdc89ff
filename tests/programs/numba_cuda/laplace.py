"""Laplace's equation on a plate by Jacobi's method; an error in shared memory decides when to stop."""

import math

import numpy as np
from numba import cuda, f8

TX, TY = 8, 4


@cuda.jit
def jacobi(a, b, error):
    err = cuda.shared.array((TY, TX), dtype=f8)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.grid(2)
    rows, cols = a.shape

    err[ty, tx] = 0.0
    if j >= 1 and j < rows - 1 and i >= 1 and i < cols - 1:
        b[j, i] = 0.25 * (a[j, i + 1] + a[j, i - 1] + a[j - 1, i] + a[j + 1, i])
        err[ty, tx] = math.fabs(b[j, i] - a[j, i])
    cuda.syncthreads()

    half = TY // 2
    while half > 0:
        if ty < half:
            err[ty, tx] = max(err[ty, tx], err[ty + half, tx])
        cuda.syncthreads()
        half //= 2
    half = TX // 2
    while half > 0:
        if ty == 0 and tx < half:
            err[0, tx] = max(err[0, tx], err[0, tx + half])
        cuda.syncthreads()
        half //= 2
    if tx == 0 and ty == 0:
        error[cuda.blockIdx.y, cuda.blockIdx.x] = err[0, 0]


def main():
    rows, cols = 12, 18
    plate = np.zeros((rows, cols))
    plate[:, 0] = 1.0
    blocks = ((cols + TX - 1) // TX, (rows + TY - 1) // TY)

    stream = cuda.stream()
    d_a = cuda.to_device(plate, stream=stream)
    d_b = cuda.to_device(plate, stream=stream)
    d_error = cuda.device_array((blocks[1], blocks[0]), dtype=np.float64, stream=stream)
    errors = []
    worst, iteration = 1.0, 0
    while worst > 0.02 and iteration < 20:
        jacobi[blocks, (TX, TY), stream](d_a, d_b, d_error)
        host = d_error.copy_to_host(stream=stream)
        stream.synchronize()
        worst = np.abs(host).max()
        errors.append(worst)
        d_a, d_b = d_b, d_a
        iteration += 1
    return d_a.copy_to_host(), np.array(errors)
