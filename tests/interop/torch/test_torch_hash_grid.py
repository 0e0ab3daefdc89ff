"""A hash grid in functions of tensors: its id is a number, and the gradient is for the grid of the call."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk

# PyTorch scripts its own decompositions, and says of itself that it should not.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

N, RADIUS = 40, 0.8


@dk.kernel
def density(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], h):
        r = x[i] - x[j]
        q = h * h - dk.dot(r, r)
        if q > 0.0:
            rho[i] += q * q * q


of_tensors = dk.torch_function(density, output_dims=N, launch_dims=N)


def in_torch(x: torch.Tensor) -> torch.Tensor:
    square = ((x[:, None] - x[None]) ** 2).sum(dim=-1)
    return (torch.clamp(RADIUS**2 - square, min=0.0) ** 3).sum(dim=1)


def test_the_gradient_is_for_the_grid_of_the_call():
    points = np.random.default_rng(1).normal(size=(N, 3))
    grid, gradients = dk.HashGrid(3, 4, 2, dtype=dk.float64), []
    for function in (lambda x: of_tensors(grid.id, x, RADIUS), in_torch):
        x = torch.tensor(points, requires_grad=True)
        grid.build(dk.array(points, dtype=dk.vec3d), RADIUS)
        rho = function(x)
        grid.build(dk.zeros(3, dtype=dk.vec3d), 0.1)
        (rho * torch.arange(N)).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_a_traced_call_has_no_gradient():
    points = np.random.default_rng(1).normal(size=(N, 3))
    grid = dk.HashGrid(3, 4, 2, dtype=dk.float64)
    grid.build(dk.array(points, dtype=dk.vec3d), RADIUS)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return of_tensors(grid.id, x, RADIUS).sum()

    with pytest.raises(dk.AutodiffError, match=r"looks at an object on the host by its id"):
        torch.func.grad(loss)(torch.tensor(points))


def test_forward_mode_goes_through_the_query_and_second_derivatives_are_refused():
    points, directions = np.random.default_rng(1).normal(size=(2, N, 3))
    grid = dk.HashGrid(3, 4, 2, dtype=dk.float64)
    grid.build(dk.array(points, dtype=dk.vec3d), RADIUS)
    x, t = torch.tensor(points), torch.tensor(directions)
    found = torch.func.jvp(lambda x: of_tensors(grid.id, x, RADIUS), (x,), (t,))
    torch.testing.assert_close(found, torch.func.jvp(in_torch, (x,), (t,)))
    x.requires_grad_()
    (first,) = torch.autograd.grad(of_tensors(grid.id, x, RADIUS).sum(), x, create_graph=True)
    with pytest.raises(dk.AutodiffError, match="by its id, so its gradient cannot be differentiated again"):
        torch.autograd.grad(first.sum(), x)
