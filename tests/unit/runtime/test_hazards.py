"""Which steps wait for which: against all pairs of steps, looked at element by element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diffkern as dk
from diffkern.runtime.records import hazards
from diffkern.runtime.records.hazards import waits


def closure(found):
    """Return all steps that come before each, by way of others or not."""
    before = []
    for needed in found:
        before.append(set(needed).union(*(before[k] for k in needed)))
    return before


def elements(a):
    """The addresses of the elements of an array."""
    at = np.array(a._data.ctypes.data)
    for extent, stride in zip(a.shape, a.strides, strict=True):
        at = np.add.outer(at, np.arange(extent) * stride)
    return set(at.ravel().tolist())


def pairs(steps):
    """Return for each step all earlier ones that touch an element which one of the two writes."""
    sets = [[set().union(*map(elements, part)) for part in step] for step in steps]
    return [
        {i for i in range(j) if sets[i][1] & (sets[j][0] | sets[j][1]) or sets[i][0] & sets[j][1]}
        for j in range(len(sets))
    ]


VIEWS = [
    lambda x: x, lambda x: x[:8], lambda x: x[8:], lambda x: x[::2], lambda x: x[1::2], lambda x: x[4:12],
    lambda x: x[::-1], lambda x: x[3:3], lambda x: x[2:14:3], lambda x: x.reshape((4, 4))[:, 1],
    lambda x: x.reshape((4, 4))[:, 2:], lambda x: x.reshape((4, 4))[1],
]  # fmt: skip


@given(st.lists(st.tuples(*[st.lists(st.tuples(st.integers(0, 2), st.sampled_from(VIEWS)), max_size=2)] * 2)))
def test_waits_are_those_of_all_pairs_and_no_more(program):
    arrays = [dk.zeros(16) for _ in range(3)]
    steps = [tuple([view(arrays[k]) for k, view in part] for part in step) for step in program]
    found, every = waits(steps), pairs(steps)
    assert closure(found) == closure(every)
    for step, needed in enumerate(found):
        assert needed <= every[step]  # no edge without a reason
        for k in needed:  # and none that follows from the others
            assert not any(k in closure(found)[other] for other in needed)


@given(st.lists(st.tuples(*[st.lists(st.tuples(st.integers(0, 2), st.sampled_from(VIEWS)), max_size=2)] * 2)))
def test_all_waits_are_those_of_all_pairs(program):
    arrays = [dk.zeros(16) for _ in range(3)]
    steps = [tuple([view(arrays[k]) for k, view in part] for part in step) for step in program]
    assert waits(steps, every=True) == pairs(steps)


def test_long_programs(monkeypatch):
    """Rows of a trajectory: each step waits for the one before alone, also where nothing is left out afterwards."""
    monkeypatch.setattr(hazards, "_MOST_REDUCED", 10)
    rows = dk.zeros((3000, 4))
    steps = [([rows[k]], [rows[k + 1]]) for k in range(2999)]
    assert waits(steps) == [set(), *({k} for k in range(2998))]
    whole = waits([*steps, ([], [rows]), ([rows[7]], [])])
    assert whole[2999] == set(range(2999))
    assert whole[3000] == {2999}


@pytest.mark.parametrize("written", [0, 1])
def test_reads_do_not_wait_for_reads(written):
    x, y, z = dk.zeros(4), dk.zeros(4), dk.zeros(4)
    steps = [([x], [y]), ([x], [z]), ([x], [x] if written else [])]
    assert waits(steps) == [set(), set(), {0, 1} if written else set()]
