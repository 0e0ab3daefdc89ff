"""Dot products: partial sums in shared memory and one atomic for each block, and a reduction made of a function."""

import numpy as np
from numba import cuda

THREADS = 32


@cuda.jit
def dot(x, y, out):
    cache = cuda.shared.array(THREADS, dtype=np.float64)
    t = cuda.threadIdx.x
    value = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value += x[i] * y[i]
    cache[t] = value
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s != 0:
        if t < s:
            cache[t] += cache[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(out, 0, cache[0])


@cuda.jit
def multiply(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * y[i]


@cuda.reduce
def add_up(a, b):
    return a + b


largest = cuda.Reduce(lambda a, b: a if a > b else b)


def main():
    rng = np.random.default_rng(17)
    x, y = rng.random(333), rng.random(333)
    out = np.zeros(1)
    dot[4, THREADS](x, y, out)

    products = cuda.device_array(333)
    multiply[-(-333 // THREADS), THREADS](x, y, products)
    host = products.copy_to_host()
    result = cuda.to_device(np.zeros(1))
    add_up(products, res=result)
    return out, add_up(host), add_up(host, init=10.0), largest(host), result.copy_to_host()
