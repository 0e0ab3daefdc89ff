"""Functions of JAX arrays are pickled and copied, by the import paths of their kernels."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from conftest import require

require("jax")

import jax.numpy as jnp
from jax_kernels import smooth, wave

import diffkern as dk


def twice(x: dk.array(dtype=float), out: dk.array(dtype=float)):
    dk.launch(smooth, dim=x.shape, inputs=[x], outputs=[out])


@dk.jax_callable
def decorated(x: dk.array(dtype=float), out: dk.array(dtype=float)):
    dk.launch(smooth, dim=x.shape, inputs=[x], outputs=[out])


WAYS = [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))]


@pytest.mark.parametrize("way", WAYS)
def test_jax_kernel(way):
    f = dk.jax_kernel(wave, vmap_method="sequential")
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(way(f)(x, x, 2.0)[0], f(x, x, 2.0)[0])


@pytest.mark.parametrize("way", WAYS)
def test_jax_callable(way):
    x = jnp.arange(3.0)
    expected = dk.jax_kernel(smooth)(x)[0]
    np.testing.assert_array_equal(way(dk.jax_callable(twice))(x)[0], expected)
    assert way(decorated) is decorated or way is copy.copy
