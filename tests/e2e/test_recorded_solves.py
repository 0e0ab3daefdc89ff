"""Linear systems in recorded sequences: each replay solves what it finds, with its derivatives and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern import sparse
from diffkern.errors import LaunchError
from diffkern.optim import linear

N = 12
RNG = np.random.default_rng(3)
C = RNG.normal(size=(N, N))
SYMMETRIC, GENERAL = C @ C.T + N * np.eye(N), C + 6.0 * np.eye(N)
METHODS = {"cg": SYMMETRIC, "cr": SYMMETRIC, "bicgstab": GENERAL, "gmres": GENERAL, "direct": GENERAL}


def doubles(values: Any, **options: Any) -> dk.array:
    return dk.array(np.asarray(values, np.float64), **options)


def expected(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The solution, and the derivatives of the sum of its squares."""
    x = np.linalg.solve(a, b)
    multiplier = np.linalg.solve(a.T, 2.0 * x)
    return x, -np.outer(multiplier, x), multiplier


@pytest.mark.parametrize("method", METHODS)
def test_each_replay_solves_and_differentiates_what_it_finds(method):
    a, b = doubles(METHODS[method], requires_grad=True), doubles(np.ones(N), requires_grad=True)
    with dk.record(run=method == "cg") as sequence:
        with dk.Tape() as tape:
            x = dk.linear_solve(a, b, method=method)
            y = (x * x).sum()
        a.grad.zero_()
        b.grad.zero_()
        tape.backward(y)
    for k in range(3):
        matrix, side = METHODS[method] + 5.0 * k * np.eye(N), RNG.normal(size=N) * 10.0 ** (-90 * k)
        a.assign(matrix)
        b.assign(side)
        sequence.replay()
        for found, wanted in zip((x, a.grad, b.grad), expected(matrix, side), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-8 * np.abs(wanted).max())
    for matrix, side, message in (
        (np.ones((N, N)), np.ones(N) + np.arange(N), "singular|not solved|not positive definite"),
        (METHODS[method], np.full(N, np.nan), "not finite|not solved"),
        (C, np.ones(N), "not symmetric"),
    ):
        a.assign(matrix)
        b.assign(side)
        if matrix is C and METHODS[method] is GENERAL:
            continue
        with pytest.raises(LaunchError, match=message):
            sequence.replay()
    a.assign(METHODS[method])
    b.assign(np.arange(N))
    sequence.replay()  # an error leaves nothing
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(METHODS[method], np.arange(N)), rtol=1e-6, atol=1e-9)


def test_solvers_with_results_on_the_device_on_a_recorded_tape():
    a, b = doubles(SYMMETRIC, requires_grad=True), doubles(np.ones(N), requires_grad=True)
    x = doubles(np.zeros(N), requires_grad=True)
    with dk.record(run=False) as sequence:
        x.zero_()
        with dk.Tape() as tape:
            count, _, _ = linear.cg(a, b, x, tol=1e-10, maxiter=50, check_every=0)
            y = (x * x).sum()
        b.grad.zero_()
        tape.backward(y)
    for k in range(2):
        matrix = SYMMETRIC + 20.0 * k * np.eye(N)
        a.assign(matrix)
        sequence.replay()
        assert 0 < count.numpy()[0] < 50
        np.testing.assert_allclose(b.grad.numpy(), expected(matrix, np.ones(N))[2], rtol=1e-7)
    a.assign(np.zeros((N, N)))
    with pytest.raises(LaunchError, match="cg did not converge"):
        sequence.replay()
    with pytest.raises(LaunchError, match="looks at residuals on the host"), dk.record(), dk.Tape():
        linear.cg(a, b, x)


def test_systems_of_a_batch_and_sparse_matrices():
    matrices = np.stack([SYMMETRIC, 2.0 * GENERAL])
    a, b = doubles(matrices), doubles(np.stack([np.ones(N), 1e-60 * np.arange(N)]))
    sides = doubles(np.ones(N))
    scipy_sparse = pytest.importorskip("scipy.sparse")
    k = sparse.from_scipy(scipy_sparse.csr_array(np.triu(np.tril(SYMMETRIC, 1), -1) + N * np.eye(N)))
    with dk.record(run=False) as sequence:
        x = dk.linear_solve(a, b, method="gmres")
        y, z = dk.linear_solve(k, sides, method="cg", M="diag"), dk.linear_solve(k, sides, method="direct")
    for factor in (1.0, 3.0):
        b.assign(factor * np.stack([np.ones(N), 1e-60 * np.arange(N)]))
        sides.assign(np.full(N, factor))
        sequence.replay()
        for found, matrix, side in zip(x.numpy(), matrices, b.numpy(), strict=True):
            np.testing.assert_allclose(matrix @ found, side, rtol=1e-8, atol=1e-9 * np.abs(side).max())
        for found in (y, z):
            dense = sparse.to_scipy(k).toarray()
            np.testing.assert_allclose(dense @ found.numpy(), sides.numpy(), rtol=1e-8)


def test_a_function_is_recorded_as_launches():
    @dk.kernel
    def stretched(x: dk.array[dk.float64], s: dk.array[dk.float64], y: dk.array[dk.float64]):
        i = dk.tid()
        y[i] = s[i] * x[i]

    def product(x: dk.array, s: dk.array) -> dk.array:
        y = dk.zeros_like(x)
        dk.launch(stretched, N, [x, s, y])
        return y

    s, b = doubles(1.0 + np.arange(N), requires_grad=True), doubles(np.ones(N))
    with dk.record(run=False) as sequence:
        with dk.Tape() as tape:
            x = dk.linear_solve(product, b, s, method="cg")
        s.grad.zero_()
        tape.backward(grads={x: doubles(np.ones(N))})
    for factor in (1.0, 2.0):
        s.assign(factor * (1.0 + np.arange(N)))
        sequence.replay()
        np.testing.assert_allclose(x.numpy(), 1.0 / s.numpy(), rtol=1e-8)
        np.testing.assert_allclose(s.grad.numpy(), -1.0 / s.numpy() ** 2, rtol=1e-8)


def test_blocks_of_a_preconditioner_are_those_of_the_matrix_before_the_recording():
    full = np.kron(np.eye(N // 2), np.array([[3.0, 1.0], [1.0, 4.0]])) + 0.1 * SYMMETRIC
    rows, columns = np.divmod(np.arange((N // 2) ** 2), N // 2)
    blocks = full.reshape(N // 2, 2, N // 2, 2).transpose(0, 2, 1, 3).reshape(-1, 2, 2)
    a = sparse.bsr_zeros(N // 2, N // 2, dk.types.matrix((2, 2), dk.float64))
    values = dk.array(blocks, dtype=dk.types.matrix((2, 2), dk.float64))
    sparse.bsr_set_from_triplets(a, dk.array(rows.astype(np.int32)), dk.array(columns.astype(np.int32)), values)
    b = doubles(np.ones(N))
    for ptype in ("block_jacobi", "diag"):
        with dk.record(run=False) as sequence:
            x = dk.linear_solve(a, b, method="cg", M=ptype)
        for side in (np.arange(N), np.ones(N)):
            b.assign(side.astype(float))
            sequence.replay()
            np.testing.assert_allclose(x.numpy(), np.linalg.solve(full, side), rtol=1e-6)
    with dk.record(run=False):
        a.values.zero_()
        with pytest.raises(LaunchError, match=r"recorded|recording"):
            dk.linear_solve(a, b, method="cg", M="block_jacobi")
