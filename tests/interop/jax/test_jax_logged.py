"""Kernels that overwrite what their gradients need, as functions of JAX arrays."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import diffkern as dk
from diffkern.errors import AutodiffError, LaunchError

F = dk.float64
D1, D2 = dk.array(dtype=F), dk.array(dtype=F, ndim=2)
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        yield


@dk.kernel
def relaxed(a: D2, x: D2):
    r = dk.tid()
    for _ in range(x.shape[1]):
        for i in range(x.shape[1]):
            s = F(0.0)
            for j in range(x.shape[1]):
                s += a[i, j] * x[r, j] * x[r, j]
            x[r, i] = 0.9 * x[r, i] + 0.1 * dk.sin(s)


@dk.kernel
def powers(x: D2, y: D2):
    """What is overwritten is an output, which begins as zeros; the log has a size that the kernel says."""
    r = dk.tid()
    for _ in range(5):
        for i in range(40):
            y[r, i] = dk.sin(y[r, i]) * y[r, i] + x[r, i]


@dk.kernel
def repeated(x: D1, n: int):
    r = dk.tid()
    for _ in range(n):
        for i in range(x.shape[0] - 1):
            x[i] = x[i] * x[i + 1] + 0.0 * F(r)


def test_what_is_overwritten_is_logged_again() -> None:
    f = dk.jax_kernel(relaxed, 1, launch_dims=3, in_out_argnames=["x"])
    a, x = (jnp.asarray(RNG.uniform(0.2, 0.9, shape)) for shape in ((4, 4), (3, 4)))
    check_grads(lambda a, x: f(a, x)[0], (a, x), order=2, modes=["rev"])
    both = jax.jit(jax.grad(lambda a, x: f(a, x)[0].sum(), (0, 1)))
    for found, expected in zip(both(a, x), jax.grad(lambda a, x: f(a, x)[0].sum(), (0, 1))(a, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    batched = jax.vmap(jax.grad(lambda x: f(a, x)[0].sum()))(jnp.stack([x, 2.0 * x]))
    one_by_one = [jax.grad(lambda x: f(a, x)[0].sum())(y) for y in (x, 2.0 * x)]
    np.testing.assert_allclose(batched, np.stack(one_by_one), rtol=1e-12)


def test_outputs() -> None:
    f = dk.jax_kernel(powers, 1, launch_dims=2, output_dims=(2, 40))
    check_grads(lambda x: f(x)[0], (jnp.asarray(RNG.uniform(0.2, 0.9, (2, 40))),), order=1, modes=["rev"])


def test_numbers_of_trips_that_are_not_known_are_refused() -> None:
    f = dk.jax_kernel(repeated, 1, launch_dims=1, in_out_argnames=["x"])
    with pytest.raises(AutodiffError, match="depends on more than dimensions and shapes") as caught:
        jax.grad(lambda x: f(x, 3)[0].sum())(jnp.ones(4))
    assert caught.value.loc is not None


@dk.kernel
def compacted(x: D1, count: dk.array(dtype=int), y: D1):
    i = dk.tid()
    s = x[i]
    for _ in range(100):  # work enough for several threads of the CPU
        s = 0.5 * dk.sin(s) + x[i]
    y[dk.atomic_add(count, 0, 1)] = x[i] * x[i] + 0.0 * s


@dk.kernel
def scattered(x: D1, weight: D1, factor: F, count: D1, y: D1):
    i = dk.tid()
    for _ in range(i % 3):
        k = int(dk.atomic_add(count, 0, F(1.0)))
        y[k] = factor * x[i] * x[i] * weight[k]


@dk.kernel
def spread(x: D1, count: dk.array(dtype=int), y: D1):
    i = dk.tid()
    for _ in range(x.shape[0]):
        k = dk.atomic_add(count, 0, 1)
        if k < y.shape[0]:
            y[k] = x[i] * x[i]


@dk.kernel
def anyhow(x: D1, count: dk.array(dtype=int), y: D1):
    k = dk.atomic_add(count, 0, 1)
    y[k] = x[k] * x[k]


X, W = RNG.uniform(0.2, 0.9, (2, 20_000))
compact = dk.jax_kernel(compacted, 2, in_out_argnames=["count"])


def weighed(x):
    """Gradient and value tell the order of slots: it is that of the threads."""
    return (compact(x, jnp.zeros(1, jnp.int32))[1] * W).sum()


def sines(step):
    return lambda x: (jax.lax.scan(lambda c, _: (jnp.sin(step(c)), None), x, None, length=3)[0] * W).sum()


def test_counters_in_every_kind_of_derivative() -> None:
    y = X * X
    exact = 2.0 * X * W
    for grad in (jax.grad(weighed), jax.jit(jax.grad(jax.checkpoint(weighed)))):
        np.testing.assert_allclose(grad(X), exact, rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(jax.grad(weighed), (X,), (X,))[1], exact, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(jax.grad(weighed))(jnp.stack([X, 2.0 * X])), [exact, 2.0 * exact], rtol=1e-12)
    found = jax.grad(sines(lambda x: compact(x, jnp.zeros(1, jnp.int32))[1]))(X)
    np.testing.assert_allclose(found, jax.grad(sines(jnp.square))(X), rtol=1e-10)

    def again(x, n):
        """JAX runs such a loop once for the results, and once more for their tangents."""
        return jax.lax.fori_loop(0, n, lambda _, y: compact(x, jnp.zeros(1, jnp.int32))[1] + 0.0 * y, x)

    found, change = jax.linearize(lambda x: again(x, jnp.int32(2)), X)
    np.testing.assert_array_equal(found, y)
    np.testing.assert_allclose(change(X), 2.0 * y, rtol=1e-12)


def test_floating_point_counters_have_tangents_and_no_gradient() -> None:
    f = dk.jax_kernel(scattered, 2, in_out_argnames=["count"], output_dims=300)
    x, weight = X[:100], jnp.full(300, 2.0)
    value = lambda x: f(x, weight, 1.5, jnp.zeros(1))[1]  # noqa: E731
    found, change = jax.linearize(value, x)
    np.testing.assert_allclose(change(x), 2.0 * found, rtol=1e-12)
    with pytest.raises(AutodiffError, match="returned") as caught:
        jax.grad(lambda x: value(x).sum())(x)
    assert caught.value.loc is not None


def test_counters_in_loops_whose_trips_follow_from_shapes() -> None:
    f = dk.jax_kernel(spread, 2, in_out_argnames=["count"], output_dims=20)
    x, w = X[:5], W[:20]
    found = jax.grad(lambda x: (f(x, jnp.zeros(1, jnp.int32))[1] * w).sum())(x)
    at = np.arange(25).reshape(5, 5)
    slots = np.where(at < 20, np.append(w, np.zeros(5))[at], 0.0).sum(axis=1)
    np.testing.assert_allclose(found, 2.0 * x * slots, rtol=1e-12)


def test_counters_whose_order_cannot_be_fixed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, zero = X[:8], jnp.zeros(1, jnp.int32)
    with pytest.raises(LaunchError, match="have the same index"):
        jax.grad(lambda x: dk.jax_kernel(anyhow, 2, in_out_argnames=["count"])(x, zero)[1].sum())(x)
    with monkeypatch.context() as patch:
        patch.setattr("diffkern.interop.jax.launch.cuda", SimpleNamespace(present=object))
        with pytest.raises(AutodiffError, match="on a GPU") as caught:
            jax.grad(lambda x: compact(x, zero)[1].sum())(x)
    assert caught.value.loc is not None
