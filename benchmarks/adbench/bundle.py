"""Bundle adjustment: reprojection errors of points in cameras, and their sparse Jacobian.

In: cameras of eleven numbers (rotation, centre, focal length, principal point, two numbers of radial distortion),
points, and observations: which camera sees which point where, with a weight. Out: two errors and one of the weight for
each observation, and the numbers of the Jacobian that are not zero by structure: fifteen for each of the two errors
(camera, point, weight), one for the third.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case, Data

import diffkern as dk

REAL = dk.float64
Camera = dk.types.vector(11, dk.float64)
COLUMNS = 15


def data(cameras: int, points: int, observations: int, seed: int = 0) -> Data:
    """Inputs of the suite's form: observations go round the cameras and the points."""
    rng = np.random.default_rng(seed)
    camera = np.concatenate(
        [
            rng.normal(0.0, 0.5, (cameras, 3)),
            rng.normal(0.0, 1.0, (cameras, 3)) - [0.0, 0.0, 10.0],
            rng.uniform(0.8, 1.2, (cameras, 1)),
            rng.normal(0.0, 0.1, (cameras, 2)),
            rng.normal(0.0, 0.01, (cameras, 2)),
        ],
        axis=1,
    )
    turn = np.arange(observations)
    return {
        "cameras": camera,
        "points": rng.normal(size=(points, 3)),
        "weights": rng.uniform(0.5, 1.5, observations),
        "features": rng.normal(size=(observations, 2)),
        "seen": np.stack([turn % cameras, turn % points], axis=1).astype(np.int32),
    }


@dk.func
def rotated(rotation: dk.vec3d, x: dk.vec3d):
    """Rodrigues' formula: `x` turned about `rotation` by its length."""
    square = dk.dot(rotation, rotation)
    if square == 0.0:
        return x + dk.cross(rotation, x)
    angle = dk.sqrt(square)
    axis = rotation / angle
    return x * dk.cos(angle) + dk.cross(axis, x) * dk.sin(angle) + axis * (dk.dot(axis, x) * (1.0 - dk.cos(angle)))


@dk.func
def residual(camera: Camera, point: dk.vec3d, weight: REAL, feature: dk.vec2d):
    """The weighted distance of a projected point from where it was seen."""
    seen = rotated(camera[0:3], point - camera[3:6])
    flat = dk.vec2d(seen[0] / seen[2], seen[1] / seen[2])
    square = dk.dot(flat, flat)
    stretch = 1.0 + camera[9] * square + camera[10] * square * square
    return weight * (flat * stretch * camera[6] + camera[7:9] - feature)


@dk.kernel
def errors(
    cameras: dk.array[Camera],
    points: dk.array[dk.vec3d],
    weights: dk.array[REAL],
    features: dk.array[dk.vec2d],
    seen: dk.array2d[int],
    error: dk.array[dk.vec2d],
    weight_error: dk.array[REAL],
):
    """Two errors of an observation, and that of its weight."""
    i = dk.tid()
    error[i] = residual(cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i])
    weight_error[i] = 1.0 - weights[i] * weights[i]


@dk.kernel
def jacobian(
    cameras: dk.array[Camera],
    points: dk.array[dk.vec3d],
    weights: dk.array[REAL],
    features: dk.array[dk.vec2d],
    seen: dk.array2d[int],
    error: dk.array[dk.vec2d],
    weight_error: dk.array[REAL],
    rows: dk.array3d[REAL],
    weight_rows: dk.array[REAL],
):
    """The rows of an observation: its two errors, differentiated backwards one after the other."""
    i = dk.tid()
    camera, point, weight, feature = cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i]
    for row in range(2):
        chosen = dk.vec2d()
        chosen[row] = 1.0
        value, (d_camera, d_point, d_weight, _) = dk.vjp(residual)(camera, point, weight, feature, chosen)
        for k in range(11):
            rows[i, row, k] = d_camera[k]
        for k in range(3):
            rows[i, row, 11 + k] = d_point[k]
        rows[i, row, 14] = d_weight
        error[i] = value
    weight_error[i] = 1.0 - weight * weight
    weight_rows[i] = -2.0 * weight


def case(given: Data) -> Case:
    """The kernels on given data."""
    count = len(given["weights"])
    inputs = [
        dk.array(given["cameras"], dtype=Camera),
        dk.array(given["points"], dtype=dk.vec3d),
        dk.array(given["weights"], dtype=REAL),
        dk.array(given["features"], dtype=dk.vec2d),
        dk.array(given["seen"], dtype=int),
    ]
    value = [dk.zeros(count, dtype=dk.vec2d), dk.zeros(count, dtype=REAL)]
    derivative = [dk.zeros((count, 2, COLUMNS), dtype=REAL), dk.zeros(count, dtype=REAL)]
    forward = dk.launch(errors, count, inputs, value, record_cmd=True)
    both = dk.launch(jacobian, count, inputs, [*value, *derivative], record_cmd=True)

    def results() -> dict[str, Any]:
        return {
            "value": value[0].numpy(),
            "value of weights": value[1].numpy(),
            "rows": derivative[0].numpy(),
            "rows of weights": derivative[1].numpy(),
        }

    return Case("diffkern", forward.launch, both.launch, results)
