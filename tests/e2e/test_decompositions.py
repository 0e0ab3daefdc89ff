"""Singular values, eigenvalues and QR: how exact they are, and derivatives where values coincide."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import gradcheck


@dk.kernel
def factors32(a: dk.array(dtype=dk.mat33), m: dk.array(dtype=dk.mat33, ndim=2), v: dk.array(dtype=dk.vec3, ndim=2)):
    i = dk.tid()
    m[i, 0], v[i, 0], m[i, 1] = dk.svd3(a[i])
    m[i, 2], m[i, 3] = dk.qr3(a[i])
    m[i, 4], v[i, 1] = dk.eig3(a[i])


@dk.kernel
def factors64(a: dk.array(dtype=dk.mat33d), m: dk.array(dtype=dk.mat33d, ndim=2), v: dk.array(dtype=dk.vec3d, ndim=2)):
    i = dk.tid()
    m[i, 0], v[i, 0], m[i, 1] = dk.svd3(a[i])
    m[i, 2], m[i, 3] = dk.qr3(a[i])
    m[i, 4], v[i, 1] = dk.eig3(a[i])


def matrices() -> np.ndarray:
    rng = np.random.default_rng(3)
    a = rng.normal(size=(300, 3, 3))
    a[:50] *= 10.0 ** rng.uniform(-12, 12, size=(50, 1, 1))
    a[50:100] = a[50:100] @ np.diag([1.0, 1e-4, 1e-9])
    special = [np.zeros((3, 3)), np.eye(3), -np.eye(3), np.diag([2, -3, 4]), np.ones((3, 3)), np.diag([1, 0, 0]),
               np.outer([1, 2, 3], [4, 5, 6]), [[2, 1, 0], [1, 2, 0], [0, 0, 3]], np.eye(3)[[1, 2, 0]]]  # fmt: skip
    a[100 : 100 + len(special)] = special
    return a


@pytest.mark.parametrize(("kernel", "mat", "vec"), [(factors32, dk.mat33, dk.vec3), (factors64, dk.mat33d, dk.vec3d)])
def test_factors_are_exact_to_some_units_in_the_last_place(kernel, mat, vec):
    given = dk.array(matrices().astype(mat.numpy), dtype=mat)
    m, v = dk.zeros((300, 5), dtype=mat), dk.zeros((300, 2), dtype=vec)
    dk.launch(kernel, 300, [given, m, v])
    a = given.numpy().astype(np.float64)
    u, w, q, r, e = (m.numpy()[:, k].astype(np.float64) for k in range(5))
    s, d = (v.numpy()[:, k].astype(np.float64) for k in range(2))
    eps, size = np.finfo(mat.numpy).eps, np.linalg.norm(a, axis=(1, 2)) + 1e-30
    symmetric = (a + a.transpose(0, 2, 1)) / 2

    def within(ulps: float, error: np.ndarray, scale: np.ndarray | float = 1.0) -> None:
        assert np.abs(error.reshape(300, -1) / np.reshape(scale, (-1, 1))).max() <= ulps * eps

    for rotation in (u, w, q, e):
        within(8, rotation @ rotation.transpose(0, 2, 1) - np.eye(3))
        within(8, np.linalg.det(rotation) - 1.0)
    within(8, u * s[:, None, :] @ w.transpose(0, 2, 1) - a, size)
    within(8, np.abs(s) - np.linalg.svd(a)[1], size)
    within(8, q @ r - a, size)
    within(8, e * d[:, None, :] @ e.transpose(0, 2, 1) - symmetric, size)
    within(8, d - np.linalg.eigvalsh(symmetric), size)
    assert np.all(np.abs(s[:, 0]) >= np.abs(s[:, 1]))
    assert np.all(np.abs(s[:, 1]) >= np.abs(s[:, 2]))
    assert not np.tril(r, -1).any()


def test_the_last_singular_value_has_the_sign_of_the_determinant():
    assert np.allclose(dk.svd3(dk.mat33(2, 0, 0, 0, -3, 0, 0, 0, 4))[1], [4, 3, -2])


@dk.kernel
def nearest(a: dk.array(dtype=dk.mat33d), y: dk.array(dtype=dk.float64), w: dk.mat33d):
    """The rotation that is nearest to a matrix, weighted; and a function of the eigenvalues, in two ways."""
    i = dk.tid()
    U, s, V = dk.svd3(a[i])
    r = U @ dk.transpose(V)
    total = dk.float64(0.0)
    for j in range(3):
        for k in range(3):
            total += w[j, k] * r[j, k]
    Q, d = dk.eig3(a[i])
    y[i] = total + dk.dot(d, d) + 0.5 * dk.trace(Q @ dk.diag(d) @ dk.transpose(Q)) + dk.dot(s, s)


@pytest.mark.parametrize("a", [np.eye(3), 2 * np.eye(3), np.diag([2.0, 2.0, 1.0]), np.diag([3.0, 1.0, 1.0])])
def test_what_does_not_depend_on_the_choice_of_columns_has_its_derivative_where_values_coincide(a):
    rng = np.random.default_rng(5)
    w = rng.normal(size=(3, 3))

    def value(m: np.ndarray) -> float:
        u, s, v = np.linalg.svd(m)
        return float((w * (u @ v)).sum() + (s * s).sum() + (np.linalg.eigvalsh((m + m.T) / 2) ** 2).sum()
                     + 0.5 * np.trace(m))  # fmt: skip

    given, y = dk.array(a[None], dtype=dk.mat33d, requires_grad=True), dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(nearest, 1, [given, y, dk.mat33d(*w.ravel())])
    tape.backward(grads={y: dk.ones(1, dtype=dk.float64)})
    assert y.numpy()[0] == pytest.approx(value(a))
    h = 1e-6
    for j in range(3):
        for k in range(3):
            step = np.zeros((3, 3))
            step[j, k] = h
            slope = (value(a + step) - value(a - step)) / (2 * h)
            assert given.grad.numpy()[0, j, k] == pytest.approx(slope, abs=1e-7)


@dk.kernel
def of_factors(a: dk.array(dtype=dk.mat33d), b: dk.array(dtype=dk.mat22d), w: dk.mat33d, v: dk.mat22d,
               y: dk.array(dtype=dk.float64)):  # fmt: skip
    i = dk.tid()
    U, s, V = dk.svd3(a[i])
    P, t, R = dk.svd2(b[i])
    Q, d = dk.eig3(a[i])
    y[i] = dk.ddot(w, U) + dk.ddot(w, V @ dk.diag(s)) + dk.ddot(w, Q) + d[1] + dk.ddot(v, P) + dk.ddot(v, R) + t[1]


def test_factors_have_their_derivatives():
    rng = np.random.default_rng(8)
    weights = [dk.mat33d(*rng.normal(size=9)), dk.mat22d(*rng.normal(size=4))]
    a, b = dk.array(rng.normal(size=(2, 3, 3)), dtype=dk.mat33d), dk.array(rng.normal(size=(2, 2, 2)), dtype=dk.mat22d)
    gradcheck(of_factors, 2, [a, b, *weights, dk.zeros(2, dtype=dk.float64)])
