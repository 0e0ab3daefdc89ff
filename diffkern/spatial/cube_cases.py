"""The cases of a cube whose corners lie inside or outside of a surface: loops of cut edges, and triangles in them.

The tables are derived here. On each face of the cube, each run of outside corners is cut off by a segment between the
two edges at its ends; so of an ambiguous face, where corners that are diagonal are on one side, the inside corners are
joined and the outside ones separated. Both cubes at a face see the same corners and draw the same segments, hence
neither holes nor overlaps between cubes. The segments of a cube close to loops, which are filled by triangles. No
side of a triangle inside a loop joins two edges of one face: the neighbour might have the same side there, and four
triangles would meet in it.

Surface nets take a vertex for each loop. Where one loop has both segments of a face, in both cubes at it, four
quadrilaterals would meet in the side between the two vertices. The inside corners of such a face are separated instead,
which splits both loops (:func:`split_face`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = [
    "AXIS_OF_EDGE", "CUBE_CORNER_OFFSETS", "EDGES_OF_FACES", "EDGE_TO_CORNERS", "FACES", "LOWER_NODES", "is_ambiguous",
    "loop_table", "loops", "split_face", "triangle_table",
]  # fmt: skip

Loop = tuple[int, ...]

CUBE_CORNER_OFFSETS: Final = (
    (0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1),
)  # fmt: skip
"""The places of the corners. Bit `c` of a case is set where corner `c` is inside: less than the threshold."""

EDGE_TO_CORNERS: Final = (
    (0, 1), (1, 2), (3, 2), (0, 3), (4, 5), (5, 6), (7, 6), (4, 7), (0, 4), (1, 5), (2, 6), (3, 7),
)  # fmt: skip
"""The two corners of each edge, the lower one first."""

AXIS_OF_EDGE: Final = tuple(
    next(a for a in range(3) if CUBE_CORNER_OFFSETS[low][a] != CUBE_CORNER_OFFSETS[high][a])
    for low, high in EDGE_TO_CORNERS
)
"""The axis along which each edge runs."""

LOWER_NODES: Final = tuple(
    (*CUBE_CORNER_OFFSETS[low], axis) for (low, _), axis in zip(EDGE_TO_CORNERS, AXIS_OF_EDGE, strict=True)
)
"""The place of each edge's lower corner, and its axis."""

FACES: Final = ((0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (2, 3, 7, 6), (0, 3, 2, 1), (4, 5, 6, 7))
"""The corners of the faces -x, +x, -y, +y, -z, +z, counterclockwise seen from outside of the cube."""

_EDGES: Final = {frozenset(corners): e for e, corners in enumerate(EDGE_TO_CORNERS)}


def _around(face: Sequence[int]) -> tuple[int, ...]:
    """Return the edges of a face, each between a corner and the next one."""
    return tuple(_EDGES[frozenset((face[k], face[(k + 1) % 4]))] for k in range(4))


_EDGES_OF_FACES: Final = tuple(_around(face) for face in FACES)

EDGES_OF_FACES: Final = tuple(sum(1 << edge for edge in edges) for edges in _EDGES_OF_FACES)
"""The edges of each face as bits."""


def _segments(case: int, face: int, is_separated: bool) -> Iterator[tuple[int, int]]:
    """Yield the segments of a face, as pairs of edges; with `is_separated` diagonal inside corners are separated."""
    inside = [case >> c & 1 for c in FACES[face]]
    edges = _EDGES_OF_FACES[face]
    for k in range(4):
        if inside[k] or not inside[(k + 1) % 4]:
            continue
        # Edge k enters a run of inside corners. The segment ends where the run of outside corners before it began, or,
        # of separated corners, where the inside run itself ends.
        step = 1 if is_separated else -1
        yield edges[k], edges[next(m % 4 for m in itertools.count(k + step, step) if _leaves(inside, m % 4))]


def _leaves(inside: Sequence[int], k: int) -> bool:
    return bool(inside[k]) and not inside[(k + 1) % 4]


def is_ambiguous(case: int, face: int) -> bool:
    """Return whether a face has two inside corners that are diagonal."""
    inside = [case >> c & 1 for c in FACES[face]]
    return inside[0] == inside[2] != inside[1] == inside[3]


@functools.cache
def loops(case: int, separated_face: int = -1) -> tuple[Loop, ...]:
    """Return the loops of cut edges in a cube, counterclockwise seen from outside of the surface.

    Parameters
    ----------
    case : int
        The corners that are inside, as bits.
    separated_face : int, optional
        An ambiguous face on which the inside corners are separated instead of joined.
    """
    after: dict[int, int] = {}
    for face in range(6):
        # Faces at an edge walk it in opposite directions, so each cut edge begins one segment and ends another.
        after |= dict(_segments(case, face, face == separated_face))
    found: list[Loop] = []
    for first in sorted(after):
        if any(first in loop for loop in found):
            continue
        loop, at = [first], after[first]
        while at != first:
            loop.append(at)
            at = after[at]
        found.append(tuple(loop))
    return tuple(found)


@functools.cache
def _on_one_face(a: int, b: int) -> bool:
    return any(a in edges and b in edges for edges in _EDGES_OF_FACES)


@functools.cache
def _distance(a: int, b: int) -> int:
    """Return the square of the distance of two edges' middles, in quarters."""
    middles = [[sum(CUBE_CORNER_OFFSETS[c][axis] for c in EDGE_TO_CORNERS[e]) for axis in range(3)] for e in (a, b)]
    return sum((p - q) ** 2 for p, q in zip(*middles, strict=True))


def _fillings(loop: Loop) -> Iterator[tuple[Loop, ...]]:
    """Yield the ways to fill a loop with triangles without a side inside that lies on a face of the cube."""
    if len(loop) == 2:
        yield ()
        return
    first, last = loop[0], loop[-1]
    # The side between the first and the last edge belongs to one triangle, whose third corner divides the rest.
    for k in range(1, len(loop) - 1):
        sides = ((first, loop[k]), k > 1), ((loop[k], last), k < len(loop) - 2)
        if any(is_inner and _on_one_face(*side) for side, is_inner in sides):
            continue
        for left in _fillings(loop[: k + 1]):
            for right in _fillings(loop[k:]):
                yield (*left, (first, loop[k], last), *right)


def _length(filling: tuple[Loop, ...]) -> int:
    return sum(_distance(a, b) + _distance(b, c) + _distance(c, a) for a, b, c in filling)


@functools.cache
def triangle_table() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the triangles of all cases.

    Returns
    -------
    tuple
        Where each case's part begins, and at last where the last one ends; the edges of the triangles' corners, three
        for each triangle.
    """
    begins, corners = [0], []
    for case in range(256):
        for loop in loops(case):
            # Among several fillings the one with the shortest sides has the roundest triangles.
            best = min(_fillings(loop), key=lambda filling: (_length(filling), filling))
            corners += [edge for triangle in best for edge in triangle]
        begins.append(len(corners))
    return tuple(begins), tuple(corners)


@functools.cache
def split_face(case: int) -> int:
    """Return the face whose two segments belong to one loop of the cube, or -1 if there is none.

    No case has several such faces.
    """
    faces = [f for f in range(6) if is_ambiguous(case, f) and _is_visited_twice(case, f)]
    return faces[0] if faces else -1


def _is_visited_twice(case: int, face: int) -> bool:
    return any(set(_EDGES_OF_FACES[face]) <= set(loop) for loop in loops(case))


@functools.cache
def loop_table() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the loops of all cases as masks of edges, for vertices of surface nets.

    Returns
    -------
    tuple
        Four masks for each case, and four more for it where the corners of its :func:`split_face` are separated:
        eight in all, 0 where there are fewer loops. The face of each case, or -1.
    """
    masks: list[int] = []
    faces = [split_face(case) for case in range(256)]
    for case, face in enumerate(faces):
        for separated in (-1, face):
            found = [sum(1 << edge for edge in loop) for loop in loops(case, separated)]
            masks += [*found, *[0] * (4 - len(found))]
    return tuple(masks), tuple(faces)
