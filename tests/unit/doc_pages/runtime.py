import diffkern as dk


@dk.kernel
def kernel(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


n = 1
x, y = dk.ones(n), dk.zeros(n)
ct_x, ct_y = dk.zeros(n), dk.ones(n)
