"""Derivatives of functions that change their arguments, by launches or by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError

F64 = dk.float64
X = np.array([0.5, -1.0, 2.0])


def doubles(values: Any, requires_grad: bool = False) -> dk.array:
    return dk.array(np.asarray(values, np.float64), dtype=F64, requires_grad=requires_grad)


@dk.kernel
def twice_sine(x: dk.array[F64]):
    i = dk.tid()
    x[i] = 2.0 * dk.sin(x[i])


@dk.kernel
def thrice(x: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = 3.0 * x[i]


@dk.kernel
def add_cubes(x: dk.array[F64], s: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i] * x[i])


@dk.kernel
def scaled_sines(a: dk.array[F64], b: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = a[i] * dk.sin(b[i])


def moved(x):
    twice_sine[3](x)
    return x


def loss(x):
    s = dk.zeros(1, dtype=F64)
    add_cubes[3](moved(x), s)
    return s


SINES, COSINES = 2 * np.sin(X), 2 * np.cos(X)
sparsities = pytest.mark.parametrize("sparsity", [None, "find", np.eye(3)], ids=["none", "find", "given"])


@sparsities
@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_a_jacobian_of_a_function_that_overwrites_its_argument(mode, sparsity):
    x = doubles([*X, 7.0])[:3]
    found = dk.jacobian(moved, x, mode=mode, sparsity=sparsity)
    np.testing.assert_allclose(found, np.diag(COSINES), rtol=1e-12)
    np.testing.assert_array_equal(x.numpy(), X)


@sparsities
@pytest.mark.parametrize("is_lent", [False, True])
def test_a_hessian_of_a_function_that_overwrites_its_argument(sparsity, is_lent):
    x = doubles(X)
    view = x.numpy() if is_lent else None
    found = dk.hessian(loss, x, sparsity=sparsity)
    np.testing.assert_allclose(found, np.diag(6 * SINES * COSINES**2 - 3 * SINES**3), rtol=1e-12)
    np.testing.assert_array_equal(x.numpy(), X)
    assert view is None or (view == X).all()


def test_an_argument_is_restored_behind_an_error():
    def fails(x):
        moved(x)
        raise ValueError("too far")

    x = doubles(X)
    for derivative in (dk.jacobian, dk.hessian):
        with pytest.raises(ValueError, match="too far"):
            derivative(fails, x)
        np.testing.assert_array_equal(x.numpy(), X)


views = []
CHANGES = {
    "for a moment": lambda a: np.multiply(a.numpy(), 2, out=a.numpy()),
    "by a view that lives on": lambda a: views.append(a.numpy()) or np.multiply(views[-1], 2, out=views[-1]),
    "of a part": lambda a: np.multiply(a[1:].numpy(), 2, out=a[1:].numpy()),
}


@pytest.mark.parametrize("derivative", ["grad", "vjp", "jvp", "hvp", "jacobian"])
@pytest.mark.parametrize("place", ["argument", "between"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_numpy_changes_in_a_function(change, place, derivative):
    def function(x):
        if place == "argument":
            CHANGES[change](x)
        y, s = dk.zeros(3, dtype=F64), dk.zeros(1, dtype=F64)
        thrice[3](x, y)
        if place == "between":
            CHANGES[change](y)
        add_cubes[3](y, s)
        return s

    x, t = doubles(X), doubles(np.ones(3))
    derivatives = {
        "grad": lambda: dk.grad(function)(x),
        "vjp": lambda: dk.vjp(function, (x,), doubles([1.0])),
        "jvp": lambda: dk.jvp(function, (x,), (t,)),
        "hvp": lambda: dk.hvp(function, (x,), (t,)),
        "jacobian": lambda: dk.jacobian(function, x),
    }
    with pytest.raises(LaunchError, match="was changed"):
        derivatives[derivative]()


@pytest.mark.parametrize("derivative", ["grad", "jvp"])
def test_what_is_only_looked_at(derivative):
    def function(x):
        x.numpy().sum()
        y, s = dk.zeros(3, dtype=F64), dk.zeros(1, dtype=F64)
        thrice[3](x, y)
        y.numpy().sum()
        add_cubes[3](y, s)
        return s

    x = doubles(X)
    found = dk.grad(function)(x) if derivative == "grad" else dk.jvp(function, (x,), (doubles(np.eye(3)[1]),))[1]
    expected = 81 * X**2
    np.testing.assert_allclose(found.numpy(), expected if derivative == "grad" else expected[1:2], rtol=1e-12)


def test_tangents_in_a_step_of_a_roll_out():
    w, state = doubles([1.0, 2.0, 3.0], True), doubles(X, True)

    def sines_of(a):
        y = dk.zeros(3, dtype=F64)
        scaled_sines[3](w, a, y)
        return y

    with dk.Tape() as tape:
        dk.checkpoint(lambda k: dk.copy(state, dk.jvp(sines_of, (state,), (w,))[1]), 3, 2)
    tape.backward(grads={state: doubles(np.ones(3))})

    def last(weights):
        x = X
        for _ in range(3):
            x = weights * np.cos(x) * weights
        return x

    weights = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(state.numpy(), last(weights), rtol=1e-12)
    found = [(last(weights + h)[k] - last(weights - h)[k]) / 2e-6 for k, h in enumerate(np.eye(3) * 1e-6)]
    np.testing.assert_allclose(w.grad.numpy(), found, rtol=1e-6)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_is_left_as_it_is_is_not_written(mode):
    data = X.copy()
    data.flags.writeable = False
    x = dk.from_numpy(data)

    def function(x):
        y = dk.zeros(3, dtype=F64)
        thrice[3](x, y)
        return y

    np.testing.assert_array_equal(dk.jacobian(function, x, mode=mode), 3 * np.eye(3))
    view = doubles(X)
    held = view.numpy()
    version = view._memory.now
    dk.jacobian(function, view, mode=mode)
    assert view._memory.now == version
    assert (held == X).all()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_jacobian_of_a_function_whose_argument_numpy_changes(mode):
    def function(x):
        y = dk.zeros(3, dtype=F64)
        thrice[3](x, y)
        np.multiply(x.numpy(), 2, out=x.numpy())
        return y

    x = doubles(X)
    np.testing.assert_array_equal(dk.jacobian(function, x, mode=mode), 3 * np.eye(3))
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("alias", [dk.from_dlpack, np.asarray])
@pytest.mark.parametrize("derivative", ["grad", "jvp", "jacobian"])
def test_arrays_that_went_through_another_library(alias, derivative):
    def function(x):
        y, s = dk.zeros(3, dtype=F64), dk.zeros(1, dtype=F64)
        thrice[3](x, y)
        add_cubes[3](alias(y), s)
        add_cubes[3](y, s)
        return s

    x = doubles(X)
    derivatives = {
        "grad": lambda: dk.grad(function)(x),
        "jvp": lambda: dk.jvp(function, (x,), (doubles(np.ones(3)),)),
        "jacobian": lambda: dk.jacobian(function, x, mode="forward"),
    }
    with pytest.raises(LaunchError):
        derivatives[derivative]()
