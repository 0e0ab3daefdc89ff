"""The estimate by which lanes are chosen, on a small kernel of each kind: choices, factors and waits, and no times."""

from __future__ import annotations

import pytest
from passes_harness import lowered

import diffkern as dk
from diffkern.analysis.affine import AffineForms
from diffkern.analysis.work import usual_ways
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, Array
from diffkern.ir.views import is_loop
from diffkern.targets.cpu.lanes.choice import chosen
from diffkern.targets.cpu.lanes.estimate import LaneWork
from diffkern.targets.cpu.lanes.inner_loops import is_vectorised, longest_wait
from diffkern.targets.emit.types import Isa
from diffkern.targets.target import Settings

F32, F32_2, F64_2, I32 = Array(FLOAT32, 1), Array(FLOAT32, 2), Array(FLOAT64, 2), Array(INT32, 1)
ISA = Isa("x86_64-unknown-linux-gnu", "e", None, True, vector_bytes=32, vector_registers=32)


def row_sum(a, x, y):
    i = dk.tid()
    s = 0.0
    for j in range(a.shape[1]):
        s += a[i, j] * x[j]
    y[i] = s


def row_update(a, x, y):
    i = dk.tid()
    s = y[i]
    for j in range(a.shape[1]):
        a[i, j] = a[i, j] + s * x[j]
        x[j] += a[i, j] * s


def column_sum(a, x, y):
    j = dk.tid()
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i, j] * x[i]
    y[j] = s


def row_filter(a, x, y):
    i = dk.tid()
    s, t = x[0], x[1]
    for j in range(a.shape[1]):
        s, t = 0.3 * a[i, j] + 0.2 * s - 0.1 * t, s
        a[i, j] = s
    y[i] = s + t


def row_recurrence(a, x, y):
    i = dk.tid()
    for j in range(1, a.shape[1]):
        a[i, j] = x[i] + 0.5 * a[i, j - 1]


def row_roots(a, x, y):
    i = dk.tid()
    for j in range(a.shape[1]):
        a[i, j] = dk.exp(a[i, j])


def ways_of_trips(func, *, fast_math=False):
    """Return if LLVM has vectors for the loop of a kernel, and how long a trip waits."""
    fn = lowered(func, F32_2, F32, F32)
    forms = AffineForms(fn)
    (loop,) = filter(is_loop, walk(fn.body))
    return is_vectorised(loop, forms, reassociates=fast_math), longest_wait(loop, usual_ways, forms)


@pytest.mark.parametrize(
    ("func", "in_order", "in_any_order"),
    [
        (row_sum, False, True),
        (row_update, True, True),
        (column_sum, False, False),
        (row_filter, False, False),
        (row_recurrence, False, False),
        (row_roots, False, False),
    ],
)
def test_llvm_has_vectors_for_a_walk_along_a_row_without_waits(func, in_order, in_any_order):
    assert ways_of_trips(func)[0] is in_order
    assert ways_of_trips(func, fast_math=True)[0] is in_any_order


def test_a_trip_waits_for_what_the_one_before_it_computes():
    one = ways_of_trips(row_sum)[1]
    assert one == ways_of_trips(column_sum)[1] > 0.0
    assert ways_of_trips(row_filter)[1] > one
    # The number comes from memory, and a product and a sum follow.
    assert ways_of_trips(row_recurrence)[1] == 3 * one
    assert ways_of_trips(row_roots)[1] == 0.0


def by_estimate(func, *types, fast_math=False):
    return chosen(lowered(func, *types), Settings(lanes=None, fast_math=fast_math), ISA).lanes > 1


@pytest.mark.parametrize(
    ("func", "in_order", "in_any_order"),
    [
        (row_sum, True, False),
        (row_update, False, False),
        (column_sum, True, True),
        (row_filter, True, True),
        (row_recurrence, True, True),
        (row_roots, True, True),
    ],
)
def test_rows_are_left_to_llvm_and_what_waits_runs_in_lanes(func, in_order, in_any_order):
    assert by_estimate(func, F32_2, F32, F32) is in_order
    assert by_estimate(func, F32_2, F32, F32, fast_math=True) is in_any_order


def binned(x, low, high, found):
    i = dk.tid()
    width = (high[0] - low[0]) / float(found.shape[0])
    k = int((x[i] - low[0]) / width)
    if k < found.shape[0]:
        dk.atomic_add(found, k, 1.0)


def binned_by_own(x, low, high, found):
    i = dk.tid()
    width = (high[i] - low[i]) / float(found.shape[0])
    k = int((x[i] - low[i]) / width)
    if k < found.shape[0]:
        dk.atomic_add(found, k, 1.0)


def gain(func, *types):
    return LaneWork(lowered(func, *types), 8).gain()


def test_what_all_threads_share_is_no_work_of_either():
    assert gain(binned, F32, F32, F32, F32) < gain(binned_by_own, F32, F32, F32, F32)
    assert not by_estimate(binned, F32, F32, F32, F32)


def around(x, n, y):
    i, j = dk.tid()
    y[i, j] = x[(i + 1) % n, j] - x[(i + n - 1) % n, j] + x[i, (j + 1) % n] - x[i, (j + n - 1) % n]


def around_by_literals(x, n, y):
    i, j = dk.tid()
    y[i, j] = x[(i + 1) % 64, j] - x[(i + 63) % 64, j] + dk.exp(x[i, (j + 1) % 64]) - x[i, (j + 63) % 64]


def test_divisions_lane_by_lane_cost_more_than_one_after_the_other():
    assert not by_estimate(around, F32_2, INT32, F32_2)
    assert gain(around_by_literals, F32_2, INT32, F32_2) > 2 * gain(around, F32_2, INT32, F32_2)


def unless_zero(x, at, y):
    i = dk.tid()
    s, t = x[i], x[i + 1]
    if s == 0.0 and t == 0.0:
        y[i] = 0.0
    else:
        y[i] = dk.exp(s) * x[at[i]]


def unless_negative(x, at, y):
    i = dk.tid()
    s, t = x[i], x[i + 1]
    if s < 0.0 and t < 0.0:
        y[i] = 0.0
    else:
        y[i] = dk.exp(s) * x[at[i]]


def where_not_zero(x, at, y):
    i = dk.tid()
    s, t = x[i], x[i + 1]
    if s != 0.0 or t != 0.0:
        y[i] = dk.exp(s) * x[at[i]]
    else:
        y[i] = 0.0


def test_a_float_is_taken_to_be_no_other_number():
    assert gain(unless_zero, F32, I32, F32) > gain(unless_negative, F32, I32, F32)
    assert gain(where_not_zero, F32, I32, F32) == gain(unless_zero, F32, I32, F32)


def springs(x: dk.array[dk.vec3], near: dk.array2d[int], rest: dk.array2d[float], y: dk.array[dk.vec3]):
    i = dk.tid()
    force = dk.vec3()
    for k in range(4):
        j = near[i, k]
        if j >= 0:
            d = x[j] - x[i]
            force += (1.0 - rest[i, k] / dk.length(d)) * d
    y[i] = x[i] + 0.01 * force


def triangles(x: dk.array[dk.vec3], corners: dk.array2d[int], area: dk.array[float]):
    i = dk.tid()
    a, b, c = x[corners[i, 0]], x[corners[i, 1]], x[corners[i, 2]]
    dk.atomic_add(area, 0, 0.5 * dk.length(dk.cross(b - a, c - a)))


@pytest.mark.lanes_choice("it reads what is chosen")
def test_arithmetic_pays_for_gathers_and_little_of_it_does_not():
    assert dk.kernel(springs).report().splitlines()[0].endswith("by estimate")
    assert "too little" in dk.kernel(triangles).report().splitlines()[0]
