"""Kernels that measure the machine: each does one thing."""

import diffkern as dk

Floats = dk.array(dtype=float)
Ints = dk.array(dtype=int)


@dk.kernel(enable_backward=False)
def read(x: Floats, total: Floats):
    dk.atomic_add(total, 0, x[dk.tid()])


@dk.kernel(enable_backward=False)
def write(x: Floats, a: float):
    x[dk.tid()] = a


@dk.kernel(enable_backward=False)
def update(x: Floats, a: float):
    i = dk.tid()
    x[i] = a - x[i]


@dk.kernel(enable_backward=False)
def copy(x: Floats, y: Floats):
    i = dk.tid()
    y[i] = x[i]


@dk.kernel(enable_backward=False)
def pick(at: Ints, table: Floats, y: Floats):
    i = dk.tid()
    y[i] = table[at[i]]


@dk.kernel(enable_backward=False)
def scatter(at: Ints, x: Floats, table: Floats):
    i = dk.tid()
    dk.atomic_add(table, at[i], x[i])


@dk.kernel(enable_backward=False)
def chains(x: Floats, trips: int, y: Floats):
    i = dk.tid()
    a, b, c, d = x[i], x[i] + 1.0, x[i] + 2.0, x[i] + 3.0
    for _ in range(trips):
        a = 0.5 * a + 0.25
        b = 0.5 * b + 0.25
        c = 0.5 * c + 0.25
        d = 0.5 * d + 0.25
    y[i] = a + b + c + d
