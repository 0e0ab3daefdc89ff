"""Gravity between all pairs of bodies, whose positions go through shared memory a block at a time."""

import math

import numpy as np
from numba import cuda, float32

THREADS = 16
SOFTENING = 0.05


@cuda.jit(device=True)
def pull(xi, yi, zi, xj, yj, zj, mass):
    dx = xj - xi
    dy = yj - yi
    dz = zj - zi
    r2 = dx * dx + dy * dy + dz * dz + SOFTENING
    inv = mass / (r2 * math.sqrt(r2))
    return dx * inv, dy * inv, dz * inv


@cuda.jit
def accelerations(position, mass, acceleration):
    tile = cuda.shared.array((THREADS, 4), float32)
    i = cuda.grid(1)
    n = position.shape[0]
    ax = ay = az = float32(0)
    me = min(i, n - 1)
    for start in range(0, n, THREADS):
        j = start + cuda.threadIdx.x
        if j < n:
            for c in range(3):
                tile[cuda.threadIdx.x, c] = position[j, c]
            tile[cuda.threadIdx.x, 3] = mass[j]
        else:
            tile[cuda.threadIdx.x, 3] = 0
        cuda.syncthreads()
        for k in range(min(THREADS, n - start)):
            fx, fy, fz = pull(
                position[me, 0], position[me, 1], position[me, 2], tile[k, 0], tile[k, 1], tile[k, 2], tile[k, 3]
            )
            ax += fx
            ay += fy
            az += fz
        cuda.syncthreads()
    if i < n:
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az


@cuda.jit
def advance(position, velocity, acceleration, dt):
    i = cuda.grid(1)
    if i < position.shape[0]:
        for c in range(3):
            velocity[i, c] += dt * acceleration[i, c]
            position[i, c] += dt * velocity[i, c]


def main():
    rng = np.random.default_rng(4)
    n = 40
    position = cuda.to_device(rng.normal(size=(n, 3)).astype(np.float32))
    velocity = cuda.to_device(np.zeros((n, 3), dtype=np.float32))
    acceleration = cuda.device_array((n, 3), dtype=np.float32)
    mass = cuda.to_device((0.5 + rng.random(n)).astype(np.float32))
    blocks = -(-n // THREADS)
    for _ in range(2):
        accelerations[blocks, THREADS](position, mass, acceleration)
        advance[blocks, THREADS](position, velocity, acceleration, np.float32(0.01))
    return position.copy_to_host(), velocity.copy_to_host()
