"""Spatial vectors of six numbers: angular part first, then the linear one."""

from __future__ import annotations

from diffkern.lang.library import built_in
from diffkern.library.language import Float, cross, dot, mat33, spatial_matrix, spatial_vector, vec3

__all__: list[str] = []


@built_in()
def spatial_dot(a: spatial_vector, b: spatial_vector) -> Float:
    """The sum of the products of the six components.

    Derivative: b and a.

    Example: y[i] = dk.spatial_dot(dk.spatial_vector(u, v), dk.spatial_vector(v, u))
    """
    return dot(a, b)


@built_in()
def spatial_cross(a: spatial_vector, b: spatial_vector) -> spatial_vector:
    """The cross product of motions: (cross(a_top, b_top), cross(a_bottom, b_top) + cross(a_top, b_bottom)).

    Derivative: that of the formula.

    Example: y[i] = dk.spatial_cross(dk.spatial_vector(u, v), dk.spatial_vector(v, v))[0]
    """
    wa, va, wb, vb = a[0:3], a[3:6], b[0:3], b[3:6]
    return spatial_vector(cross(wa, wb), cross(va, wb) + cross(wa, vb))


@built_in()
def spatial_cross_dual(a: spatial_vector, b: spatial_vector) -> spatial_vector:
    """The cross product of a motion and a force.

    It is (cross(a_top, b_top) + cross(a_bottom, b_bottom), cross(a_top, b_bottom)).

    Derivative: that of the formula.

    Example: y[i] = dk.spatial_cross_dual(dk.spatial_vector(u, v), dk.spatial_vector(v, v))[0]
    """
    wa, va, wb, vb = a[0:3], a[3:6], b[0:3], b[3:6]
    return spatial_vector(cross(wa, wb) + cross(va, vb), cross(wa, vb))


@built_in()
def spatial_top(a: spatial_vector) -> vec3:
    """The first three components.

    Derivative: a cotangent goes to the first three components.

    Example: w[i] = dk.spatial_top(dk.spatial_vector(u, v))
    """
    return a[0:3]


@built_in()
def spatial_bottom(a: spatial_vector) -> vec3:
    """The last three components.

    Derivative: a cotangent goes to the last three components.

    Example: w[i] = dk.spatial_bottom(dk.spatial_vector(u, v))
    """
    return a[3:6]


@built_in()
def spatial_adjoint(r: mat33, s: mat33) -> spatial_matrix:
    """The matrix of blocks [[r, 0], [s, r]], which changes the frame of a spatial vector.

    Derivative: the blocks of a cotangent, of r both together.

    Example: y[i] = dk.spatial_adjoint(m, k)[0, 0]
    """
    return spatial_matrix(
        r[0, 0], r[0, 1], r[0, 2], 0.0, 0.0, 0.0,
        r[1, 0], r[1, 1], r[1, 2], 0.0, 0.0, 0.0,
        r[2, 0], r[2, 1], r[2, 2], 0.0, 0.0, 0.0,
        s[0, 0], s[0, 1], s[0, 2], r[0, 0], r[0, 1], r[0, 2],
        s[1, 0], s[1, 1], s[1, 2], r[1, 0], r[1, 1], r[1, 2],
        s[2, 0], s[2, 1], s[2, 2], r[2, 0], r[2, 1], r[2, 2],
    )  # fmt: skip


@built_in()
def velocity_at_point(qd: spatial_vector, r: vec3) -> vec3:
    """The velocity of the point r of a body that moves with the spatial velocity qd: bottom + cross(top, r).

    Derivative: that of the formula.

    Example: w[i] = dk.velocity_at_point(dk.spatial_vector(u, v), u)
    """
    return qd[3:6] + cross(qd[0:3], r)
