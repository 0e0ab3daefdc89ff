"""A hash grid in a function of JAX: its id is a number, and there is no gradient."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("jax")

import jax

import diffkern as dk


@dk.kernel
def density(x: dk.array(dtype=dk.vec3), grid: dk.uint64, rho: dk.array(dtype=float)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], 1.0):
        rho[i] += dk.length_sq(x[i] - x[j])


def test_values_but_no_gradient():
    points = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    grid = dk.HashGrid(64, 64, 64)
    grid.build(dk.array(points, dtype=dk.vec3), 1.0)
    function = dk.jax_kernel(density, output_dims=30, launch_dims=30)
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        (found,) = function(points, grid.id)
        rho = dk.zeros(30)
        dk.launch(density, 30, [dk.array(points, dtype=dk.vec3), grid.id, rho])
        np.testing.assert_allclose(found, rho.numpy(), rtol=1e-6)
        with pytest.raises(dk.AutodiffError, match="may be another one when JAX runs the adjoint"):
            jax.grad(lambda x: function(x, grid.id)[0].sum())(points)
