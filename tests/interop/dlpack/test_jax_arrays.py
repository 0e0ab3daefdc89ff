"""JAX's arrays in launches and by DLPack, and NumPy's arrays of bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp
import ml_dtypes

import diffkern as dk


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def double_half(x: dk.array(dtype=dk.bfloat16), y: dk.array(dtype=dk.bfloat16)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_a_jax_array_is_read_in_place():
    x, y = jnp.arange(4, dtype=jnp.float32), dk.zeros(4)
    taken = dk.from_dlpack(x)
    assert taken.ptr == x.unsafe_buffer_pointer()
    double[4](x, y)
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(4))


def test_a_jax_array_is_never_written():
    x = jnp.zeros(4, dtype=jnp.float32)
    with pytest.raises(dk.LaunchError, match=r"parameter 'y'.*read-only"):
        double[4](dk.ones(4), x)
    with pytest.raises(ValueError, match="read-only"):
        dk.from_dlpack(x).fill_(1.0)
    assert (np.asarray(x) == 0.0).all()


def test_jax_takes_arrays():
    a = dk.array(np.arange(6, dtype=np.float32).reshape(2, 3), dtype=dk.vec3)
    taken = jnp.from_dlpack(a)
    np.testing.assert_array_equal(np.asarray(taken), a.numpy())
    half = dk.zeros(64, dtype=dk.bfloat16)
    half.fill_(1.5)
    assert jax.dlpack.from_dlpack(half).dtype == jnp.bfloat16


def test_bfloat16_of_jax_and_of_numpy():
    y = np.zeros(3, dtype=ml_dtypes.bfloat16)
    double_half[3](jnp.full(3, 1.25, dtype=jnp.bfloat16), y)
    np.testing.assert_array_equal(y.astype(np.float32), [2.5, 2.5, 2.5])
    made = dk.array(y)
    assert made.dtype == dk.bfloat16
    np.testing.assert_array_equal(made.numpy(), y.view(np.uint16))
    assert dk.array(y, copy=False).ptr == y.ctypes.data


def test_a_tracer_is_refused():
    def inside(x):
        double[3](x, dk.zeros(3))
        return x

    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*JAX is tracing it"):
        jax.jit(inside)(jnp.ones(3))
