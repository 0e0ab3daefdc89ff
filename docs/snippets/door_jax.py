import jax
import numpy as np

import diffkern as dk


@dk.kernel
def energy(x: dk.array[float], k: float, total: dk.array[float]):
    i = dk.tid()
    stretch = x[i + 1] - x[i] - 1.0
    total[0] += 0.5 * k * stretch * stretch


springs = dk.jax_kernel(energy, launch_dims=3, output_dims=1)


@jax.jit
def total(x):
    return springs(x, 2.0)[0]


x = np.float32([0, 1, 3, 3.5])
print(total(x), jax.grad(lambda x: total(x)[0])(x))
