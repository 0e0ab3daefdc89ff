import diffkern as dk


@dk.kernel
def kernel(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


n = 1
x, y = dk.ones(n, requires_grad=True), dk.zeros(n, requires_grad=True)
seed, loss = dk.ones(n), y
