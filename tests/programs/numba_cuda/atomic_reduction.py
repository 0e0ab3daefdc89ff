"""Sum, extremes and counters by atomic operations on global memory."""

import numpy as np
from numba import cuda


@cuda.jit
def statistics(x, total, low, high):
    i = cuda.grid(1)
    if i >= x.size:
        return
    cuda.atomic.add(total, 0, x[i])
    cuda.atomic.min(low, 0, x[i])
    cuda.atomic.max(high, 0, x[i])


@cuda.jit
def counters(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        if x[i] > 0:
            cuda.atomic.add(out, 0, 1)
        else:
            cuda.atomic.sub(out, 1, 1)
        cuda.atomic.inc(out, 2, 6)
        cuda.atomic.or_(out, 3, 1 << (i % 8))
        cuda.atomic.xor(out, 4, i)
        cuda.atomic.and_(out, 5, 255 ^ (1 << (i % 5)))


@cuda.jit
def first_wins(owner, losers):
    i = cuda.grid(1)
    before = cuda.atomic.cas(owner, i % owner.size, 0, 7)
    if before != 0:
        cuda.atomic.add(losers, 0, 1)


def main():
    x = np.cos(np.arange(300, dtype=np.float64) * 0.37)
    total, low, high = np.zeros(1), np.full(1, np.inf), np.full(1, -np.inf)
    statistics[5, 64](x, total, low, high)

    counts = np.array([0, 100, 0, 0, 0, 255], dtype=np.uint32)
    counters[2, 64](x[:100], counts)

    owner, losers = np.zeros(10, dtype=np.int32), np.zeros(1, dtype=np.int32)
    first_wins[2, 32](owner, losers)
    return total, low, high, counts, owner, losers
