"""A sum into one element beside accesses of others: which constant indices are different places."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from passes_harness import D1, after, lowered

import diffkern as dk
from diffkern.analysis.sums import differ, distinct_names, uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Array
from diffkern.opt.fold import fold

SIGNED = range(-5, 5)
X = Array(FLOAT32, 1)  # no other name of an array of float64


def test_no_extent_makes_different_indices_one_place():
    for extent in range(1, 6):
        for i, k in product(range(-extent, extent), repeat=2):
            assert not (differ(i, k) and range(extent)[i] == range(extent)[k]), (extent, i, k)


def test_indices_of_one_sign_that_are_not_equal_differ():
    for i, k in product(SIGNED, repeat=2):
        assert differ(i, k) == (i != k and (i < 0) == (k < 0)) == differ(k, i)


def test_an_index_that_is_not_constant_may_be_any():
    assert not any(differ(i, None) or differ(None, i) for i in SIGNED)
    assert not differ(None, None)


def sums(function, *types):
    """How many updates of a function are summed for each chunk."""
    fn = after(lowered(function, *types), fold)
    return len(uniform_sums(fn, launch_values(fn), used_values(fn)))


def apart(function, *types):
    """Which parameters must not be given one array."""
    return distinct_names(after(lowered(function, *types), fold))


@pytest.mark.parametrize("layout", ["C", "A"])
def test_a_sum_beside_a_read_by_any_pair_of_indices(layout):
    array = Array(FLOAT64, 1, layout)
    for a, b in product(range(-3, 3), repeat=2):

        def reads(x, s):
            i = dk.tid()
            dk.atomic_add(s, a, dk.float64(x[i]) * s[b])

        assert sums(reads, D1, array) == (differ(a, b) and layout == "C"), (a, b)
        assert apart(reads, D1, array) == ((0, 1),)  # given one array for both, a launch takes another program
        assert not apart(reads, X, array)


def stores_another(x, s, n):
    dk.atomic_add(s, 2, dk.float64(x[dk.tid()]))
    s[1] = 3.0


def looks_at_another(x, s, n):
    i = dk.tid()
    x[i] = dk.float32(dk.atomic_max(s, 0, dk.float64(x[i])))
    dk.atomic_add(s, 2, dk.float64(x[i]))


def reads_any(x, s, n):
    dk.atomic_add(s, 2, dk.float64(x[dk.tid()]) * s[n])


def reads_its_own(x, s, n):
    dk.atomic_add(s, 2, dk.float64(x[dk.tid()]) * s[0] * s[2])


def stores_its_own(x, s, n):
    dk.atomic_add(s, 2, dk.float64(x[dk.tid()]) * s[0])
    s[2] = 0.0


@pytest.mark.parametrize(
    ("function", "summed"),
    [(stores_another, 1), (looks_at_another, 1), (reads_any, 0), (reads_its_own, 0), (stores_its_own, 0)],
)
def test_other_accesses(function, summed):
    assert sums(function, X, D1, INT32) == sums(function, D1, D1, INT32) == summed


@dk.kernel
def scaled(x: dk.array(dtype=dk.float64), s: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(s, 2, x[i] * s[0] + s[1])


@dk.kernel
def of_itself(x: dk.array(dtype=dk.float64), s: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(s, -1, x[i] * s[2])


def test_values_and_gradients_of_a_sum_beside_reads():
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=300), rng.normal(size=4)
    ours, total = dk.array(x, requires_grad=True), dk.array(s, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(scaled, 300, [ours, total])
    assert total.numpy()[2] == pytest.approx(s[2] + x.sum() * s[0] + 300 * s[1], rel=1e-12)
    tape.backward(grads={total: dk.array(np.array([0.0, 0.0, 2.0, 0.0]))})
    np.testing.assert_allclose(ours.grad.numpy(), 2.0 * s[0], rtol=1e-12)
    np.testing.assert_allclose(total.grad.numpy(), [2.0 * x.sum(), 600.0, 2.0, 0.0], rtol=1e-12)


def test_an_element_that_threads_add_to_under_another_name_is_read_in_turn():
    x, s = np.linspace(0.1, 0.5, 5), np.ones(3)
    total = dk.array(s)
    dk.launch(of_itself, 5, [dk.array(x), total])
    assert total.numpy()[2] == pytest.approx(np.prod(1.0 + x), rel=1e-12)


@dk.kernel
def read_by_another_name(s: dk.array(dtype=dk.float64), t: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    if i == 0:
        s[2] += 1.0
        y[0] = t[2] + s[0]


def test_an_array_with_two_names_has_its_sum_at_once():
    for n in (1, 64):
        s, y = dk.array([0.0, 1.0, 2.0], dtype=dk.float64), dk.zeros(1, dtype=dk.float64)
        dk.launch(read_by_another_name, n, [s, s], [y])
        assert (s.numpy()[2], y.numpy()[0]) == (3.0, 3.0)
