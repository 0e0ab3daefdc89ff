"""Inputs of the four cases, in single precision: arrays, and the cotangent of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from cpu import grid_mesh

Data = dict[str, Any]
SCALE, RATE, TRIPS, SOFTENING = 1.5, 3.1, 64, 0.01


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Any:
    return rng.uniform(low, high, shape).astype(np.float32)


def elementwise() -> Data:
    """``sin(a x) + y exp(-x x)`` of a million numbers."""
    rng = np.random.default_rng(1)
    x, y, seed = (_uniform(rng, -2.0, 2.0, 1 << 20) for _ in range(3))
    return {"x": x, "y": y, "seed": seed}


def nbody() -> Data:
    """Softened gravity between all pairs of 4096 bodies."""
    rng, n = np.random.default_rng(2), 4096
    return {
        "position": _uniform(rng, -1, 1, n, 3),
        "mass": _uniform(rng, 0.5, 1.5, n) / n,
        "seed": _uniform(rng, -1, 1, n, 3),
    }


def mesh() -> Data:
    """The area of 180,000 triangles, whose gradient goes to shared vertices."""
    vertices, faces = grid_mesh(300)
    return {"vertex": vertices, "face": faces, "seed": np.ones(1, np.float32)}


def recurrence() -> Data:
    """A logistic recurrence of 64 trips for 100,000 numbers."""
    rng = np.random.default_rng(4)
    return {"x": _uniform(rng, 0.1, 0.9, 100_000), "seed": _uniform(rng, -1, 1, 100_000)}
