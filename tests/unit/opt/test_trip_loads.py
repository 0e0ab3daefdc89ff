"""An element that every trip loads is loaded once, in front of the loop, if there is a trip: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, adding, after, assert_same, names, results

import diffkern as dk
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import FLOAT64, INT32, Array, Mat, Vec
from diffkern.ir.views import is_loop
from diffkern.opt.trip_loads import load_once


def in_loops(fn: Function) -> int:
    """The loads in loops."""
    loops = [op for op in walk(fn.body) if is_loop(op)]
    return len({op for loop in loops for sub in loop.regions for op in walk(sub) if op.name == "load"})


def upwards(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, x[i])


def downwards(x, y, n):
    i = dk.tid()
    for k in range(n - 1, -1, -1):
        dk.atomic_add(y, k, 0.5 * x[i])


def several(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, x[i] * x[1])


def from_the_end(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, x[-1 - i])


def also_in_a_branch(x, y, n):
    i = dk.tid()
    for k in range(n):
        a = x[i]
        if a > 0.3:
            dk.atomic_add(y, k, a)


MOVED = [upwards, downwards, several, from_the_end, also_in_a_branch]


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("mode", ["plain", "atomic"])
@pytest.mark.parametrize("kernel", MOVED)
def test_an_element_is_loaded_once(kernel, mode, n):
    fn = adding(kernel, D1, D1, INT32, mode=mode)
    moved = after(fn, load_once)
    assert in_loops(fn) >= 1
    assert in_loops(moved) == 0
    assert_same(fn, moved, (3,), [np.linspace(0.1, 0.9, 5), np.arange(5.0), n])


@pytest.mark.parametrize("kernel", MOVED)
def test_an_element_that_does_not_exist_is_left_alone_where_there_is_no_trip(kernel):
    moved = after(adding(kernel, D1, D1, INT32), load_once)
    np.testing.assert_array_equal(results(moved, (3,), [np.zeros(0), np.ones(2), 0])[1], np.ones(2))


def its_own(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, y[i])


def in_the_loop_alone(x, y, n):
    i = dk.tid()
    for k in range(n):
        if k > i:
            dk.atomic_add(y, k, x[i])


def by_the_index(x, y, n):
    for k in range(n):
        dk.atomic_add(y, k, x[k])


def beside_a_store(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, x[i])
        x[k] = 0.5


def of_a_store_elsewhere(x, y, n):
    i = dk.tid()
    for k in range(n):
        y[k] = x[i]


def without_a_sum(x, y, n):
    i = dk.tid()
    s = y[i]
    for _ in range(n):
        s = s * 0.5 + x[i]
    y[i] = s


def with_a_step_of_unknown_sign(x, y, n):
    i = dk.tid()
    for k in range(0, 5, n):
        dk.atomic_add(y, k, x[i])


@pytest.mark.parametrize(
    "kernel",
    [
        its_own, in_the_loop_alone, by_the_index, beside_a_store, of_a_store_elsewhere, without_a_sum,
        with_a_step_of_unknown_sign,
    ],
)  # fmt: skip
def test_what_may_change_or_not_exist_stays(kernel):
    fn = adding(kernel, D1, D1, INT32)
    moved = after(fn, load_once)
    assert in_loops(moved) == in_loops(fn) >= 1
    assert_same(fn, moved, (3,), [np.linspace(0.1, 0.9, 5), np.arange(5.0), 4])


def constant_trips(x, y):
    i = dk.tid()
    for k in range(2, 5):
        dk.atomic_add(y, k, x[i])


def nested(x, y):
    i = dk.tid()
    for j in range(3):
        for k in range(2):
            dk.atomic_add(y, j, x[i] * x[k])


@pytest.mark.parametrize(("kernel", "left"), [(constant_trips, 0), (nested, 1)])
def test_trips_that_are_certain_are_not_asked_for(kernel, left):
    fn = adding(kernel, D1, D1)
    moved = after(fn, load_once)
    assert "if" not in names(moved)
    assert in_loops(moved) == left
    assert_same(fn, moved, (3,), [np.linspace(0.1, 0.9, 5), np.arange(5.0)])


def no_trip(x, y):
    i = dk.tid()
    for k in range(3, 3):
        dk.atomic_add(y, k, x[i])


def test_a_loop_that_makes_no_trip_loads_nothing():
    moved = after(adding(no_trip, D1, D1), load_once)
    np.testing.assert_array_equal(results(moved, (2,), [np.ones(0), np.ones(2)])[1], np.ones(2))


def of_elements(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, k, x[i])


@pytest.mark.parametrize(
    ("element", "left"), [(Vec(FLOAT64, 3), 0), (Mat(FLOAT64, 4, 4), 0), (Mat(FLOAT64, 5, 4), 1)], ids=str
)
def test_elements_with_components_as_far_as_there_are_registers(element, left):
    arrays = Array(element, 1)
    fn = adding(of_elements, arrays, arrays, INT32)
    moved = after(fn, load_once)
    assert in_loops(moved) == left
    size = element.size
    args = [np.linspace(0.0, 1.0, 3 * size).reshape(3, *element.shape), np.ones((4, *element.shape)), 4]
    assert_same(fn, moved, (3,), args)
