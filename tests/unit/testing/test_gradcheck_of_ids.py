"""Checks of kernels that find things by an id: what lies in memory stays as narrow as it is, and is read as such."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import GradientError, gradcheck


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


@dk.kernel
def fill(volume: dk.uint64, values: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.volume_store(volume, i, 0, 0, values[i] * values[i])


@dk.kernel
def sampled(volume: dk.uint64, y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    place = dk.vec3(0.25 + float(i), 0.0, 0.0)
    y[i] = dk.volume_sample(volume, place, dk.Volume.LINEAR, dtype=dk.float64)


def test_what_is_stored_to_a_volume_is_compared_in_the_whole_function() -> None:
    volume = dk.Volume.allocate([0, 0, 0], [7, 0, 0], 1.0, np.float64(0.0), requires_grad=True)

    def through(values: dk.array) -> dk.array:
        y = dk.zeros(3, dtype=dk.float64, requires_grad=True)
        dk.launch(fill, 4, inputs=[volume.id, values])
        dk.launch(sampled, 3, inputs=[volume.id], outputs=[y])
        return y

    report = gradcheck(through, inputs=[dk.array([0.5, -1.0, 2.0, 1.5], dtype=dk.float64)], mode="reverse")
    assert report.whole == 4
    assert [launch.kernel for launch in report.launches] == ["sampled"]
    with pytest.raises(GradientError, match="compared nothing: it changes no array of floats"):
        gradcheck(fill, 4, [volume.id, dk.ones(4, dtype=dk.float64)], mode="reverse")


@dk.kernel
def filled_and_squared(volume: dk.uint64, values: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.volume_store(volume, i, 0, 0, values[i] + 1.0)
    y[i] = values[i] * values[i]


def test_checks_leave_a_volume_as_it_is() -> None:
    volume = dk.Volume.allocate([0, 0, 0], [7, 0, 0], 1.0, np.float64(0.0))
    given, y = [volume.id, dk.array([0.5, -2.0], dtype=dk.float64)], dk.zeros(2, dtype=dk.float64)
    dk.launch(filled_and_squared, 2, given, [y])
    before = volume.values.numpy().copy()
    assert before.any()
    assert gradcheck(filled_and_squared, 2, given, [y], mode="reverse").checked == 4
    np.testing.assert_array_equal(volume.values.numpy(), before)
