"""Orders of square roots and constants become orders of what is under the roots."""

from __future__ import annotations

import math

import numpy as np
import pytest
from passes_harness import D1, after, assert_same, lowered, names

import diffkern as dk
from diffkern.ir.types import FLOAT32, FLOAT64
from diffkern.lower.composites import expand_composites
from diffkern.opt.dce import eliminate
from diffkern.opt.root_orders import _least_with_root, compare_operands_of_roots


def less(x, y):
    i = dk.tid()
    a = x[i]
    if dk.sqrt(a * a) < 0.7:
        y[i] = 1.0


def most(x, y):
    i = dk.tid()
    a, b = x[i], x[0]
    if dk.sqrt(a * a + b * b) <= 0.7:
        y[i] = 1.0


def more(x, y):
    i = dk.tid()
    if 0.7 < dk.length(dk.vector(x[i], x[0])):
        y[i] = 1.0


def least(x, y):
    i = dk.tid()
    a = x[i]
    if dk.sqrt(a * a) >= 0.7:
        y[i] = 1.0


def no_square(x, y):
    i = dk.tid()
    if dk.sqrt(x[i]) < 0.7:
        y[i] = 1.0


def used(x, y):
    i = dk.tid()
    a = x[i]
    size = dk.sqrt(a * a)
    if size < 0.7:
        y[i] = size


def near(limit: float, count: int = 6) -> list[float]:
    found = [limit]
    for _ in range(count):
        found = [np.nextafter(found[0], 0.0), *found, np.nextafter(found[-1], 9.0)]
    return found


@pytest.mark.parametrize("kernel", [less, most, more, least, no_square, used])
def test_orders_are_decided_alike(kernel):
    fn = after(lowered(kernel, D1, D1), expand_composites)
    squared = after(fn, compare_operands_of_roots, eliminate)
    assert ("sqrt" in names(squared)) == (kernel in (no_square, used))
    numbers = [0.0, -0.0, *near(0.7), *(-x for x in near(0.7)), 0.3, 2.0, 1e200, 1e-200, math.inf, -math.inf, math.nan]
    x = np.array(numbers if kernel is not no_square else [*numbers, *near(0.49)])
    with np.errstate(invalid="ignore", over="ignore"):
        assert_same(fn, squared, (len(x),), [x, np.zeros(len(x))])


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64])
def test_the_least_number_whose_root_reaches_a_limit(t):
    of = np.float32 if t == FLOAT32 else np.float64
    random = np.random.default_rng(1)
    limits = np.concatenate([[6.0, 1.0, 0.5, 2.0], 10.0 ** random.uniform(-14, 14, 300)]).astype(of)
    for limit in (*limits, *np.nextafter(of(2.0) ** np.arange(9, dtype=of), of(0))):
        found = of(_least_with_root(float(limit), t))
        assert np.sqrt(found) >= limit > np.sqrt(np.nextafter(found, of(0)))
