"""What branches add to an element that the code around them adds to as well is added once; the same is added."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, D2, adding, after, results

import diffkern as dk
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT64, Array, Vec
from diffkern.opt.branch_sums import sum_branches
from diffkern.opt.cse import eliminate_common

VECTORS = Array(Vec(FLOAT64, 3), 1)


def behind(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, x[i])
    if x[i] > 0.3:
        dk.atomic_add(y, i, 2.0 * x[i])


def in_front(x, y):
    i = dk.tid()
    if x[i] > 0.3:
        dk.atomic_add(y, i, 2.0 * x[i])
    dk.atomic_add(y, i, x[i])


def both_arms(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, 1.0)
    if x[i] > 0.3:
        dk.atomic_add(y, i, 2.0 * x[i])
    else:
        dk.atomic_add(y, i, -x[i])
    dk.atomic_add(y, i, 3.0 * x[i])


def nested(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, 1.0)
    if x[i] > 0.2:
        dk.atomic_add(y, i, x[i])
        if x[i] > 0.5:
            dk.atomic_add(y, i, x[i] * x[i])
        dk.atomic_add(y, i, 0.25)
    if x[0] > 0.0:
        dk.atomic_add(y, i, 7.0)


def inside_another(x, y):
    i = dk.tid()
    if x[i] > 0.2:
        dk.atomic_add(y, i, x[i])
        if x[i] > 0.5:
            dk.atomic_add(y, i, x[i] * x[i])


def in_each_trip(x, y):
    i = dk.tid()
    for k in range(3):
        dk.atomic_add(y, k, x[i])
        if x[k] > 0.2:
            dk.atomic_add(y, k, x[k])


def two_elements(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, 1.0)
    dk.atomic_add(y, 0, 2.0)
    if x[i] > 0.4:
        dk.atomic_add(y, i, x[i])
        dk.atomic_add(y, 0, x[i])
        dk.atomic_add(y, 1, x[i])


SUMMED = {behind: 1, in_front: 1, both_arms: 1, nested: 1, inside_another: 1, in_each_trip: 1, two_elements: 3}
"""Kernels with the additions that are left."""


def additions(fn):
    return sum(op.name == "accumulate" for op in walk(fn.body))


@pytest.mark.parametrize("mode", ["plain", "atomic"])
@pytest.mark.parametrize("kernel", SUMMED, ids=lambda k: k.__name__)
def test_an_element_is_added_to_once(kernel, mode):
    fn = after(adding(kernel, D1, D1, mode=mode), eliminate_common)
    summed = after(fn, sum_branches)
    assert additions(summed) == SUMMED[kernel] < additions(fn)
    args = [np.linspace(0.05, 0.9, 5), np.arange(5.0)]
    for a, b in zip(results(fn, (5,), args), results(summed, (5,), args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def of_vectors(x, y):
    i = dk.tid()
    if x[i][0] > 0.3:
        dk.atomic_add(y, i, 2.0 * x[i])
    dk.atomic_add(y, i, x[i])


def test_vectors_are_summed():
    fn = adding(of_vectors, VECTORS, VECTORS)
    summed = after(fn, sum_branches)
    assert additions(summed) == 1
    args = [np.linspace(0.0, 1.0, 12).reshape(4, 3), np.ones((4, 3))]
    np.testing.assert_allclose(results(fn, (4,), args)[1], results(summed, (4,), args)[1], rtol=1e-14)


def only_in_a_branch(x, y):
    i = dk.tid()
    if x[i] > 0.3:
        dk.atomic_add(y, i, x[i])


def other_elements(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, x[i])
    if x[i] > 0.3:
        dk.atomic_add(y, i - 1, x[i])
        dk.atomic_add(y, -1, x[i])


def loaded(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, x[i])
    if y[0] > 0.3:
        dk.atomic_add(y, i, x[i])


def stored(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, x[i])
    if x[i] > 0.3:
        y[0] = 1.0
        dk.atomic_add(y, i, x[i])


def in_a_loop(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, x[i])
    if x[i] > 0.3:
        for k in range(3):
            dk.atomic_add(y, i, x[k])


@pytest.mark.parametrize("kernel", [only_in_a_branch, other_elements, loaded, stored, in_a_loop])
def test_other_additions_stay(kernel):
    fn = adding(kernel, D1, D1)
    assert additions(after(fn, sum_branches)) == additions(fn)


def test_sums_of_a_launch_stay():
    fn = adding(behind, D1, D1, mode="reduce")
    assert additions(after(fn, sum_branches)) == 2


def test_an_element_that_only_branches_add_to_need_not_exist():
    def guarded(x, y):
        i = dk.tid()
        if i < y.shape[0]:
            dk.atomic_add(y, i, x[i])

    fn = after(adding(guarded, D1, D1), sum_branches)
    np.testing.assert_array_equal(results(fn, (3,), [np.ones(3), np.zeros(1)])[1], [1.0])


def to_rows(x, y):
    i = dk.tid()
    dk.atomic_add(y, i, i, x[i, 0])
    if x[i, 0] > 0.3:
        dk.atomic_add(y, i, i, x[i, 1])
        dk.atomic_add(y, 0, i, x[i, 1])


def test_elements_with_several_indices():
    fn = adding(to_rows, D2, D2)
    summed = after(fn, sum_branches)
    assert additions(summed) == 2
    args = [np.linspace(0.0, 1.0, 9).reshape(3, 3), np.ones((3, 3))]
    np.testing.assert_allclose(results(fn, (3,), args)[1], results(summed, (3,), args)[1], rtol=1e-14)


@dk.kernel
def springs(
    x: dk.array(dtype=dk.vec3d), nbr: dk.array2d(dtype=int), k: dk.array(dtype=dk.float64), f: dk.array(dtype=dk.vec3d)
):
    i = dk.tid()
    total = dk.vec3d()
    for s in range(4):
        j = nbr[i, s]
        if j >= 0:
            d = x[j] - x[i]
            total += k[0] * (dk.length(d) - dk.float64(0.1)) * d
    f[i] = total


@pytest.mark.parametrize("lanes", [True, False])
def test_the_gradient_of_guarded_springs(lanes):
    rng = np.random.default_rng(3)
    kernel = dk.kernel(springs.func, lanes=lanes)
    points, nbr = rng.normal(size=(21, 3)), rng.integers(-2, 21, (21, 4)).astype(np.int32)
    nbr[nbr == np.arange(21)[:, None]] = -1
    seed = rng.normal(size=(21, 3))

    def energy(p):
        f = dk.zeros(21, dtype=dk.vec3d)
        dk.launch(kernel, 21, [dk.array(p, dtype=dk.vec3d), dk.array(nbr), dk.array(np.array([1.5]))], [f])
        return float(np.sum(seed * f.numpy()))

    x, f = dk.array(points, dtype=dk.vec3d, requires_grad=True), dk.zeros(21, dtype=dk.vec3d, requires_grad=True)
    k = dk.array(np.array([1.5]), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, 21, [x, dk.array(nbr), k], [f])
    tape.backward(grads={f: dk.array(seed, dtype=dk.vec3d)})
    step = rng.normal(size=(21, 3))
    h = 1e-6
    expected = (energy(points + h * step) - energy(points - h * step)) / (2.0 * h)
    assert np.sum(x.grad.numpy() * step) == pytest.approx(expected, rel=1e-7)
