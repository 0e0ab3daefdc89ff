"""Triangle meshes for tests, and their queries by NumPy in double precision."""

from __future__ import annotations

import numpy as np

__all__ = ["closest", "hits", "sphere"]

_CORNERS = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
_FACES = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]


def sphere(times: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points and faces of a bumpy ball around the origin: an octahedron, subdivided."""
    points, faces = list(_CORNERS), _FACES
    for _ in range(times):
        middles: dict[tuple[int, int], int] = {}

        def middle(a: int, b: int, known: dict[tuple[int, int], int] = middles) -> int:
            key = (min(a, b), max(a, b))
            if key not in known:
                known[key] = len(points)
                points.append((points[a] + points[b]) / np.linalg.norm(points[a] + points[b]))
            return known[key]

        faces = [
            part
            for a, b, c in faces
            for part in (
                [a, middle(a, b), middle(c, a)], [b, middle(b, c), middle(a, b)], [c, middle(c, a), middle(b, c)],
                [middle(a, b), middle(b, c), middle(c, a)],
            )
        ]  # fmt: skip
    bumps = np.random.default_rng(seed).uniform(0.8, 1.2, (len(points), 1))
    return (np.array(points) * bumps).astype(np.float32), np.array(faces, np.int32)


def closest(points: np.ndarray, faces: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The distance of each point from each face."""
    a, b, c = (points[faces[:, k]].astype(float)[None] for k in range(3))
    x = x.astype(float)[:, None]
    n = np.cross(b - a, c - a)
    off = ((x - a) * n).sum(-1) / np.maximum((n * n).sum(-1), 1e-300)
    foot = x - off[..., None] * n
    inside = np.ones(off.shape, bool)
    found = np.full(off.shape, np.inf)
    for p, q in ((a, b), (b, c), (c, a)):
        inside &= (np.cross(q - p, foot - p) * n).sum(-1) >= 0
        e = q - p
        t = np.clip(((x - p) * e).sum(-1) / np.maximum((e * e).sum(-1), 1e-300), 0, 1)
        found = np.minimum(found, np.linalg.norm(p + t[..., None] * e - x, axis=-1))
    return np.where(inside, np.abs(off) * np.linalg.norm(n, axis=-1), found)


def hits(points: np.ndarray, faces: np.ndarray, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Where on each ray it hits each face, infinite if it does not."""
    a, b, c = (points[faces[:, k]].astype(float)[None] for k in range(3))
    x, d = x.astype(float)[:, None], d.astype(float)[:, None]
    n = np.cross(b - a, c - a)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = ((a - x) * n).sum(-1) / (d * n).sum(-1)
        at = x + t[..., None] * d
        inside = t >= 0
        for p, q in ((a, b), (b, c), (c, a)):
            inside &= (np.cross(q - p, at - p) * n).sum(-1) >= 0
    return np.where(inside, t, np.inf)
