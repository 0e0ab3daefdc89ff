"""Rows of the table of built-in functions: those that are written in the kernel language."""

from __future__ import annotations

from typing import Any

import numpy as np
from builtin_rows import inside, normal, rotation, row, spread, symmetric, unit

Q, V, T, M = "quat", "vec3", "transform", "mat44"

QUATERNIONS = (
    row("dk.quat_identity(dtype=number)", "", Q),
    row("dk.quat_from_axis_angle(a, b)", f"{V} number", Q),
    row("dk.quat_to_axis_angle(a)", Q, f"{V} number", unit),
    row("dk.quat_to_axis_angle(a, r0, r1)", Q, f"{V} number", normal, form="set"),
    row("dk.quat_from_matrix(a)", "mat33", Q, rotation, loose=4.0),
    row("dk.quat_from_matrix(a)", M, Q, rotation, loose=4.0, form="mat44"),
    row("dk.quat_to_matrix(a)", Q, "mat33"),
    row("dk.quat_rpy(a, b, c)", "number number number", Q),
    row("dk.quat_to_rpy(a)", Q, V, unit, loose=8.0, narrow=True),
    row("dk.quat_from_euler(a, 2, 0, 1)", V, Q, narrow=True),
    row("dk.quat_from_euler(a, 0, 1, 0)", V, Q, narrow=True, form="proper"),
    row("dk.quat_to_euler(a, 2, 0, 1)", Q, V, unit, loose=8.0, narrow=True),
    row("dk.quat_to_euler(a, 0, 1, 0)", Q, V, unit, loose=8.0, narrow=True, form="proper"),
    row("dk.quat_inverse(a)", Q, Q),
    row("dk.quat_rotate(a, b)", f"{Q} {V}", V),
    row("dk.quat_rotate_inv(a, b)", f"{Q} {V}", V),
    row("dk.quat_slerp(a, b, c)", f"{Q} {Q} number", Q, unit, unit, inside(0.0, 1.0), loose=8.0),
    row("dk.quat_twist(a, b)", f"{V} {Q}", Q, unit, unit, narrow=True),
    row("dk.quat_twist_angle(a, b)", f"{V} {Q}", "number", unit, unit, loose=8.0, narrow=True),
    row("dk.quat_twist_angle_signed(a, b)", f"{V} {Q}", "number", unit, unit, narrow=True),
    row("dk.quat_between_vectors(a, b)", f"{V} {V}", Q, narrow=True),
    row("dk.dot(a, b)", f"{Q} {Q}", "number", form="quat"),
    row("dk.length(a)", Q, "number", form="quat"),
    row("dk.length_sq(a)", Q, "number", form="quat"),
    row("dk.normalize(a)", Q, Q, form="quat"),
    row("dk.lerp(a, b, c)", f"{Q} {Q} number", Q, form="quat"),
)

TRANSFORMS = (
    row("dk.transform_identity(dtype=number)", "", T),
    row("dk.transform_get_translation(a)", T, V),
    row("dk.transform_get_rotation(a)", T, Q),
    row("dk.transform_set_translation(r0, b)", f"{T} {V}", T, before="r0 = a"),
    row("dk.transform_set_rotation(r0, b)", f"{T} {Q}", T, before="r0 = a"),
    row("dk.transform_multiply(a, b)", f"{T} {T}", T),
    row("dk.transform_point(a, b)", f"{T} {V}", V),
    row("dk.transform_point(a, b)", f"{M} {V}", V, form="mat44"),
    row("dk.transform_vector(a, b)", f"{T} {V}", V),
    row("dk.transform_vector(a, b)", f"{M} {V}", V, form="mat44"),
    row("dk.transform_inverse(a)", T, T),
    row("dk.transform_from_matrix(a)", M, T, rotation, loose=4.0),
    row("dk.transform_to_matrix(a)", T, M),
    row("dk.transform_compose(a, b, c)", f"{V} {Q} {V}", M),
    row("dk.transform_decompose(a)", M, f"{V} {Q} {V}", rotation, loose=4.0),
    row("dk.transform_twist(a, b)", f"{T} spatial_vector", "spatial_vector", narrow=True),
    row("dk.transform_wrench(a, b)", f"{T} spatial_vector", "spatial_vector", narrow=True),
)

S = "spatial_vector"


def closest(p1: Any, q1: Any, p2: Any, q2: Any) -> Any:
    """The closest points of two edges: of the lines, if they are on the edges, or one is an end of its edge."""
    d1, d2 = q1 - p1, q2 - p2
    s, t = np.linalg.lstsq(np.stack([d1, -d2], 1), p2 - p1, rcond=None)[0]
    pairs = [(s, t)] if 0 <= s <= 1 and 0 <= t <= 1 else []
    pairs += [(end, np.clip((p1 + end * d1 - p2) @ d2 / (d2 @ d2), 0, 1)) for end in (0.0, 1.0)]
    pairs += [(np.clip((p2 + end * d2 - p1) @ d1 / (d1 @ d1), 0, 1), end) for end in (0.0, 1.0)]
    found = [(np.linalg.norm(p1 + s * d1 - p2 - t * d2), s, t) for s, t in pairs]
    distance, s, t = min(found)
    return np.array([s, t, distance])


SPATIAL = (
    row("dk.spatial_dot(a, b)", f"{S} {S}", "number"),
    row("dk.spatial_cross(a, b)", f"{S} {S}", S),
    row("dk.spatial_cross_dual(a, b)", f"{S} {S}", S),
    row("dk.spatial_top(a)", S, V),
    row("dk.spatial_bottom(a)", S, V),
    row("dk.spatial_adjoint(a, b)", "mat33 mat33", "spatial_matrix", own=True),
    row("dk.velocity_at_point(a, b)", f"{S} {V}", V, narrow=True),
)

VECTORS = (
    row("dk.norm_l1(a)", V, "number", narrow=True),
    row("dk.norm_l2(a)", V, "number", narrow=True),
    row("dk.norm_huber(a)", V, "number", narrow=True),
    row("dk.norm_huber(a, b)", f"{V} number", "number", normal, inside(0.5, 2.0), form="delta", narrow=True),
    row("dk.norm_pseudo_huber(a, b)", f"{V} number", "number", normal, inside(0.5, 2.0), narrow=True),
    row("dk.smooth_normalize(a, b)", f"{V} number", V, normal, inside(0.5, 2.0), narrow=True),
)

EDGES = (row("dk.closest_point_edge_edge(a, b, c, d, 1.0e-6)", f"{V} {V} {V} {V}", V, oracle=closest, loose=20.0),)

DECOMPOSITIONS = (
    row("dk.svd2(a)", "mat22", "mat22 vec2 mat22", spread, own=True, loose=20.0),
    row("dk.svd2(a, r0, r1, r2)", "mat22", "mat22 vec2 mat22", spread, own=True, loose=20.0, form="set"),
    row("dk.svd3(a)", "mat33", "mat33 vec3 mat33", spread, own=True, loose=20.0),
    row("dk.svd3(a, r0, r1, r2)", "mat33", "mat33 vec3 mat33", spread, own=True, loose=20.0, form="set"),
    row("dk.qr3(a)", "mat33", "mat33 mat33", spread, own=True, loose=20.0),
    row("dk.qr3(a, r0, r1)", "mat33", "mat33 mat33", spread, own=True, loose=20.0, form="set"),
    row("dk.eig3(a)", "mat33", "mat33 vec3", symmetric, own=True, loose=20.0),
    row("dk.eig3(a, r0, r1)", "mat33", "mat33 vec3", symmetric, own=True, loose=20.0, form="set"),
)

NUMBERS = (
    row("dk.erfinv(a)", "number", "number", inside(-0.999, 0.999), loose=20.0),
    row("dk.erfcinv(a)", "number", "number", inside(0.001, 1.999), loose=20.0),
    row("dk.div_approx(a, b)", "number number", "number", normal, inside(0.5, 2.0), own=True),
    row("dk.div_approx(a, b)", "vec3 number", "vec3", normal, inside(0.5, 2.0), form="vec3", own=True),
    row("dk.inverse_approx(a)", "mat22", "mat22", spread, form="mat22", own=True, loose=4.0),
    row("dk.inverse_approx(a)", "mat33", "mat33", spread, form="mat33", own=True, loose=4.0),
)
