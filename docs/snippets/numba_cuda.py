import math

import numpy as np

import diffkern as dk
from diffkern import cuda  # the one change: it was numba


@cuda.jit(device=True)
def energy(x, y, stiffness):
    return 0.5 * stiffness * math.pow(x - y, 2)


@cuda.jit
def springs(position, stiffness, total):
    cache = cuda.shared.array(64, dtype=np.float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    cache[t] = energy(position[i], position[i + 1], stiffness) if i + 1 < position.size else 0.0
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            cache[t] += cache[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(total, 0, cache[0])


position = np.array([0.0, 1.0, 3.0, 3.5])
total = np.zeros(1)
springs[1, 64](position, 2.0, total)
print(total)

# What Numba has no word for: the gradient.
d_position = cuda.to_device(position)
d_total = cuda.to_device(np.zeros(1))
d_position.requires_grad = d_total.requires_grad = True
with dk.Tape() as tape:
    springs[1, 64](d_position, 2.0, d_total)
tape.backward(d_total)
print(d_position.grad.numpy())
