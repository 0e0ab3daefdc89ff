"""Triangles: where a ray meets one, and the closest place in one.

Places are weights of the first and the second vertex. These are closed formulas, which are differentiated as they are.
"""

from __future__ import annotations

from typing import Final

from diffkern.lang.func import func
from diffkern.library.language import abs, cross, dot, float32, float64, vec3f  # noqa: A004

__all__: list[str] = []

_FAR: Final = float("inf")
_ROUNDING: Final = 2.0**-21
_SLIVER: Final = 1.0e-6  # the area of a triangle that is none, in squares of its edges


@func
def is_sliver(a, b, c):  # type: ignore[no-untyped-def]
    """Return whether a triangle has (nearly) no area, so that it has no normal."""
    e, f, g = b - a, c - a, c - b
    n = cross(e, f)
    edges = dot(e, e) + dot(f, f) + dot(g, g)
    # Not written with <, so that a triangle with a NaN counts as one without area.
    return not (dot(n, n) >= float32(_SLIVER * _SLIVER) * edges * edges) or not edges > 0.0


@func
def along(x, a, b):  # type: ignore[no-untyped-def]
    """Return the place nearest to a point between two others: 0 at the first one, 1 at the second."""
    e = b - a
    square = dot(e, e)
    # An edge without length is its first point.
    t = dot(x - a, e) / square if square > 0.0 else float32(0.0)
    t = t if t > 0.0 else float32(0.0)
    return t if t < 1.0 else float32(1.0)


@func
def closest_on_longest_edge(x, a, b, c):  # type: ignore[no-untyped-def]
    """Return the weights of the place nearest to a point on the longest edge."""
    ab, bc, ca = dot(b - a, b - a), dot(c - b, c - b), dot(a - c, a - c)
    if ab >= bc and ab >= ca:
        t = along(x, a, b)
        u, v = float32(1.0) - t, t
    elif bc >= ca:
        t = along(x, b, c)
        u, v = float32(0.0), float32(1.0) - t
    else:
        t = along(x, c, a)
        u, v = t, float32(0.0)
    return u, v


@func
def closest(x, a, b, c):  # type: ignore[no-untyped-def]
    """Return the weights of the place of a triangle that is nearest to a point: a vertex, on an edge, or inside."""
    ab, ac, ax = b - a, c - a, x - a
    d1, d2 = dot(ab, ax), dot(ac, ax)
    d3, d4 = d1 - dot(ab, ab), d2 - dot(ab, ac)
    d5, d6 = d1 - dot(ab, ac), d2 - dot(ac, ac)
    # The signs tell the regions of the three vertices, the three edges and the inside apart (C. Ericson).
    in_a, in_b, in_c = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0.0 and d2 <= 0.0:
        u, v = float32(1.0), float32(0.0)
    elif d3 >= 0.0 and d4 <= d3:
        u, v = float32(0.0), float32(1.0)
    elif d6 >= 0.0 and d5 <= d6:
        u, v = float32(0.0), float32(0.0)
    elif in_c <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
        u = float32(1.0) - v
    elif in_b <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        u = float32(1.0) - d2 / (d2 - d6)
        v = float32(0.0)
    elif in_a <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        u = float32(0.0)
        v = float32(1.0) - (d4 - d3) / ((d4 - d3) + (d5 - d6))
    else:
        total = in_a + in_b + in_c
        u, v = in_a / total, in_b / total
    return u, v


@func
def turned(x, axis):  # type: ignore[no-untyped-def]
    """Return a vector with its axes permuted cyclically so that one of them is the last."""
    return vec3f(
        x[1] if axis == 0 else (x[2] if axis == 1 else x[0]),
        x[2] if axis == 0 else (x[0] if axis == 1 else x[1]),
        x[0] if axis == 0 else (x[1] if axis == 1 else x[2]),
    )


@func
def longest_axis(dir):  # type: ignore[no-untyped-def]
    """Return the axis along which a direction is longest."""
    x, y, z = abs(dir[0]), abs(dir[1]), abs(dir[2])
    return 0 if x > y and x > z else (1 if y > z else 2)


@func
def edge(p, q):  # type: ignore[no-untyped-def]
    """Return the signed area of an edge seen along the ray: on which side of it the ray passes.

    Seen from the other triangle at the edge, the sign is exactly opposite. Where rounding, fused multiplication
    included, might decide the sign, it is computed with exact products.
    """
    one, other = p[0] * q[1], p[1] * q[0]
    area = one - other
    if abs(area) <= float32(_ROUNDING) * (abs(one) + abs(other)):
        # A float64 holds the product of two float32 exactly.
        area = float32(float64(p[0]) * float64(q[1]) - float64(p[1]) * float64(q[0]))
    return area


@func
def shear(dir):  # type: ignore[no-untyped-def]
    """Return the axis along which a direction is longest, and what it goes along the other two in terms of that one."""
    axis = longest_axis(dir)
    d = turned(dir, axis)
    # The last component is the longest, so that neither is more than 1.
    return axis, d[0] / d[2], d[1] / d[2], d[2]


@func
def doubtful(p, q):  # type: ignore[no-untyped-def]
    """Return the signed area of an edge as :func:`edge` does, rounded, and whether its sign may be wrong."""
    one, other = p[0] * q[1], p[1] * q[0]
    area = one - other
    return area, abs(area) <= float32(_ROUNDING) * (abs(one) + abs(other))


@func
def edges(p, q, r):  # type: ignore[no-untyped-def]
    """Return the same as :func:`edge` of the three edges, with a single branch for all doubts."""
    u, u_doubt = doubtful(r, q)
    v, v_doubt = doubtful(p, r)
    w, w_doubt = doubtful(q, p)
    if u_doubt or v_doubt or w_doubt:
        u, v, w = edge(r, q), edge(p, r), edge(q, p)
    return u, v, w


@func
def hit(start, dir, a, b, c):  # type: ignore[no-untyped-def]
    """Return whether the line of a ray meets a triangle, where on the ray, the weights of the place, and the side.

    The vertices are sheared so that the ray is the last axis; the signs of three areas then say whether it passes
    inside, in the same way for both triangles at an edge.
    """
    axis, x, y, length = shear(dir)
    p, q, r = turned(a - start, axis), turned(b - start, axis), turned(c - start, axis)
    p = vec3f(p[0] - x * p[2], p[1] - y * p[2], p[2] / length)
    q = vec3f(q[0] - x * q[2], q[1] - y * q[2], q[2] / length)
    r = vec3f(r[0] - x * r[2], r[1] - y * r[2], r[2] / length)
    u, v, w = edge(r, q), edge(p, r), edge(q, p)
    total = u + v + w
    inside = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
    met = inside and total != 0.0
    # Without a hit nothing is divided by 0, which would make derivatives NaN even where they are not used.
    total = total if met else float32(1.0)
    u, v = u / total, v / total
    t = u * p[2] + v * q[2] + (float32(1.0) - u - v) * r[2]
    side = float32(1.0) if total * length > 0.0 else float32(-1.0)
    return met, t, u, v, side
