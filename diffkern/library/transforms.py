"""Transforms: first a rotation q, then a translation p. A matrix of four rows does the same to points (x, y, z, 1)."""

from __future__ import annotations

from diffkern.lang.library import built_in
from diffkern.library.language import (
    Dtype,
    cross,
    length,
    mat33,
    mat44,
    quat,
    quat_from_matrix,
    quat_inverse,
    quat_rotate,
    quat_to_matrix,
    spatial_vector,
    transform,
    vec3,
    where,
)

__all__: list[str] = []


@built_in()
def transform_identity(dtype: Dtype = float) -> transform:
    """The transform that leaves points where they are.

    Derivative: none, it is constant.

    Example: w[i] = dk.transform_identity(dtype=dk.float32).p
    """
    return transform(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@built_in()
def transform_get_translation(t: transform) -> vec3:
    """The translation t.p.

    Derivative: a cotangent goes to the translation.

    Example: w[i] = dk.transform_get_translation(dk.transform(u, dk.quat_identity()))
    """
    return t.p


@built_in()
def transform_get_rotation(t: transform) -> quat:
    """The rotation t.q.

    Derivative: a cotangent goes to the rotation.

    Example: y[i] = dk.transform_get_rotation(dk.transform(u, dk.quat_identity())).w
    """
    return t.q


@built_in(sets="t")
def transform_set_translation(t: transform, p: vec3) -> transform:
    """Replace the translation of a variable; of an element of an array write ``a[i].p = p``.

    Derivative: a cotangent of the translation goes to p.

    Example: t = dk.transform_identity(); dk.transform_set_translation(t, u); w[i] = t.p
    """
    return transform(p, t.q)


@built_in(sets="t")
def transform_set_rotation(t: transform, q: quat) -> transform:
    """Replace the rotation of a variable; of an element of an array write ``a[i].q = q``.

    Derivative: a cotangent of the rotation goes to q.

    Example: t = dk.transform_identity(); dk.transform_set_rotation(t, dk.quat_rpy(x[i], 0.2, 0.3)); y[i] = t.q.w
    """
    return transform(t.p, q)


@built_in()
def transform_multiply(a: transform, b: transform) -> transform:
    """First b, then a: the same as a * b.

    Derivative: that of a.p + quat_rotate(a.q, b.p) and a.q * b.q.

    Example: t = dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)); w[i] = dk.transform_multiply(t, t).p
    """
    return a * b


@built_in()
def transform_point(t: transform, x: vec3) -> vec3:
    """A point transformed: quat_rotate(t.q, x) + t.p; by a matrix without a perspective division.

    Derivative: that of the formula.

    Example: w[i] = dk.transform_point(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), v)
    """
    return quat_rotate(t.q, x) + t.p


@built_in("transform_point")
def _transform_point_by_matrix(t: mat44, x: vec3) -> vec3:
    return vec3(
        t[0, 0] * x.x + t[0, 1] * x.y + t[0, 2] * x.z + t[0, 3],
        t[1, 0] * x.x + t[1, 1] * x.y + t[1, 2] * x.z + t[1, 3],
        t[2, 0] * x.x + t[2, 1] * x.y + t[2, 2] * x.z + t[2, 3],
    )


@built_in()
def transform_vector(t: transform, x: vec3) -> vec3:
    """A direction transformed: quat_rotate(t.q, x); by a matrix without its last column.

    Derivative: that of the formula.

    Example: w[i] = dk.transform_vector(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), v)
    """
    return quat_rotate(t.q, x)


@built_in("transform_vector")
def _transform_vector_by_matrix(t: mat44, x: vec3) -> vec3:
    return vec3(
        t[0, 0] * x.x + t[0, 1] * x.y + t[0, 2] * x.z,
        t[1, 0] * x.x + t[1, 1] * x.y + t[1, 2] * x.z,
        t[2, 0] * x.x + t[2, 1] * x.y + t[2, 2] * x.z,
    )


@built_in()
def transform_inverse(t: transform) -> transform:
    """The transform that undoes t, whose rotation has length 1.

    Derivative: that of -quat_rotate(quat_inverse(q), p) and quat_inverse(q).

    Example: w[i] = dk.transform_inverse(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3))).p
    """
    q = quat_inverse(t.q)
    return transform(-quat_rotate(q, t.p), q)


@built_in()
def transform_from_matrix(m: mat44) -> transform:
    """The transform of a matrix whose upper left is a rotation.

    Derivative: that of quat_from_matrix; the last column goes to the translation.

    Example: t = dk.transform(u, dk.quat_identity()); w[i] = dk.transform_from_matrix(dk.transform_to_matrix(t)).p
    """
    return transform(vec3(m[0, 3], m[1, 3], m[2, 3]), quat_from_matrix(m))


@built_in()
def transform_to_matrix(t: transform) -> mat44:
    """The matrix that does to points (x, y, z, 1) what the transform does.

    Derivative: that of quat_to_matrix; the translation goes to the last column.

    Example: y[i] = dk.transform_to_matrix(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)))[0, 0]
    """
    r = quat_to_matrix(t.q)
    return mat44(
        r[0, 0], r[0, 1], r[0, 2], t.p.x,
        r[1, 0], r[1, 1], r[1, 2], t.p.y,
        r[2, 0], r[2, 1], r[2, 2], t.p.z,
        0.0, 0.0, 0.0, 1.0,
    )  # fmt: skip


@built_in()
def transform_compose(position: vec3, rotation: quat, scale: vec3) -> mat44:
    """The matrix that scales along the axes, then rotates, then translates.

    Derivative: that of the formula.

    Example: y[i] = dk.transform_compose(u, dk.quat_rpy(x[i], 0.2, 0.3), v)[0, 0]
    """
    r, s, p = quat_to_matrix(rotation), scale, position
    return mat44(
        r[0, 0] * s.x, r[0, 1] * s.y, r[0, 2] * s.z, p.x,
        r[1, 0] * s.x, r[1, 1] * s.y, r[1, 2] * s.z, p.y,
        r[2, 0] * s.x, r[2, 1] * s.y, r[2, 2] * s.z, p.z,
        0.0, 0.0, 0.0, 1.0,
    )  # fmt: skip


@built_in()
def transform_decompose(m: mat44) -> tuple[vec3, quat, vec3]:
    """Position, rotation and scale of which transform_compose makes a matrix; a column of zeros is left as it is.

    Derivative: that of the norms of the columns and of quat_from_matrix; a column of zeros has none.

    Example: p, r, s = dk.transform_decompose(dk.transform_compose(u, dk.quat_rpy(x[i], 0.2, 0.3), v)); w[i] = s
    """
    a = vec3(m[0, 0], m[1, 0], m[2, 0])
    b = vec3(m[0, 1], m[1, 1], m[2, 1])
    c = vec3(m[0, 2], m[1, 2], m[2, 2])
    s = vec3(length(a), length(b), length(c))
    # A column of zeros is divided by 1, which keeps its derivative finite as well.
    a = a / where(s.x == 0.0, 1.0, s.x)
    b = b / where(s.y == 0.0, 1.0, s.y)
    c = c / where(s.z == 0.0, 1.0, s.z)
    q = quat_from_matrix(mat33(a.x, b.x, c.x, a.y, b.y, c.y, a.z, b.z, c.z))
    return vec3(m[0, 3], m[1, 3], m[2, 3]), q, s


@built_in()
def transform_twist(t: transform, x: spatial_vector) -> spatial_vector:
    """A spatial velocity in the frame of the transform: (R w, R v + cross(p, R w)).

    Derivative: that of the formula.

    Example: y[i] = dk.transform_twist(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), dk.spatial_vector(u, v))[0]
    """
    w = quat_rotate(t.q, x[0:3])
    return spatial_vector(w, quat_rotate(t.q, x[3:6]) + cross(t.p, w))


@built_in()
def transform_wrench(t: transform, x: spatial_vector) -> spatial_vector:
    """A spatial force in the frame of the transform: (R torque + cross(p, R f), R f).

    Derivative: that of the formula.

    Example: y[i] = dk.transform_wrench(dk.transform(u, dk.quat_rpy(x[i], 0.2, 0.3)), dk.spatial_vector(u, v))[0]
    """
    f = quat_rotate(t.q, x[3:6])
    return spatial_vector(quat_rotate(t.q, x[0:3]) + cross(t.p, f), f)
