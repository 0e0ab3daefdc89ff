import numpy as np

import diffkern as dk


@dk.kernel
def scatter(x: dk.array(dtype=float), places: dk.array(dtype=int), bins: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(bins, places[i], x[i] * x[i])


n = 1000
rng = np.random.default_rng(0)
x = dk.array(rng.normal(size=n).astype(np.float32))
places = dk.array(rng.integers(0, n // 10, n).astype(np.int32))
bins = dk.zeros(n // 10)
