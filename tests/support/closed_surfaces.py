"""What a surface of faces is like: its sides, how faces meet, area, volume."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

__all__ = ["area", "border", "check_manifold", "distance", "euler", "volume"]


def _sides(faces: np.ndarray) -> np.ndarray:
    """The directed sides of faces, with their faces' corners: rows of (from, to, corner of from, corner of to)."""
    count, n = faces.shape
    corners = np.arange(count * n).reshape(count, n)
    pairs = [faces, np.roll(faces, -1, 1), corners, np.roll(corners, -1, 1)]
    return np.stack([p.ravel() for p in pairs], 1).astype(np.int64)


def _keys(a: np.ndarray, b: np.ndarray, vertices: int) -> np.ndarray:
    return a * vertices + b


def border(faces: np.ndarray, vertices: int) -> int:
    """The number of sides with one face."""
    sides = _sides(faces)
    return int((~np.isin(_keys(sides[:, 0], sides[:, 1], vertices), _keys(sides[:, 1], sides[:, 0], vertices))).sum())


def check_manifold(faces: np.ndarray, vertices: int, closed: bool) -> None:
    """Raise unless each side has two faces, in opposite directions, and the faces at a vertex are one fan.

    Without `closed` a side may have one face, and fans are not looked at.
    """
    assert np.array_equal(np.unique(faces), np.arange(vertices))
    if vertices == 0:
        return
    sides = _sides(faces)
    forward, back = _keys(sides[:, 0], sides[:, 1], vertices), _keys(sides[:, 1], sides[:, 0], vertices)
    assert np.unique(forward).size == forward.size, "two faces have a side in the same direction"
    if not closed:
        return
    order, turned = np.argsort(forward), np.argsort(back)
    assert np.array_equal(forward[order], back[turned]), "a side has one face"
    # Corners of faces at a side, joined where they are the same vertex: one component for each vertex.
    one, other = sides[order], sides[turned]
    rows = np.concatenate([one[:, 2], one[:, 3]])
    columns = np.concatenate([other[:, 3], other[:, 2]])
    size = faces.size
    graph = coo_matrix((np.ones(rows.size), (rows, columns)), (size, size))
    assert connected_components(graph, directed=False)[0] == vertices, "the faces at a vertex are several fans"


def euler(faces: np.ndarray, vertices: int) -> int:
    """Vertices - sides + faces."""
    sides = np.sort(_sides(faces)[:, :2], 1)
    return vertices - len(np.unique(sides, axis=0)) + len(faces)


def _corners(points: np.ndarray, faces: np.ndarray) -> list[np.ndarray]:
    return [points[faces[:, k]].astype(float) for k in range(3)]


def area(points: np.ndarray, faces: np.ndarray) -> float:
    """The area of triangles."""
    a, b, c = _corners(points, faces)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def volume(points: np.ndarray, faces: np.ndarray) -> float:
    """The volume within triangles that are counterclockwise seen from outside."""
    a, b, c = _corners(points, faces)
    return float((a * np.cross(b, c)).sum() / 6)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """How far two sets of points are apart at most, infinite if one has more points."""
    if len(one) != len(other):
        return np.inf
    pairs = (one, other), (other, one)
    return max((float(cKDTree(a).query(b)[0].max()) for a, b in pairs), default=0.0) if len(one) else 0.0
