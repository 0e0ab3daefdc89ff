import diffkern as dk


@dk.kernel
def blend(x: dk.array(dtype=dk.float32), w: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = x[i] * w[i]
