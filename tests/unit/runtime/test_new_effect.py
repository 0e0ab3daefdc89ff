"""A new kind of operation on arrays is one class: the recipe in the documentation, as it stands there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.traces import traced

import diffkern as dk
from diffkern.errors import LaunchError

DOCS = (Path(__file__).parents[3] / "docs" / "recipes_runtime.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**An effect**") :]
X, T = np.array([0.5, -2.0, 1.5]), np.array([1.0, 0.5, -1.0])


@pytest.fixture(scope="module")
def scale() -> Any:
    """What the recipe defines."""
    found = re.search(r"code-block:: python\n\n((?:   .*\n|\n)+)", RECIPE)
    assert found is not None
    space: dict[str, Any] = {}
    exec(textwrap.dedent(found[1]), space)
    return space["scale"]


@dk.kernel
def cubes_of(x: dk.array[dk.float64], s: dk.array[dk.float64]):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i] * x[i])


def doubles(values: Any, requires_grad: bool = False) -> Any:
    return dk.array(values, dtype=dk.float64, requires_grad=requires_grad)


@pytest.fixture(scope="module")
def loss(scale: Any) -> Any:
    def loss(x: Any) -> Any:
        y, s = dk.zeros_like(x), dk.zeros(1, dtype=dk.float64)
        scale(y, x, 2.0)
        scale(y[1:], x[1:], 3.0)  # of the first value of these elements nothing is left
        dk.launch(cubes_of, 3, [y, s])
        return s

    return loss


FACTORS = np.array([2.0, 3.0, 3.0])
GRADIENT, SECOND = 3 * FACTORS**3 * X**2, 6 * FACTORS**3 * X


def test_tapes_take_it(loss: Any) -> None:
    x = doubles(X, True)
    with dk.Tape() as tape:
        s = loss(x)
    for _ in range(3):
        x.grad.zero_()
        tape.backward(s)
        np.testing.assert_allclose(x.grad.numpy(), GRADIENT)


def test_its_trace(scale: Any) -> None:
    x, y = doubles(X, True), doubles(X, True)
    with traced() as trace:
        trace.arrays(x=x, y=y)
        with dk.Tape() as tape:
            scale(y, x, 2.0)
        tape.backward(grads={y: dk.ones_like(y)})
    assert [" ".join(line.split()) for line in trace.text.splitlines()] == [
        "scaled reads x writes y", "fill writes t1", "fill writes y.grad", "scaled reads y.grad writes t2",
        "fill writes y.grad", "add reads x.grad, t2 writes x.grad",
    ]  # fmt: skip


def test_functions_take_it_in_both_modes_and_any_order(loss: Any) -> None:
    x, t = doubles(X), doubles(T)
    np.testing.assert_allclose(dk.grad(loss)(x).numpy(), GRADIENT)
    np.testing.assert_allclose(dk.jvp(loss, (x,), (t,))[1].numpy(), [GRADIENT @ T])
    np.testing.assert_allclose(dk.hvp(loss, (x,), (t,))[-1].numpy(), SECOND * T)
    np.testing.assert_allclose(dk.hessian(loss, x), np.diag(SECOND))

    def third(x: Any) -> Any:
        return (dk.hvp(loss, (x,), (t,))[-1] * t).sum()

    np.testing.assert_allclose(dk.grad(third)(x).numpy(), 6 * FACTORS**3 * T**2)


def test_an_argument_that_it_overwrites_has_no_influence(scale: Any) -> None:
    constant = doubles(X)

    def overwritten(x: Any) -> Any:
        s = dk.zeros(1, dtype=dk.float64)
        scale(x, constant, 2.0)
        dk.launch(cubes_of, 3, [x, s])
        return s

    for derivative in (
        lambda: dk.grad(overwritten)(doubles(X)),
        lambda: dk.jvp(overwritten, (doubles(X),), (doubles(T),)),
    ):
        with pytest.raises(LaunchError, match="depends on none of its arguments"):
            derivative()


def test_roll_outs_and_sequences_take_it(scale: Any) -> None:
    x, s = doubles(X, True), doubles([0.0], True)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            y = dk.zeros_like(x, requires_grad=True)
            scale(y, x, 2.0)
            dk.launch(cubes_of, 3, [y, s])
        tape.backward(s)
    x.assign(T)
    x.grad.zero_()
    sequence.replay()
    np.testing.assert_allclose(x.grad.numpy(), 24 * T**2)
    with dk.Tape() as tape:
        dk.checkpoint(lambda k: scale(x, x + 0.0, 1.0 + k), 4, 2)
    x.grad.zero_()
    tape.backward(grads={x: dk.ones_like(x)})
    np.testing.assert_allclose(x.grad.numpy(), 24.0)


def test_a_step_that_is_another_one_the_second_time(scale: Any) -> None:
    x, factors = doubles(X, True), iter(range(1, 100))
    with dk.Tape() as tape:
        dk.checkpoint(lambda k: scale(x, dk.clone(x), float(next(factors))), 4, 1)
    with pytest.raises(LaunchError, match="did something else"):
        tape.backward(grads={x: dk.ones_like(x)})


def test_no_gradient_passes_it_in_no_grad(scale: Any) -> None:
    x = doubles(X, True)
    with dk.Tape() as tape:
        y = x + x
        with dk.no_grad():
            scale(y, x, 2.0)
        z = y + x
    with pytest.raises(LaunchError, match="could not see it"):
        tape.backward(grads={z: dk.ones_like(z)})
