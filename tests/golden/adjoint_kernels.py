"""The kernels whose adjoints' IR is kept in golden files, one for each way of reversing something.

In: nothing. Out: :data:`KERNELS`, the functions with their parameter types and active parameters, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import diffkern as dk
from diffkern.ir.types import FLOAT32, INT32, Array, Type, Vec

F1 = Array(FLOAT32, 1)
F2 = Array(FLOAT32, 2)
I1 = Array(INT32, 1)
V1 = Array(Vec(FLOAT32, 3), 1)

KERNELS: dict[str, tuple[Callable[..., Any], Sequence[Type]]] = {}


def kernel(*types: Type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function with its parameter types."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[function.__name__] = (function, types)
        return function

    return register


@kernel(F1, F1, FLOAT32)
def straight(x, y, a):
    i = dk.tid()
    y[i] = a * dk.sin(x[i]) / x[i]


@kernel(F1, F1)
def in_place(x, y):
    i = dk.tid()
    y[i] = y[i] * y[i] * x[i]


@kernel(F1, F1)
def branch(x, y):
    i = dk.tid()
    t = dk.sqrt(x[i])
    if x[i] > 0.0:
        y[i] = t


@kernel(F1, F1, INT32)
def sum_loop(x, y, n):
    i = dk.tid()
    s = 0.0
    for k in range(n):
        s += x[k] * x[k]
    y[i] = s


@kernel(F1, F1, INT32)
def state_loop(x, y, n):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = dk.sin(s) * x[k]
    y[i] = s


@kernel(F1, F1)
def until(x, y):
    i = dk.tid()
    s = x[i]
    while s < 2.0:
        s = s * 1.5 + 0.1
    y[i] = s


@kernel(V1, I1, F1)
def scatter(x, p, loss):
    i = dk.tid()
    e = x[p[i]] - x[i]
    dk.atomic_add(loss, 0, dk.dot(e, e))


@kernel(F1, F2, INT32)
def recurrence(x, y, n):
    i = dk.tid()
    for k in range(1, n):
        y[i, k] = y[i, k - 1] * y[i, k - 1] * x[i]


@kernel(F1, F1)
def lowest(x, best):
    i = dk.tid()
    dk.atomic_min(best, i // 4, x[i] * x[i])
