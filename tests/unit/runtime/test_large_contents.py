"""Large arrays are filled, copied and added up by all threads, with the results of NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.arrays.operation import Add
from diffkern.runtime.memory import memory
from diffkern.runtime.native import pool

LARGE = memory._TOGETHER // 4 + 12_345


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = pool.num_threads()
    pool.set_num_threads(2)
    yield
    pool.set_num_threads(before)


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    made = np.random.default_rng(0).normal(size=LARGE).astype(np.float32)
    made[7], made[-1] = np.nan, -0.0
    return made


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The native steps that ran."""
    found, bytewise = [], memory.bytewise

    def noting(name, *arguments):
        found.append(name)
        return bytewise(name, *arguments)

    monkeypatch.setattr(memory, "bytewise", noting)
    return found


def test_an_array_is_made_of_values(values: np.ndarray, steps: list[str]) -> None:
    made = dk.array(values)
    assert steps == ["dk_copy_bytes"]
    assert made.numpy().tobytes() == values.tobytes()


def test_an_array_is_copied_and_cleared(values: np.ndarray, steps: list[str]) -> None:
    made, source = dk.zeros(LARGE), dk.array(values)
    made.assign(source)
    assert made.numpy().tobytes() == values.tobytes()
    made.zero_()
    assert steps == ["dk_copy_bytes", "dk_copy_bytes", "dk_clear_bytes"]
    assert not any(made.numpy().tobytes())


def test_arrays_are_added(values: np.ndarray, steps: list[str]) -> None:
    goal, source = dk.array(values), dk.array(values)
    Add(goal, source).execute()
    assert steps[-1] == "dk_add_f32"
    np.testing.assert_array_equal(goal.numpy(), values + values)


@pytest.mark.parametrize("value", [-0.0, 1.5])
def test_other_constants_are_numpys(value: float, steps: list[str]) -> None:
    made = dk.full(LARGE, value, dtype=dk.float32)
    assert steps == []
    assert made.numpy().tobytes() == np.full(LARGE, value, np.float32).tobytes()


def test_zero_vectors_and_what_is_not_contiguous(values: np.ndarray, steps: list[str]) -> None:
    made = dk.array(np.stack([values] * 3, axis=1), dtype=dk.vec3)
    del steps[:]
    made.fill_(dk.vec3(0.0, 2.0, 0.0))
    assert steps == []
    np.testing.assert_array_equal(made.numpy()[::1000], np.tile(np.float32([0, 2, 0]), (LARGE, 1))[::1000])
    every = dk.array(np.stack([values] * 2, axis=1))[:, 0]
    del steps[:]
    every.zero_()
    assert steps == []
    assert not every.numpy().any()


def test_values_of_another_type_are_converted(values: np.ndarray, steps: list[str]) -> None:
    made = dk.array(values.astype(np.float64), dtype=dk.float32)
    np.testing.assert_array_equal(made.numpy(), values)


@pytest.mark.parametrize("shift", [-5, 0, 5])
def test_parts_of_one_array_that_overlap(values: np.ndarray, shift: int, steps: list[str]) -> None:
    expected, made = values.copy(), dk.array(values)
    n = LARGE - 10
    expected[5 + shift : 5 + shift + n] = expected[5 : 5 + n].copy()
    del steps[:]
    made[5 + shift : 5 + shift + n].assign(made[5 : 5 + n])
    assert steps == []
    assert made.numpy().tobytes() == expected.tobytes()
    Add(made[5 + shift : 5 + shift + n], made[5 : 5 + n]).execute()
    expected[5 + shift : 5 + shift + n] += expected[5 : 5 + n].copy()
    np.testing.assert_array_equal(made.numpy(), expected)


def test_one_thread_does_not_need_native_steps(values: np.ndarray, steps: list[str]) -> None:
    pool.set_num_threads(1)
    made = dk.array(values)
    assert steps == []
    assert made.numpy().tobytes() == values.tobytes()
