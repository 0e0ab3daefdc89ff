"""An adjoint divides once by a square root; special values are those of the quotients."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, after, lowered, names, results

import diffkern as dk
from diffkern.ir.types import FLOAT64, Array, Vec
from diffkern.opt.reciprocals import share_reciprocals

V1 = Array(Vec(FLOAT64, 3), 1)


def twice(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    y[i] = 3.0 / r + x[i] / r


def with_one_over(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    s = 1.0 / r
    for _ in range(2):
        s += 0.5 / r
    y[i] = s


def unless_zero(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    safe = dk.where(r == 0.0, 1.0, r)
    y[i] = x[i] / safe + 2.0 / r


def once(x, y):
    i = dk.tid()
    y[i] = x[i] / dk.sqrt(x[i])


def by_another(x, y):
    i = dk.tid()
    r = x[i] * x[i]
    y[i] = 3.0 / r + x[i] / r


def root_above(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    y[i] = r / 3.0 + r / 7.0


def decides(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    y[i] = 3.0 / r + 2.0 / r + (1.0 if x[i] / r > 1.0 else 0.0)


def is_an_index(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    y[int(5.0 / r)] += 3.0 / r + 2.0 / r


def is_carried_to_a_remainder(x, y):
    i = dk.tid()
    r = dk.sqrt(x[i])
    s = 0.0 * x[i]
    for _ in range(4):
        s = s / r + x[i]
    y[i] = s % 3.0 + 3.0 / r + 2.0 / r


def unit(v, y):
    i = dk.tid()
    y[i] = v[i] / dk.length(v[i])


@pytest.mark.parametrize(("kernel", "before", "behind"), [(twice, 2, 1), (with_one_over, 2, 1), (unless_zero, 2, 1)])
def test_one_division_is_left(kernel, before, behind):
    fn = lowered(kernel, D1, D1)
    one = after(fn, share_reciprocals)
    assert (names(fn).count("div"), names(one).count("div")) == (before, behind)
    x = np.array([1e-300, 5e-324, 1e-8, 0.5, 2.0, 3.0, 1e300, np.finfo(float).max])
    a, b = (results(f, (8,), [x.copy(), np.zeros(8)])[1] for f in (fn, one))
    np.testing.assert_allclose(b, a, rtol=1e-15)


@pytest.mark.parametrize("kernel", [twice, with_one_over, unless_zero])
@pytest.mark.parametrize("special", [0.0, -0.0, np.inf, np.nan, -1.0])
def test_special_values(kernel, special):
    fn = lowered(kernel, D1, D1)
    with np.errstate(all="ignore"):
        a, b = (results(f, (1,), [np.array([special]), np.zeros(1)])[1] for f in (fn, after(fn, share_reciprocals)))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kernel", [once, by_another, root_above])
def test_what_stays(kernel):
    fn = lowered(kernel, D1, D1)
    assert names(after(fn, share_reciprocals)) == names(fn)


@pytest.mark.parametrize("kernel", [decides, is_an_index, is_carried_to_a_remainder])
def test_what_is_decided_by_stays_a_quotient(kernel):
    fn = lowered(kernel, D1, D1)
    assert (names(fn).count("div"), names(after(fn, share_reciprocals)).count("div")) == (3, 2)


def test_components_are_divided_once():
    fn = lowered(unit, V1, V1)
    one = after(fn, share_reciprocals)
    assert ("unscale" in names(fn), "unscale" in names(one), names(one).count("div")) == (True, False, 1)
    v = np.random.default_rng(1).normal(size=(4, 3))
    a, b = (results(f, (4,), [v.copy(), np.zeros((4, 3))])[1] for f in (fn, one))
    np.testing.assert_allclose(a, b, rtol=1e-15)
