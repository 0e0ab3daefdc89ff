"""Sparse matrices of integers and of halves: assembly, products, sums and transposed ones, beside dense arrays."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern import sparse

ROWS, COLUMNS = np.int32([0, 2, 1, 0, 2, 1, 0, -1, 2]), np.int32([1, 0, 1, 1, 2, 2, 0, 1, 0])


def dense(A):
    """A matrix as an array of float64; SciPy has no halves."""
    n, (rows, columns) = A.nnz_sync(), A.block_shape
    offsets, places = A.offsets.numpy(), A.columns.numpy()
    values = A.values.numpy()[:n].astype(np.float64).reshape(n, rows, columns)
    found = np.zeros((A.nrow, rows, A.ncol, columns))
    for i in range(A.nrow):
        for k in range(offsets[i], offsets[i + 1]):
            found[i, :, places[k], :] += values[k]
    return found.reshape(A.shape)


def assembled(dtype, shape):
    scalar = getattr(dk, dtype)
    block = scalar if shape == (1, 1) else dk.types.matrix(shape, scalar)
    numbers = np.random.default_rng(3).integers(0 if dtype.startswith("u") else -2, 3, (9, *shape))
    expected = np.zeros((3, shape[0], 3, shape[1]))
    for i, j, block_ in zip(ROWS, COLUMNS, numbers, strict=True):
        if i >= 0:
            expected[i, :, j, :] += block_
    numbers = numbers.reshape(9) if shape == (1, 1) else numbers
    values = dk.array(numbers.astype(dtype), dtype=block)
    A = sparse.bsr_from_triplets(3, 3, dk.array(ROWS), dk.array(COLUMNS), values)
    return A, expected.reshape(3 * shape[0], 3 * shape[1]), values


TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16".split()
USUAL = {("int32", (1, 1)), ("float16", (2, 3))}
CASES = [(dtype, shape) for dtype in TYPES for shape in ((1, 1), (2, 3))]


@pytest.mark.parametrize(
    ("dtype", "shape"), [case if case in USUAL else pytest.param(*case, marks=pytest.mark.full) for case in CASES]
)
def test_matrices_of_numbers_of_all_kinds(dtype, shape):
    A, a, values = assembled(dtype, shape)
    for given in (False, True):
        if given:
            tape = dk.Tape()
            tape.__enter__()
        np.testing.assert_array_equal(dense(A), a)
        np.testing.assert_array_equal(dense(A + A), 2 * a)
        np.testing.assert_array_equal(dense(sparse.bsr_axpy(A, sparse.bsr_copy(A), 2, 3)), 5 * a)
        np.testing.assert_array_equal(dense(A.transpose()), a.T)
        product = A @ A.transpose()
        np.testing.assert_array_equal(dense(product), a @ a.T)
        np.testing.assert_array_equal(dense(sparse.bsr_mm(A, A.transpose(), product, 1, 1)), 2 * (a @ a.T))
        x = np.arange(a.shape[1]) % 3
        np.testing.assert_array_equal((A @ dk.array(x.astype(dtype))).numpy().ravel(), a @ x)
        y = np.arange(a.shape[0]) % 3
        np.testing.assert_array_equal((dk.array(y.astype(dtype)) @ A).numpy().ravel(), y @ a)
        B = sparse.bsr_zeros(3, 3, A.dtype)
        rows, columns = dk.array(ROWS), dk.array(COLUMNS)
        mapping = sparse.bsr_set_from_triplets(B, rows, columns, prune_numerical_zeros=False, build_mapping=True)
        sparse.bsr_set_values(B, mapping, values)
        np.testing.assert_array_equal(dense(B), a)
        if given:
            tape.__exit__(None, None, None)


def test_integers_have_no_gradient_and_identities():
    with pytest.warns(UserWarning, match="have no gradient"):
        assembled("int32", (1, 1))[0].values.requires_grad = True
    np.testing.assert_array_equal(dense(sparse.bsr_identity(2, dk.types.matrix((2, 2), dk.int64))), np.eye(4))
    np.testing.assert_array_equal(dense(sparse.bsr_identity(3, dk.int16)), np.eye(3))


def test_sums_of_half_blocks_have_gradients():
    A, _, values = assembled("float16", (2, 3))
    values.requires_grad = True
    x = dk.ones(3, dtype=dk.types.vector(3, dk.float16))
    with dk.Tape() as tape:
        A = sparse.bsr_from_triplets(3, 3, dk.array(ROWS), dk.array(COLUMNS), values)
        y = sparse.bsr_axpy(A, sparse.bsr_copy(A), 2.0, 0.5) @ x
    y.grad = dk.array(np.full((3, 2), 2.0, np.float16), dtype=dk.types.vector(2, dk.float16))
    tape.backward()
    expected = np.full((9, 2, 3), 5.0)
    expected[7] = 0.0  # outside of the matrix
    # Blocks that are zero are left out.
    expected[~values.numpy().any(axis=(1, 2))] = 0.0
    np.testing.assert_array_equal(values.grad.numpy(), expected)
    with pytest.raises(ValueError, match="SciPy has no matrices of float16"):
        sparse.to_scipy(A)


def test_blocks_of_halves_and_arrays_with_gaps():
    """What takes a product or a diagonal is written itself, and not a copy; a transposed product has derivatives."""
    A, a, _ = assembled("float16", (2, 1))
    x, y = (dk.zeros(6, dtype=dk.types.vector(k, dk.float16))[::2] for k in (1, 2))
    x.fill_(1.0)
    sparse.bsr_mv(A, x, y)
    np.testing.assert_array_equal(y.numpy().ravel(), a.sum(axis=1))
    y.fill_(1.0)
    x.requires_grad = y.requires_grad = True
    with dk.Tape() as tape:
        sparse.bsr_mv(A, y, x, transpose=True)
    np.testing.assert_array_equal(x.numpy().ravel(), a.sum(axis=0))
    x.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_array_equal(y.grad.numpy().ravel(), a.sum(axis=1))
    diagonal = sparse.bsr_get_diag(A, dk.zeros(6, dtype=A.dtype)[::2])
    np.testing.assert_array_equal(diagonal.numpy().ravel(), a[np.arange(6), np.arange(6) // 2])
