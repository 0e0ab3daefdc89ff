"""Sparse matrices in the solvers of linear systems, and derivatives of solutions with respect to their values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import diffkern as dk
from diffkern import sparse
from diffkern.optim import linear


@pytest.mark.parametrize("shape", [(1, 1), (2, 2)])
def test_a_solution_and_its_gradient(shape):
    rng, n = np.random.default_rng(0), 6 * shape[0]
    a = rng.random((n, n)) * (rng.random((n, n)) < 0.3) + 3.0 * np.eye(n)
    b = rng.random(n)
    vector = dk.float64 if shape == (1, 1) else dk.types.vector(shape[0], dk.float64)
    A = sparse.from_scipy(scipy.sparse.csr_array(a), shape)
    B = dk.array(b if shape == (1, 1) else b.reshape(-1, shape[0]), dtype=vector, requires_grad=True)
    A.values.requires_grad = True
    x = dk.zeros_like(B, requires_grad=True)
    with dk.Tape() as tape:
        linear.gmres(A, B, x, tol=1e-12)
    x.grad.fill_(1.0)
    tape.backward()
    solution, adjoint = np.linalg.solve(a, b), np.linalg.solve(a.T, np.ones(n))
    np.testing.assert_allclose(x.numpy().ravel(), solution, rtol=1e-9)
    np.testing.assert_allclose(B.grad.numpy().ravel(), adjoint, rtol=1e-9)
    stored = sparse.bsr_copy(A)
    stored.values.fill_(1.0)
    gradient = sparse.bsr_copy(A)
    gradient.values.assign(A.values.grad)
    expected = -np.outer(adjoint, solution) * sparse.to_scipy(stored).toarray()
    np.testing.assert_allclose(sparse.to_scipy(gradient).toarray(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 3)])
def test_the_transposed_operator(shape):
    rng = np.random.default_rng(1)
    a = rng.random((4 * shape[0], 3 * shape[1]))
    operator = linear.aslinearoperator(sparse.from_scipy(scipy.sparse.csr_array(a), shape))
    x, y = rng.random(a.shape[0]), rng.random(a.shape[1])
    z = dk.zeros(a.shape[1], dtype=dk.float64)
    operator._transposed().matvec(dk.array(x), dk.array(y), z, 2.0, -1.0)
    np.testing.assert_allclose(z.numpy(), 2.0 * a.T @ x - y)
    operator.matvec(dk.array(y), dk.array(x), w := dk.zeros(a.shape[0], dtype=dk.float64), 2.0, -1.0)
    np.testing.assert_allclose(w.numpy(), 2.0 * a @ y - x)
