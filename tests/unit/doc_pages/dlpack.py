import jax.numpy as jnp
import numpy as np
import torch

import diffkern as dk


@dk.kernel
def kernel(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array(dtype=float)):
    i = dk.tid()
    z[i] = x[i] + y[i]


n = 3
jax_array, torch_tensor, numpy_array = jnp.ones(n), torch.ones(n), np.zeros(n, np.float32)
cleanup.callback(lambda: np.testing.assert_array_equal(numpy_array, 2.0))
