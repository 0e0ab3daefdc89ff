"""Finding needs by where they lie, against looking at all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diffkern as dk
from diffkern.runtime.effects.residuals import Need, Needs
from diffkern.runtime.launch.regions import meet

SHAPES = ((60, 4), (4, 60), (40, 40), (3, 2))
AXIS = st.tuples(st.integers(0, 59), st.integers(1, 40), st.booleans())


def boxes(draws, shape):
    """A region of boxes inside of an array; an axis may be whole."""
    found = []
    for box in draws:
        extent = [
            (0, n) if whole else (a % n, min(a % n + width, n)) for (a, width, whole), n in zip(box, shape, strict=True)
        ]
        found.append(tuple(extent))
    return tuple(found)


REGION = st.none() | st.lists(st.tuples(AXIS, AXIS), max_size=2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), REGION), max_size=80), st.sampled_from(SHAPES))
def test_a_write_ends_the_needs_it_overlaps(actions, shape):
    x = dk.zeros(shape, dtype=dk.float32)
    views = (x, x[::-1], x[1:])
    needs, plain = Needs(x._memory.nbytes), []
    for writes, which, draws in actions:
        held = views[which]
        region = None if draws is None else boxes(draws, held.shape)
        if writes:
            expected = {id(n) for n in plain if meet(held, region, n.held, n.region)}
            taken = needs.take(held, region)
            assert len(taken) == len(expected)
            assert {id(need) for need in taken} == expected
            plain = [need for need in plain if id(need) not in expected]
        elif region != ():
            need = Need(None, 0, held, region)
            needs.add(need)
            plain.append(need)
        assert {id(need) for need in needs} == {id(need) for need in plain}


@given(st.tuples(REGION, REGION), st.sampled_from(SHAPES), st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_regions_meet_wherever_they_have_an_element_in_common(draws, shape, which):
    x = dk.zeros(shape, dtype=dk.float32)
    numbers = np.arange(x.size).reshape(shape)
    kinds = [lambda a: a, lambda a: a[::-1], lambda a: a[1:], lambda a: a[:, ::2], lambda a: a[::2, 1:]]
    first, second = (kinds[k](x) for k in which)
    regions = [None if d is None else boxes(d, held.shape) for d, held in zip(draws, (first, second), strict=True)]
    touched = []
    for region, k in zip(regions, which, strict=True):
        own = kinds[k](numbers)
        parts = [own] if region is None else [own[tuple(slice(a, b) for a, b in extent)] for extent in region]
        touched.append({int(n) for part in parts for n in part.reshape(-1)})
    found = meet(first, regions[0], second, regions[1])
    if touched[0] & touched[1]:
        assert found
    elif which[0] == which[1]:
        assert not found


def test_rows_of_a_view_that_goes_backwards():
    x = dk.zeros((6, 2), dtype=dk.float32)
    row = [((n, n + 1), (0, 2)) for n in range(6)]
    assert meet(x, (row[1],), x[::-1], (row[4],))
    assert not meet(x, (row[1],), x[::-1], (row[1],))
    assert meet(x[:, 1:], (((0, 6), (0, 1)),), x, (((2, 3), (1, 2)),))


@pytest.mark.parametrize("shape", [(2000, 4), (4, 2000)])
def test_a_write_looks_at_few_of_many_needs(shape, monkeypatch):
    x, looks = dk.zeros(shape, dtype=dk.float32), []
    monkeypatch.setattr("diffkern.runtime.effects.residuals.meet", lambda *given: looks.append(1) or meet(*given))
    needs = Needs(x._memory.nbytes)
    along = 0 if shape[0] > shape[1] else 1

    def line(n):
        return (((n, n + 1), (0, 4)) if along == 0 else ((0, 4), (n, n + 1)),)

    for n in range(1999):
        assert not needs.take(x, line(n + 1))
        needs.add(Need(None, 0, x, line(n)))
    assert len(looks) < 8 * 1999
    assert len(needs.take(x, line(5))) == 1
