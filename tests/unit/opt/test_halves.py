"""Powers of two that cancel each other are left out of adjoints; what is left has the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, after, body, lowered, names, results

import diffkern as dk
from diffkern.opt.cancel_pow2 import cancel_halves
from diffkern.opt.dce import eliminate


def around_a_product(a, b, y):
    i = dk.tid()
    y[i] = 2.0 * (a[i] * (0.5 * b[i]))


def the_other_way(a, b, y):
    i = dk.tid()
    y[i] = ((b[i] * 4.0) * a[i]) * 0.25


def with_signs(a, b, y):
    i = dk.tid()
    y[i] = 2.0 * -(-(0.5 * a[i]) * b[i])


def next_to_each_other(a, b, y):
    i = dk.tid()
    y[i] = 2.0 * (0.5 * a[i]) + b[i]


def both_factors(a, b, y):
    i = dk.tid()
    y[i] = 2.0 * (2.0 * ((0.5 * a[i]) * (0.5 * b[i])))


def negative_powers(a, b, y):
    i = dk.tid()
    y[i] = -2.0 * (a[i] * (-0.5 * b[i]))


def into_a_loop(a, b, y):
    i = dk.tid()
    half = 0.5 * b[i]
    total = 0.0
    for k in range(3):
        total += a[i] + float(k)
    y[i] = 2.0 * (total * half)


def where_not_set_to_zero(a, b, y):
    i = dk.tid()
    product = a[i] * (0.5 * b[i])
    y[i] = 2.0 * dk.where(a[i] < 0.0, 0.0, product)


CANCELLED = [
    around_a_product, the_other_way, with_signs, next_to_each_other, both_factors, negative_powers, into_a_loop,
    where_not_set_to_zero,
]  # fmt: skip


def deeper(a, b, y):
    """Twice the inner product may be too large where the whole is not."""
    i = dk.tid()
    y[i] = 2.0 * (a[i] * (b[i] * (0.5 * a[i])))


def needed_twice(a, b, y):
    i = dk.tid()
    half = 0.5 * b[i]
    y[i] = 2.0 * (a[i] * half) + half


def of_one_sign(a, b, y):
    i = dk.tid()
    y[i] = -2.0 * (a[i] * (0.5 * b[i]))


def no_inverse(a, b, y):
    i = dk.tid()
    y[i] = 4.0 * (a[i] * (0.5 * b[i]))


def no_power(a, b, y):
    i = dk.tid()
    y[i] = 3.0 * (a[i] * (b[i] * (1.0 / 3.0)))


def of_a_sum(a, b, y):
    i = dk.tid()
    y[i] = 2.0 * (a[i] + 0.5 * b[i])


def where_not_set_to_another_number(a, b, y):
    i = dk.tid()
    product = a[i] * (0.5 * b[i])
    y[i] = 2.0 * dk.where(a[i] < 0.0, 1.0, product)


def decides(a, b, y):
    i = dk.tid()
    y[i] = 1.0 if 2.0 * (a[i] * (0.5 * b[i])) > y[i] else 2.0


KEPT = [deeper, needed_twice, of_one_sign, no_inverse, no_power, of_a_sum, where_not_set_to_another_number, decides]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1e300, 1e-300, np.finfo(float).max]


@pytest.mark.parametrize("kernel", CANCELLED)
def test_what_cancels_is_left_out(kernel):
    fn = lowered(kernel, D1, D1, D1)
    one = after(fn, cancel_halves, eliminate)
    assert names(one).count("mul") <= names(fn).count("mul") - 2
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL, [1.5, -3.0, 0.0, np.inf, np.nan, 1e-3]))
    with np.errstate(all="ignore"):
        before, behind = (results(f, (len(a),), [a, b, np.zeros(len(a))])[2] for f in (fn, one))
    np.testing.assert_array_equal(behind, before)
    np.testing.assert_array_equal(np.signbit(behind), np.signbit(before))


@pytest.mark.parametrize("kernel", KEPT)
def test_what_stays(kernel):
    fn = lowered(kernel, D1, D1, D1)
    assert body(after(fn, cancel_halves)) == body(fn)


def test_small_numbers_keep_their_digits():
    fn = after(lowered(around_a_product, D1, D1, D1), cancel_halves)
    (_, _, y) = results(fn, (1,), [np.array([3.0]), np.array([5e-324]), np.zeros(1)])
    assert y[0] == 3.0 * 5e-324


@dk.kernel
def distance(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):
    i = dk.tid()
    z[i] = 1.0 / dk.sqrt(x[i] * x[i] + y[i] * y[i])


@dk.kernel
def of_vectors(x: dk.array(dtype=dk.vec3d), z: dk.array(dtype=dk.float64)):
    i = dk.tid()
    z[i] = 1.0 / dk.sqrt(dk.dot(x[i], x[i]))


@pytest.mark.parametrize("kernel", [distance, of_vectors])
def test_the_adjoint_of_a_distance_has_neither(kernel):
    text = kernel.adjoint_source()
    assert "2.0" not in text
    assert "0.5" not in text
