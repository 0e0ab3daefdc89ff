"""Products of a sparse matrix with the same vectors again, after which anything may have changed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import diffkern as dk
from diffkern import sparse


def matrix(seed, n=8, shape=(1, 1)):
    rng = np.random.default_rng(seed)
    pattern = rng.random((n, n)) < 0.4
    numbers = rng.integers(-4, 5, (n, shape[0], n, shape[1])) * pattern[:, None, :, None]
    return sparse.from_scipy(
        scipy.sparse.bsr_array(numbers.reshape(n * shape[0], -1).astype(np.float64), blocksize=shape)
    )


def agree(A, x, y, alpha=1.0, beta=0.0, transpose=False):
    """Multiply three times, and compare each time with SciPy."""
    for _ in range(3):
        before, a = y.numpy().copy().ravel(), sparse.to_scipy(A).toarray()
        sparse.bsr_mv(A, x, y, alpha, beta, transpose)
        expected = alpha * ((a.T if transpose else a) @ x.numpy().ravel()) + beta * before
        np.testing.assert_array_equal(y.numpy().ravel(), expected)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_what_has_changed_counts(shape, transpose):
    A, rng = matrix(0, shape=shape), np.random.default_rng(1)
    m, n = (3, 2) if transpose else (2, 3)
    vector = [dk.float64 if shape == (1, 1) else dk.types.vector(k, dk.float64) for k in (n, m)]
    sizes = [(8,) if shape == (1, 1) else (8, k) for k in (n, m)]
    x, y = (dk.array(rng.integers(-4, 5, s).astype(float), dtype=t) for s, t in zip(sizes, vector, strict=True))
    changes = [
        lambda: A.values.assign(2.0 * A.values.numpy()),
        lambda: sparse.bsr_assign(A, matrix(1, shape=shape)),
        lambda: sparse.bsr_axpy(matrix(2, shape=shape), A),
        lambda: np.copyto(A.columns.numpy(), 7 - A.columns.numpy()),
        lambda: setattr(A, "values", dk.array(A.values.numpy() + 1.0, dtype=A.dtype)),
        lambda: x.assign(-x.numpy()),
    ]
    for change in (lambda: None, *changes):
        change()
        agree(A, x, y, transpose=transpose)
        agree(A, x, y, 2.0, -1.0, transpose)
        agree(A, x, y, 0.5, transpose=transpose)
        other = dk.zeros(8, dtype=vector[1])
        agree(A, x, other, transpose=transpose)


def test_tapes_records_and_mistakes_see_products_that_were_kept():
    A, x, y = matrix(3), dk.ones(8, dtype=dk.float64), dk.zeros(8, dtype=dk.float64)
    agree(A, x, y)
    a = sparse.to_scipy(A).toarray()
    x.requires_grad = y.requires_grad = True
    with dk.Tape() as tape:
        sparse.bsr_mv(A, x, y)
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), a.sum(axis=0))
    _, tangent = dk.jvp(lambda v: sparse.bsr_mv(A, v, y), (x,), (x,))
    np.testing.assert_array_equal(tangent.numpy(), a.sum(axis=1))
    with dk.record() as steps:
        sparse.bsr_mv(A, x, y)
    x.fill_(2.0)
    steps.replay()
    np.testing.assert_array_equal(y.numpy(), 2 * a.sum(axis=1))
    version = y._memory.now
    agree(A, x, y)
    assert y._memory.now > version
    locked = np.zeros(8)
    view = dk.array(locked, copy=False)
    agree(A, x, view)
    with pytest.raises(TypeError, match="a factor is a number"):
        sparse.bsr_mv(A, x, y, alpha=x)
    with pytest.raises(ValueError, match="same device"):
        sparse.bsr_mv(A, x.numpy(), y)
