"""The kernels whose IR is kept in golden files, one for each way of lowering something.

In: nothing. Out: :data:`KERNELS`, the functions with their parameter types, by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import diffkern as dk
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Array, Mat, Type, Vec

F1 = Array(FLOAT32, 1)
F2 = Array(FLOAT32, 2)
D1 = Array(FLOAT64, 1)
I1 = Array(INT32, 1)
VEC3 = Vec(FLOAT32, 3)
V1 = Array(VEC3, 1)
M1 = Array(Mat(FLOAT32, 3, 3), 1)

KERNELS: dict[str, tuple[Callable[..., Any], Sequence[Type]]] = {}

GRAVITY = (0.0, -9.81)
SCALE = 3


def kernel(*types: Type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function with its parameter types."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[function.__name__] = (function, types)
        return function

    return register


@kernel(F1, F1, FLOAT32)
def weak_literals(x, y, a):
    i = dk.tid()
    s = 0.0
    for j in range(x.shape[0]):
        s += 0.5 * x[j] * a**2 / 3
    y[i] = s + GRAVITY[1] * SCALE - 2**10 + math.pi


@kernel(D1, D1)
def weak_literals_in_float64(x, y):
    i = dk.tid()
    s = 0
    if x[i] > 1:
        s = x[i] ** -3
    y[i] = 0.1 * s + x[i] ** 0.5


@kernel(F1, F1)
def branches(x, y):
    i = dk.tid()
    if x[i] > 1.0:
        t = x[i] * 2.0
        y[i] = t
    elif x[i] < -1.0:
        t = -x[i]
    else:
        t = 0.0
    y[i] = t if i != 3 else t + 1.0


@kernel(F1, F1, INT32)
def early_return(x, y, n):
    i = dk.tid()
    if i >= n:
        return
    y[i] = x[i]
    for j in range(n):
        if x[j] < 0.0:
            y[i] = 1.0
            return
    y[i] = 2.0


@kernel(F1, F1, INT32)
def break_and_else(x, y, n):
    i = dk.tid()
    last = 0.0
    for j in range(n):
        if x[j] < 0.0:
            continue
        if x[j] > 10.0:
            break
        last = x[j]
    else:
        last = -1.0
    y[i] = last


@kernel(F1, F1)
def while_true(x, y):
    i = dk.tid()
    v = x[i]
    while True:
        v = v * 0.5
        t = v + 1.0
        if v < 1.0:
            break
    y[i] = t


@kernel(F1, F1, INT32)
def short_circuit(x, y, n):
    i = dk.tid()
    j = 0
    while j < n and x[j] > 0.0:
        j += 1
    if j == 0 or j == n:
        y[i] = 0.0


@kernel(F1, F1, INT32, INT32)
def ranges(x, y, n, step):
    i = dk.tid()
    s = 0.0
    for j in range(n - 1, -1, -1):
        s += x[j]
    for j in range(0, n, step):
        if x[j] == s:
            break
    y[i] = s + float(j)


@kernel(F2, F1)
def views(x, y):
    i = dk.tid()
    row = x[i]
    inner = x[1:-1, ::2]
    column = x[:, 2]
    y[i] = row[-1] + inner[i][1] + column[i + 1] + inner.shape[1] + len(row)


@kernel(V1, V1)
def components(x, y):
    i = dk.tid()
    v = x[i]
    v.x = 2.0
    v[1] += v.z
    a, b, c = v
    y[i][2] = a
    y[i].y *= b - c
    for k in range(3):
        v[k] = v[k] + 1.0
    y[i] = v


@kernel(M1, V1, V1)
def matrices(m, x, y):
    i = dk.tid()
    a = m[i]
    a[0, 1] = 3.0
    a[2] = x[i]
    y[i] = dk.transpose(a) @ x[i] * 2.0 + a @ a * dk.cross(x[i], a[1]) / dk.determinant(dk.inverse(a))
    m[i][1][2] += 1.0


@kernel(F1, I1, F1)
def atomics(x, index, out):
    i = dk.tid()
    old = dk.atomic_add(out, index[i], x[i])
    dk.atomic_max(out, 0, old)


@dk.func
def split(x, y=2.0, *, k=3):
    if x > y:
        return x, y
    for _ in range(k):
        x = x + y
        if x > 100.0:
            return x, 1.0
    return 0.0, x


@dk.func
def twice(x: float):
    a, b = split(x, k=2)
    return a * b


@kernel(F1, F1)
def funcs(x, y):
    i = dk.tid()
    a, b = split(x[i], k=5)
    y[i] = a * b + twice(x[i])


@kernel(F1, F1)
def lazy_where(x, y):
    i = dk.tid()
    y[i] = dk.where(x[i] > 0.0, dk.sqrt(x[i]), 0.0) + dk.clamp(x[i], 0.0, 1.0)
    y[i] = min(x[i], 1, y[i]) + max(abs(x[i]), dk.radians(180))


@kernel(F2, F2, INT32)
def stencil(u, v, n):
    i, j = dk.tid()
    if 0 < i < n - 1 and 0 < j < n - 1:
        v[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])


@kernel(F1, F1, FLOAT32)
def swap_and_carry(x, y, dt):
    i = dk.tid()
    p, q = x[i], 0.0
    while p > 0.5:
        p, q = p - dt * q, q + dt * p
    y[i] = p + q
