"""Euler angles where the second rotation makes the axes of the first and the third one coincide: at both ends."""

from __future__ import annotations

import itertools
import math

import numpy as np

import diffkern as dk

SEQUENCES = [s for s in itertools.product(range(3), repeat=3) if s[0] != s[1] != s[2]]


@dk.kernel
def angles(q: dk.array(dtype=dk.quatd), axes: dk.array2d(dtype=int), out: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    out[i] = dk.quat_to_euler(q[i], axes[i, 0], axes[i, 1], axes[i, 2])


def _product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    v = p[3] * q[:3] + q[3] * p[:3] + np.cross(p[:3], q[:3])
    return np.array([*v, p[3] * q[3] - p[:3] @ q[:3]])


def _rotation(axes: tuple[int, ...], turns: tuple[float, ...]) -> np.ndarray:
    """One rotation after the other, about axes of the frame."""
    whole = np.array([0.0, 0.0, 0.0, 1.0])
    for axis, angle in zip(axes, turns, strict=True):
        one = np.zeros(4)
        one[axis], one[3] = math.sin(angle / 2), math.cos(angle / 2)
        whole = _product(one, whole)
    return whole


def test_locked_and_usual_angles_give_the_rotation_back() -> None:
    rows, given = [], []
    for axes in SEQUENCES:
        ends = (0.0, math.pi) if axes[0] == axes[2] else (-math.pi / 2, math.pi / 2)
        for middle, locked in [*((end, True) for end in ends), (0.4, False), (1.2, False)]:
            for first, third in ((0.3, 0.5), (-1.1, 2.0), (0.0, -0.7)):
                rows.append((axes, locked, middle))
                given.append(_rotation(axes, (first, middle, third)))
    table = np.array([axes for axes, _, _ in rows], np.int32)
    out = dk.zeros(len(rows), dtype=dk.vec3d)
    dk.launch(angles, len(rows), inputs=[dk.array(np.array(given), dtype=dk.quatd), dk.array(table), out])
    for (axes, locked, middle), q, found in zip(rows, given, out.numpy(), strict=True):
        i, j, k = axes
        last = 3 - i - j if i == k else k
        again = _rotation(axes, (found[i], found[j], found[last]))
        assert abs(abs(again @ q) - 1.0) < 1e-12, (axes, middle)
        assert abs(found[j] - middle) < 1e-7, (axes, middle)
        assert not locked or found[i] == 0.0, (axes, middle)
