import numpy as np

import diffkern as dk
from diffkern import cuda  # was: from numba import cuda


@cuda.jit
def energy(x, k, total):
    i = cuda.grid(1)
    if i + 1 < x.size:
        stretch = x[i + 1] - x[i] - 1.0
        cuda.atomic.add(total, 0, 0.5 * k * stretch * stretch)


x, total = cuda.to_device(np.float32([0, 1, 3, 3.5])), cuda.to_device(np.zeros(1, np.float32))
x.requires_grad = True

with dk.Tape() as tape:
    energy[1, 32](x, 2.0, total)
tape.backward(total)
print(total.copy_to_host(), x.grad.numpy())
