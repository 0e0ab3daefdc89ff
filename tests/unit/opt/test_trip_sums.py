"""What every trip adds to one element is added once, behind the loop; the same is added, and nothing without a trip."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, D2, I1, adding, after, names, results

import diffkern as dk
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import FLOAT64, INT32, Array, Mat, Vec
from diffkern.ir.views import is_loop
from diffkern.opt.trip_sums import sum_trips
from diffkern.testing.programs import Interpreted


def in_loops(fn: Function) -> int:
    """The accumulations in loops."""
    loops = [op for op in walk(fn.body) if is_loop(op)]
    return len({op for loop in loops for sub in loop.regions for op in walk(sub) if op.name == "accumulate"})


def upwards(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])


def downwards(x, y, n):
    i = dk.tid()
    for k in range(n - 1, -1, -2):
        dk.atomic_add(y, i, x[k])


def twice_in_a_trip(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        dk.atomic_add(y, i, 2.0 * x[i])


def two_elements(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        dk.atomic_add(y, 0, x[i])


def of_another_array(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        x[i] = 0.5 * x[k]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("mode", ["plain", "atomic"])
@pytest.mark.parametrize("kernel", [upwards, downwards, twice_in_a_trip, two_elements, of_another_array])
def test_an_element_is_added_to_once(kernel, mode, n):
    fn = adding(kernel, D1, D1, INT32, mode=mode)
    summed = after(fn, sum_trips)
    assert in_loops(fn) >= 1
    assert in_loops(summed) == 0
    args = [np.linspace(0.1, 0.9, 5), np.arange(3.0), n]
    for x, y in zip(results(fn, (3,), args), results(summed, (3,), args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


def test_an_element_that_does_not_exist_is_left_alone_where_there_is_no_trip():
    summed = after(adding(upwards, D1, D1, INT32), sum_trips)
    assert results(summed, (3,), [np.ones(2), np.zeros(0), 0])[1].size == 0


def constant_trips(x, y):
    i = dk.tid()
    for k in range(2, 7):
        dk.atomic_add(y, i, x[k])


def nested(x, y):
    i = dk.tid()
    for j in range(3):
        for k in range(2):
            dk.atomic_add(y, i, x[j] * x[k])


@pytest.mark.parametrize("kernel", [constant_trips, nested])
def test_trips_that_are_certain_are_not_asked_for(kernel):
    fn = adding(kernel, D1, D1)
    summed = after(fn, sum_trips)
    assert "if" not in names(summed)
    assert in_loops(summed) == 0
    args = [np.linspace(0.1, 0.9, 7), np.arange(3.0)]
    np.testing.assert_allclose(results(fn, (3,), args)[1], results(summed, (3,), args)[1], rtol=1e-14)


def no_trip(x, y):
    i = dk.tid()
    for k in range(3, 3):
        dk.atomic_add(y, i, x[k])


def test_a_loop_that_makes_no_trip_adds_nothing():
    summed = after(adding(no_trip, D1, D1), sum_trips)
    np.testing.assert_array_equal(results(summed, (2,), [np.ones(5), np.ones(2)])[1], np.ones(2))


def to_vectors(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])


def test_vectors_are_summed():
    vectors = Array(Vec(FLOAT64, 3), 1)
    fn = adding(to_vectors, vectors, vectors, INT32)
    summed = after(fn, sum_trips)
    assert in_loops(summed) == 0
    args = [np.linspace(0.0, 1.0, 12).reshape(4, 3), np.ones((2, 3)), 4]
    np.testing.assert_allclose(results(fn, (2,), args)[1], results(summed, (2,), args)[1], rtol=1e-14)


def in_a_branch(x, y, n):
    i = dk.tid()
    for k in range(n):
        if x[k] > 0.5:
            dk.atomic_add(y, i, x[k])


def elsewhere_in_each_trip(x, y, n):
    for k in range(n):
        dk.atomic_add(y, k, x[k])


def loaded(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        x[i] = y[k]


def loaded_in_a_branch(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        if x[k] > 0.5:
            x[i] = y[0]


def stored(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        y[0] = 1.0


def updated_otherwise(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        dk.atomic_max(y, 0, x[k])


def by_any_step(x, y, n):
    i = dk.tid()
    for k in range(0, 4, n):
        dk.atomic_add(y, i, x[k])


def in_a_while(x, y, n):
    i = dk.tid()
    k = 0
    while k < n:
        dk.atomic_add(y, i, x[k])
        k += 1


KEPT = [
    in_a_branch, elsewhere_in_each_trip, loaded, loaded_in_a_branch, stored, updated_otherwise, by_any_step, in_a_while,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KEPT)
def test_what_is_not_known_to_be_the_same_stays(kernel):
    fn = adding(kernel, D1, D1, INT32)
    assert names(after(fn, sum_trips)) == names(fn)


def test_sums_of_the_launch_stay():
    fn = adding(upwards, D1, D1, INT32, mode="reduce")
    assert names(after(fn, sum_trips)) == names(fn)


@pytest.mark.parametrize("mark", ["once", "threads"])
def test_loops_of_one_trip_and_over_threads_stay(mark):
    fn = adding(upwards, D1, D1, INT32)
    (loop,) = (op for op in walk(fn.body) if op.name == "for")
    loop.attrs = {**loop.attrs, mark: True}
    assert names(after(fn, sum_trips)) == names(fn)


@pytest.mark.parametrize(("size", "summed"), [(4, True), (5, False)])
def test_large_matrices_stay_in_memory(size, summed):
    matrices = Array(Mat(FLOAT64, size, size), 1)
    fn = adding(to_vectors, matrices, matrices, INT32)
    assert (in_loops(after(fn, sum_trips)) == 0) is summed


def by_an_index_in_memory(x, index, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, index[i], i, x[k])


def test_an_index_that_is_loaded_in_each_trip_stays():
    fn = adding(by_an_index_in_memory, D1, I1, D2, INT32)
    assert in_loops(after(fn, sum_trips)) == 1


def into_arrays_in_elements(x, y, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, k, x[i, k])
        dk.atomic_add(y, i, 0, x[i, k])


def test_arrays_in_elements_stay():
    pointed = Array(FLOAT64, 2, "P1")
    fn = adding(into_arrays_in_elements, D2, pointed, INT32)
    assert names(after(fn, sum_trips)) == names(fn)


def both(x, y, z, n):
    i = dk.tid()
    for k in range(n):
        dk.atomic_add(y, i, x[k])
        dk.atomic_add(z, k, x[i])


def test_cotangents_may_share_memory():
    fn = adding(both, D1, D1, D1, INT32)
    summed = after(fn, sum_trips)
    assert in_loops(summed) == 1
    found = []
    for f in (fn, summed):
        x, total = np.linspace(0.1, 0.9, 4), np.zeros(4)
        Interpreted(f).run((4,), [x, total, total, np.int32(4)])
        found.append(total)
    assert found[0].all()
    np.testing.assert_allclose(*found, rtol=1e-14)
