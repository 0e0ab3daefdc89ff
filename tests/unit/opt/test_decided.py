"""Indices of threads' arrays in reversed loops are not tested where they cannot lie outside."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from passes_harness import after, assert_same, names

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Region, Value, walk
from diffkern.ir.types import INT32, INT64, Array, Buffer
from diffkern.lower.tiles.serial import lower_tiles
from diffkern.opt.fold import decide

ORDERS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def triangle(x: dk.array2d[float], y: dk.array[float]):
    i = dk.tid()
    a = dk.zeros(12, dtype=float)
    for k in range(12):
        a[k] = x[i, k]
    s = 0.0
    for k in range(12):
        t = a[k]
        for j in range(k):
            t += a[j] * x[i, j]
        s += t * t
    y[i] = s


def beyond(x: dk.array2d[float], y: dk.array[float]):
    i = dk.tid()
    a = dk.zeros(12, dtype=float)
    for k in range(12):
        a[k] = x[i, k]
    s = 0.0
    for k in range(13):
        s += a[k % 12] * a[x.shape[1] - k]
    y[i] = s


def comparisons(kernel, active):
    """How many there are in a program whose thread has its arrays in memory, before and behind the pass."""
    made = dk.kernel(kernel)
    fn = lower_tiles(clone_function(Compilation(kernel, made.argument_types(), Variant(active=active)).fn))
    before = sum(op.name in ORDERS for op in walk(fn.body))
    return before, sum(op.name in ORDERS for op in walk(after(fn, decide).body))


@pytest.mark.parametrize("active", [None, frozenset({0, 1})])
def test_no_test_is_left_of_indices_in_nested_loops(active):
    before, behind = comparisons(triangle, active)
    assert before > 0
    assert behind == 0


def test_tests_are_left_of_indices_that_may_lie_outside():
    before, behind = comparisons(beyond, None)
    assert 0 < behind < before


def program(name, low, high, other, by):
    """A loop over a range of integers which counts by how many of them compare to another number."""
    b = Builder()
    count = Value(Array(INT32, 1), "count")
    with b.into(region := Region()):
        b.one("buffer_new", type=Buffer(INT32, 4))
        first, last = (b.const(n, INT64) for n in ((low, high) if by > 0 else (high, low)))
        body = Region((Value(INT64, "i"), Value(INT32, "sum")))
        with b.into(body):
            holds = b.one(name, body.params[0], b.const(other, INT64))
            body.yields = (b.add(body.params[1], b.select(holds, b.i32(1), b.i32(0))),)
        (total,) = b.for_(first, last, b.const(by, INT64), (b.i32(0),), body, ("sum",))
        b.op("store", count, b.i32(0), total, wrap=(False,))
    return Function("f", (count,), region)


@given(
    st.sampled_from(sorted(ORDERS)), st.integers(-4, 4), st.integers(1, 4), st.integers(-6, 9), st.sampled_from([1, -1])
)
def test_only_certain_outcomes_are_decided(name, low, length, other, by):
    fn = program(name, low, low + length, other, by)
    decided = after(fn, decide)
    for f in (fn, decided):
        f.body.ops[:] = [op for op in f.body.ops if op.name != "buffer_new"]  # which the interpreter does not know
    assert_same(fn, decided, (1,), [np.zeros(1, dtype=np.int32)])
    numbers = np.arange(low, low + length) if by > 0 else np.arange(low + length, low, -1)
    outcomes = set(ORDERS[name](numbers, other).tolist())
    assert (name in names(decided)) == (len(outcomes) == 2)
