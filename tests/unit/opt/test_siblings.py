"""What both branches of an ``if`` compute moves in front of it, and the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, after, assert_same, lowered, names

import diffkern as dk
from diffkern.ir.nodes import Function, walk
from diffkern.opt.dce import eliminate
from diffkern.opt.hoist import hoist_common

X = np.linspace(-1.5, 1.9, 8)


def branch_names(fn: Function) -> list[list[str]]:
    """Names of the ops of each branch, ifs in program order, without those of ifs inside."""
    return [[op.name for op in region.ops] for op in walk(fn.body) if op.name == "if" for region in op.regions]


def shares(x, y):
    i = dk.tid()
    a = x[i]
    if a > 0.5:
        y[i] = dk.exp(a) * (a + 2.0) + dk.sin(a)
    else:
        y[i] = dk.exp(a) * (a + 2.0) - dk.cos(a)


def nested(x, y):
    i = dk.tid()
    a = x[i]
    r = a
    if a > 0.0:
        if a > 1.0:
            r = dk.exp(a) + 1.0
        else:
            r = dk.exp(a) - 1.0
    else:
        r = a * dk.exp(a)
    y[i] = r


def loads(x, y):
    i = dk.tid()
    r = x[i]
    if r > 0.5:
        r = x[i + 1] * r
    else:
        r = x[i + 1] - r
    y[i] = r


def writes_before_loads(x, y):
    i = dk.tid()
    a = x[i]
    if a > 0.5:
        x[i] = 2.0 * a
        y[i] = x[i] + 1.0
    else:
        x[i] = 3.0 * a
        y[i] = x[i] - 1.0


def different(x, y):
    i = dk.tid()
    a = x[i]
    if a > 0.5:
        y[i] = dk.sin(a + 1.0) * 0.0
    else:
        y[i] = dk.sin(a - 1.0) * -0.0


@pytest.mark.parametrize("function", [shares, nested, loads, writes_before_loads, different])
def test_the_meaning_stays(function):
    fn = lowered(function, D1, D1)
    moved = after(fn, hoist_common, hoist_common)
    assert_same(fn, moved, [7], [X.copy(), np.zeros(8)])


def test_what_both_branches_compute_is_computed_once_before_them():
    moved = after(lowered(shares, D1, D1), hoist_common)
    assert names(moved).count("exp") == names(moved).count("mul") == 1
    then, other = branch_names(moved)
    assert "exp" not in then + other
    assert "sin" in then
    assert "cos" in other


def test_what_inner_branches_share_is_shared_further_out():
    moved = after(lowered(nested, D1, D1), hoist_common)
    assert names(moved).count("exp") == 1
    assert all("exp" not in branch for branch in branch_names(moved))


def test_loads_move_only_where_no_branch_writes():
    assert all("load" not in branch for branch in branch_names(after(lowered(loads, D1, D1), hoist_common)))
    kept = after(lowered(writes_before_loads, D1, D1), hoist_common)
    assert [branch.count("load") for branch in branch_names(kept)] == [1, 1]


def test_only_what_is_the_same_moves():
    moved = after(lowered(different, D1, D1), hoist_common, eliminate)
    assert names(moved).count("sin") == 2
    zeros = [op.attrs["value"] for op in walk(moved.body) if op.name == "const" and op.attrs["value"] == 0.0]
    assert len({str(value) for value in zeros if isinstance(value, float)}) == 2
