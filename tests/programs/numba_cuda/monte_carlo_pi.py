"""Pi by random points, one generator for each thread."""

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32, xoroshiro128p_uniform_float32


@cuda.jit
def estimate(rng_states, iterations, out):
    thread_id = cuda.grid(1)
    inside = 0
    for _ in range(iterations):
        x = xoroshiro128p_uniform_float32(rng_states, thread_id)
        y = xoroshiro128p_uniform_float32(rng_states, thread_id)
        if x**2 + y**2 <= 1.0:
            inside += 1
    out[thread_id] = 4.0 * inside / iterations


@cuda.jit
def walk(rng_states, steps, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        position = 0.0
        for _ in range(steps):
            position += xoroshiro128p_normal_float32(rng_states, i)
        out[i] = position


def main():
    threads, blocks = 32, 2
    states = create_xoroshiro128p_states(threads * blocks, seed=1)
    out = np.zeros(threads * blocks, dtype=np.float32)
    estimate[blocks, threads](states, 40, out)
    ends = np.zeros(50, dtype=np.float32)
    walk[blocks, threads](states, 6, ends)
    return out, out.mean(), ends
