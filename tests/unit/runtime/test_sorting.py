"""The native sort of places by destinations, and sums by it, against NumPy's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffkern.runtime.native import pool, sorting
from diffkern.runtime.native.sorting import sort_places

pytestmark = pytest.mark.skipif(not pool.functions(), reason="there is no native pool")


@pytest.fixture(autouse=True, scope="module")
def several_threads() -> Iterator[None]:
    before = pool.num_threads()
    pool.set_num_threads(3)
    yield
    pool.set_num_threads(before)


@st.composite
def keys(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    count = draw(st.integers(1, 50))
    return draw(npst.arrays(np.int32, st.integers(1, 300), elements=st.integers(0, count - 1))), count


@settings(max_examples=150, deadline=None)
@given(keys())
def test_places_are_sorted_as_numpy_sorts_them(given_keys: tuple[np.ndarray, int]) -> None:
    found, count = given_keys
    made = sort_places(found, count)
    np.testing.assert_array_equal(made.places, np.argsort(found, kind="stable"))
    np.testing.assert_array_equal(made.starts, np.concatenate([[0], np.cumsum(np.bincount(found, minlength=count))]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("components", [1, 2, 3, 4, 5, 9, 16])
@pytest.mark.parametrize(("count", "many"), [(1, 5000), (3, 20_000), (5000, 20_000), (30_000, 9000)])
def test_sums_are_added_in_the_order_of_places(
    count: int, many: int, components: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "_FEWEST", 64)
    rng = np.random.default_rng(many)
    found = (rng.integers(0, count, many) * rng.integers(0, 2, many)).astype(np.int32)  # one destination has half
    numbers, target = rng.normal(size=(many, components)).astype(dtype), rng.normal(size=(count, components))
    target = target.astype(dtype)
    expected = np.zeros_like(target)
    np.add.at(expected, found, numbers)
    expected = np.where(np.bincount(found, minlength=count)[:, None] > 0, target + expected, target)
    sort_places(found, count).add_up(target.ctypes.data, numbers.ctypes.data, components, target.itemsize)
    np.testing.assert_array_equal(target, expected)
