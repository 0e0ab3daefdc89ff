"""Assigning an array to a part of another one under a tape is a copy that gradients flow through."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


def source():
    return dk.array(np.arange(1.0, 5.0), requires_grad=True)


def test_a_slice():
    x, y = source(), dk.zeros(4, dtype=dk.float64)
    with dk.Tape() as tape:
        y[:2] = x[2:4]
    tape.backward(grads={y: [1.0, 2.0, 3.0, 4.0]})
    assert y.numpy().tolist() == [3.0, 4.0, 0.0, 0.0]
    assert x.grad.numpy().tolist() == [0.0, 0.0, 1.0, 2.0]


def test_a_row():
    x, history = source(), dk.zeros((3, 4), dtype=dk.float64)
    with dk.Tape() as tape:
        history[1] = x
    tape.backward(grads={history: np.arange(12.0).reshape(3, 4)})
    assert x.grad.numpy().tolist() == [4.0, 5.0, 6.0, 7.0]


def test_an_element():
    x, y = source(), dk.zeros((2, 2), dtype=dk.float64)
    with dk.Tape() as tape:
        y[1, 0] = x[3:]
    tape.backward(grads={y: [[1.0, 2.0], [3.0, 4.0]]})
    assert y.numpy()[1, 0] == 4.0
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.0, 3.0]


def test_an_array_made_from_another():
    x = source()
    with dk.Tape() as tape:
        y = dk.array(x, requires_grad=True)
    tape.backward(grads={y: [1.0, 2.0, 3.0, 4.0]})
    assert x.grad.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_what_cannot_be_recorded_is_refused():
    x, y = source(), dk.zeros((3, 4), dtype=dk.float64)
    with dk.Tape(), pytest.raises(ValueError, match="only a copy between equal shapes and types is recorded"):
        y[:] = x
    y[:] = x
    assert y.numpy()[2].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_tape_without_any_gradient_says_so():
    @dk.kernel
    def double(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = 2.0 * x[i]

    x, y = dk.ones(1, dtype=dk.float64), dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(double, 1, inputs=[x, y])
    with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient"):
        tape.backward(y)
