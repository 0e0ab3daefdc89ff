"""A loop and one that goes back over its trips become one loop, where that changes nothing but how sums are rounded."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest
from passes_harness import D1, D2, I1, after, lowered, names, results

import diffkern as dk
from diffkern.ad.joint import can_join, joined
from diffkern.compiler import passes, pipeline
from diffkern.ir.nodes import Function
from diffkern.ir.passes import run
from diffkern.ir.types import INT32
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fuse import fuse_loops

X = np.linspace(0.4, 1.9, 6)


def fused(fn: Function) -> Function:
    return after(fn, lambda f: eliminate_common(f, loads=True), fuse_loops, eliminate)


def loops(fn: Function) -> int:
    return names(fn).count("for")


# Pairs of loops as a primal and its adjoint have them: y comes of the first, g of the second.


def pair(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += dk.exp(x[j]) * x[i]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += 2.0 * dk.exp(x[k])
    g[i] = t


def pair_from_two(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(2, n):
        s = s * 0.5 + x[j]
    y[i] = s
    t = 0.0
    for k in range(max(n, 2) - 2 - 1, -1, -1):
        t = t - dk.exp(x[2 + k])
    g[i] = t


def pair_of_constant_length(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(40):
        s += x[j % n]
    y[i] = s
    t = 0.0
    for k in range(39, -1, -1):
        t += x[k % n] * x[i]
    g[i] = t


def pair_with_branches_and_loops(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        if x[j] > 1.0:
            s += x[j]
        else:
            s = s * x[i]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        c = 1.0
        for m in range(k):
            c = c * x[m]
        if x[k] > 1.0:
            t += c
    g[i] = t


def later_pair(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    a = dk.sqrt(s)
    y[i] = a
    t = x[i]
    for k in range(max(n, 0) - 1, -1, -1):
        t += x[k] * x[k]
    g[i] = t * a


@pytest.mark.parametrize("kernel", [pair, pair_from_two, pair_of_constant_length, later_pair])
@pytest.mark.parametrize("n", [6, 1, 2, 3])
def test_one_loop_does_what_two_do(kernel, n):
    fn = lowered(kernel, D1, INT32, D1, D1)
    one = fused(fn)
    assert (loops(fn), loops(one)) == (2, 1)
    given = [X.copy(), n, np.zeros(6), np.zeros(6)]
    for a, b in zip(results(fn, (6,), given), results(one, (6,), given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("n", [0, -3])
def test_no_trip(n):
    fn = lowered(pair, D1, INT32, D1, D1)
    given = [X.copy(), n, np.ones(6), np.ones(6)]
    for a, b in zip(results(fn, (6,), given), results(fused(fn), (6,), given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_first_loop_makes_its_trips_in_their_order():
    fn = lowered(pair_from_two, D1, INT32, D1, D1)
    given = [X.copy(), 6, np.zeros(6), np.zeros(6)]
    np.testing.assert_array_equal(results(fn, (6,), given)[2], results(fused(fn), (6,), given)[2])


def test_branches_and_loops_inside():
    # The branch passes the sum on from trip to trip: that is no sum which a trip adds to.
    fn = lowered(pair_with_branches_and_loops, D1, INT32, D1, D1)
    assert loops(fused(fn)) == loops(fn) == 3


def test_what_both_compute_is_computed_once():
    one = after(fused(lowered(pair, D1, INT32, D1, D1)), lambda f: eliminate_common(f, loads=True), eliminate)
    assert names(one).count("exp") == 1


# -- pairs that must stay two ------------------------------------------------------------------------------------------


def order_counts(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t = t * 0.5 + x[k]
    g[i] = t


def needs_the_result(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += s * x[k]
    g[i] = t


def begins_with_the_result(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = s * 2.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += x[k]
    g[i] = t


def other_trips(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 2, -1, -1):
        t += x[k]
    g[i] = t


def other_constant(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(40):
        s += x[j % n]
    y[i] = s
    t = 0.0
    for k in range(37, -1, -1):
        t += x[k % n] * x[i]
    g[i] = t


def other_bound(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(max(i, 0) - 1, -1, -1):
        t += x[k]
    g[i] = t


def reads_what_the_first_stores(x, n, y, g):
    i = dk.tid()
    for j in range(n):
        y[j] = x[j] * 2.0
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += y[k]
    g[i] = t


def reads_what_is_stored_in_between(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += y[k] + x[k]
    g[i] = t


def first_reads_what_is_stored_in_between(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += g[j]
    y[i] = s
    g[i] = 0.0
    t = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += x[k]
    g[i] = t


def sum_is_used_in_the_loop(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    u = 0.0
    for k in range(max(n, 0) - 1, -1, -1):
        t += x[k]
        u += t
    g[i] = u


def second_stores(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    for k in range(max(n, 0) - 1, -1, -1):
        g[i] = x[k]


def both_go_up(x, n, y, g):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += x[j]
    y[i] = s
    t = 0.0
    for k in range(n):
        t += x[k] * x[k]
    g[i] = t


@pytest.mark.parametrize(
    "kernel",
    [
        order_counts, needs_the_result, begins_with_the_result, other_trips, other_constant, other_bound,
        reads_what_the_first_stores, reads_what_is_stored_in_between,
        first_reads_what_is_stored_in_between, sum_is_used_in_the_loop, second_stores, both_go_up,
    ],
)  # fmt: skip
def test_two_loops_stay(kernel):
    fn = lowered(kernel, D1, INT32, D1, D1)
    one = fused(fn)
    assert loops(one) == loops(fn) == 2
    given = [X.copy(), 6, np.zeros(6), np.zeros(6)]
    for a, b in zip(results(fn, (6,), given), results(one, (6,), given), strict=True):
        np.testing.assert_array_equal(a, b)


# -- a primal and its adjoint ------------------------------------------------------------------------------------------


def all_pairs(x, n, y):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += dk.exp(-(x[j] - x[i]) * (x[j] - x[i]))
    y[i] = s


def two_levels(x, n, y):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        p = 1.0
        for k in range(j):
            p *= x[i, k]
        s += p * x[i, j]
    y[i] = s


def cells(x, n, y):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        for k in range(3):
            s += x[i, j] * x[i, k]
    y[i] = s


@pytest.mark.parametrize(("kernel", "x", "expected"), [(all_pairs, D1, 1), (two_levels, D2, None), (cells, D2, None)])
def test_of_a_kernel(kernel, x, expected):
    fn = lowered(kernel, x, INT32, D1)
    run(passes.WRITTEN_TO_PRIMAL, fn)
    primal = pipeline.prepare(fn)
    adjoint = pipeline.differentiate(primal, frozenset({0, 2})).adjoint
    assert can_join(primal, adjoint)
    apart = adjoint.fn, primal
    both = run(passes.JOIN, joined(primal, pipeline.differentiate(primal, frozenset({0, 2})).adjoint).fn)
    if expected is not None:
        assert loops(both) == expected
    rng = np.random.default_rng(5)
    shape = (5,) if x is D1 else (5, 5)
    given = [rng.uniform(0.4, 1.3, shape), 5, np.zeros(5), np.zeros(shape), rng.normal(size=5)]
    found = results(both, (5,), given)
    y = results(apart[1], (5,), given[:3])[2]
    expected_all = results(apart[0], (5,), [given[0], 5, y, *given[3:]])
    np.testing.assert_array_equal(found[2], y)
    for a, b in zip(found[3:], expected_all[3:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def chain_of(count: int) -> Function:
    """So many loops that each need the one before, and behind them as many backwards."""
    ahead = "".join(f"    for j in range(n):\n        s = s * 0.5 + x[{c}]\n" for c in range(count))
    back = "    for k in range(max(n, 0) - 1, -1, -1):\n        s = s * x[k]\n" * count
    text = f"def chain(x, n, y, g):\n    i = dk.tid()\n    s = x[i]\n{ahead}{back}    y[i] = s\n"
    file = f"<chain of {count}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"dk": dk}
    exec(compile(text, file, "exec"), names)
    return lowered(names["chain"], D1, INT32, D1, D1)


def test_the_work_of_looking_for_pairs_is_in_proportion_to_their_number():
    def calls(fn: Function) -> int:
        found = 0

        def count(frame, event, argument):
            nonlocal found
            found += event == "call"

        sys.setprofile(count)
        try:
            fuse_loops(fn)
        finally:
            sys.setprofile(None)
        assert loops(fn)
        return found

    assert calls(chain_of(96)) < 3 * calls(chain_of(48))


def in_place(x, n, y):
    i = dk.tid()
    y[i] = y[i] * x[i]


def reads_its_results(x, n, y):
    i = dk.tid()
    y[i] = x[i]
    x[i] = y[i] * 2.0


def scatter(x, n, y):
    i = dk.tid()
    dk.atomic_add(y, n, x[i])


def returned(x, n, y):
    i = dk.tid()
    k = dk.atomic_add(n, 0, 1)
    y[k] = x[i]


@pytest.mark.parametrize(
    ("kernel", "n", "expected"), [(in_place, INT32, False), (reads_its_results, INT32, False), (scatter, INT32, True)]
)
def test_which_can_be_joined(kernel, n, expected):
    fn = lowered(kernel, D1, n, D1)
    run(passes.WRITTEN_TO_PRIMAL, fn)
    primal = pipeline.prepare(fn)
    adjoint = pipeline.differentiate(primal, frozenset({0, 2})).adjoint
    assert can_join(primal, adjoint) is expected


def test_who_asks_what_an_update_returned_is_not_joined():
    fn = lowered(returned, D1, I1, D1)
    run(passes.WRITTEN_TO_PRIMAL, fn)
    adjoint = pipeline.differentiate(pipeline.prepare(lowered_scatter()), frozenset({0, 2})).adjoint
    assert not can_join(pipeline.prepare(fn), adjoint)


def lowered_scatter() -> Function:
    return run(passes.WRITTEN_TO_PRIMAL, lowered(scatter, D1, INT32, D1))
