"""Checks of kernels that find things by an id: what lies in memory stays as narrow as it is, and is read as such."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import gradcheck


@dk.kernel
def depths(mesh: dk.uint64, start: dk.array(dtype=dk.vec3), along: dk.array(dtype=dk.vec3), t: dk.array(dtype=float)):
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, start[i], along[i], 100.0)
    if hit.result:
        t[i] = hit.t


def test_rays_on_a_mesh_are_compared_in_double_precision() -> None:
    points = dk.array(np.float32([[-3, -3, 5], [3, -3, 6], [0, 3, 5]]), dtype=dk.vec3, requires_grad=True)
    mesh = dk.Mesh(points, dk.array([0, 1, 2], dtype=int))
    start = dk.array(np.float32([[0, 0, 0.5], [0.1, -0.2, 0], [9, 9, 0]]), dtype=dk.vec3)
    along = dk.array(np.float32([[0, 0, 1], [0.1, 0, 1], [0, 0, 1]]), dtype=dk.vec3)
    report = gradcheck(depths, 3, [mesh.id, start, along], [dk.zeros(3)])
    # Had it read nothing or something else in double precision, the gradient in single precision would differ.
    assert (report.checked, report.forward, report.kinks) == (21, 3, ())


@pytest.mark.full
def test_a_function_says_how_many_elements_were_compared_as_a_whole() -> None:
    points = dk.array(np.float32([[-3, -3, 5], [3, -3, 6], [0, 3, 5]]), dtype=dk.vec3)
    mesh = dk.Mesh(points, dk.array([0, 1, 2], dtype=int))
    along = dk.array(np.float32([[0, 0, 1], [0.1, 0, 1]]), dtype=dk.vec3)

    def seen(start: dk.array) -> dk.array:
        t = dk.zeros(2, requires_grad=True)
        dk.launch(depths, 2, inputs=[mesh.id, start, along], outputs=[t])
        return t

    report = gradcheck(seen, inputs=[dk.zeros(2, dtype=dk.vec3)])
    assert report.whole == 6
    assert "differences of the whole function  6 elements" in str(report)
