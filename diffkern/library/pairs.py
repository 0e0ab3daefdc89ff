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


@func
def between(top, bottom):  # type: ignore[no-untyped-def]
    """A fraction, from 0 to 1."""
    return clamp(top / bottom, 0.0, 1.0)


@built_in()
def closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: Float) -> vec3:
    """The places of two edges nearest to each other, and how far that is: (s, t, distance), where the places are
    p1 + s (q1 - p1) and p2 + t (q2 - p2). An edge whose length squared is at most epsilon counts as its first end.

    Derivative: of s, t and distance, with respect to the ends.

    Kinks: where an end becomes the nearest, and for parallel edges, of which one of many places is taken. At distance 0
    the derivative of the distance is 0.

    Example: w[i] = dk.closest_point_edge_edge(u, w, u + w, u - w, 1e-6)
    """
    d, e, r = q1 - p1, q2 - p2, p1 - p2
    dd, ee, de, dr, er = dot(d, d), dot(e, e), dot(d, e), dot(d, r), dot(e, r)
    s, t = 0.0 * dd, 0.0 * dd
    if dd > epsilon and ee > epsilon:
        area = dd * ee - de * de
        if area > 0.0:
            s = between(de * er - dr * ee, area)
        t = (de * s + er) / ee
        if t < 0.0:
            s, t = between(-dr, dd), 0.0 * dd
        elif t > 1.0:
            s, t = between(de - dr, dd), 0.0 * dd + 1.0
    elif dd > epsilon:
        s = between(-dr, dd)
    elif ee > epsilon:
        t = between(er, ee)
    return vec3(s, t, length(r + d * s - e * t))


@func
def apart(axis, a, b, c, p, q, r):  # type: ignore[no-untyped-def]
    """Whether there is a gap between two triangles along an axis."""
    i, j, k, x, y, z = dot(axis, a), dot(axis, b), dot(axis, c), dot(axis, p), dot(axis, q), dot(axis, r)
    return max(max(i, j), k) < min(min(x, y), z) or max(max(x, y), z) < min(min(i, j), k)


@built_in()
def intersect_tri_tri(v0: vec3, v1: vec3, v2: vec3, u0: vec3, u1: vec3, u2: vec3) -> int32:
    """1 if two triangles meet, also in one plane or at a border, else 0.

    Derivative: none, it is an integer.

    Example: q[i] = dk.intersect_tri_tri(u, w, u + w, w, u - w, u)
    """
    a, b, c, p, q, r = v0 - v0, v1 - v0, v2 - v0, u0 - v0, u1 - v0, u2 - v0
    m, n, gap = cross(b, c), cross(q - p, r - p), False
    gap = apart(m, a, b, c, p, q, r) or apart(n, a, b, c, p, q, r)
    for k in range(3):
        e = b - a if k == 0 else (c - b if k == 1 else a - c)
        gap = gap or apart(cross(m, e), a, b, c, p, q, r)
        f = q - p if k == 0 else (r - q if k == 1 else p - r)
        gap = gap or apart(cross(n, f), a, b, c, p, q, r)
        for j in range(3):
            g = q - p if j == 0 else (r - q if j == 1 else p - r)
            gap = gap or apart(cross(e, g), a, b, c, p, q, r)
    return int32(not gap)
