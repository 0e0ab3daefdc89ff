"""Funcs of every kind that programs of numba call, with points at which they are differentiated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import diffkern as dk

SHIFT = 0.25


@dk.func
def product(x, y):
    return x * y + SHIFT


@dk.func
def branches(x, y):
    if x > y:
        return x * x - y
    elif x > 0.0:
        return x * y
    return y * y * y


@dk.func
def fixed_loop(x, y):
    total = 0.0
    for k in range(3):
        total += x * y / (float(k) + 1.0)
    return total


@dk.func
def counted_loop(x, n):
    power = x
    for _ in range(n):
        power = power * x + 0.5 * power
    return power


@dk.func
def while_loop(x, y):
    a, b = x, y
    while a - b > 0.01:
        a, b = 0.5 * (a + b), math.sqrt(a * b)
    return a


@dk.func
def left_early(x, y):
    total = x
    for k in range(50):
        if total > 3.0:
            break
        if k == 2:
            continue
        total += y * x
    return total * total


@dk.func
def square(x):
    return x * x


@dk.func
def nested(x, y):
    return square(square(x) + y) * product(x, y)


@dk.func
def guarded(x, y):
    return dk.where(x > 0.0, math.sqrt(x) * y, 0.0)


@dk.func
def elementary(x, y):
    return math.exp(-x) * math.log(1.0 + y * y) + math.tanh(x * y) + math.atan2(y, x) + abs(x) ** 1.5


@dk.func
def extremes(x, y):
    return max(x, y) * min(x, 2.0) + dk.clamp(x * y, -1.0, 1.0)


@dk.func
def two_results(x, y):
    return x * y, x / y


@dk.func
def of_one(x):
    return x * x * x


@dk.func
def annotated(x: dk.float64, n: int, y: dk.float64 = 3.0):
    return x * float(n) * y


@dk.func
def distance(p, q):
    return dk.length(p - q)


@dk.func
def transformed(m, v):
    w = m * v
    return w, dk.dot(w, v)


@dk.func
def interpolated(table: dk.array(dtype=float), x: float):
    k = int(x)
    t = x - float(k)
    return table[k] * (1.0 - t) + table[k + 1] * t


@dataclass(frozen=True)
class Case:
    """A func of numbers, arguments at which it is smooth, and what it is in Python, where that is not its own text."""

    func: Any
    points: tuple[tuple[Any, ...], ...]
    plain: Any = None

    @property
    def python(self) -> Any:
        return self.plain or self.func


PAIRS = ((0.7, 1.3), (1.9, 0.6), (-0.8, 0.4))
POSITIVE = ((0.7, 1.3), (1.9, 0.6))
CASES = {
    case.func.name: case
    for case in (
        Case(product, PAIRS),
        Case(branches, PAIRS),
        Case(fixed_loop, PAIRS),
        Case(counted_loop, ((0.7, 0), (0.7, 5), (-1.1, 70))),
        Case(while_loop, ((9.0, 1.5), (1.0, 0.8))),
        Case(left_early, PAIRS),
        Case(nested, PAIRS),
        Case(guarded, PAIRS, lambda x, y: math.sqrt(x) * y if x > 0.0 else 0.0),
        Case(elementary, POSITIVE),
        Case(extremes, PAIRS),
        Case(of_one, ((0.7,), (-2.0,))),
        Case(annotated, ((0.7, 3, 1.5), (-2.0, -1, 0.5))),
    )
}


@dk.kernel
def diffuse(x: dk.array(dtype=float), y: dk.array(dtype=float), rate: float):
    i = dk.tid()
    n = x.shape[0]
    y[i] = x[i] + rate * (x[(i + 1) % n] - 2.0 * x[i] + x[(i + n - 1) % n])


@dk.kernel
def stretch(p: dk.array(dtype=dk.vec3), edges: dk.array2d(dtype=int), energy: dk.array(dtype=float)):
    e = dk.tid()
    d = dk.length(p[edges[e, 0]] - p[edges[e, 1]]) - 1.0
    dk.atomic_add(energy, 0, d * d)


@dk.kernel
def outer(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array2d(dtype=float)):
    i, j = dk.tid()
    z[i, j] = x[i] * y[j] * y[j]


@dk.func
def two_quotients(x, y):
    return x / y + y / x
