"""A tape on which nothing requires a gradient says so."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def _recorded(graded_loss, way):
    x, y = dk.ones(1), dk.zeros(1, requires_grad=graded_loss)
    with dk.Tape() as tape:
        if way == "launch":
            scale[1](x, y)
        else:
            dk.copy(y, x)
    return tape, y


@pytest.mark.parametrize("way", ["launch", "copy"])
@pytest.mark.parametrize("graded_loss", [False, True])
def test_nothing_has_a_gradient(graded_loss, way):
    for begin in ("loss", "grads"):
        tape, y = _recorded(graded_loss, way)
        with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient to be computed"):
            tape.backward(y) if begin == "loss" else tape.backward(grads={y: np.ones(1, np.float32)})


@pytest.mark.parametrize("way", ["launch", "copy"])
def test_nothing_has_a_gradient_and_there_is_no_seed(way):
    tape, _ = _recorded(False, way)
    with pytest.raises(dk.LaunchError, match="no array on this tape has a gradient to be computed"):
        tape.backward()


def test_an_array_with_a_gradient_that_has_no_influence():
    x, y, z = dk.ones(1, requires_grad=True), dk.ones(1), dk.zeros(1)
    with dk.Tape() as tape:
        scale[1](x, dk.zeros(1))
        scale[1](y, z)
    tape.backward(z)
    assert x.grad.list() == [0.0]


def test_an_empty_tape():
    with dk.Tape() as tape:
        pass
    tape.backward()
