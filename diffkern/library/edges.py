"""Distances of edges: what the closest points of two line segments are."""

from __future__ import annotations

from diffkern.lang.library import built_in
from diffkern.library.language import Float, clamp, cross, dot, length, vec3

__all__: list[str] = []


@built_in()
def closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: Float) -> vec3:
    """Where the edges from p1 to q1 and from p2 to q2 are closest: (s, t, distance).

    The points are p1 + s * (q1 - p1) and p2 + t * (q2 - p2). An edge whose squared length is at most epsilon is a
    point, and its weight 0.

    Derivative: that of the formula.

    Kinks: between parallel and other edges, and where a closest point reaches the end of its edge.

    Example: w[i] = dk.closest_point_edge_edge(u, v, 2.0 * u, w[i], 1e-6)
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, b, c = dot(d1, d1), dot(d1, d2), dot(d1, r)
    e, f = dot(d2, d2), dot(d2, r)
    s, t = 0.0 * a, 0.0 * e
    if a <= epsilon:
        if e > epsilon:
            t = clamp(f / e, 0.0, 1.0)
    elif e <= epsilon:
        s = clamp(-c / a, 0.0, 1.0)
    else:
        n = cross(d1, d2)
        squared_sine = dot(n, n)
        if squared_sine > 1e-12 * a * e:
            s = clamp(dot(cross(d2, r), n) / squared_sine, 0.0, 1.0)
        t = (b * s + f) / e
        if t < 0.0:
            t = 0.0 * e
            s = clamp(-c / a, 0.0, 1.0)
        elif t > 1.0:
            t = 0.0 * e + 1.0
            s = clamp((b - c) / a, 0.0, 1.0)
    return vec3(s, t, length(r + s * d1 - t * d2))
