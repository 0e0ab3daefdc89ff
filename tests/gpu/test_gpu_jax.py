"""JAX on a GPU: kernels inside jit, their gradients, batches; against JAX's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parent.parent / "interop" / "jax"))

import jax_kernels as k

import diffkern as dk

pytestmark = [pytest.mark.gpu, pytest.mark.real_gpu]

N = 10_000


@pytest.fixture(autouse=True)
def on_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("this build of JAX has no CUDA")


@pytest.mark.parametrize("options", [{}, {"block_dim": 64}, {"launch_bounds": (128, 4)}])
def test_forward_and_gradient(options):
    f = dk.jax_kernel(dk.kernel(**options)(k.wave.func))
    x, y = jnp.linspace(-1.0, 2.0, N), jnp.ones(N)
    found = jax.jit(lambda x: f(x, y, jnp.float32(2.0))[0])(x)
    np.testing.assert_allclose(found, jnp.sin(2.0 * x), rtol=1e-5, atol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: (f(x, y, jnp.float32(2.0))[0] ** 2).sum()))(x)
    wanted = jax.grad(lambda x: (jnp.sin(2.0 * x) ** 2).sum())(x)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)


def test_a_batch():
    f = dk.jax_kernel(k.wave)
    x = jnp.linspace(-1.0, 2.0, 8 * 100).reshape(8, 100)
    found = jax.jit(jax.vmap(lambda x: f(x, jnp.ones(100), jnp.float32(2.0))[0]))(x)
    np.testing.assert_allclose(found, jnp.sin(2.0 * x), rtol=1e-5, atol=1e-6)


def test_a_loop_in_one_program():
    f = dk.jax_kernel(k.wave)

    def step(x, _):
        return f(x, jnp.ones(100), jnp.float32(0.5))[0], None

    found, _ = jax.jit(lambda x: jax.lax.scan(step, x, length=20))(jnp.linspace(0.0, 1.0, 100))
    wanted = np.linspace(0.0, 1.0, 100)
    for _ in range(20):
        wanted = np.sin(0.5 * wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
