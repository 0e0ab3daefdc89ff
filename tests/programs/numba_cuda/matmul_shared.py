"""A matrix product of tiles in shared memory, for matrices of any shape."""

import numpy as np
from numba import cuda, float32

TPB = 8


@cuda.jit
def matmul(A, B, C):
    """One thread for each element of C."""
    i, j = cuda.grid(2)
    if i < C.shape[0] and j < C.shape[1]:
        tmp = 0.0
        for k in range(A.shape[1]):
            tmp += A[i, k] * B[k, j]
        C[i, j] = tmp


@cuda.jit
def fast_matmul(A, B, C):
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)

    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    tiles = (A.shape[1] + TPB - 1) // TPB

    acc = float32(0.0)
    for t in range(tiles):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < A.shape[0] and tx + t * TPB < A.shape[1]:
            sA[ty, tx] = A[y, tx + t * TPB]
        if x < B.shape[1] and ty + t * TPB < B.shape[0]:
            sB[ty, tx] = B[ty + t * TPB, x]
        cuda.syncthreads()
        for k in range(TPB):
            acc += sA[ty, k] * sB[k, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = acc


def main():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((13, 21)).astype(np.float32)
    B = rng.standard_normal((21, 18)).astype(np.float32)
    naive = np.zeros((13, 18), dtype=np.float32)
    threads = (TPB, TPB)
    matmul[(2, 3), threads](A, B, naive)

    d_A, d_B = cuda.to_device(A), cuda.to_device(B)
    d_C = cuda.device_array((13, 18), dtype=np.float32)
    blocks = (-(-18 // TPB), -(-13 // TPB))
    fast_matmul[blocks, threads](d_A, d_B, d_C)
    return naive, d_C.copy_to_host()
