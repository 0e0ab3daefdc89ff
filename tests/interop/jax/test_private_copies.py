"""Adjoints in which threads meet: the same numbers in every run, and those of a tape."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp

import diffkern as dk

N = 60_000


@dk.kernel
def gather(x: dk.array(dtype=float), idx: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[idx[i]]
    s = 0.0
    for k in range(20):
        s += dk.sin(v * float(k)) * 0.1
    y[i] = s


@dk.kernel
def gather64(x: dk.array(dtype=dk.float64), idx: dk.array(dtype=int), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    v = x[idx[i]]
    s = dk.float64(0.0)
    for k in range(20):
        s += dk.sin(v * dk.float64(k)) * dk.float64(0.1)
    y[i] = s


@dk.kernel
def springs(p: dk.array(dtype=dk.vec3), k: dk.array(dtype=float), ends: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    d = p[ends[i]] - p[i % 17]
    s = 0.0
    for n in range(10):
        s += dk.cos(dk.length(d) * float(n))
    y[i] = s * k[ends[i] // 3]


@dk.kernel
def near(a: dk.array(dtype=float), table: dk.array(dtype=float), idx: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    s = a[i] + a[i + 1] * a[i + 2]
    for n in range(10):
        s += dk.sin(table[idx[i]] * float(n) * a[i])
    y[i] = s


@dk.kernel
def everywhere(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    s = 0.0
    for k in range(200):
        s += dk.sin(x[3] * float(k)) * x[k % 5]
    y[0] = s


rng = np.random.default_rng(7)
idx = rng.integers(0, 100, N).astype(np.int32)
x = rng.standard_normal(100).astype(np.float32)

CASES = {
    "gather": (gather, [x, idx], (0,)),
    "double": (gather64, [x.astype(np.float64), idx], (0,)),
    "vectors": (springs, [rng.standard_normal((100, 3)).astype(np.float32), x[:50], idx], (0, 1)),
    "colours": (near, [rng.standard_normal(N + 2).astype(np.float32), x, idx], (0, 1)),
    "many": (gather, [rng.standard_normal(100_000).astype(np.float32), idx], (0,)),
}


def taped(kernel, args, active):
    arrays = []
    for k, (a, p) in enumerate(zip(args, kernel.parameters, strict=False)):
        arrays.append(dk.array(a, dtype=p.annotation.dtype, requires_grad=k in active))
    y = dk.zeros(N, dtype=kernel.parameters[-1].annotation.dtype, requires_grad=True)
    with dk.Tape() as tape:
        kernel[N](*arrays, y)
    tape.backward(grads={y: np.ones(N, y.numpy().dtype)})
    return [arrays[k].grad.numpy() for k in active]


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_a_tape_each_time(case):
    kernel, args, active = CASES[case]
    f = dk.jax_kernel(kernel, launch_dims=N, output_dims=N)
    g = jax.jit(jax.grad(lambda *a: f(*a)[0].sum(), argnums=active))
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(case == "double"):
        runs = [[np.asarray(ct) for ct in g(*args)] for _ in range(5)]
    expected = taped(kernel, args, active)
    if case == "many":  # copies would cost more than the work, so both add atomically, in any order
        np.testing.assert_allclose(runs[0][0], expected[0], rtol=1e-4, atol=1e-4)
        return
    for run in runs:
        for found, wanted in zip(run, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_batches_have_copies_of_their_own():
    f = dk.jax_kernel(gather, launch_dims=N, output_dims=N)
    xs = jnp.stack([x, 2.0 * x, x - 1.0])
    g = jax.grad(lambda v: f(v, idx)[0].sum())
    together = np.asarray(jax.vmap(g)(xs))
    np.testing.assert_array_equal(together, np.stack([np.asarray(g(row)) for row in xs]))


def test_a_cotangent_that_comes_in_is_added_to():
    """An in-out argument's cotangent begins with what JAX passes."""

    @dk.kernel
    def through(t: dk.array(dtype=float), idx: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        s = 0.0
        for k in range(20):
            s += dk.sin(t[idx[i]] * float(k))
        y[i] = s

    f = dk.jax_kernel(through, 2, launch_dims=N, output_dims=N, in_out_argnames=["t"])
    _, pull = jax.vjp(lambda v: f(v, idx), jnp.asarray(x))
    zero, one = jnp.zeros(100, jnp.float32), jnp.ones(N, jnp.float32)
    (alone,), (both,) = pull((zero, one)), pull((zero + 5.0, one))
    np.testing.assert_allclose(np.asarray(both), np.asarray(alone) + 5.0, rtol=1e-3, atol=1e-2)
    assert pull((zero, one))[0].tobytes() == np.asarray(alone).tobytes()


def test_debug_programs(monkeypatch):
    monkeypatch.setattr(dk.config, "mode", "debug")
    f = dk.jax_kernel(gather, launch_dims=N, output_dims=N)
    g = jax.jit(jax.grad(lambda v, i: f(v, i)[0].sum()))
    np.testing.assert_array_equal(np.asarray(g(x, idx)), taped(gather, [x, idx], (0,))[0])
    with pytest.raises(Exception, match="out of bounds"):
        g(x, idx + 50).block_until_ready()


def test_threads_of_one_index():
    f = dk.jax_kernel(everywhere, launch_dims=3000, output_dims=1)
    g = jax.jit(jax.grad(lambda v: f(v)[0].sum()))
    first = np.asarray(g(x))
    assert all(np.asarray(g(x)).tobytes() == first.tobytes() for _ in range(4))
