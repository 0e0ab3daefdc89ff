"""Conway's game of life on a torus."""

import numpy as np
from numba import cuda


@cuda.jit
def generation(world, following):
    y, x = cuda.grid(2)
    height, width = world.shape
    if y < height and x < width:
        alive = 0
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dy != 0 or dx != 0:
                    alive += world[(y + dy) % height, (x + dx) % width]
        if world[y, x] == 1:
            following[y, x] = 1 if alive == 2 or alive == 3 else 0
        elif alive == 3:
            following[y, x] = 1
        else:
            following[y, x] = 0


def main():
    rng = np.random.default_rng(2)
    world = (rng.random((20, 15)) < 0.35).astype(np.int8)
    threads = (8, 8)
    blocks = tuple((n + t - 1) // t for n, t in zip(world.shape, threads, strict=True))
    a, b = cuda.to_device(world), cuda.device_array(world.shape, dtype=world.dtype)
    populations = []
    for _ in range(4):
        generation[blocks, threads](a, b)
        a, b = b, a
        populations.append(int(a.copy_to_host().sum()))
    cuda.synchronize()
    return a.copy_to_host(), np.array(populations)
