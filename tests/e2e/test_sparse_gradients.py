"""Derivatives of sparse matrices with respect to values and vectors, of both modes and the second order.

Each is compared with central differences in float64. Patterns are data.
"""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern import sparse

ROWS = dk.array(np.int32([0, 2, 1, 0, 2, 1, 0, -1]), dtype=int)
COLUMNS = dk.array(np.int32([1, 0, 1, 1, 2, 2, 0, 1]), dtype=int)


@dk.kernel
def add_cubes(v: dk.array(dtype=dk.float64), loss: dk.array(dtype=dk.float64)):
    i = dk.tid()
    loss[0] += dk.float64(i + 1) * v[i] * v[i] * v[i]


def cubes(v):
    """A function of vectors or blocks with derivatives of all orders."""
    if v.dtype is not dk.float64:
        v = v.view(dk.float64)
    v = v.flatten()
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    dk.launch(add_cubes, dim=v.shape, inputs=[v, loss])
    return loss


def numbers(shape):
    """The type of blocks, of values of a matrix of 3 x 3 blocks, and of the vectors that it multiplies."""
    rng = np.random.default_rng(4)
    values, x = rng.random((8, *shape)) + 0.2, rng.random((3, shape[1])) + 0.1
    if shape == (1, 1):
        return dk.float64, values.reshape(8), dk.float64, x.reshape(3)
    return dk.types.matrix(shape, dk.float64), values, dk.types.vector(shape[1], dk.float64), x


def matrix(v):
    return sparse.bsr_from_triplets(3, 3, ROWS, COLUMNS, v)


def product(v, x):
    return cubes(sparse.bsr_mv(matrix(v), x, alpha=2.0))


def added_to(v, x):
    y = sparse.bsr_mv(matrix(v).transpose() @ matrix(v), x)
    return cubes(sparse.bsr_mv(matrix(v).transpose() @ matrix(v), y, x, 0.5, -1.5))


def transposed_product(v, x):
    A = matrix(v)
    return cubes(sparse.bsr_mv(A, A @ x, transpose=True))


def algebra(v, x):
    A = matrix(v)
    B = A.transpose() @ A
    C = sparse.bsr_scale(B + 2.0 * (A.transpose() @ A) - B / 4.0, 0.5)
    return cubes(sparse.bsr_mm(B, C, C, 0.3, 0.7) @ x)


def diagonals(v, x):
    A = matrix(v)
    D = sparse.bsr_diag(sparse.bsr_get_diag(A.transpose() @ A))
    return cubes(D @ x)


def reshaped(v, x):
    A = matrix(v)
    B = sparse.bsr_copy(A * 3.0, block_shape=A.shape)
    rows, columns = A.block_shape
    return cubes(sparse.bsr_copy(B, block_shape=(rows, 3 * columns)).values[:3])


def masked(v, x):
    A = matrix(v)
    B = sparse.bsr_from_triplets(3, 3, ROWS[:3], COLUMNS[:3], v[:3])
    sparse.bsr_axpy(A, B, 2.0, 0.5, topology="masked")
    return cubes(B @ x)


def compressed(v, x):
    A = matrix(v)
    padded = sparse.bsr_copy(A, topology="padded")
    padded.values = sparse.bsr_copy(2.0 * A).values
    return cubes(sparse.bsr_compress(padded) @ x)


def with_another_pattern_later(v, x):
    """The pattern of a matrix changes between two products, and the first one needs the old pattern."""
    A = matrix(v)
    y = sparse.bsr_mv(A, x)
    sparse.bsr_set_from_triplets(A, COLUMNS, ROWS, v)
    z = sparse.bsr_mv(A.transpose(), y)
    sparse.bsr_set_from_triplets(A, ROWS[:3], COLUMNS[:3], v[:3])
    return cubes(sparse.bsr_mv(A.transpose(), y, z, 1.0, 2.0))


def in_a_known_pattern(v, x):
    A = sparse.bsr_zeros(3, 3, v.dtype)
    mapping = sparse.bsr_set_from_triplets(A, ROWS, COLUMNS, prune_numerical_zeros=False, build_mapping=True)
    sparse.bsr_set_values(A, mapping, v)
    y = A @ x
    sparse.bsr_set_from_mapped_values(A, mapping, v, reduction="atomic")
    return cubes(sparse.bsr_mv(A, y, transpose=True))


FUNCTIONS = [
    product, added_to, transposed_product, algebra, diagonals, reshaped, masked, compressed, with_another_pattern_later,
    in_a_known_pattern,
]  # fmt: skip


def difference(f, at, along, h=1e-6):
    return (f(at + h * along) - f(at - h * along)) / (2 * h)


CASES = [(f, (1, 1)) for f in FUNCTIONS] + [(f, (2, 3)) for f in (product, added_to, algebra, reshaped)]


@pytest.mark.parametrize(("function", "shape"), CASES, ids=[f"{f.__name__}_{a}x{b}" for f, (a, b) in CASES])
def test_derivatives(function, shape):
    block, v0, vector, x0 = numbers(shape)
    rng = np.random.default_rng(5)
    tv, tx = rng.standard_normal(v0.shape), rng.standard_normal(x0.shape)

    def at(v, x, smooth=False):
        return dk.array(v, dtype=block, requires_grad=smooth), dk.array(x, dtype=vector, requires_grad=smooth)

    def value(s):
        return function(*at(v0 + s * tv, x0 + s * tx)).numpy()[0]

    expected = difference(value, 0.0, 1.0)
    args = at(v0, x0, smooth=True)
    with dk.Tape() as tape:
        loss = function(*args)
    tape.backward(loss)
    along = np.sum(args[0].grad.numpy() * tv) + np.sum(args[1].grad.numpy() * tx)
    np.testing.assert_allclose(along, expected, rtol=1e-7)
    found = dk.grad(function)(*at(v0, x0))
    for a, b in zip(found, args, strict=True):
        np.testing.assert_allclose(a.numpy(), b.grad.numpy(), rtol=1e-12, atol=1e-12)
    _, tangent = dk.jvp(function, at(v0, x0), at(tv, tx))
    np.testing.assert_allclose(tangent.numpy()[0], expected, rtol=1e-7)

    def gradient(s):
        return dk.grad(lambda v: function(v, dk.array(x0, dtype=vector)))(at(v0 + s * tv, x0)[0]).numpy()

    second = dk.hvp(lambda v: function(v, dk.array(x0, dtype=vector)), at(v0, x0)[:1], at(tv, tx)[:1])
    second = second[0] if isinstance(second, tuple) else second
    expected = difference(gradient, 0.0, 1.0)
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_each_partial_derivative_of_a_product():
    block, v0, vector, x0 = numbers((2, 3))
    v, x = dk.array(v0, dtype=block, requires_grad=True), dk.array(x0, dtype=vector, requires_grad=True)
    with dk.Tape() as tape:
        loss = product(v, x)
    tape.backward(loss)
    for index in np.ndindex(v0.shape):
        unit = np.zeros_like(v0)
        unit[index] = 1
        expected = difference(lambda at: product(dk.array(at, dtype=block), x).numpy()[0], v0, unit)
        np.testing.assert_allclose(v.grad.numpy()[index], expected, rtol=1e-6, atol=1e-8)
    # The last triplet is outside of the matrix.
    np.testing.assert_array_equal(v.grad.numpy()[-1], np.zeros((2, 3)))


def test_a_matrix_of_values_that_need_no_gradient_has_none():
    A = sparse.bsr_identity(3, dk.mat22)
    assert not A.requires_grad
    assert not (A @ A).requires_grad
    x = dk.ones(3, dtype=dk.vec2, requires_grad=True)
    assert (A @ x).requires_grad


def test_a_loss_may_depend_on_a_matrix_without_blocks():
    nowhere = dk.zeros(0, dtype=int)
    values, x = dk.zeros(0, dtype=dk.float64, requires_grad=True), dk.ones(3, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        A = sparse.bsr_from_triplets(3, 3, nowhere, nowhere, values)
        loss = cubes(sparse.bsr_mv(A, x, A @ x, 1.0, 2.0))
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
