"""Meshes in functions of tensors: the gradient is for the mesh of the call, or there is an error."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

require("torch")

import torch

import diffkern as dk

# PyTorch scripts its own decompositions, and says of itself that it should not.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

POINTS = np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 10]])


def made() -> dk.Mesh:
    return dk.Mesh(dk.array(POINTS, dtype=dk.vec3), dk.array([0, 1, 2], dtype=int))


CAPTURED = made()
CAPTURED_ID = CAPTURED.id


@dk.kernel
def scaled(given: dk.uint64, x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.mesh_get_point(dk.uint64(CAPTURED_ID), i)[0] * x[i] + dk.mesh_get_point(given, i)[1] * x[i]


of_tensors = dk.torch_function(scaled)


def test_a_captured_mesh_beside_another_one_that_is_an_argument():
    mesh, x = made(), torch.ones(3, requires_grad=True)
    y = of_tensors(mesh.id, x)
    CAPTURED.points = mesh.points = dk.zeros(3, dtype=dk.vec3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 9, 15]


def test_where_a_gradient_is_not_to_be_had_there_is_an_error():
    CAPTURED.points = dk.array(POINTS, dtype=dk.vec3)
    mesh, x = made(), torch.ones(3, requires_grad=True)
    y = of_tensors(mesh.id, x)
    mesh.points.numpy()[0] = 0
    with pytest.raises(dk.LaunchError, match="the points or velocities of a Mesh, was changed after a call"):
        y.sum().backward()
    CAPTURED.points = dk.array(POINTS, dtype=dk.vec3, requires_grad=True)
    assert of_tensors(mesh.id, torch.ones(3)).tolist() == [1, 9, 15]
    with pytest.raises(dk.LaunchError, match="in a function of PyTorch no derivative goes that way"):
        of_tensors(mesh.id, x)
