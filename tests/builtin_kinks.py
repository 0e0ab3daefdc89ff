"""Where derivatives of built-in functions do not exist or are chosen: what the documentation states there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from builtin_rows import Row, row

INF, NAN = float("inf"), float("nan")


class Kink(NamedTuple):
    """A call, its arguments, the results, and the gradient at the cotangent of ones; None where nothing is stated."""

    row: Row
    at: Sequence[float]
    value: Sequence[float] | None
    derivative: Sequence[float] | None


def one(call: str, at: Sequence[float], value: Sequence[float] | None, derivative: Sequence[float] | None,
        takes: str = "", gives: str = "number") -> Kink:  # fmt: skip
    return Kink(row(call, takes or " ".join(["number"] * len(at)), gives), at, value, derivative)


KINKS = (
    one("dk.abs(a)", [0], [0], [0]),
    one("dk.min(a, b)", [2, 2], [2], [1, 0]),
    one("dk.max(a, b)", [2, 2], [2], [1, 0]),
    one("dk.max(a, b)", [NAN, 2], [NAN], [1, 0]),
    one("dk.min(a, b)", [2, NAN], [NAN], [0, 1]),
    one("dk.clamp(a, b, c)", [1, 1, 3], [1], [1, 0, 0]),
    one("dk.clamp(a, b, c)", [3, 1, 3], [3], [1, 0, 0]),
    one("dk.clamp(a, b, c)", [5, 1, 3], [3], [0, 0, 1]),
    one("dk.sign(a)", [0], [1], [0]),
    one("dk.sign(a)", [-0.0], [1], [0]),
    one("dk.sign(a)", [NAN], [1], [0]),
    one("dk.step(a)", [0], [0], [0]),
    one("dk.nonzero(a)", [0], [0], [0]),
    one("dk.copysign(a, b)", [1, -0.0], [-1], [-1, 0]),
    one("dk.copysign(a, b)", [0.0, -1], [-0.0], [-1, 0]),
    one("dk.copysign(a, b)", [-0.0, -1], [-0.0], [1, 0]),
    one("dk.pow(a, b)", [0, 2], [0], [0, 0]),
    one("dk.pow(a, b)", [0, 1], [0], [1, 0]),
    one("dk.pow(a, b)", [3, 0], [1], [0, np.log(3)]),
    one("dk.pow(a, b)", [0, 0], [1], [0, 0]),
    one("dk.hypot(a, b)", [0, 0], [0], [0, 0]),
    one("dk.atan2(a, b)", [0, 0], [0], [0, 0]),
    one("dk.floor(a)", [2], [2], [0]),
    one("dk.round(a)", [2.5], [3], [0]),
    one("dk.rint(a)", [2.5], [2], [0]),
    one("dk.round(a)", [-0.5], [-1], [0]),
    one("dk.frac(a)", [2], [0], [1]),
    one("dk.mod(a, b)", [6, 3], [0], [1, -2]),
    one("dk.mod(a, b)", [-7, 3], [2], [1, 3]),
    one("dk.erfinv(a)", [1], [INF], None),
    one("dk.erfinv(a)", [2], [NAN], None),
    one("dk.erfinv(a)", [0.5], [0.4769362762044699], None),
    one("dk.erfcinv(a)", [1.5], [-0.4769362762044699], None),
    one("dk.smoothstep(a, b, c)", [0, 1, 0], [0], [0, 0, 0]),
    one("dk.smoothstep(a, b, c)", [0, 1, 2], [1], [0, 0, 0]),
    one("dk.where(a, b, c)", [1, 2, NAN], [2], [0, 1, 0], "bool number number"),
    one("dk.length(a)", [0, 0, 0], [0], [0, 0, 0], "vec3"),
    one("dk.normalize(a)", [0, 0, 0], [0, 0, 0], [0, 0, 0], "vec3", "vec3"),
    one("dk.min(a)", [3, 1, 1], [1], [0, 1, 0], "vec3"),
    one("dk.max(a)", [3, 3, 1], [3], [1, 0, 0], "vec3"),
    one("dk.min(a, b)", [1, 2, 1, 3], [1, 2], [1, 1, 0, 0], "vec2 vec2", "vec2"),
    one("dk.abs(a)", [0, -2], [0, 2], [0, -1], "vec2", "vec2"),
    one("dk.argmin(a)", [2, 1, 1], [1], None, "vec3", "int"),
    one("dk.argmax(a)", [NAN, 1, 2], [2], None, "vec3", "int"),
    one("dk.argmin(a)", [NAN, NAN, NAN], [0], None, "vec3", "int"),
    one("dk.quat_to_axis_angle(a)", [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], "quat", "vec3 number"),
    one("dk.quat_to_axis_angle(a)", [0, 0, 0, -1], [0, 0, 0, 0], [0, 0, 0, 0], "quat", "vec3 number"),
    one("dk.normalize(a)", [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], "quat", "quat"),
    one("dk.norm_l1(a)", [0, 2, -3], [5], [0, 1, -1], "vec3"),
    one("dk.norm_l2(a)", [0, 0, 0], [0], [0, 0, 0], "vec3"),
    one("dk.norm_huber(a)", [0, 0], [0], [0, 0], "vec2"),
    one("dk.norm_huber(a, 5.0)", [3, 4], [12.5], [3, 4], "vec2"),
    one("dk.norm_pseudo_huber(a)", [0, 0], [1], [0, 0], "vec2"),
    one("dk.smooth_normalize(a)", [0, 0], [0, 0], [1, 1], "vec2", "vec2"),
    one("dk.quat_between_vectors(a, b)", [1, 0, 0, -1, 0, 0], [0, 0, 0, 1], [0] * 6, "vec3 vec3", "quat"),
    one("dk.quat_slerp(a, b, 0.25)", [0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0, 1],
        [0.75, 0.75, 0.75, 1, 0.25, 0.25, 0.25, 0], "quat quat", "quat"),
    one("dk.quat_twist(a, b)", [0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1], [0] * 7, "vec3 quat", "quat"),
    one("dk.transform_decompose(a)", np.diag([0, 2, 3, 1]).ravel(), [0, 0, 0, 0, 0, 0, 1, 0, 2, 3], None,
        "mat44", "vec3 quat vec3"),
)  # fmt: skip
"""Singular points, ties, ends of domains."""
