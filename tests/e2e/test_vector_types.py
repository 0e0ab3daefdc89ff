"""Vectors and matrices of any size over any scalar type, quaternions and transforms: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ir.types import Role, Vec, parse_type

F8, V3S = dk.float64, dk.vec3s
V5 = dk.types.vector(5, dk.float64)
V3B = dk.types.vector(3, bool)
M23 = dk.types.matrix((2, 3), dk.float64)
M34 = dk.types.matrix((3, 4), dk.float64)
M6 = dk.types.matrix((6, 6), dk.float64)
M16 = dk.types.matrix((16, 16), dk.float64)
RNG = np.random.default_rng(7)


def launched(kernel: Any, count: int, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """What the arrays of a launch hold afterwards, by name."""
    dk.launch(kernel, dim=count, inputs=list(given.values()))
    return {name: value.numpy() for name, value in given.items() if isinstance(value, dk.array)}


def test_types_are_interned_and_say_what_they_are() -> None:
    assert dk.types.vector(3, float) is dk.vec3 is dk.vec3f
    assert dk.types.matrix((4, 4), dk.float16) is dk.mat44h
    assert dk.types.quaternion(dk.float64) is dk.quatd
    assert dk.types.transformation() is dk.transform
    assert dk.vec3u is dk.vec3ui
    assert dk.types.vector(6, float) is dk.spatial_vector
    assert (M23._shape_, M23._length_, M23._wp_scalar_type_, M23.dtype) == ((2, 3), 6, dk.float64, dk.float64)
    assert dk.quat.ir == Vec(dk.float32.ir, 4, Role.QUATERNION) != dk.vec4.ir
    for t in (dk.quath, dk.transformd, dk.vec4us, V3B, M23):
        assert parse_type(str(t.ir)) == t.ir
    with pytest.raises(TypeError, match="has floats as components"):
        dk.types.quaternion(int)
    with pytest.raises(TypeError, match="components are scalars"):
        dk.types.vector(3, dk.vec2)
    with pytest.raises(ValueError, match="at least 0"):
        dk.types.vector(-1, float)


@dk.kernel
def parts(v: dk.array(dtype=V5), o: dk.array(dtype=V5), m: dk.array(dtype=M34), k: dk.array(dtype=M34), n: int):
    i = dk.tid()
    x = v[i]
    y = 2.0 / x
    y[1:4] = x[0:3]
    y[::2] += dk.types.vector(length=3, dtype=dk.float64)(1.0, 2.0, 3.0)
    y[n] *= x[-1]
    o[i] = y
    o[i][1:3] += x[-2:]
    a = m[i]
    a[:, 1] = dk.vector(x[0], x[1], x[2])
    a[1] = a[0]
    a[0:2, 1:3] += dk.identity(n=2, dtype=dk.float64)
    a[n - 5][n] -= x[n]
    k[i] = a


def test_parts_are_read_and_assigned() -> None:
    x, m, n = RNG.uniform(0.5, 2.0, (3, 5)), RNG.uniform(0.5, 2.0, (3, 3, 4)), 3
    given = {"v": dk.array(x, dtype=V5), "o": dk.zeros(3, dtype=V5), "m": dk.array(m, dtype=M34)}
    found = launched(parts, 3, {**given, "k": dk.zeros(3, dtype=M34), "n": n})
    y, a = 2.0 / x, m.copy()
    y[:, 1:4] = x[:, 0:3]
    y[:, ::2] += [1.0, 2.0, 3.0]
    y[:, n] *= x[:, -1]
    y[:, 1:3] += x[:, -2:]
    a[:, :, 1] = x[:, :3]
    a[:, 1] = a[:, 0]
    a[:, 0:2, 1:3] += np.eye(2)
    a[:, n - 5, n] -= x[:, n]
    np.testing.assert_allclose(found["o"], y, rtol=1e-14)
    np.testing.assert_allclose(found["k"], a, rtol=1e-14)


def test_gradients_of_parts() -> None:
    v, o = dk.array(RNG.uniform(0.5, 2.0, (2, 5)), dtype=V5), dk.zeros(2, dtype=V5)
    m, k = dk.array(RNG.uniform(0.5, 2.0, (2, 3, 4)), dtype=M34), dk.zeros(2, dtype=M34)
    assert dk.testing.gradcheck(parts, 2, [v, o, m, k, 3])


@dk.kernel
def products(
    a: dk.array(dtype=M23), b: dk.array(dtype=M34), u: dk.array(dtype=dk.vec3d), o: dk.array(dtype=dk.float64)
):
    i = dk.tid()
    c = a[i] @ b[i]
    w = a[i] * u[i]
    left = w @ c
    t = dk.transpose(a[i]) * a[i]
    o[i] = dk.dot(left, left) + dk.trace(t) + dk.length_sq(3.0 / u[i]) + dk.dot(u[i] % dk.vec3d(0.75), u[i])
    o[i] += dk.ddot(2.0 / b[i], b[i] / 3.0) + dk.outer(w, u[i])[1, 2]
    if u[i] == dk.vec3d(u[i][0], u[i][1], u[i][2]) and not dk.isnan(c) and dk.isfinite(c):
        o[i] += u[i][int(dk.argmax(u[i]))]


def test_products_of_rectangular_matrices() -> None:
    a, b, u = RNG.uniform(0.5, 2.0, (2, 2, 3)), RNG.uniform(0.5, 2.0, (2, 3, 4)), RNG.uniform(0.8, 1.4, (2, 3))
    arrays = [
        dk.array(a, dtype=M23),
        dk.array(b, dtype=M34),
        dk.array(u, dtype=dk.vec3d),
        dk.zeros(2, dtype=dk.float64),
    ]
    dk.launch(products, dim=2, inputs=arrays)
    for i in range(2):
        w = a[i] @ u[i]
        left = w @ a[i] @ b[i]
        expected = left @ left + np.sum(a[i] ** 2) + np.sum(9.0 / u[i] ** 2) + np.sum(np.mod(u[i], 0.75) * u[i])
        expected += np.sum(2.0 / b[i] * b[i] / 3.0) + w[1] * u[i][2] + u[i].max()
        assert arrays[3].numpy()[i] == pytest.approx(expected, rel=1e-13)
    assert dk.testing.gradcheck(products, 2, arrays)


@dk.kernel
def integers(
    u: dk.array(dtype=dk.vec3ub),
    s: dk.array(dtype=dk.vec3s),
    b: dk.array(dtype=V3B),
    o: dk.array(dtype=dk.vec3l),
    n: int,
):
    i = dk.tid()
    low = (u[i] & dk.vec3ub(15)) | dk.vec3ub(dk.uint8(64))
    u[i] = ~low << dk.vec3ub(dk.uint8(1))
    q = dk.cw_div(s[i], dk.vec3s(dk.int16(2), dk.int16(-3), dk.int16(2)))
    r = s[i] % dk.vec3s(dk.int16(4))
    o[i] = dk.vec3l(q) * dk.int64(100) + dk.vec3l(r // dk.int16(2)) - dk.vec3l(-s[i])
    b[i] = V3B(s[i] == s[i], s[i] != s[i], dk.dot(s[i], s[i]) > dk.int16(n))
    s[i] = dk.cross(s[i], dk.vec3s(dk.int16(1), dk.int16(2), dk.int16(3))) + dk.cw_mul(dk.sign(s[i]), dk.abs(s[i]))


def test_vectors_of_integers_and_bools() -> None:
    u, s = np.array([[3, 20, 255], [0, 17, 64]], np.uint8), np.array([[-7, 8, 5], [3, -9, 0]], np.int16)
    given = {"u": dk.array(u, dtype=dk.vec3ub), "s": dk.array(s, dtype=dk.vec3s)}
    more = {"b": dk.zeros(2, dtype=V3B), "o": dk.zeros(2, dtype=dk.vec3l), "n": 100}
    found = launched(integers, 2, {**given, **more})
    np.testing.assert_array_equal(found["u"], ~((u & 15) | 64) << 1)
    q = np.trunc(s / np.array([2, -3, 2])).astype(np.int64)
    np.testing.assert_array_equal(found["o"], q * 100 + (s % 4) // 2 + s)
    np.testing.assert_array_equal(found["b"], [[True, False, True], [True, False, False]])
    np.testing.assert_array_equal(found["s"], np.cross(s, [1, 2, 3]) + s)


@dk.kernel
def anonymous(x: dk.array(dtype=dk.float64), o: dk.array(dtype=dk.float64)):
    i = dk.tid()
    v = dk.vector(x[i], length=5)
    m = dk.matrix(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, shape=(2, 3), dtype=dk.float64)
    z = dk.types.matrix(shape=(3, 3), dtype=dk.float64)()
    w = dk.vec4d(dk.vec3d(x[i], 1.0, 2.0), x[i])
    q = dk.quaternion(dk.vec3d(x[i]), 1.0, dtype=dk.float64)
    a, b, c = m * dk.vector(x[i], x[i], 1.0) + dk.vec2d(1.0), z[1, 1], len(m)
    o[i] = dk.dot(v, v) + a[0] * a[1] + b + w.w * w.y + q.x * q.w + dk.float64(c)


def test_types_that_follow_from_arguments() -> None:
    x = np.array([0.3, -1.2])
    arrays = [dk.array(x), dk.zeros(2, dtype=dk.float64)]
    dk.launch(anonymous, dim=2, inputs=arrays)
    expected = 5 * x**2 + (3 * x + 3 + 1) * (9 * x + 6 + 1) + x + x + 2
    np.testing.assert_allclose(arrays[1].numpy(), expected, rtol=1e-13)
    assert dk.testing.gradcheck(anonymous, 2, arrays)


@dk.kernel
def rigid(a: dk.array(dtype=dk.transformd), b: dk.array(dtype=dk.transformd), o: dk.array(dtype=dk.transformd)):
    i = dk.tid()
    t = a[i] * b[i] + a[i] * 0.5 - b[i] / 4.0
    t.p = t.p + dk.cross(a[i].p, b[i].p)
    t.q = -t.q * b[i].q * 2.0
    t.q.w += t.p.x
    o[i] = dk.transformd(t.p, t.q)
    o[i].p[1] = t[4]


def hamilton(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of quaternions (x, y, z, w)."""
    xyz = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.array([*xyz, a[3] * b[3] - a[:3] @ b[:3]])


def test_quaternions_and_transforms() -> None:
    a, b = RNG.standard_normal((2, 3, 7))
    arrays = [dk.array(a, dtype=dk.transformd), dk.array(b, dtype=dk.transformd), dk.zeros(3, dtype=dk.transformd)]
    dk.launch(rigid, dim=3, inputs=arrays)
    for x, y, found in zip(a, b, arrays[2].numpy(), strict=True):
        (p, q), (v, r) = (x[:3], x[3:]), (y[:3], y[3:])
        turned = v * (2 * q[3] ** 2 - 1) + 2 * q[:3] * (q[:3] @ v) + 2 * q[3] * np.cross(q[:3], v)
        t = np.array([*(p + turned), *hamilton(q, r)]) + x * 0.5 - y / 4.0
        t[:3] += np.cross(p, v)
        t[3:] = hamilton(-t[3:], r) * 2.0
        t[6] += t[0]
        t[1] = t[4]
        np.testing.assert_allclose(found, t, rtol=1e-12)
    assert dk.testing.gradcheck(rigid, 3, arrays)


@dk.kernel
def large(a: dk.array(dtype=M6), d: dk.array(dtype=dk.float64), r: dk.array(dtype=M6), big: dk.array(dtype=M16)):
    i = dk.tid()
    d[i] = dk.determinant(a[i])
    r[i] = dk.inverse(a[i])
    big[i] = big[i] * 2.0 + dk.identity(n=16, dtype=dk.float64)


def test_determinants_and_inverses_to_six_rows() -> None:
    a = RNG.standard_normal((2, 6, 6)) + 2.0 * np.eye(6)
    a[1, 3] = 0.0  # singular: the zero matrix
    big = RNG.standard_normal((2, 16, 16))
    d, r, held = dk.zeros(2, dtype=dk.float64), dk.zeros(2, dtype=M6), dk.array(big, dtype=M16)
    dk.launch(large, dim=2, inputs=[dk.array(a, dtype=M6), d, r, held])
    np.testing.assert_allclose(d.numpy(), np.linalg.det(a), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(r.numpy()[0], np.linalg.inv(a[0]), rtol=1e-9, atol=1e-11)
    assert not r.numpy()[1].any()
    np.testing.assert_allclose(held.numpy(), big * 2.0 + np.eye(16), rtol=1e-14)


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("y = x[i] * x[i]", "dk.cw_mul"),
        ("y = x[i] + dk.quat()", "of vec4<float32> and quat<float32>"),
        ("y = x[i][n:2]", "known when the kernel is compiled"),
        ("y = x[i] & x[i]", "bit operations take integers"),
        ("y = dk.transform().x", "it has p, a vector, and q"),
        ("y = dk.matrix(1.0, 2.0)", "needs a shape"),
        ("y = dk.vector(1.0, 2.0, length=3)", "3 components, not 2"),
        ("y = dk.identity(0)", "constant of at least 1"),
        ("y = dk.inverse(dk.types.matrix((7, 7), float)(1.0))\n    x[i][0] = y[0, 0]", "inverse of a 7×7 matrix"),
    ],
)
def test_refusals_say_what_to_write(statement: str, wrong: str, tmp_path: Any) -> None:
    from support.fuzz import load_module

    source = "import diffkern as dk\n\n@dk.kernel\ndef bad(x: dk.array(dtype=dk.vec4), n: int):\n    i = dk.tid()\n"
    module = load_module(f"{source}    {statement}\n", str(tmp_path))
    with pytest.raises(dk.KernelError, match="(?s)" + wrong.replace("(", r"\(")):
        dk.launch(module.bad, dim=1, inputs=[dk.zeros(1, dtype=dk.vec4), 1])
