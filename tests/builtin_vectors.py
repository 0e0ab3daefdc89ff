"""Rows of the table of built-in functions: those of vectors, matrices, quaternions and transforms, and operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_numbers import LARGE, SHIFT, SMALL, truncated
from builtin_rows import INTEGERS, NUMBERS, divisor, inside, normal, row, sized, special, spread

VECTORS = ("vec2", "vec3", "vec4", "vec5")
MATRICES = ("mat22", "mat33", "mat44", "mat23")
SQUARE = ("mat22", "mat33", "mat44")


def exactly(x: Any, y: Any) -> Any:
    """The quotient, of integers rounded toward zero."""
    return truncated(x, y) if x.dtype.kind in "iu" else x / y


def least(x: Any) -> Any:
    return np.nanargmin(x) if not np.isnan(x).all() else 0


def lerp(a: Any, b: Any, t: Any) -> Any:
    return a * (1.0 - t) + b * t


def product(a: Any, b: Any) -> Any:
    return np.sum(a * b, dtype=a.dtype)


def over(a: Any, b: Any) -> Any:
    return a @ b


def cofactors(m: Any) -> Any:
    """The determinant by expansion, which is exact for integers."""
    if m.shape == (1, 1):
        return m[0, 0]
    minors = (np.delete(np.delete(m, 0, 0), k, 1) for k in range(len(m)))
    total = m.dtype.type(0)
    for k, minor in enumerate(minors):
        total = total + m[0, k] * cofactors(minor) if k % 2 == 0 else total - m[0, k] * cofactors(minor)
    return total


def cross(a: Any, b: Any) -> Any:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], a.dtype)


def skew(v: Any) -> Any:
    zero = v.dtype.type(0)
    return np.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]], v.dtype)


def hamilton(a: Any, b: Any) -> Any:
    u, v = a[:3], b[:3]
    return np.append(a[3] * v + b[3] * u + np.cross(u, v), a[3] * b[3] - u @ v)


def composed(a: Any, b: Any) -> Any:
    u, w = a[3:6], a[6]
    turned = b[:3] * (2 * w * w - 1) + 2 * u * (u @ b[:3]) + 2 * w * np.cross(u, b[:3])
    return np.append(a[:3] + turned, hamilton(a[3:], b[3:]))


def of_composites(kinds: tuple[str, ...]) -> list[Any]:
    """Rows of what vectors and matrices have in common, over every scalar type."""
    return [
        *sized(kinds, "dk.add(a, b)", "V V", "V", oracle=np.add, of=NUMBERS),
        *sized(kinds, "dk.sub(a, b)", "V V", "V", oracle=np.subtract, of=NUMBERS),
        *sized(kinds, "dk.neg(a)", "V", "V", oracle=np.negative, of=NUMBERS),
        *sized(kinds, "dk.pos(a)", "V", "V", oracle=lambda a: a, of=NUMBERS),
        *sized(kinds, "dk.mul(a, b)", "V number", "V", oracle=np.multiply, of=NUMBERS, form="number"),
        *sized(kinds, "dk.mul(a, b)", "number V", "V", oracle=np.multiply, of=NUMBERS, form="of number"),
        *sized(kinds, "dk.div(a, b)", "V number", "V", normal, divisor, oracle=np.divide, form="number"),
        *sized(kinds, "dk.div(a, b)", "number V", "V", normal, divisor, oracle=np.divide, form="of number"),
        *sized(kinds, "dk.div_approx(a, b)", "V number", "V", normal, divisor, oracle=np.divide, form="number"),
        *sized(kinds, "dk.div_approx(a, b)", "number V", "V", normal, divisor, oracle=np.divide, form="of number"),
        *sized(kinds, "dk.cw_mul(a, b)", "V V", "V", oracle=np.multiply, of=NUMBERS),
        *sized(kinds, "dk.cw_div(a, b)", "V V", "V", normal, divisor, oracle=exactly, of=NUMBERS),
        *sized(kinds, "dk.abs(a)", "V", "V", oracle=np.abs, of=NUMBERS),
        *sized(kinds, "dk.min(a, b)", "V V", "V", oracle=np.minimum, of=NUMBERS),
        *sized(kinds, "dk.max(a, b)", "V V", "V", oracle=np.maximum, of=NUMBERS),
        *sized(kinds, "dk.clamp(a, b, c)", "V V V", "V", normal, inside(-0.8, 0.0), inside(0.2, 0.8),
               oracle=lambda x, low, high: np.minimum(np.maximum(x, low), high), of=NUMBERS),
        *sized(kinds, "dk.lerp(a, b, c)", "V V number", "V", oracle=lerp),
        *sized(kinds, "dk.sign(a)", "V", "V", oracle=lambda a: np.where(a < 0, -1, 1), of=NUMBERS),
        *sized(kinds, "dk.where(a, b, c)", "bool V V", "V", oracle=np.where, of=NUMBERS),
        *sized(kinds, "dk.select(a, b, c)", "bool V V", "V", oracle=lambda c, a, b: np.where(c, b, a), of=NUMBERS),
        *sized(kinds, "dk.stop_gradient(a)", "V", "V", oracle=lambda a: a, constant=True),
        *sized(kinds, "a == b", "V V", "int", oracle=lambda a, b: np.all(a == b), of=NUMBERS),
        *sized(kinds, "a != b", "V V", "int", oracle=lambda a, b: np.any(a != b), of=NUMBERS),
        *sized(kinds, "dk.isnan(a)", "V", "int", special, oracle=lambda a: np.isnan(a).any()),
        *sized(kinds, "dk.isinf(a)", "V", "int", special, oracle=lambda a: np.isinf(a).any()),
        *sized(kinds, "dk.isfinite(a)", "V", "int", special, oracle=lambda a: np.isfinite(a).all()),
        *sized(kinds, "len(a)", "V", "int", oracle=len, of=NUMBERS),
        *sized(kinds, "dk.bit_and(a, b)", "V V", "V", oracle=np.bitwise_and, of=INTEGERS),
        *sized(kinds, "dk.bit_or(a, b)", "V V", "V", oracle=np.bitwise_or, of=INTEGERS),
        *sized(kinds, "dk.bit_xor(a, b)", "V V", "V", oracle=np.bitwise_xor, of=INTEGERS),
        *sized(kinds, "dk.lshift(a, b)", "V V", "V", LARGE, SHIFT, oracle=np.left_shift, of=INTEGERS),
        *sized(kinds, "dk.rshift(a, b)", "V V", "V", LARGE, SHIFT, oracle=np.right_shift, of=INTEGERS),
        *sized(kinds, "dk.invert(a)", "V", "V", oracle=np.invert, of=INTEGERS),
    ]  # fmt: skip


OF_VECTORS = (
    *of_composites(VECTORS),
    *sized(VECTORS, "dk.dot(a, b)", "V V", "number", oracle=product, of=NUMBERS),
    *sized(VECTORS, "dk.length_sq(a)", "V", "number", oracle=lambda a: product(a, a), of=NUMBERS),
    *sized(VECTORS, "dk.length(a)", "V", "number", oracle=np.linalg.norm),
    *sized(VECTORS, "dk.normalize(a)", "V", "V", oracle=lambda a: a / np.linalg.norm(a)),
    *sized(VECTORS, "dk.mod(a, b)", "V V", "V", SMALL, divisor, oracle=np.remainder, of=NUMBERS),
    *sized(VECTORS, "dk.floordiv(a, b)", "V V", "V", SMALL, divisor, oracle=np.floor_divide, of=NUMBERS),
    *sized(VECTORS, "dk.div(a, b)", "V number", "W", normal, divisor, oracle=np.divide, of=INTEGERS, form="integers"),
    *sized(VECTORS, "dk.min(a)", "V", "number", oracle=np.min, of=NUMBERS, form="one"),
    *sized(VECTORS, "dk.max(a)", "V", "number", oracle=np.max, of=NUMBERS, form="one"),
    *sized(VECTORS, "dk.argmin(a)", "V", "int", oracle=np.argmin, of=NUMBERS),
    *sized(VECTORS, "dk.argmax(a)", "V", "int", oracle=np.argmax, of=NUMBERS),
    *sized(VECTORS, "dk.outer(a, b)", "V V", "S", oracle=np.multiply.outer, of=NUMBERS),
    *sized(VECTORS, "dk.diag(a)", "V", "S", oracle=np.diag, of=NUMBERS),
    *sized(VECTORS, "dk.matrix_from_rows(a, b)", "V V", "B", oracle=lambda a, b: np.stack([a, b]), of=NUMBERS),
    *sized(VECTORS, "dk.matrix_from_cols(a, b)", "V V", "D", oracle=lambda a, b: np.stack([a, b], 1), of=NUMBERS),
    row("dk.cross(a, b)", "vec3 vec3", "vec3", oracle=cross, of=NUMBERS),
    row("dk.skew(a)", "vec3", "mat33", oracle=skew, of=NUMBERS),
    row("dk.outer(a, b)", "vec2 vec3", "mat23", oracle=np.multiply.outer, of=NUMBERS, form="vec2-vec3"),
    row("dk.vector(a, b, c)", "number number number", "vec3", oracle=lambda *x: np.array(x), of=NUMBERS),
    row("dk.vector(a, length=5, dtype=number)", "number", "vec5", oracle=lambda x: np.full(5, x), of=NUMBERS,
        form="fill"),
    row("dk.vector(length=4, dtype=number)", "", "vec4", oracle=lambda: np.zeros(4), of=NUMBERS, form="zeros"),
)  # fmt: skip

OF_MATRICES = (
    *of_composites(MATRICES),
    *sized(MATRICES, "dk.ddot(a, b)", "M M", "number", oracle=product, of=NUMBERS),
    *sized(MATRICES, "dk.transpose(a)", "M", "T", oracle=np.transpose, of=NUMBERS),
    *sized(MATRICES, "dk.mul(a, b)", "M C", "R", oracle=over, of=NUMBERS, form="vector"),
    *sized(MATRICES, "dk.mul(a, b)", "R M", "C", oracle=over, of=NUMBERS, form="of vector"),
    *sized(MATRICES, "a @ b", "M T", "S", oracle=over, of=NUMBERS),
    *sized(SQUARE, "dk.mul(a, b)", "M M", "M", oracle=over, of=NUMBERS, form="matrix"),
    *sized(SQUARE, "dk.trace(a)", "M", "number", oracle=lambda m: np.trace(m, dtype=m.dtype), of=NUMBERS),
    *sized(SQUARE, "dk.get_diag(a)", "M", "R", oracle=np.diag, of=NUMBERS),
    *sized(SQUARE, "dk.determinant(a)", "M", "number", spread, oracle=cofactors, of=NUMBERS),
    *sized(SQUARE, "dk.inverse(a)", "M", "M", spread, oracle=np.linalg.inv, loose=4.0),
    row("dk.inverse_approx(a)", "mat44", "mat44", spread, oracle=np.linalg.inv, loose=4.0, form="mat44"),
    row("dk.identity(n=3, dtype=number)", "", "mat33", oracle=lambda: np.eye(3), of=NUMBERS),
    row("dk.identity(n=5, dtype=number)", "", "mat55", oracle=lambda: np.eye(5), of=NUMBERS, form="five"),
    row("dk.matrix(a, b, c, a, b, c, shape=(2, 3))", "number number number", "mat23",
        oracle=lambda *x: np.array([x, x]), of=NUMBERS),
    row("dk.matrix(a, shape=(3, 3), dtype=number)", "number", "mat33", oracle=lambda x: np.full((3, 3), x),
        of=NUMBERS, form="fill"),
)  # fmt: skip


def of_rigid(kind: str, mul: Any) -> list[Any]:
    """Rows of the operators of quaternions or transforms."""
    return [
        row("dk.add(a, b)", f"{kind} {kind}", kind, oracle=np.add, form=kind),
        row("dk.sub(a, b)", f"{kind} {kind}", kind, oracle=np.subtract, form=kind),
        row("dk.neg(a)", kind, kind, oracle=np.negative, form=kind),
        row("dk.pos(a)", kind, kind, oracle=lambda a: a, form=kind),
        row("dk.mul(a, b)", f"{kind} {kind}", kind, oracle=mul, form=kind),
        row("dk.mul(a, b)", f"{kind} number", kind, oracle=np.multiply, form=f"number-{kind}"),
        row("dk.mul(a, b)", f"number {kind}", kind, oracle=np.multiply, form=f"of number-{kind}"),
        row("dk.div(a, b)", f"{kind} number", kind, normal, divisor, oracle=np.divide, form=f"number-{kind}"),
        row("dk.isnan(a)", kind, "int", special, oracle=lambda a: np.isnan(a).any(), form=kind),
        row("dk.isinf(a)", kind, "int", special, oracle=lambda a: np.isinf(a).any(), form=kind),
        row("dk.isfinite(a)", kind, "int", special, oracle=lambda a: np.isfinite(a).all(), form=kind),
        row("dk.where(a, b, c)", f"bool {kind} {kind}", kind, oracle=np.where, form=kind),
        row("a == b", f"{kind} {kind}", "int", oracle=lambda a, b: np.all(a == b), form=kind),
        row("len(a)", kind, "int", oracle=len, form=kind),
        row("dk.stop_gradient(a)", kind, kind, oracle=lambda a: a, form=kind, constant=True),
    ]


RIGID = (
    *of_rigid("quat", hamilton),
    *of_rigid("transform", composed),
    row("dk.div(a, b)", "number quat", "quat", normal, divisor, oracle=np.divide, form="of number-quat"),
    row("dk.div_approx(a, b)", "number quat", "quat", normal, divisor, oracle=np.divide, form="of number-quat"),
    row("dk.div_approx(a, b)", "quat number", "quat", normal, divisor, oracle=np.divide, form="number-quat"),
    row("dk.lerp(a, b, c)", "transform transform number", "transform", oracle=lerp, form="transform"),
    row("dk.quaternion(a, b, c, d)", "number number number number", "quat", oracle=lambda *x: np.array(x)),
    row("dk.quaternion(a, b)", "vec3 number", "quat", oracle=np.append, form="vector"),
    row("dk.transformation(a, b)", "vec3 quat", "transform", oracle=np.append),
    row("dk.transformation(a)", "vec3", "transform", oracle=lambda p: np.append(p, [0, 0, 0, 1]), form="vector"),
)

LARGER = (
    *sized(("mat55", "mat66"), "dk.determinant(a)", "M", "number", spread, oracle=np.linalg.det, of=("float64",)),
    *sized(("mat55", "mat66"), "dk.inverse(a)", "M", "M", spread, oracle=np.linalg.inv, of=("float64",), loose=4.0),
)
NORMS = (
    *sized(("vec2", "vec4", "vec5"), "dk.norm_l1(a)", "V", "number", oracle=lambda v: np.abs(v).sum()),
    *sized(("vec2", "vec4", "vec5"), "dk.norm_l2(a)", "V", "number", oracle=np.linalg.norm),
    *sized(("vec2", "vec4", "vec5"), "dk.norm_huber(a)", "V", "number",
           oracle=lambda v: v @ v / 2 if v @ v <= 1 else math.sqrt(v @ v) - 0.5),
    *sized(("vec2", "vec4", "vec5"), "dk.norm_pseudo_huber(a)", "V", "number", oracle=lambda v: np.sqrt(1 + v @ v)),
    *sized(("vec2", "vec4", "vec5"), "dk.smooth_normalize(a)", "V", "V", oracle=lambda v: v / np.sqrt(1 + v @ v)),
)  # fmt: skip
