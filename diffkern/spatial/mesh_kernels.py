"""The kernels that prepare a mesh: the boxes of its faces, and the sums of areas below each node."""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.language import cross, dot, float32, sqrt, vec3f

__all__ = ["dipoles", "face_boxes"]

tid: Any = INTRINSICS["tid"]
_integral = functools.partial(Kernel, enable_backward=False)
_alone = functools.partial(Kernel, enable_backward=False, lanes=False)


@func
def lesser(a, b):  # type: ignore[no-untyped-def]
    """Return the lesser of two numbers, NaN if the second one is."""
    return a if a < b else b


@func
def greater(a, b):  # type: ignore[no-untyped-def]
    """Return the greater of two numbers, NaN if the second one is."""
    return a if a > b else b


@_integral
def face_boxes(points, indices, lowers, uppers):  # type: ignore[no-untyped-def]
    """Write the box of each face; a NaN in a vertex is one in the box."""
    f = tid()
    a, b, c = points[indices[3 * f]], points[indices[3 * f + 1]], points[indices[3 * f + 2]]
    # Comparisons would drop a NaN: x - x is 0 for any number and NaN for NaN and infinities.
    nan = (a - a) + (b - b) + (c - c)
    low, high = vec3f(0.0, 0.0, 0.0), vec3f(0.0, 0.0, 0.0)
    for k in range(3):
        low[k] = lesser(lesser(a[k], b[k]), c[k]) + nan[k]
        high[k] = greater(greater(a[k], b[k]), c[k]) + nan[k]
    lowers[f], uppers[f] = low, high


@func
def put(sums, node, area, centre, reach):  # type: ignore[no-untyped-def]
    """Write the sums of a node."""
    for c in range(3):
        sums[9 * node + c] = area[c]
        sums[9 * node + 3 + c] = centre[c]
    sums[9 * node + 6] = reach


@func
def vector(sums, k):  # type: ignore[no-untyped-def]
    """Return three numbers as a vector."""
    return vec3f(sums[3 * k], sums[3 * k + 1], sums[3 * k + 2])


@_alone
def dipoles(points, indices, order, links, sums):  # type: ignore[no-untyped-def]
    """Sum up, for each node, its faces' areas (as normals), their centre, and their distance from it; by one thread.

    The words of a node are nine: area, centre, reach, the sum of the areas' sizes, and one that is free.
    """
    count = links[0]
    # Nodes are numbered parents first, so this order has the children's sums ready.
    for j in range(count):
        node = count - 1 - j
        right = links[4 * node + 3]
        area, moment, size, reach = vec3f(0.0, 0.0, 0.0), vec3f(0.0, 0.0, 0.0), float32(0.0), float32(0.0)
        begin, end = links[4 * node + 1], links[4 * node + 2]
        if right == 0:
            for p in range(begin, end):
                f = order[p]
                a, b, c = points[indices[3 * f]], points[indices[3 * f + 1]], points[indices[3 * f + 2]]
                n = cross(b - a, c - a) * 0.5
                s = sqrt(dot(n, n))
                area, moment, size = area + n, moment + (a + b + c) * (s / 3.0), size + s
        else:
            one, other = sums[9 * (node + 1) + 7], sums[9 * right + 7]
            area, size = vector(sums, 3 * (node + 1)) + vector(sums, 3 * right), one + other
            moment = vector(sums, 3 * (node + 1) + 1) * one + vector(sums, 3 * right + 1) * other
        # Faces without any area have no centre of area: the moment, which is 0, takes its place.
        centre = moment / size if size > 0.0 else moment
        if right == 0:
            for p in range(begin, end):
                f = order[p]
                for k in range(3):
                    away = points[indices[3 * f + k]] - centre
                    distance = sqrt(dot(away, away))
                    reach = distance if distance > reach else reach
        else:
            away = vector(sums, 3 * (node + 1) + 1) - centre
            # The triangle inequality gives a bound; the exact distance would need all faces of the subtree again.
            reach = sqrt(dot(away, away)) + sums[9 * (node + 1) + 6]
            away = vector(sums, 3 * right + 1) - centre
            distance = sqrt(dot(away, away)) + sums[9 * right + 6]
            reach = distance if distance > reach else reach
        put(sums, node, area, centre, reach)
        sums[9 * node + 7] = size
