"""A gradient lowers its kernel once: the adjoint's compilation takes what the forward's has left."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler import compilation, lowered
from diffkern.ir.nodes import Function

FACTOR = 3.0


def made(offset: float = 0.0):
    """A kernel of its own."""

    @dk.kernel
    def scaled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = FACTOR * x[i] * x[i] + offset

    return scaled


@pytest.fixture(autouse=True)
def count(tmp_path, monkeypatch):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)
    lowerings: list[object] = []
    original = compilation.lower_kernel
    monkeypatch.setattr(compilation, "lower_kernel", lambda *given: lowerings.append(given) or original(*given))
    return lowerings


def gradient(kernel, dtype=np.float32):
    x = dk.array(np.array([1.0, 2.0], dtype), requires_grad=True)
    y = dk.array(np.zeros(2, dtype), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, 2, [x], [y])
    tape.backward(grads={y: dk.array(np.ones(2, dtype))})
    return x.grad.numpy().tolist()


def test_a_gradient_lowers_once(count):
    assert gradient(made(0.25)) == [6.0, 12.0]
    assert len(count) == 1


def test_a_changed_global_is_noticed(count, monkeypatch):
    kernel = made(0.5)
    x, y = dk.array(np.ones(2, np.float32), requires_grad=True), dk.zeros(2, dtype=dk.float32, requires_grad=True)
    dk.launch(kernel, 2, [x], [y])
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    ones = dk.array(np.ones(2, np.float32))
    found = dk.zeros(2, dtype=dk.float32)
    dk.launch(kernel, 2, [x], [y], adjoint=True, adj_inputs=[found], adj_outputs=[ones])
    assert found.numpy().tolist() == [10.0, 10.0]
    assert len(count) == 2


def kept(number: int = 0) -> Function:
    return Function(f"f{number}", (), None)  # type: ignore[arg-type]


def test_it_is_kept_until_it_is_taken():
    def function():
        pass

    lowered.keep(function, "float32", one := kept())
    assert lowered.take(function, "float64") is None
    assert lowered.take(function, "float32") is one
    assert lowered.take(function, "float32") is None


def test_it_goes_with_the_kernel_and_is_bounded():
    def function():
        pass

    for number in range(40):
        lowered.keep(function, number, kept(number))
    assert lowered.take(function, 0) is None
    assert lowered.take(function, 39) is not None
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None
