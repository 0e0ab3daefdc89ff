"""Components that loops pick by numbers known at run time come from memory."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import after, lowered, names

import diffkern as dk
from diffkern.ir.types import FLOAT64, INT32, UINT32, Array, Vec
from diffkern.lower.composites import expand_composites
from diffkern.opt.picks import pick_from_memory

V = Array(Vec(FLOAT64, 4), 1)
K = Array(INT32, 2)
U = Array(UINT32, 2)
F = Array(FLOAT64, 1)


def in_a_loop(v, k, y):
    i = dk.tid()
    item, doubled = v[i], 2.0 * v[i]
    for n in range(k.shape[1]):
        y[i] = y[i] + item[k[i, n]] * doubled[k[i, n]]


def in_two_loops(v, k, y):
    i = dk.tid()
    item = v[i]
    for n in range(k.shape[1]):
        m = 0
        while m < k.shape[0]:
            y[i] = y[i] + item[k[m, n]]
            m += 1


def carried(v, k, y):
    i = dk.tid()
    item = v[i]
    for n in range(k.shape[1]):
        y[i] = y[i] + item[k[i, n]]
        item = item + v[0]


def without_a_loop(v, k, y):
    i = dk.tid()
    y[i] = v[i][k[i, 0]]


def few_trips(v, k, y):
    i = dk.tid()
    item = v[i]
    for n in range(3):
        y[i] = y[i] + item[k[i, n]]


CASES = [(in_a_loop, 2), (in_two_loops, 1), (carried, 0), (without_a_loop, 0), (few_trips, 0)]


@pytest.mark.parametrize("index", [K, U])
@pytest.mark.parametrize(("kernel", "loads"), CASES)
def test_components_are_picked_from_memory(kernel, loads, index):
    fn = after(lowered(kernel, V, index, F), expand_composites)
    from_memory = after(fn, pick_from_memory)
    assert names(from_memory).count("buffer_get") == loads
    assert names(from_memory).count("buffer_new") == loads


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("kernel", [in_a_loop, in_two_loops])
def test_what_is_picked(kernel, dtype):
    # The last three numbers name no component, and pick the first.
    numbers = np.array([[0, 1, 2, 3, 4, 100, 2**31 - 1], [3, 2, -1, -4, 4, -9, -(2**31)], [-2, -3, 1, 0, 9, -9, 7]])
    numbers = numbers if dtype is np.int32 else abs(numbers)
    inside = np.where((numbers < 4) & (numbers >= -4), numbers, 0)
    v = np.arange(12.0).reshape(3, 4) + 0.5
    y, k = dk.zeros(3, dtype=dk.float64), dk.array(numbers.astype(dtype))
    launched = dk.kernel(kernel)
    dk.launch(launched, 3, [dk.array(v, dtype=dk.vec4d), k], [y])
    if kernel is in_a_loop:
        expected = (2.0 * np.take_along_axis(v, inside % 4, axis=1) ** 2).sum(1)
    else:
        expected = v[:, inside.ravel() % 4].sum(1)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-14)
