"""Quaternions (x, y, z, w), whose vector part comes first: u = (x, y, z)."""

from __future__ import annotations

import math
from typing import Any

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.library.language import (
    Dtype,
    Float,
    acos,
    asin,
    atan2,
    cos,
    cross,
    dot,
    length,
    mat33,
    mat44,
    normalize,
    quat,
    sin,
    sqrt,
    vec3,
    where,
)

__all__: list[str] = []

_SMALL = 1e-8
"""Below this length of u, sin(t * angle) / |u| is t / w to the last digit."""

_LOCKED = 1e-12
"""Two axes coincide where one of the sums of squares is less than this part of the other."""


@built_in()
def quat_identity(dtype: Dtype = float) -> quat:
    """The quaternion (0, 0, 0, 1), which rotates nothing.

    Derivative: none, it is constant.

    Example: y[i] = dk.quat_identity(dtype=dk.float32).w
    """
    return quat(0.0, 0.0, 0.0, 1.0)


@built_in()
def quat_from_axis_angle(axis: vec3, angle: Float) -> quat:
    """The rotation by an angle about an axis, which is not normalized: (axis * sin(angle / 2), cos(angle / 2)).

    Derivative: that of the formula.

    Example: r = dk.quat_from_axis_angle(dk.normalize(u), x[i]); w[i] = dk.quat_rotate(r, u)
    """
    half = 0.5 * angle
    return quat(axis * sin(half), cos(half))


@built_in()
def quat_to_axis_angle(q: quat) -> tuple[vec3, Float]:
    """The axis, of length 1, and the angle in [0, pi] of a rotation; quat_to_axis_angle(q, axis, angle) sets variables.

    Both are 0 where u is 0.

    Derivative: that of the formulas.

    Kinks: 0 where u is 0.

    Example: axis, angle = dk.quat_to_axis_angle(dk.quat_rpy(x[i], 0.0, 0.5)); y[i] = angle
    """
    u = q[0:3]
    n = length(u)
    axis = vec3(0.0, 0.0, 0.0)
    angle = Float(0.0)
    if n > 0.0:
        # q and -q are one rotation; of the two, that with w >= 0 has its angle in [0, pi].
        axis = u / where(q.w < 0.0, -n, n)
        angle = 2.0 * atan2(n, abs(q.w))
    return axis, angle


@built_in("quat_to_axis_angle", sets="axis angle")
def _quat_to_axis_angle_set(q: quat, axis: Any, angle: Any) -> tuple[vec3, Float]:
    n, a = quat_to_axis_angle(q)
    return n, a


@built_in()
def quat_from_matrix(m: mat33) -> quat:
    """The quaternion of a rotation matrix, or of the rotation in the upper left of a 4 x 4 one; of length 1.

    Derivative: that of the formula of the branch: of the trace where it is not negative, else of the greatest diagonal
    element.

    Example: r = dk.quat_from_matrix(dk.quat_to_matrix(dk.quat_rpy(x[i], 0.0, 0.5))); y[i] = r.w
    """
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    # Each branch takes the root of a sum that is at least 1, so that none divides by something small.
    if trace >= 0.0:
        h = sqrt(trace + 1.0)
        k = 0.5 / h
        q = quat((m[2, 1] - m[1, 2]) * k, (m[0, 2] - m[2, 0]) * k, (m[1, 0] - m[0, 1]) * k, 0.5 * h)
    elif m[0, 0] >= m[1, 1] and m[0, 0] >= m[2, 2]:
        h = sqrt(m[0, 0] - (m[1, 1] + m[2, 2]) + 1.0)
        k = 0.5 / h
        q = quat(0.5 * h, (m[0, 1] + m[1, 0]) * k, (m[2, 0] + m[0, 2]) * k, (m[2, 1] - m[1, 2]) * k)
    elif m[1, 1] >= m[2, 2]:
        h = sqrt(m[1, 1] - (m[2, 2] + m[0, 0]) + 1.0)
        k = 0.5 / h
        q = quat((m[0, 1] + m[1, 0]) * k, 0.5 * h, (m[1, 2] + m[2, 1]) * k, (m[0, 2] - m[2, 0]) * k)
    else:
        h = sqrt(m[2, 2] - (m[0, 0] + m[1, 1]) + 1.0)
        k = 0.5 / h
        q = quat((m[2, 0] + m[0, 2]) * k, (m[1, 2] + m[2, 1]) * k, 0.5 * h, (m[1, 0] - m[0, 1]) * k)
    return normalize(q)


@built_in("quat_from_matrix")
def _quat_from_matrix44(m: mat44) -> quat:
    return quat_from_matrix(mat33(m[0, 0], m[0, 1], m[0, 2], m[1, 0], m[1, 1], m[1, 2], m[2, 0], m[2, 1], m[2, 2]))


@built_in()
def quat_to_matrix(q: quat) -> mat33:
    """The matrix that rotates as quat_rotate does.

    Derivative: that of the formula.

    Example: e[i] = dk.quat_to_matrix(dk.quat_rpy(x[i], 0.0, 0.5))
    """
    x, y, z, w = q.x, q.y, q.z, q.w
    d = 2.0 * w * w - 1.0
    return mat33(
        d + 2.0 * x * x, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w),
        2.0 * (x * y + z * w), d + 2.0 * y * y, 2.0 * (y * z - x * w),
        2.0 * (x * z - y * w), 2.0 * (y * z + x * w), d + 2.0 * z * z,
    )  # fmt: skip


@built_in()
def quat_rpy(roll: Float, pitch: Float, yaw: Float) -> quat:
    """The rotation about x by roll, then about y by pitch, then about z by yaw, about fixed axes.

    Derivative: that of the formula.

    Example: r = dk.quat_rpy(x[i], 0.2, 0.3); w[i] = dk.quat_rotate(r, u)
    """
    cr, sr = cos(0.5 * roll), sin(0.5 * roll)
    cp, sp = cos(0.5 * pitch), sin(0.5 * pitch)
    cy, sy = cos(0.5 * yaw), sin(0.5 * yaw)
    return quat(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


@built_in()
def quat_to_rpy(q: quat) -> vec3:
    """The angles roll, pitch and yaw that quat_rpy takes; pitch is in [-pi / 2, pi / 2].

    Derivative: that of the formulas.

    Kinks: 0 for pitch at its bounds.

    Example: w[i] = dk.quat_to_rpy(dk.quat_rpy(x[i], 0.2, 0.3))
    """
    x, y, z, w = q.x, q.y, q.z, q.w
    roll = atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    s = 2.0 * (w * y - z * x)
    pitch = Float(0.5 * math.pi)
    # Rounding may bring s beyond its bounds, where asin is NaN.
    if s <= -1.0:
        pitch = -pitch
    elif s < 1.0:
        pitch = asin(s)
    yaw = atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return vec3(roll, pitch, yaw)


@built_in()
def quat_from_euler(e: vec3, i: int, j: int, k: int) -> quat:
    """The rotation about the fixed axes i, j and k, one after the other, by e[i], e[j] and e[k].

    Derivative: that of the formula.

    Example: r = dk.quat_from_euler(u, 0, 1, 2); y[i] = r.w
    """
    return _about(k, e[k]) * (_about(j, e[j]) * _about(i, e[i]))


@built_in()
def quat_to_euler(q: quat, i: int, j: int, k: int) -> vec3:
    """The angles that quat_from_euler takes, up to whole turns; where axes i and k coincide, e[i] is 0.

    If i is k, the third angle is that of the axis which is neither.

    Derivative: that of the formulas of the branch.

    Example: w[i] = dk.quat_to_euler(dk.quat_rpy(x[i], 0.2, 0.3), 0, 1, 2)
    """
    # If i is k, these are proper Euler angles; the other case is brought to it by a quarter turn.
    last = k
    if i == k:
        last = 3 - i - j
    sign = Float((i - j) * (j - last) * (last - i)) * 0.5
    a, b, c, d = q.w, q[i], q[j], q[last] * sign
    if i != k:
        a, b, c, d = q.w - q[j], q[i] + q[last] * sign, q[j] + q.w, q[last] * sign - q[i]
    ab, cd = a * a + b * b, c * c + d * d
    middle = acos(2.0 * ab / (ab + cd) - 1.0)
    plus, minus = atan2(b, a), atan2(d, c)
    first, third = plus - minus, plus + minus
    if ab <= _LOCKED * cd:
        first, third = Float(0.0), 2.0 * minus
    elif cd <= _LOCKED * ab:
        first, third = Float(0.0), 2.0 * plus
    if i != k:
        middle -= 0.5 * math.pi
        third *= sign
    e = vec3(0.0, 0.0, 0.0)
    e[i], e[j], e[last] = first, middle, third
    return e


@func
def _about(axis, angle):  # type: ignore[no-untyped-def]
    """Return the rotation by an angle about an axis of the frame."""
    q = quat(0.0, 0.0, 0.0, cos(0.5 * angle))
    q[axis] = sin(0.5 * angle)
    return q


@built_in()
def quat_inverse(q: quat) -> quat:
    """The conjugate (-x, -y, -z, w), which is the inverse of a quaternion of length 1.

    Derivative: the signs of the components.

    Example: r = dk.quat_inverse(dk.quat_rpy(x[i], 0.2, 0.3)); w[i] = dk.quat_rotate(r, u)
    """
    return quat(-q.x, -q.y, -q.z, q.w)


@built_in()
def quat_rotate(q: quat, v: vec3) -> vec3:
    """The vector rotated: v * (2 * w ** 2 - 1) + 2 * u * dot(u, v) + 2 * w * cross(u, v).

    Derivative: that of the formula, with respect to four free numbers.

    Example: w[i] = dk.quat_rotate(dk.quat_rpy(x[i], 0.2, 0.3), u)
    """
    p = q[0:3]
    return v * (2.0 * q.w * q.w - 1.0) + p * (2.0 * dot(p, v)) + cross(p, v) * (2.0 * q.w)


@built_in()
def quat_rotate_inv(q: quat, v: vec3) -> vec3:
    """The vector rotated back: as quat_rotate, with -2 * w * cross(u, v).

    Derivative: that of the formula, with respect to four free numbers.

    Example: w[i] = dk.quat_rotate_inv(dk.quat_rpy(x[i], 0.2, 0.3), u)
    """
    p = q[0:3]
    return v * (2.0 * q.w * q.w - 1.0) + p * (2.0 * dot(p, v)) - cross(p, v) * (2.0 * q.w)


@built_in()
def quat_slerp(a: quat, b: quat, t: Float) -> quat:
    """The rotation at t of the shortest way from a (t = 0) to b (t = 1), at constant speed.

    Derivative: that of the formula.

    Kinks: exists where a and b are equal, too.

    Example: r = dk.quat_slerp(dk.quat_identity(), dk.quat_rpy(1.0, 0.2, 0.3), x[i]); w[i] = dk.quat_rotate(r, u)
    """
    d = quat_inverse(a) * b
    # d and -d are one rotation, and the one with w >= 0 is the shorter way.
    sign = where(d.w < 0.0, Float(-1.0), Float(1.0))
    n = length(d[0:3])
    s = t * sign
    c = Float(1.0)
    # Otherwise s is the limit for small angles.
    if n > _SMALL:
        angle = t * atan2(n, sign * d.w)
        s = sign * sin(angle) / n
        c = cos(angle)
    return a * quat(d[0:3] * s, c)


@built_in()
def quat_twist(axis: vec3, q: quat) -> quat:
    """The part of a rotation that is about an axis of length 1: normalize(quat(axis * dot(u, axis), w)).

    Derivative: that of the formula.

    Kinks: 0 for a half turn about an axis perpendicular to this one, whose twist is the identity.

    Example: r = dk.quat_twist(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3)); y[i] = r.w
    """
    return normalize(quat(axis * dot(q[0:3], axis), q.w))


@built_in()
def quat_twist_angle(axis: vec3, q: quat) -> Float:
    """The angle of the part of a rotation that is about an axis of length 1: 2 * atan2(abs(dot(u, axis)), w).

    Derivative: that of the formula.

    Example: y[i] = dk.quat_twist_angle(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3))
    """
    return 2.0 * atan2(abs(dot(q[0:3], axis)), q.w)


@built_in()
def quat_twist_angle_signed(axis: vec3, q: quat) -> Float:
    """The angle of the part of a rotation that is about an axis of length 1, with its sign: 2 * atan2(dot(u, axis), w).

    Derivative: that of the formula.

    Example: y[i] = dk.quat_twist_angle_signed(dk.normalize(u), dk.quat_rpy(x[i], 0.2, 0.3))
    """
    return 2.0 * atan2(dot(q[0:3], axis), q.w)


@built_in()
def quat_between_vectors(a: vec3, b: vec3) -> quat:
    """The shortest rotation that takes the direction of a to that of b; the identity for opposite ones.

    Derivative: that of normalize(quat(cross(a, b), 1 + dot(a, b))) with a and b of length 1.

    Kinks: 0 for opposite ones.

    Example: r = dk.quat_between_vectors(u, v); w[i] = dk.quat_rotate(r, u)
    """
    p, q = normalize(a), normalize(b)
    # (axis * sin(angle), 1 + cos(angle)) is a multiple of the quaternion of half the angle.
    return normalize(quat(cross(p, q), 1.0 + dot(p, q)))
