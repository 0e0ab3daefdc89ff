"""Stores to elements that a thread has just loaded move behind the first use of what was loaded."""

from __future__ import annotations

import numpy as np
from passes_harness import D1, assert_same, lowered

import diffkern as dk
from diffkern.ir.nodes import Function, walk
from diffkern.ir.views import Access
from diffkern.opt.clears import overwrite_late

X = np.linspace(-1.5, 1.9, 8)


def order(fn: Function) -> list[str]:
    """The accesses of a function in their order, with the names of their arrays."""
    accesses = ("load", "store", "atomic", "accumulate")
    return [f"{op.name} {Access(op).array.name}" for op in walk(fn.body) if op.name in accesses]


def takes(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    b = dk.sin(a)
    y[i] = b


def sums(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    x[i] += a * a
    y[i] = a


def depends(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = a + 1.0
    y[i] = a


def elsewhere(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    y[i] = x[7 - i] + a


def through_a_branch(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    if y[i] > 0.0:
        y[i] = a


def in_front_of_a_loop(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    b = a * 2.0
    for k in range(3):
        y[i] += b


def lets_others_in(x, y):
    i = dk.tid()
    a = x[i]
    x[i] = 0.0
    dk.atomic_exch(y, i, a)


def found(kernel):
    return order(overwrite_late(lowered(kernel, D1, D1)))


def test_behind_the_first_store_that_needs_the_value():
    assert found(takes) == ["load x", "store y", "store x"]


def test_not_over_an_access_of_the_same_array():
    assert found(sums)[:2] == ["load x", "store x"]
    assert found(elsewhere)[:2] == ["load x", "store x"]


def test_not_over_an_atomic_update():
    assert found(lets_others_in) == ["load x", "store x", "atomic y"]


def test_not_where_the_value_orders_the_two_anyway():
    assert found(depends) == ["load x", "store x", "store y"]


def test_over_a_branch_but_not_over_a_loop():
    assert found(through_a_branch) == ["load x", "load y", "store y", "store x"]
    assert found(in_front_of_a_loop)[:2] == ["load x", "store x"]


def test_the_meaning_stays():
    for kernel in (takes, sums, depends, elsewhere, through_a_branch, in_front_of_a_loop):
        fn = lowered(kernel, D1, D1)
        assert_same(fn, overwrite_late(lowered(kernel, D1, D1)), (8,), [X.copy(), X[::-1].copy()])
