"""Two edges, and two triangles: how near they are, and whether they meet."""

from __future__ import annotations

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.library.language import (
    Float,
    clamp,
    cross,
    dot,
    int32,
    length,
    max,  # noqa: A004
    min,  # noqa: A004
    vec3,
)

__all__: list[str] = []


@built_in()
def closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: Float) -> vec3:
    """The closest points of the edges from p1 to q1 and from p2 to q2: (s, t, distance).

    The points are p1 + s * (q1 - p1) and p2 + t * (q2 - p2). An edge whose squared length is at most epsilon is a
    point, and its weight 0.

    Derivative: that of the formula.

    Kinks: between parallel and other edges, and where a closest point reaches the end of its edge.

    Example: w[i] = dk.closest_point_edge_edge(u, v, 2.0 * u, w[i], 1e-6)
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, b, c = dot(d1, d1), dot(d1, d2), dot(d1, r)
    e, f = dot(d2, d2), dot(d2, r)
    # Zeros of the scalar type of the points.
    s, t = 0.0 * a, 0.0 * e
    if a <= epsilon:
        if e > epsilon:
            t = clamp(f / e, 0.0, 1.0)
    elif e <= epsilon:
        s = clamp(-c / a, 0.0, 1.0)
    else:
        n = cross(d1, d2)
        squared_sine = dot(n, n)
        # On edges that are nearly parallel any s will do, and the quotient would be mostly rounding.
        if squared_sine > 1e-12 * a * e:
            s = clamp(dot(cross(d2, r), n) / squared_sine, 0.0, 1.0)
        # The place on the line of the second edge; where it is off the edge, its end decides and s follows.
        t = (b * s + f) / e
        if t < 0.0:
            t = 0.0 * e
            s = clamp(-c / a, 0.0, 1.0)
        elif t > 1.0:
            t = 0.0 * e + 1.0
            s = clamp((b - c) / a, 0.0, 1.0)
    return vec3(s, t, length(r + s * d1 - t * d2))


@func
def separates(axis, a, b, c, p, q, r):  # type: ignore[no-untyped-def]
    """Return whether there is a gap between two triangles along an axis."""
    i, j, k, x, y, z = dot(axis, a), dot(axis, b), dot(axis, c), dot(axis, p), dot(axis, q), dot(axis, r)
    return max(max(i, j), k) < min(min(x, y), z) or max(max(x, y), z) < min(min(i, j), k)


@built_in()
def intersect_tri_tri(v0: vec3, v1: vec3, v2: vec3, u0: vec3, u1: vec3, u2: vec3) -> int32:
    """1 if two triangles meet, also in one plane or at a border, else 0.

    Derivative: none, it is an integer.

    Example: q[i] = dk.intersect_tri_tri(u, w[i], u + w[i], w[i], u - w[i], u)
    """
    # Relative to a vertex, so that a place far from the origin costs no digits.
    a, b, c, p, q, r = v0 - v0, v1 - v0, v2 - v0, u0 - v0, u1 - v0, u2 - v0
    m, n, gap = cross(b, c), cross(q - p, r - p), False
    # Convex sets that do not meet have a gap along one of these axes; those with m or n are for triangles in one plane.
    gap = separates(m, a, b, c, p, q, r) or separates(n, a, b, c, p, q, r)
    for k in range(3):
        e = b - a if k == 0 else (c - b if k == 1 else a - c)
        gap = gap or separates(cross(m, e), a, b, c, p, q, r)
        f = q - p if k == 0 else (r - q if k == 1 else p - r)
        gap = gap or separates(cross(n, f), a, b, c, p, q, r)
        for j in range(3):
            g = q - p if j == 0 else (r - q if j == 1 else p - r)
            gap = gap or separates(cross(e, g), a, b, c, p, q, r)
    return int32(not gap)
