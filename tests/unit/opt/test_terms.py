"""Like terms and common factors of sums: fewer operations, the same values but for rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes_harness import D1, after, lowered, names, results

import diffkern as dk
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT64, Array, Vec
from diffkern.opt.dce import eliminate
from diffkern.opt.terms import collect_terms

X = np.linspace(-1.4, 1.9, 6)
V = Array(Vec(FLOAT64, 3), 1)


def square(x, y):
    i = dk.tid()
    a = x[i]
    y[i] = a * a + a * a


def three_ways(x, y):
    i = dk.tid()
    m = x[i]
    r = dk.exp(m)
    mr = m * r
    mrr = mr * r
    y[i] = m * mrr + (m * r) * mr + (m * r * r) * m


def common(x, y):
    i = dk.tid()
    a = x[i]
    b = dk.exp(a)
    c = dk.sin(a)
    y[i] = a * b * c - dk.cos(a) * b * c


def opposite(x, y):
    i = dk.tid()
    a = x[i]
    b = dk.exp(a)
    y[i] = -(a * b) - b * a


def numbers(x, y):
    i = dk.tid()
    a = x[i]
    y[i] = -(0.5 * (a * 3.0) * dk.exp(a))


def in_a_loop(x, y):
    i = dk.tid()
    s = x[i]
    for k in range(4):
        a = x[k]
        s += a * a + a * a
    y[i] = s


def in_branches(x, y):
    i = dk.tid()
    a = x[i]
    b = dk.exp(a)
    s = a * b
    if a > 0.0:
        s = a * b + b * a
    y[i] = s


@pytest.mark.parametrize(
    ("function", "products", "sums"),
    [(square, 2, 0), (three_ways, 4, 0), (common, 2, 1), (opposite, 2, 0), (numbers, 2, 0), (in_a_loop, 2, 1),
     (in_branches, 3, 0)],
)  # fmt: skip
def test_fewer_operations(function: Callable[..., Any], products: int, sums: int):
    fn = lowered(function, D1, D1)
    made = after(fn, collect_terms, eliminate)
    found = names(made)
    assert (found.count("mul"), found.count("add") + found.count("sub")) == (products, sums)
    one, other = (results(f, (6,), [X, np.zeros(6)])[1] for f in (fn, made))
    np.testing.assert_allclose(other, one, rtol=1e-14)


def vectors(x, y):
    i = dk.tid()
    d = x[i]
    c = dk.dot(d, d)
    y[i] = d * c + d * dk.exp(c) - d * c * 3.0


def test_vectors():
    fn = lowered(vectors, V, V)
    made = after(fn, collect_terms, eliminate)
    assert names(made).count("scale") == 1
    x = np.random.default_rng(1).normal(size=(6, 3))
    one, other = (results(f, (6,), [x, np.zeros((6, 3))])[1] for f in (fn, made))
    np.testing.assert_allclose(other, one, rtol=1e-13)


def far_apart(x, y):
    i = dk.tid()
    a = x[i]
    y[i] = ((a * 1e-25) * (a * 1e30)) * 1e-25 + dk.exp(a)


def test_numbers_whose_product_may_leave_the_range_of_a_type_are_not_multiplied():
    fn = lowered(far_apart, D1, D1)
    made = after(fn, collect_terms, eliminate)
    numbers = [op.attrs["value"] for op in walk(made.body) if op.name == "const"]
    assert {1e-25, 1e30} <= set(numbers)
    assert all(1e-30 < abs(v) < 1e31 for v in numbers if isinstance(v, float))


def nothing(x, y):
    i = dk.tid()
    a = x[i]
    y[i] = a * a - a * a + dk.exp(a) * 2.0 - dk.sin(a)


def integers(x, y):
    i = dk.tid()
    y[i] = x[(i * i + i * i) % 6]


def decides(x, y):
    i = dk.tid()
    a = x[i]
    y[i] = 1.0 if a * a * a + a * a * 0.3 > y[i] else 2.0


@pytest.mark.parametrize("function", [nothing, integers, decides])
def test_left_alone(function: Callable[..., Any]):
    """A difference that is zero, or not a number, stays one; integers wrap around; a kernel decides as before."""
    fn = lowered(function, D1, D1)
    assert names(after(fn, collect_terms)) == names(fn)
