"""Kernels whose lowered IR does what their Python does: views, tuples, flags, ranges, funcs, integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk

from .hostrun import assert_same, run_lowered

KERNELS: list[Callable[..., Any]] = []


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of (x, y, g, n): float64 arrays of 6, a 6×5 array, and the number 4."""
    KERNELS.append(function)
    return function


@dk.func
def clipped(x, lo=-0.5, hi=0.5):
    if x < lo:
        return lo
    if x > hi:
        return hi
    return x


@dk.func
def newton(a, *, steps=4):
    x = a
    for _ in range(steps):
        if abs(x * x - a) < 1e-12:
            return x, True
        x = 0.5 * (x + a / x)
    return x, False


@dk.func
def put(array, i, value):
    array[i] = value
    if value > 1.0:
        return
    array[i] += 1.0


@kernel
def views_of_arrays(x, y, g, n):
    i = dk.tid()
    row = g[i]
    inner = g[1:-1, ::2]
    column = g[:, n]
    backwards = row[::-1]
    tail = x[2:]
    part = tail[: n - 1]
    y[i] = row[0] + inner[i % 4][1] + column[i - 1] + backwards[1] + part[i % 3] + tail[-1] + len(part)
    y[i] += g.shape[0] * 10 + row.shape[0] + inner.shape[1] + len(g[0:100]) + len(x[-2:]) + len(x[5:2]) + x[-3:][0]
    inner[i % 4, -1] = y[i]


@kernel
def tuples_and_swaps(x, y, g, n):
    i = dk.tid()
    a, b = x[i], 1.0
    a, b = b, a
    p = (a, b)
    for j in range(n):
        p = (p[1], p[0] + j)
    (c, d), e = p, 2.0
    u = v = c * d
    y[i] = u + v + e


@kernel
def slices_of_tuples(x, y, g, n):
    i = dk.tid()
    rows, columns = g.shape[:2]
    numbers = (1.0, 2.0, 3.0, 4.0)
    a, b = numbers[-1:0:-2]
    y[i] = rows * 100 + columns * 10 + a - b * numbers[2:][0] + len(numbers[::3])


@kernel
def flags(x, y, g, n):
    i = dk.tid()
    found = False
    where = -1
    for j in range(len(x)):
        if not found and x[j] > x[i]:
            found = True
            where = j
    done = found
    count = 0
    while not done:
        count += 1
        if count == 3:
            done = True
    y[i] = where + 100.0 * count if found != (n > 100) else -1.0


@kernel
def python_integers(x, y, g, n):
    i = dk.tid()
    k = i - 3
    y[i] = (
        k // 2 * 1000 + k % 4 * 100 + -k // 3 + (k * k) ** 2 - (7 - i) % -3 + (i << 2) + (k >> 1) + (k & 5) + (~k ^ 3)
    )


@kernel
def loop_variable_afterwards(x, y, g, n):
    i = dk.tid()
    for j in range(n, -3, -2):
        if j < i - 2:
            break
    q = 0
    for p in range(3):
        for q in range(p):
            pass
    y[i] = j + 10 * p + 100 * q


@kernel
def funcs_with_defaults_and_early_returns(x, y, g, n):
    i = dk.tid()
    root, exact = newton(abs(x[i]) + 1.0, steps=n)
    y[i] = clipped(x[i]) + clipped(x[i], hi=0.1) + clipped(lo=-0.1, x=root)
    if exact:
        y[i] += 1.0
    put(y, i, y[i] + 0.25)


@kernel
def funcs_on_views(x, y, g, n):
    i = dk.tid()
    put(g[i], n, x[i])
    put(y[1:], i % 5, g[i, n])


@kernel
def conditional_expressions(x, y, g, n):
    i = dk.tid()
    a = x[i] if x[i] > 0.0 else -x[i] if i > 2 else 0.0
    y[i] = dk.where(i > 0, x[i - 1], 0.0) + a + (1 if i % 2 == 0 else 2)
    y[i] += 0.0 if i == 0 or x[i - 1] < 0.0 and not x[i] > 0.5 else 1.0


@kernel
def mathematics(x, y, g, n):
    i = dk.tid()
    v = abs(x[i]) + 0.1
    y[i] = dk.floor(v * 3.0) + math.floor(-v * 3.0) + round(v * 5.0) + dk.sign(x[i]) + dk.step(x[i])
    y[i] += max(v, 1.0, x[0]) - min(v, x[1]) + dk.clamp(x[i], -0.2, 0.2) + dk.frac(v) + dk.nonzero(v)
    y[i] += dk.lerp(1.0, v, 0.25) + dk.smoothstep(0.0, 1.0, v) + v**3 + (v * 1.5) ** 0


@kernel
def augmented_targets(x, y, g, n):
    i = dk.tid()
    y[i] += x[i]
    y[i] -= 0.5
    y[i] *= 2.0
    g[i][n] /= 4.0
    k = i
    k //= 2
    k %= 2
    k <<= 3
    y[i] += k


@kernel
def nested_escapes(x, y, g, n):
    i = dk.tid()
    total = 0.0
    for a in range(n):
        for b in range(n):
            if b == a:
                continue
            if g[a, b] < -0.5:
                break
            for c in range(2):
                if g[a, c] > 1.0:
                    return
                total += g[a, b]
        else:
            total += 100.0
        if total > 400.0:
            break
    y[i] = total


@kernel
def while_with_state(x, y, g, n):
    i = dk.tid()
    v, steps = x[i], 0
    while True:
        last = v
        v = 0.5 * v + 0.1
        steps += 1
        if abs(v - last) < 1e-3:
            break
        if steps > 20:
            y[i] = -1.0
            return
    y[i] = last + steps


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_does_what_python_does(function: Callable[..., Any]) -> None:
    generator = np.random.default_rng(7)
    for _ in range(5):
        args = [generator.normal(size=6), generator.normal(size=6), generator.normal(size=(6, 5)), 4]
        assert_same(function, args)


def test_thread_indices_of_several_dimensions() -> None:
    def function(g):
        i, j = dk.tid()
        g[i, j] = i * 10.0 + j

    assert_same(function, [np.zeros((3, 4))], (3, 4))

    def four(g):
        i, j, k, m = dk.tid()
        g[i, j, k, m] = ((i * 10.0 + j) * 10.0 + k) * 10.0 + m

    assert_same(four, [np.zeros((2, 3, 2, 2))], (2, 3, 2, 2))


def test_atomics_return_the_old_value() -> None:
    def function(out, old):
        i = dk.tid()
        old[i] = dk.atomic_add(out, 0, 1.0)

    assert_same(function, [np.zeros(1), np.zeros(6)])


@pytest.mark.parametrize("step", [-3, -1, 0, 1, 2, 7])
def test_run_time_steps(step: int) -> None:
    def function(y, lo, hi, step):
        for j in range(lo, hi, step):
            y[0] += j
        for k in range(lo, hi, step):
            if k == 100:
                break
            y[1] += k + 0.5

    for lo, hi in ((0, 5), (5, 0), (2, 2), (-3, 4)):
        if step == 0:  # Python raises; a kernel makes no trip
            assert run_lowered(function, [np.zeros(2), lo, hi, step], (1,))[0].tolist() == [0.0, 0.0]
        else:
            assert_same(function, [np.zeros(2), lo, hi, step], (1,))


def test_globals_are_read_when_the_kernel_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(y):
        y[0] = FACTOR * 2.0

    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert run_lowered(function, [np.zeros(1)], (1,))[0][0] == 6.0
    monkeypatch.setitem(globals(), "FACTOR", 4)
    assert run_lowered(function, [np.zeros(1)], (1,))[0][0] == 8.0


FACTOR = 1
