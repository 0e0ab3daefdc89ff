"""That one thread stores to each element, where an adjoint rests on it: looked at in launches on a tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.launch import stamps

X, N = np.array([0.4, -1.3, 2.2]), 3


@dk.kernel
def changed(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int)):
    i = dk.tid()
    x[at[i]] = dk.sin(x[at[i]])


@dk.kernel
def pulled(x: dk.array(dtype=dk.vec2d), at: dk.array2d(dtype=int), w: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a, b = at[i, 0], at[i, 1]
    middle = 0.5 * (x[a] + x[b])
    x[a] = x[a] + w[i] * (middle - x[a])
    x[b] = x[b] + w[i] * (middle - x[b])


@dk.kernel(race_free=True)
def promised(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int)):
    i = dk.tid()
    x[at[i]] = dk.sin(x[at[i]])


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """The kernels of which launches were stamped."""
    found: list[str] = []
    before = stamps.PackedLaunch.stamping

    def stamping(self: Any, *given: Any) -> Any:
        found.append(self.kernel.name)
        return before(self, *given)

    monkeypatch.setattr(stamps.PackedLaunch, "stamping", stamping)
    return found


def places(*values: int) -> dk.array:
    return dk.array(list(values), dtype=int)


def gradient(kernel: Any, at: dk.array) -> np.ndarray:
    x = dk.array(X, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, N, [x, at])
    tape.backward(grads={x: dk.array([1.0, 2.0, 3.0])})
    return x.grad.numpy()


def test_a_table_that_is_one_to_one_is_looked_at_once(looks):
    at = places(2, 0, 1)
    for _ in range(3):
        np.testing.assert_allclose(gradient(changed, at), np.cos(X) * [1.0, 2.0, 3.0])
    assert looks == ["changed"]
    at.assign([1, 2, 0])
    gradient(changed, at)
    assert looks == ["changed"] * 2


@pytest.mark.parametrize("values", [(1, 0, 1), (0, -3, 2), (2, 2, 2)])
def test_an_element_of_two_threads_is_an_error_that_names_them(values):
    with pytest.raises(dk.AutodiffError, match=r"thread 0 writes x\[\d\] here, and thread \d another value"):
        gradient(changed, places(*values))


def test_it_is_an_error_only_where_a_gradient_needs_the_launch():
    x, y = dk.array(X, requires_grad=True), dk.array(X, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(changed, N, [x, places(0, 0, 1)])
        dk.launch(changed, N, [y, places(0, 1, 2)])
    tape.backward(grads={y: dk.ones(N, dtype=dk.float64)})
    np.testing.assert_allclose(y.grad.numpy(), np.cos(X))


@pytest.mark.parametrize("view", [lambda a: a.numpy(), np.from_dlpack, np.asarray])
def test_a_table_changed_through_a_view_that_is_gone_is_looked_at_again(view):
    at = places(2, 0, 1)
    gradient(changed, at)
    view(at)[:] = [1, 1, 0]
    with pytest.raises(dk.AutodiffError, match="another value"):
        gradient(changed, at)


def test_vectors_at_two_places_of_each_thread(looks):
    start = np.random.default_rng(0).normal(size=(6, 2))
    weights = np.array([0.3, 0.7, 0.2])
    pairs = np.array([[0, 3], [5, 1], [2, 4]], np.int32)

    def weighed(values: np.ndarray) -> float:
        x = values.copy()
        for (a, b), w in zip(pairs, weights, strict=True):
            middle = 0.5 * (x[a] + x[b])
            x[a], x[b] = x[a] + w * (middle - x[a]), x[b] + w * (middle - x[b])
        return float((x * np.arange(12.0).reshape(6, 2)).sum())

    x = dk.array(start, dtype=dk.vec2d, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(pulled, 3, [x, dk.array(pairs), dk.array(weights)])
    tape.backward(grads={x: dk.array(np.arange(12.0).reshape(6, 2), dtype=dk.vec2d)})
    expected = np.zeros((6, 2))
    for k in np.ndindex(6, 2):
        step = np.zeros((6, 2))
        step[k] = 1e-6
        expected[k] = (weighed(start + step) - weighed(start - step)) / 2e-6
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    assert looks == ["pulled"]
    pairs[2, 1] = 0  # which the first thread has as well
    with dk.Tape() as tape:
        dk.launch(pulled, 3, [x, dk.array(pairs), dk.array(weights)])
    with pytest.raises(dk.AutodiffError, match="thread"):
        tape.backward(grads={x: dk.array(np.ones((6, 2)), dtype=dk.vec2d)})


@dk.kernel
def components(v: dk.array2d(dtype=dk.vec3d), x: dk.array2d(dtype=dk.float64), at: dk.array(dtype=int)):
    i, c = dk.tid()
    v[at[i], 0][c] = 2.0 * x[i, c]


def test_threads_may_share_an_element_if_each_has_components_of_its_own(looks):
    rng = np.random.default_rng(1)
    start, added, weights = rng.normal(size=(2, 1, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 1, 3))
    v = dk.array(start, dtype=dk.vec3d, requires_grad=True)
    x = dk.array(added, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(components, (2, 3), [v, x, places(1, 0)])
    np.testing.assert_allclose(v.numpy(), 2.0 * added[::-1, None])
    tape.backward(grads={v: dk.array(weights, dtype=dk.vec3d)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * weights[::-1, 0])
    np.testing.assert_allclose(v.grad.numpy(), 0.0, atol=1e-15)
    assert looks == ["components"]


def test_whoever_promises_it_is_taken_at_his_word(looks):
    np.testing.assert_allclose(gradient(promised, places(2, 0, 1)), np.cos(X) * [1.0, 2.0, 3.0])
    gradient(promised, places(1, 1, 1))
    assert not looks


def test_recorded_launches_rest_on_the_precondition(looks):
    x, at, ones = dk.array(X, requires_grad=True), places(2, 0, 1), dk.ones(N, dtype=dk.float64)
    with dk.record() as steps:
        with dk.Tape() as tape:
            dk.launch(changed, N, [x, at])
        tape.backward(grads={x: ones})
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))
    x.assign(X)
    x.grad.zero_()
    steps.replay()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))
    assert not looks
