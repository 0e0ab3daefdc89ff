import ctypes

import diffkern as dk


@dk.kernel
def advance(x: dk.array(dtype=float), v: dk.array(dtype=float), dt: float, x_new: dk.array(dtype=float)):
    i = dk.tid()
    x_new[i] = x[i] + dt * v[i]


@dk.kernel
def model(w: dk.array(dtype=float), x: dk.array(dtype=float), bias: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = w[0] * x[i] + bias


@dk.kernel
def mismatch(y: dk.array(dtype=float), data: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, (y[i] - data[i]) * (y[i] - data[i]))


@dk.kernel
def kernel(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


n, m = 8, 4
x, v, x_new, other, y, z, data = (dk.ones(n, requires_grad=True) for _ in range(7))
ct_x, w, loss = dk.zeros(n), dk.ones(1, requires_grad=True), dk.zeros(1)
