"""What a kernel, or the function around it, captures may change: before a call, and between it and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp

import diffkern as dk

SCALE = 2.0
STEPS = 1


@dk.kernel
def times(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = SCALE * x[i]


def chain(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    inner = dk.zeros(4)
    for _ in range(STEPS):
        dk.launch(times, 4, [x], [inner])
    dk.launch(times, 4, [inner], [y])


x, one = jnp.ones(4, jnp.float32), jnp.ones(4, jnp.float32)


def test_the_derivative_is_that_of_the_call(monkeypatch):
    f = dk.jax_kernel(times)
    y, pull = jax.vjp(f, x)
    g, late = jax.vjp(jax.jit(lambda v: f(v)[0]), x)
    _, change = jax.linearize(lambda v: f(v)[0], x)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert change(one).tolist() == [2] * 4
    assert f(x)[0].tolist() == [5] * 4
    assert change(one).tolist() == [2] * 4
    assert jax.jvp(lambda v: f(v)[0], (x,), (one,))[1].tolist() == [5] * 4
    assert (y[0].tolist(), g.tolist()) == ([2] * 4, [2] * 4)
    assert pull((one,))[0].tolist() == [2] * 4
    assert late(one)[0].tolist() == [2] * 4
    assert jax.grad(lambda v: f(v)[0].sum())(x).tolist() == [5] * 4


def test_a_function_of_launches_notices_what_its_kernels_capture(monkeypatch):
    f = dk.jax_callable(chain)
    assert f(x)[0].tolist() == [4] * 4
    _, pull = jax.vjp(f, x)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert f(x)[0].tolist() == [25] * 4
    assert pull((one,))[0].tolist() == [4] * 4
    assert jax.grad(lambda v: f(v)[0].sum())(x).tolist() == [25] * 4
    assert f(x)[0].tolist() == [25] * 4


def test_a_function_of_launches_notices_what_it_captures_itself(monkeypatch):
    factor = 2.0

    @dk.kernel
    def by(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = a * x[i]

    def passed(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        dk.launch(by, 4, [x, factor * STEPS], [y])

    f = dk.jax_callable(passed)
    assert f(x)[0].tolist() == [2] * 4
    factor = 3.0
    assert f(x)[0].tolist() == [3] * 4
    monkeypatch.setitem(globals(), "STEPS", 2)
    assert f(x)[0].tolist() == [6] * 4


def test_a_function_of_launches_notices_the_mode(monkeypatch):
    @dk.kernel
    def pick(x: dk.array(dtype=float), i: dk.array(dtype=int), y: dk.array(dtype=float)):
        t = dk.tid()
        y[t] = x[i[t]]

    def picked(x: dk.array(dtype=float), i: dk.array(dtype=int), y: dk.array(dtype=float)):
        dk.launch(pick, 4, [x, i], [y])

    f = dk.jax_callable(picked)
    inside = np.array([0, 1, 2, 3], np.int32)
    assert f(x, inside)[0].tolist() == [1] * 4
    monkeypatch.setattr(dk.config, "mode", "debug")
    with pytest.raises(Exception, match="out of bounds"):
        f(x, inside + 1)[0].block_until_ready()
    monkeypatch.setattr(dk.config, "mode", "release")
    assert f(x, inside)[0].tolist() == [1] * 4
