"""Pairs of boxes: what the inner nodes of a mesh's tree hold for searches that go to the nearer child first.

A record has the box of the left child (its lower corner, then its upper one) and that of the right child, so that a
step of a search reads both in one piece. No box of a node has a NaN (:mod:`diffkern.spatial.tree_kernels`): where there
is no number it is empty, which no search enters.
"""

from __future__ import annotations

from typing import Final

from diffkern.lang.func import func
from diffkern.library.language import float32, int64, peek_float32

__all__: list[str] = []

PAIR: Final = 16
"""The words of a record: twelve, and four that are free, so that it does not lie across lines of the cache."""

_FAR: Final = float("inf")
_ROUNDED: Final = 1.0 + 2.0**-21  # by which the end of a ray in a box is moved, so that rounding loses no box


@func
def pair_at(node):  # type: ignore[no-untyped-def]
    """Return where the record of an inner node begins, which 32 bits do not count in every tree."""
    return int64(PAIR) * int64(node)


@func
def facing(inverse):  # type: ignore[no-untyped-def]
    """Return by how many words the face of a box through which a ray enters, along an axis, follows the lower one."""
    return int64(3) if inverse < 0.0 else int64(0)


@func
def entered(boxes, at, start, inverse, x, y, z):  # type: ignore[no-untyped-def]
    """Return how far along a ray it enters the box at a place; infinite if it does not.

    x, y and z say through which faces it enters, as :func:`facing` does.
    """
    near = (peek_float32(boxes, at + x) - start[0]) * inverse[0]
    # Where the ray runs along a face, that one is 0 times infinity, a NaN, and no comparison with it is true.
    near = near if near > 0.0 else float32(0.0)
    low = (peek_float32(boxes, at + y + int64(1)) - start[1]) * inverse[1]
    near = low if low > near else near
    low = (peek_float32(boxes, at + z + int64(2)) - start[2]) * inverse[2]
    near = low if low > near else near
    far = (peek_float32(boxes, at + (int64(3) - x)) - start[0]) * inverse[0]
    far = far if far < float32(_FAR) else float32(_FAR)
    high = (peek_float32(boxes, at + (int64(4) - y)) - start[1]) * inverse[1]
    far = high if high < far else far
    high = (peek_float32(boxes, at + (int64(5) - z)) - start[2]) * inverse[2]
    far = high if high < far else far
    return near if near <= far * float32(_ROUNDED) else float32(_FAR)


@func
def outside(below, above):  # type: ignore[no-untyped-def]
    """Return how far a coordinate is outside of an interval, of what it lacks to either end."""
    away = below if below > above else above
    return away if away > 0.0 else float32(0.0)


@func
def away_sq(boxes, at, x):  # type: ignore[no-untyped-def]
    """Return the square of the distance of a point from the box at a place."""
    a = outside(peek_float32(boxes, at) - x[0], x[0] - peek_float32(boxes, at + int64(3)))
    b = outside(peek_float32(boxes, at + int64(1)) - x[1], x[1] - peek_float32(boxes, at + int64(4)))
    c = outside(peek_float32(boxes, at + int64(2)) - x[2], x[2] - peek_float32(boxes, at + int64(5)))
    return a * a + b * b + c * c
