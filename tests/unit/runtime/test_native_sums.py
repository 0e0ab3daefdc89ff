"""Sums of arrays in native code: in vectors, with what is left over, and in the order of the copies."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import _compile
from diffkern.runtime.native.builder import Module
from diffkern.runtime.native.copies_ir import _KINDS, _sum
from diffkern.runtime.native.loader import load_object

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def call(address, fields, low, high):
    block = (ctypes.c_int64 * len(fields))(*fields)
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(address)(ctypes.addressof(block), low, high)


def random(rng, dtype, *shape):
    return rng.normal(size=shape).astype(dtype) if dtype(0).dtype.kind == "f" else rng.integers(-99, 99, shape, dtype)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (3, 34), (1, 33), (5, 69), (0, 100)])
def test_numbers_of_a_range_are_added_and_no_others(kind, low, high):
    functions = pool.functions()
    if not functions:
        pytest.skip("the thread pool is not native")
    rng = np.random.default_rng(high)
    goal, source = random(rng, DTYPES[kind], 101)[1:], random(rng, DTYPES[kind], 103)[3:]  # on no line's beginning
    expected = goal.copy()
    expected[low:high] += source[low:high]
    call(functions[f"dk_add_{kind}"], (goal.ctypes.data, source.ctypes.data), low, high)
    np.testing.assert_array_equal(goal, expected)


@pytest.fixture(scope="module")
def sums():
    """The functions that add up copies, under names that can be found."""
    m = Module("test")
    for kind in _KINDS:
        _sum(m, *kind)
    names = [f"dk_sum_{name}" for _, _, name in _KINDS]
    return load_object(_compile(str(m).replace("define internal", "define"), 0), names)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 31), (32, 64), (7, 90)])
def test_copies_are_added_in_their_order(sums, kind, copies, low, high):
    rng = np.random.default_rng(copies)
    goal, given = random(rng, DTYPES[kind], 90), random(rng, DTYPES[kind], copies, 96)
    expected, total = goal.copy(), given[0, low:high].copy()
    for other in given[1:]:
        total += other[low:high]
    expected[low:high] += total
    fields = goal.ctypes.data, given.ctypes.data, given.strides[0], copies
    call(sums[f"dk_sum_{kind}"], fields, low, high)
    np.testing.assert_array_equal(goal, expected)


@dk.kernel
def gather(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    total = 0.0
    for k in range(40):
        total += x[(index[i] + k) % 1037] * float(k)
    y[i] = total


def test_the_gradient_of_a_gather_is_that_of_all_copies():
    n, rng = 20_011, np.random.default_rng(3)
    index = rng.integers(0, 1037, n).astype(np.int32)
    x = dk.array(np.ones(1037, np.float32), requires_grad=True)
    y = dk.zeros(n, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gather, dim=n, inputs=[x, dk.array(index)], outputs=[y])
    tape.backward(grads={y: dk.array(np.ones(n, np.float32))})
    expected = np.zeros(1037)
    for k in range(40):
        np.add.at(expected, (index + k) % 1037, k)
    np.testing.assert_array_equal(x.grad.numpy(), expected.astype(np.float32))


@dk.kernel
def gather_from(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    total = 0.0
    for k in range(20):
        total += x[index[i] + k] * float(k)
    y[i] = total


def test_large_copies_begin_with_zeros_each_time():
    """They are blocks for which the system is asked for large pages."""
    n, size = 300_000, 1_100_000
    index = np.random.default_rng(3).integers(0, size - 20, n).astype(np.int32)
    x, y = dk.ones(size, dtype=float, requires_grad=True), dk.zeros(n, dtype=float, requires_grad=True)
    expected = np.zeros(size)
    for k in range(20):
        expected += k * np.bincount(index + k, minlength=size)
    for _ in range(2):
        x.grad.zero_()
        with dk.Tape() as tape:
            gather_from[n](x, dk.array(index), y)
        tape.backward(grads={y: dk.ones(n, dtype=float)})
        np.testing.assert_array_equal(x.grad.numpy(), expected.astype(np.float32))
