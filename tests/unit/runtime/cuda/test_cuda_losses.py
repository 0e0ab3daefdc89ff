"""Sweeps that begin with a loss of more than 32 bits on a GPU are compiled, and such elements are filled in words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
from diffkern.runtime.effects.known_sweeps import known_sweeps

G = "cuda:0"
N = 5


@dk.kernel
def total(a: dk.array(dtype=dk.float64), s: dk.float64, loss: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(loss, 0, s * a[i] * a[i])


@pytest.fixture
def executed() -> Iterator[FakeDriver]:
    with fake_cuda(run="ptx") as made:
        yield made


def calls_of(driver: FakeDriver, run: Any) -> list[str]:
    driver.calls.clear()
    run()
    return driver.names()


def test_a_sweep_of_a_float64_loss_is_compiled(executed: FakeDriver) -> None:
    values = np.linspace(0.5, 1.5, N)
    a = dk.array(values, dtype=dk.float64, device=G, requires_grad=True)
    loss = dk.zeros(1, dtype=dk.float64, device=G, requires_grad=True)
    found = []
    for k in range(5):
        scale = 1.0 + k  # a number of the launch: the sweep is given it
        with dk.Tape() as tape:
            dk.launch(total, N, inputs=[a, scale, loss])
        before = len(known_sweeps._sweeps)
        found.append((calls_of(executed, lambda: tape.backward(loss)), len(known_sweeps._sweeps) - before))
        np.testing.assert_array_equal(a.grad.numpy(), 2 * scale * values)
        tape.zero()
    assert [made for _, made in found] == [0, 1, 0, 0, 0]  # the second time
    names = found[-1][0]
    assert "copy_to_device" not in names
    assert names.count("fill") <= 2  # the two words of 1.0
    assert names.count("launch") == 1


def test_each_seed_has_its_own_gradient(executed: FakeDriver) -> None:
    """A seed is part of the compiled sweep on a GPU."""
    values = np.linspace(0.5, 1.5, N)
    a = dk.array(values, dtype=dk.float64, device=G, requires_grad=True)
    loss = dk.zeros(1, dtype=dk.float64, device=G, requires_grad=True)
    for seed in (1.0, np.pi, 1.0, np.pi, 1e-300, -0.0, np.nan, 1.0, np.pi):
        with dk.Tape() as tape:
            dk.launch(total, N, inputs=[a, 1.0, loss])
        tape.backward(grads={loss: np.array([seed])})
        np.testing.assert_array_equal(a.grad.numpy(), seed * 2 * values)
        tape.zero()


def test_one_element_is_filled_in_words(driver: FakeDriver) -> None:
    cases = [([1.0, 2.0], 4), ([1.0, 1.0], 4), ([0.0, 1.0], 2), ([0.0, 0.0], 1), ([1.0, 2.0, 3.0], 0)]
    for element, fills in cases:
        vector = dk.vec2d if len(element) == 2 else dk.vec3d
        whole = dk.zeros(3, dtype=vector, device=G)
        goal, value = whole[1:2], vector(*element)
        names = calls_of(driver, partial(goal.fill_, value))
        assert names.count("fill") == fills
        assert names.count("copy_to_device") == (fills == 0)
        expected = np.zeros((3, len(element)))
        expected[1] = element
        assert whole.numpy().tobytes() == expected.tobytes()
