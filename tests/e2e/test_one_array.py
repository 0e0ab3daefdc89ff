"""Launches that are given one array for several parameters, and write to it: their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError, LaunchError

F64 = dk.float64
f1 = dk.array(dtype=F64)


@dk.kernel
def square(a: f1, y: f1):
    i = dk.tid()
    y[i] = a[i] * a[i]


@dk.kernel
def written_first(y: f1, a: f1):
    i = dk.tid()
    y[i] = dk.sin(a[i])
    y[i] = a[i] * y[i]


@dk.kernel
def both(a: f1, y: f1, z: f1):
    i = dk.tid()
    y[i] = a[i] * a[i]
    z[i] = a[i] * y[i] + z[i]


@dk.kernel
def again_and_again(a: f1, y: f1, n: int):
    i = dk.tid()
    for _ in range(n):
        y[i] = dk.sin(a[i]) * y[i]


@dk.kernel
def halves(a: f1, y: f1, n: int):
    i = dk.tid()
    y[n + i] = a[i] * y[n + i]


@dk.kernel
def neighbour(a: f1, y: f1):
    i = dk.tid()
    y[i] = a[(i + 1) % a.shape[0]] * a[i]


X, OWN = "x", "own"
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (square, (X, X)),
    (written_first, (X, X)),
    (both, (X, X, OWN)),
    (both, (X, OWN, X)),
    (both, (OWN, X, X)),
    (both, (X, X, X)),
    (again_and_again, (X, X, 3)),
]
START = np.array([0.5, 1.2, -0.7, 2.0])


def roll(kernel: Any, places: tuple[Any, ...], twice: bool = True) -> Any:
    """The launches as a function of the array, which is not changed."""

    def f(x: Any) -> Any:
        x, own = dk.clone(x), dk.full(4, 0.3, dtype=F64, requires_grad=True)
        for _ in range(1 + twice):
            dk.launch(kernel, dim=4, inputs=[{X: x, OWN: own}.get(place, place) for place in places])
        return x

    return f


@dk.kernel
def weighted(x: f1, s: f1):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * (1.0 + 0.5 * dk.float64(i)))


def total(f: Any) -> Any:
    def loss(x: Any) -> Any:
        s = dk.zeros(1, dtype=F64)
        dk.launch(weighted, dim=4, inputs=[f(x), s])
        return s

    return loss


def gradient(f: Any, at: np.ndarray) -> np.ndarray:
    x = dk.array(at, requires_grad=True)
    with dk.Tape() as tape:
        s = total(f)(x)
    tape.backward(s)
    return x.grad.numpy().copy()


@pytest.mark.parametrize(("kernel", "places"), CASES)
def test_derivatives(kernel: Any, places: tuple[Any, ...]):
    """Gradient, product along tangents and product with second derivatives, against central differences."""
    f, way, eps = roll(kernel, places), np.array([0.3, -1.0, 0.5, 0.2]), 1e-6
    slope = (total(f)(dk.array(START + eps * way)).numpy() - total(f)(dk.array(START - eps * way)).numpy()) / (2 * eps)
    np.testing.assert_allclose(gradient(f, START) @ way, slope[0], rtol=1e-7, atol=1e-9)
    _, change = dk.jvp(total(f), (dk.array(START),), (dk.array(way),))
    np.testing.assert_allclose(change.numpy(), slope, rtol=1e-7, atol=1e-9)
    (product,) = dk.hvp(total(f), (dk.array(START),), (dk.array(way),))
    second = (gradient(f, START + eps * way) - gradient(f, START - eps * way)) / (2 * eps)
    np.testing.assert_allclose(product.numpy(), second, rtol=1e-6, atol=1e-8)


def test_the_launch_decides():
    """Indices that are apart for the launch's numbers alone."""
    x = dk.array(np.arange(1.0, 9.0), requires_grad=True)
    for n in (4, 2):
        with dk.Tape() as tape:
            y = dk.clone(x)
            dk.launch(halves, dim=4, inputs=[y, y, n])
        if n == 4:
            tape.backward(grads={y: np.ones(8)})
            np.testing.assert_array_equal(x.grad.numpy(), [6, 7, 8, 9, 1, 2, 3, 4])
            continue
        with pytest.raises(AutodiffError, match="with n=2"):
            tape.backward(grads={y: np.ones(8)})


def test_threads_that_race():
    x = dk.array(START, requires_grad=True)
    with dk.Tape() as tape:
        neighbour[4](x, x)
    with pytest.raises(AutodiffError, match=r"thread 3 reads a\[0\] here, which thread 0 writes"):
        tape.backward(grads={x: np.ones(4)})


def test_parts_of_one_another_are_refused():
    x = dk.array(START, requires_grad=True)
    with dk.Tape(), pytest.raises(LaunchError, match="'a' and 'y' share memory"):
        square[2](x[:2], x[1:3])


def test_by_hand():
    """One gradient for one array; what the array held before is known to tapes alone."""

    @dk.kernel
    def doubled(a: f1, y: f1):
        i = dk.tid()
        y[i] = 2.0 * a[i]

    x, ct = dk.array(START), dk.array(np.ones(4))
    dk.launch(doubled, 4, [x, x], adj_inputs=[ct, ct], adjoint=True)
    np.testing.assert_array_equal(ct.numpy(), 2.0)
    dk.launch(doubled, 4, [x, x], adj_inputs=[None, ct], adjoint=True)
    np.testing.assert_array_equal(ct.numpy(), 4.0)
    with pytest.raises(LaunchError, match="'a' and 'y' are one array, and have two gradients"):
        dk.launch(doubled, 4, [x, x], adj_inputs=[ct, dk.array(np.ones(4))], adjoint=True)
    with pytest.raises(LaunchError, match="needs what 'a' held before"):
        dk.launch(square, 4, [x, x], adj_inputs=[ct, ct], adjoint=True)
    record = dk.launch(doubled, 4, [x, x], adj_inputs=[ct, ct], adjoint=True, record_cmd=True)
    record.launch()
    np.testing.assert_array_equal(ct.numpy(), 8.0)


def test_two_arrays_and_one_in_turn():
    """Programs for one array are not those for two."""
    x, y = dk.array(START, requires_grad=True), dk.zeros(4, dtype=F64, requires_grad=True)
    for at in (y, x, y):
        x.assign(START)
        x.grad.zero_()
        y.grad.zero_()
        with dk.Tape() as tape:
            square[4](x, at)
        tape.backward(grads={at: np.ones(4)})
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * START)


f2 = dk.array(dtype=F64, ndim=2)


@dk.kernel
def swept(x: f2, n: int, y: f2):
    r = dk.tid()
    for _ in range(n):
        for i in range(x.shape[1] - 1):
            y[r, i] = dk.sin(x[r, i]) * x[r, i + 1]


@dk.kernel
def swept_in_place(x: f2, n: int):
    r = dk.tid()
    for _ in range(n):
        for i in range(x.shape[1] - 1):
            x[r, i] = dk.sin(x[r, i]) * x[r, i + 1]


ROWS = np.random.default_rng(0).uniform(0.5, 1.5, (3, 7))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 1.5, (3, 7))


def by_tape(run: Any) -> np.ndarray:
    x = dk.array(ROWS, requires_grad=True)
    with dk.Tape() as tape:
        run(x)
    tape.backward(grads={x: WEIGHTS})
    return x.grad.numpy().copy()


def by_sequence(run: Any) -> np.ndarray:
    x = dk.array(ROWS, requires_grad=True)
    with dk.record(run=False) as sequence:
        run(x)
    adjoint = sequence.adjoint(grads={x: WEIGHTS})
    for _ in range(2):
        x.assign(ROWS)
        adjoint.replay()
    return x.grad.numpy().copy()


def by_function(run: Any) -> np.ndarray:
    def f(x: Any) -> Any:
        y = dk.clone(x)
        run(y)
        return y

    _, (gradient,) = dk.vjp(f, (dk.array(ROWS),), WEIGHTS)
    along = dk.jacobian(f, dk.array(ROWS), mode="forward")
    np.testing.assert_allclose(np.einsum("ij,ijkl->kl", WEIGHTS, along), gradient.numpy(), rtol=1e-9)
    return gradient.numpy()


def by_roll_out(run: Any) -> np.ndarray:
    return by_tape(lambda x: dk.checkpoint(lambda _: run(x), 1, 1))


@pytest.mark.parametrize("way", [by_tape, by_sequence, by_function, by_roll_out])
def test_values_that_one_array_overwrites_are_logged(way: Any):
    """Neither of the two parameters is read and written; the array is."""
    expected = by_tape(lambda x: dk.launch(swept_in_place, 3, [x, 3]))
    np.testing.assert_allclose(way(lambda x: dk.launch(swept, 3, [x, 3, x])), expected, rtol=1e-12)


def test_without_a_tape_the_log_is_missed_by_name():
    x = dk.array(ROWS, requires_grad=True)
    with pytest.raises(LaunchError, match="needs what x held"):
        dk.launch(swept, 3, [x, 3, x], adjoint=True)
