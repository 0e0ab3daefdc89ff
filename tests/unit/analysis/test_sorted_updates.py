"""Which scattered sums of an adjoint can be made by sorted destinations, and why others cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import diffkern as dk
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.compiler import pipeline
from diffkern.contracts.manifest import Destination, SortedSum
from diffkern.contracts.options import ATOMIC, FORWARD, SORTED, Variant
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, Array, Type, Vec
from diffkern.ir.verify import verify
from diffkern.ir.views import Access

X, AT, OUT = Array(FLOAT32, 1), Array(INT32, 1), Array(FLOAT32, 1)
TABLE, GRID, POINTS = Array(INT32, 2), Array(FLOAT32, 2), Array(Vec(FLOAT64, 3), 1)


def derivative(function: Callable[..., Any], *types: Type, variant: Variant = FORWARD) -> Any:
    fn = pipeline.prepare(pipeline.lower_kernel(function, types))
    active = [k for k, t in enumerate(types) if isinstance(t, Array) and "float" in str(t.dtype)]
    return pipeline.differentiate(fn, active, variant)


def sums(function: Callable[..., Any], *types: Type) -> tuple[SortedSum, ...]:
    found = derivative(function, *types).sums
    assert not isinstance(found, Unsorted), found
    return found


def reason(function: Callable[..., Any], *types: Type) -> str:
    found = derivative(function, *types).sums
    assert isinstance(found, Unsorted)
    return found.why


def one(x, at, out):
    t = dk.tid()
    out[t] = x[at[t]] * x[at[t]]


def affine(x, at, out):
    t = dk.tid()
    out[t] = x[at[3 * t + 1]] * x[at[t - 2]] * x[at[5]] * x[t]


def of_table(x, at, out):
    t = dk.tid()
    p = dk.vec3d(0.0, 0.0, 0.0)
    for k in range(3):
        p += x[at[t, k]]
    out[t] = dk.float32(dk.length_sq(p))


def two(x, at, y, out):
    t = dk.tid()
    out[t] = x[at[t]] * y[at[t + 1]]


def test_an_index_that_is_read() -> None:
    expected = Destination(1, ((1, 0),), (False,), True)
    assert sums(one, X, AT, OUT) == (SortedSum(0, (expected,)),)
    assert sums(one, X, Array(INT64, 1), OUT) == (SortedSum(0, (expected,)),)
    assert sums(one, X, Array(UINT8, 1), OUT) == (SortedSum(0, (replace(expected, wrap=False),)),)


def test_places_that_are_affine_in_the_thread() -> None:
    (found,) = sums(affine, X, AT, OUT)
    places = {(place.array, place.index) for place in found.places}
    assert places == {(1, ((3, 1),)), (1, ((1, -2),)), (1, ((0, 5),)), (None, ((1, 0),))}


def test_trips_of_a_loop_that_are_constant() -> None:
    (found,) = sums(of_table, POINTS, TABLE, OUT)
    assert sorted(place.index for place in found.places) == [((1, 0), (0, k)) for k in range(3)]


def test_several_cotangents() -> None:
    assert [(found.cotangent, len(found.places)) for found in sums(two, X, AT, X, OUT)] == [(0, 1), (2, 1)]


def conditional(x, at, out):
    t = dk.tid()
    if at[t] > 3:
        out[t] = x[at[t]] * x[at[t]]


def in_loop(x, at, n, out):
    t = dk.tid()
    total = dk.float32(0.0)
    for k in range(n):
        total += x[at[t]] * x[at[k]]
    out[t] = total


def computed(x, at, out):
    t = dk.tid()
    out[t] = x[at[t] // 2] * x[at[t] // 2]


def hashed(x, out):
    t = dk.tid()
    out[t] = x[(t * 31) % 7] * x[(t * 31) % 7]


def read_elsewhere(x, at, out):
    t = dk.tid()
    out[t] = x[at[at[t]]] * x[at[at[t]]]


def of_grid(x, at, out):
    t = dk.tid()
    out[t] = x[at[t], 0] * x[at[t], 1]


def of_axes(x, at, out):
    i, j = dk.tid()
    out[i, j] = x[at[i]] * x[at[j]]


def common(x, at, out):
    t = dk.tid()
    out[t] = x[at[t]] * x[0]


def selected(x, at, out):
    t = dk.tid()
    k = at[t]
    if k > 3:
        k = at[t + 1]
    out[t] = x[k] * x[k]


@pytest.mark.parametrize(
    ("function", "types", "why"),
    [
        (conditional, (X, AT, OUT), "not every thread"),
        (in_loop, (X, AT, INT32, OUT), "not every thread"),
        (computed, (X, AT, OUT), "computed"),
        (hashed, (X, OUT), "computed"),
        (read_elsewhere, (X, AT, OUT), "computed"),
        (selected, (X, AT, OUT), "computed"),
        (of_grid, (GRID, AT, OUT), "several axes"),
        (of_axes, (X, AT, GRID), "several axes"),
        (common, (X, AT, OUT), "all threads add"),
        (one, (Array(FLOAT16, 1), AT, Array(FLOAT16, 1)), "float16"),
    ],
)
def test_what_cannot_be_sorted(function: Callable[..., Any], types: tuple[Type, ...], why: str) -> None:
    assert why in reason(function, *types)


def own(x, out):
    t = dk.tid()
    out[t] = x[t] * x[t]


def test_there_is_nothing_to_sort_where_threads_do_not_race() -> None:
    assert derivative(own, X, OUT).sums == ()


@pytest.mark.parametrize("variant", [Variant(mode="debug"), Variant(form=ATOMIC), Variant(target="sm_80")])
def test_other_programs_have_no_such_form(variant: Variant) -> None:
    assert derivative(one, X, AT, OUT, variant=variant).sums == ()


def test_the_program_stores_the_contributions_of_a_thread_together() -> None:
    made = derivative(of_table, POINTS, TABLE, OUT, variant=Variant(form=SORTED))
    done = pipeline.finalize(made, Variant(form=SORTED))
    verify(done.fn)
    (buffer, _) = done.buffers
    names = [op.name for op in walk(done.fn.body) if op.operands[:1] == (buffer,) and op.name != "shape"]
    assert names == ["store"] * 3
    assert [c.kind for c in done.conflicts] == ["none", "none"]
    assert all(Access(op).wrap == (False,) for op in walk(done.fn.body) if op.name == "store")


def test_the_report_says_what_can_be_sorted_and_why_not() -> None:
    @dk.kernel
    def sortable(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        out[t] = x[at[t]] * x[at[t]]

    @dk.kernel
    def branching(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        if at[t] > 0:
            out[t] = x[at[t]] * x[at[t]]

    assert "add up by sorted destinations in the place of atomics: x\n" in sortable.adjoint_report()
    line = branching.func.__code__.co_firstlineno + 4
    text = branching.adjoint_report()
    assert f"x: not every thread adds to it there, or more than once (line {line})\n" in text
