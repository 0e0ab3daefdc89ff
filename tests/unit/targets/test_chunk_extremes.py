"""Minima and maxima of one element by all threads, which each chunk takes first, against one update after the other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import diffkern as dk

COUNTS = (0, 1, 2, 7, 8, 9, 63, 1000, 20000)
TYPES = ("float64", "float32", "int32", "uint32", "int64", "uint64")
SPECIAL = (None, math.nan, math.inf, -math.inf, -0.0)


@dk.kernel(lanes=True)
def both_in_lanes(x, least, greatest):
    i = dk.tid()
    dk.atomic_min(least, 1, x[i])
    dk.atomic_max(greatest, -1, x[i])


@dk.kernel(lanes=False)
def both_one_by_one(x, least, greatest):
    i = dk.tid()
    dk.atomic_min(least, 1, x[i])
    dk.atomic_max(greatest, -1, x[i])


@dk.kernel
def of_a_part(x, least, limit: float):
    i = dk.tid()
    if x[i] > limit:
        dk.atomic_min(least, 1, x[i])


@dk.kernel
def of_pairs(x, least):
    i, j = dk.tid()
    dk.atomic_min(least, 0, x[i] * x[j])


@dk.kernel
def with_a_read(x, least, seen):
    """A thread reads what it has just made smaller."""
    i = dk.tid()
    dk.atomic_min(least, 0, x[i])
    seen[i] = least[0]


@dk.kernel
def with_the_old(x, least, seen):
    i = dk.tid()
    seen[i] = dk.atomic_min(least, 0, x[i])


@dk.kernel
def least_then_more(x, found):
    """Two kinds of updates of one element stay in the order of the text."""
    i = dk.tid()
    dk.atomic_min(found, 0, x[i])
    dk.atomic_add(found, 0, 10.0)


@dk.kernel
def into_two(x, a, b):
    """By one name an element only becomes smaller, by the other it is read."""
    i = dk.tid()
    dk.atomic_min(a, 0, x[i])
    x[i] = b[0]


def one_by_one(first, values, sign):
    """Return the outcome of updates in the order of the threads: the first of equal numbers stays, NaN is passed on."""
    for value in values:
        if not (math.isnan(first) or (first <= value if sign < 0 else first >= value)):
            first = value
    return first


def numbers(dtype, count, special, random):
    if not dtype.startswith("float"):
        return random.integers(0, 1 << 30, count).astype(dtype)
    values = random.normal(size=count).astype(dtype)
    if special is not None and count:
        values[random.integers(0, count, 1 + count // 9)] = special
        values = abs(values) if special == 0 and count % 2 else values
    return values


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kernel", [both_in_lanes, both_one_by_one])
def test_is_what_threads_one_after_the_other_leave(kernel, dtype):
    random = np.random.default_rng(3)
    floats = dtype.startswith("float")
    for count, special in itertools.product(COUNTS, SPECIAL if floats else (None,)):
        values = numbers(dtype, count, special, random)
        for start in (0, math.inf, math.nan, 5) if floats else (0, 5, 1 << 29):
            least, greatest = (dk.array(np.full(3, start, dtype=dtype)) for _ in range(2))
            dk.launch(kernel, dim=count, inputs=[dk.array(values), least, greatest])
            first = least.numpy()[0]
            expected = [[first, one_by_one(first, values, -1), first], [first, first, one_by_one(first, values, 1)]]
            np.testing.assert_array_equal([least.numpy(), greatest.numpy()], expected)


def test_of_threads_that_a_condition_leaves():
    x = dk.array(np.arange(1000.0))
    least = dk.full(2, 1e300, dtype=dk.float64)
    dk.launch(of_a_part, dim=1000, inputs=[x, least, 499.5])
    assert least.numpy().tolist() == [1e300, 500.0]


def test_an_element_that_no_thread_reaches_need_not_exist():
    x, nothing = dk.array(np.arange(100.0)), dk.zeros(0, dtype=dk.float64)
    dk.launch(of_a_part, dim=100, inputs=[x, nothing, 1e9])
    assert nothing.numpy().tolist() == []


def test_of_two_axes():
    x = np.random.default_rng(0).normal(size=70)
    least = dk.full(1, 1e300, dtype=dk.float64)
    dk.launch(of_pairs, dim=(70, 70), inputs=[dk.array(x), least])
    assert least.numpy()[0] == np.outer(x, x).min()


def test_a_thread_sees_its_own_update():
    x = np.random.default_rng(0).normal(size=3000)
    for kernel in (with_a_read, with_the_old):
        least, seen = dk.full(1, 0.5, dtype=dk.float64), dk.zeros(3000, dtype=dk.float64)
        dk.launch(kernel, dim=3000, inputs=[dk.array(x), least, seen])
        assert least.numpy()[0] == x.min()
        if kernel is with_a_read:
            assert (seen.numpy() <= x).all()
        else:
            assert set(seen.numpy()) <= {0.5, *x}


def test_two_kinds_of_updates_stay_in_order():
    found = dk.full(1, 7.0, dtype=dk.float64)
    dk.launch(least_then_more, dim=1, inputs=[dk.array(np.array([3.0])), found])
    assert found.numpy()[0] == 13.0


def test_two_names_of_one_array():
    x, a = np.random.default_rng(0).normal(size=500), dk.full(1, 9.0, dtype=dk.float64)
    given = dk.array(x)
    dk.launch(into_two, dim=500, inputs=[given, a, a])
    assert a.numpy()[0] == x.min()
    assert (given.numpy() <= x).all()


def test_the_gradient_goes_to_the_winner():
    x = dk.array(np.array([3.0, 1.0, 2.0, 1.5]), requires_grad=True)
    least = dk.full(2, 1e300, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(of_a_part, dim=4, inputs=[x, least, 1.2])
    tape.backward(grads={least: np.array([0.0, 2.0])})
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.0, 2.0]
