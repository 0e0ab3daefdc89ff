"""Loops over neighbours stay loops before they are differentiated; others of their length are unrolled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes_harness import D1, after, assert_same, lowered, names

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import AdjointForm, Variant
from diffkern.ir.types import INT32, Array
from diffkern.opt.unroll import unroll
from diffkern.testing import gradcheck

N2 = Array(INT32, 2)
RNG = np.random.default_rng(3)
COUNT = 12
X = RNG.uniform(0.5, 1.5, COUNT)
NEAR = RNG.integers(-2, COUNT, (COUNT, 4)).astype(np.int32)


@dk.func
def strength(a, b):
    d = a - b
    s = dk.sqrt(d * d + 0.3)
    return (d + 0.5 * s) * (s - 0.7) / (s + 0.2) + dk.sin(d) * s


def neighbours(x, near, y):
    i = dk.tid()
    total = 0.25 * x[i]
    other = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += strength(x[j], x[i])
            other = other - x[j]
    y[i] = total * other


def offset(x, near, y):  # it is known which element each trip reads
    i = dk.tid()
    total = x[i]
    for k in range(4):
        if near[i, k] >= 0:
            total += strength(x[(i + k) % 12], x[i]) * x[k]
    y[i] = total


def looks(x, near, y):  # a trip looks at the sum of those before
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += strength(x[j], total)
    y[i] = total


def decides(x, near, y):
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0 and total < 100.0:
            total += strength(x[j], x[i])
    y[i] = total


def swaps(x, near, y):
    i = dk.tid()
    total = x[i]
    other = 0.5 * x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            a = total + strength(x[j], x[i])
            total = other
            other = a
    y[i] = total - 2.0 * other


def negates(x, near, y):
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total = strength(x[j], x[i]) - total
    y[i] = total


def counts(x, near, y):  # the index is a number of the computation
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += strength(x[j], x[i]) * float(k)
    y[i] = total


def writes(x, near, y):
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += strength(x[j], x[i])
            y[i] = total
    y[i] += total


def rewrites(x, near, y):  # what it reads it has written
    i = dk.tid()
    y[i] = 2.0 * x[i]
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += strength(y[i], x[i])
    y[i] = total


def short(x, near, y):
    i = dk.tid()
    total = x[i]
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            total += x[j] * x[i]
    y[i] = total


OTHERS = [offset, looks, decides, swaps, negates, counts, writes, rewrites, short]


def test_a_loop_over_neighbours_stays_one():
    fn = lowered(neighbours, D1, N2, D1)
    out = after(fn, unroll)
    assert names(out).count("for") == 1
    assert_same(fn, out, (COUNT,), [X, NEAR, X.copy()])


def test_it_is_unrolled_for_programs_that_do_the_launch_as_well():
    types = dk.kernel(annotated(neighbours)).argument_types(*arrays())
    active = frozenset(range(3))
    for joint in (False, True):
        made = Compilation(annotated(neighbours), types, Variant(active=active, form=AdjointForm(joint=joint)))
        assert ("for" in names(made.adjoint.fn)) is not joint


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.__name__)
def test_other_loops_are_unrolled(function):
    fn = lowered(function, D1, N2, D1)
    out = after(fn, unroll)
    assert "for" not in names(out)
    assert_same(fn, out, (COUNT,), [X, NEAR, X.copy()])


@pytest.mark.parametrize("function", [neighbours, looks], ids=lambda f: f.__name__)
def test_gradients_are_right(function):
    gradcheck(dk.kernel(annotated(function)), COUNT, arrays())


def annotated(function: Callable[..., None]) -> Callable[..., None]:
    function.__annotations__ = {
        "x": dk.array(dtype=dk.float64), "near": dk.array2d(dtype=int), "y": dk.array(dtype=dk.float64),
    }  # fmt: skip
    return function


def arrays():
    return [
        dk.array(X, dtype=dk.float64, requires_grad=True),
        dk.array(NEAR),
        dk.zeros(COUNT, dtype=dk.float64, requires_grad=True),
    ]
