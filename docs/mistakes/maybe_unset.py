import diffkern as dk


@dk.kernel
def first_positive(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    if x[i] > 0.0:
        found = x[i]
    y[i] = found
