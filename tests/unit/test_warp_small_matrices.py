"""Funcs of ``wp.fem`` and ``wp.sparse`` that kernels call without a mesh or a matrix of theirs."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from support.seeds import run_seed

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp import fem, sparse
from diffkern.warp.fem.linalg import symmetric_eigenvalues_qr

S, K = fem.SymmetricTensorMapper, fem.SkewSymmetricTensorMapper


def decomposing(n: int, scalar: Any) -> tuple[Any, Any, Any]:
    M, V = wp.types.matrix((n, n), scalar), wp.types.vector(n, scalar)

    @wp.kernel(module="unique")
    def decompose(a: wp.array[M], d: wp.array[V], p: wp.array[M], w: wp.array[M], y: wp.array[scalar]):
        i = wp.tid()
        values, rows = symmetric_eigenvalues_qr(a[i], scalar(1e-6))
        d[i], p[i] = values, rows
        for k in range(n):  # which the signs of the rows do not change
            y[i] += wp.dot(wp.cw_mul(rows[k], rows[k]), w[i][k]) * values[k]

    return decompose, M, V


def special(n: int) -> np.ndarray:
    """Random, diagonal, zero, of rank 1 and of large and small elements."""
    some = np.random.default_rng(run_seed()).normal(size=(5, n, n))
    some[1], some[2], some[3] = np.diag(np.arange(n)), 0.0, 1.0
    some[4] *= np.outer(np.logspace(-3, 3, n), np.logspace(-3, 3, n))
    return some + some.transpose(0, 2, 1)


@pytest.mark.parametrize(("n", "scalar"), [(2, wp.float64), (5, wp.float32), (6, wp.float64)])
def test_eigenvalues_of_symmetric_matrices(n: int, scalar: Any) -> None:
    eps = 4 * n * (1e-13 if scalar is wp.float64 else 3e-6)
    decompose, M, V = decomposing(n, scalar)
    given = special(n)
    d, p = wp.zeros(5, dtype=V), wp.zeros(5, dtype=M)
    wp.launch(decompose, 5, inputs=[wp.array(given, dtype=M), d, p, wp.zeros(5, dtype=M), wp.zeros(5, dtype=scalar)])
    again = np.einsum("bki,bk,bkj->bij", p.numpy(), d.numpy(), p.numpy())
    scale = np.abs(given).max(axis=(1, 2), keepdims=True) + 1e-30
    assert np.abs((again - given) / scale).max() < eps
    assert np.abs(p.numpy() @ p.numpy().transpose(0, 2, 1) - np.eye(n)).max() < 4 * n * eps
    np.testing.assert_allclose(
        np.sort(d.numpy()) / scale[:, 0], np.linalg.eigvalsh(given) / scale[:, 0], atol=4 * n * eps
    )


def test_derivatives_of_eigenvalues_and_eigenvectors() -> None:
    decompose, M, V = decomposing(4, wp.float64)
    rng = np.random.default_rng(run_seed())
    given, weights, direction = rng.normal(size=(3, 2, 4, 4))

    def results(values: np.ndarray) -> tuple[Any, Any]:
        a, y = wp.array(values, dtype=M, requires_grad=True), wp.zeros(2, dtype=wp.float64, requires_grad=True)
        rest = [wp.zeros(2, dtype=V), wp.zeros(2, dtype=M), wp.array(weights, dtype=M)]
        with wp.Tape() as tape:
            wp.launch(decompose, 2, inputs=[a, *rest], outputs=[y])
        tape.backward(grads={y: wp.ones(2, dtype=wp.float64)})
        return a.grad.numpy(), y.numpy().sum()

    step = 1e-6 * direction
    slope = (results(given + step)[1] - results(given - step)[1]) / 2e-6
    assert (results(given)[0] * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_a_diagonal_matrix_has_the_derivatives_of_its_eigenvectors() -> None:
    M = wp.types.matrix((3, 3), wp.float64)

    @wp.kernel
    def tilt(a: wp.array[M], y: wp.array[wp.float64]):
        _, rows = symmetric_eigenvalues_qr(a[0], wp.float64(0.0))
        y[0] = rows[0, 1] / rows[0, 0]

    a, y = (
        wp.array([np.diag([1.0, 3.0, 7.0])], dtype=M, requires_grad=True),
        wp.zeros(1, wp.float64, requires_grad=True),
    )
    with wp.Tape() as tape:
        wp.launch(tilt, 1, inputs=[a], outputs=[y])
    tape.backward(grads={y: wp.ones(1, dtype=wp.float64)})
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = 0.5 / (1.0 - 3.0)
    np.testing.assert_allclose(a.grad.numpy()[0], expected, atol=1e-14)


@pytest.mark.parametrize("scalar", [wp.float32, wp.float64])
@pytest.mark.parametrize("kind", [(S, S.Mapping.VOIGT), (S, S.Mapping.DB16), (K,)])
@pytest.mark.parametrize("n", [2, 3])
def test_matrices_as_vectors_of_their_free_components(n: int, kind: tuple[Any, ...], scalar: Any) -> None:
    M = wp.types.matrix((n, n), scalar)
    mapper = kind[0](M, *kind[1:])
    to_dof, to_value = mapper.value_to_dof, mapper.dof_to_value
    sign = -1.0 if kind[0] is K else 1.0

    @wp.kernel(module="unique")
    def there_and_back(v: wp.array[M], d: wp.array[mapper.dof_dtype], w: wp.array[M]):
        d[0] = to_dof(v[0])
        w[0] = to_value(d[0])

    given = np.random.default_rng(run_seed()).normal(size=(1, n, n))
    v, d, w = wp.array(given, dtype=M), wp.zeros(1, dtype=mapper.dof_dtype), wp.zeros(1, dtype=M)
    wp.launch(there_and_back, 1, inputs=[v, d, w])
    part = 0.5 * (given + sign * given.transpose(0, 2, 1))
    np.testing.assert_allclose(w.numpy(), part, atol=1e-6)
    assert (d.numpy() ** 2).sum() == pytest.approx((part**2).sum() / 2.0, rel=1e-5)
    assert d.numpy().size == mapper.DOF_SIZE == n * (n + int(sign)) // 2
    if kind[0] is K and n == 3:
        np.testing.assert_allclose(w.numpy()[0] @ [1.0, 2.0, 3.0], np.cross(d.numpy()[0], [1.0, 2.0, 3.0]), rtol=1e-5)
    elif n == 3:  # the order that Warp has, from the values that it returns for this matrix
        voigt = [part[0, 0, 0] / 2**0.5, part[0, 1, 1] / 2**0.5, part[0, 2, 2] / 2**0.5]
        normal = [np.trace(part[0]) / 6**0.5, (part[0, 0, 0] - part[0, 1, 1]) / 2]
        normal.append((part[0, 2, 2] - np.trace(part[0]) / 3) * 3**0.5 / 2)
        first = voigt if kind[1] is S.Mapping.VOIGT else normal
        np.testing.assert_allclose(d.numpy()[0], [*first, part[0, 1, 2], part[0, 0, 2], part[0, 0, 1]], rtol=1e-5)


def test_a_map_of_other_matrices_is_refused() -> None:
    for made in (S, K):
        with pytest.raises(dk.MisuseError, match=r"(?s)maps matrices of 2 x 2 and 3 x 3, not .*help: pass wp.mat22"):
            made(wp.mat44)


@wp.kernel
def look(
    o: wp.array[int], c: wp.array[int], n: wp.array[int], at: wp.array3d[int], of: wp.array2d[int]
):  # fmt: skip
    i, j = wp.tid()
    at[0, i, j] = sparse.bsr_block_index(i - 1, j, o, c)
    at[1, i, j] = sparse.bsr_block_index(i - 1, j, o, c, n)
    of[0, i * 5 + j] = sparse.bsr_row_index(o, 4, i * 5 + j)
    of[1, i * 5 + j] = sparse.bsr_row_index(o, 4, i * 5 + j, n)


def test_places_of_blocks() -> None:
    offsets, columns, counts = [0, 2, 2, 5, 6], [1, 3, 0, 2, 4, 2], [1, 0, 3, 0]
    at, of = wp.zeros((2, 5, 5), dtype=int), wp.zeros((2, 25), dtype=int)
    wp.launch(look, (5, 5), inputs=[*(wp.array(x, dtype=int) for x in (offsets, columns, counts)), at, of])
    for limited, (i, j) in product((0, 1), product(range(5), range(5))):
        row = i - 1
        places = (
            range(0) if row < 0 else range(offsets[row], offsets[row] + counts[row] if limited else offsets[row + 1])
        )
        assert at.numpy()[limited, i, j] == next((k for k in places if columns[k] == j), -1)
    rows = [next((r for r in range(4) if offsets[r] <= k < offsets[r + 1]), -1) for k in range(25)]
    assert of.numpy()[0].tolist() == rows
    assert of.numpy()[1].tolist() == [r if r >= 0 and k < offsets[r] + counts[r] else -1 for k, r in enumerate(rows)]
