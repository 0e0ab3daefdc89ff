"""What is written through NumPy's view of an array counts: the run time assumes nothing about memory it gave away."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@pytest.fixture
def recorded():
    x = dk.array(np.float32([1, 2, 3]), requires_grad=True)
    y = dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
    return tape, x, y


def test_seed_written_through_numpy(recorded):
    tape, x, y = recorded
    y.grad.numpy()[:] = 1.0
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_seed_in_memory_of_numpy(recorded):
    tape, x, y = recorded
    seed = np.zeros(3, np.float32)
    y.grad = seed
    y.grad.zero_()
    seed[:] = 1.0
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_zero_clears_what_was_written_through_numpy(recorded):
    tape, x, _ = recorded
    np.asarray(x.grad)[:] = 100.0
    tape.zero()
    np.testing.assert_array_equal(x.grad.numpy(), 0)
