"""Preconditioners with factors of sparse matrices: incomplete Cholesky, and sparse approximate inverses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern import sparse
from diffkern.errors import LaunchError
from diffkern.optim import linear

scipy_sparse = pytest.importorskip("scipy.sparse")
RNG = np.random.default_rng(193)


def matrix(a: Any, block: int = 1, dtype: Any = np.float64) -> sparse.BsrMatrix:
    made = sparse.from_scipy(scipy_sparse.csr_array(np.asarray(a, dtype)))
    return made if block == 1 else sparse.bsr_copy(made, block_shape=(block, block))


def dense(a: sparse.BsrMatrix) -> np.ndarray:
    return sparse.to_scipy(a).toarray()


def scaled() -> np.ndarray:
    """A symmetric, positive definite matrix with few entries and very different rows."""
    a = RNG.normal(size=(18, 18))
    a[RNG.random(a.shape) < 0.65] = 0.0
    a = a + a.T
    np.fill_diagonal(a, np.sum(np.abs(a), axis=1) + 2.0)
    sizes = np.geomspace(0.01, 100.0, 18)
    return a * sizes[:, None] * sizes


def laplacian(n: int) -> Any:
    line = scipy_sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return scipy_sparse.csr_array(scipy_sparse.kronsum(line, line))


def by_search(a: np.ndarray, width: int, step: int, tolerance: float) -> np.ndarray:
    """The factor by a search in dense matrices."""
    n, equal = len(a), a / np.sqrt(np.diag(a)[:, None] * np.diag(a))
    g = np.zeros_like(a)
    for i in range(n):
        support, z = [i], np.ones(1)
        while len(support) < width:
            near = sorted({*np.flatnonzero(np.any(a[support] != 0, axis=0))} - {*support})
            ranked = sorted((-abs(equal[c, support] @ z), c) for c in near if c < i)
            taken = [c for size, c in ranked if size < 0][: min(step, width - len(support))]
            if not taken:
                break
            support, before = support + taken, z[0]
            z = np.linalg.solve(equal[np.ix_(support, support)], np.eye(len(support))[0])
            if tolerance > 0 and 1.0 - before / z[0] <= tolerance:
                break
        g[i, support] = z / np.sqrt(z[0] * np.diag(a)[support])
    return g


def test_the_approximate_inverse_is_that_of_a_dense_search():
    a = scaled()
    for block in (1, 3):
        for step, tolerance in ((1, 0.0), (3, 0.003), (1, 0.1)):
            made = sparse.FSAI(matrix(a, block), max_row_size=8, kap_tolerance=tolerance, max_step_size=step)
            wanted = by_search(a, 8, step, tolerance)
            np.testing.assert_allclose(dense(made.G), wanted, rtol=1e-12, atol=1e-14 * np.abs(wanted).max())
            np.testing.assert_array_equal(dense(made.GT), dense(made.G).T)
    whole = sparse.FSAI(matrix(a), max_row_size=18, kap_tolerance=0.0)
    np.testing.assert_allclose(dense(whole.G).T @ dense(whole.G) @ a, np.eye(18), atol=1e-9)


def test_it_is_applied_whatever_arrays_are_the_same():
    a = scaled()
    made = sparse.FSAI(matrix(a), max_row_size=5)
    m = dense(made.G).T @ dense(made.G)
    for same in ("", "xz", "yz", "xyz"):
        x, y, z = (dk.array(RNG.normal(size=18)) for _ in range(3))
        y = x if same == "xyz" else y
        z = x if same in ("xz", "xyz") else y if same == "yz" else z
        wanted = 0.7 * m @ x.numpy() - 1.2 * y.numpy()
        made.matvec(x, y, z, 0.7, -1.2)
        np.testing.assert_allclose(z.numpy(), wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())
    for operator in (made, sparse.IncompleteCholesky(matrix(a))):
        x, y = dk.array(np.full(18, np.nan)), dk.array(np.full(18, 2.0))
        operator.matvec(x, y, y, 0.0, 0.5)
        np.testing.assert_array_equal(y.numpy(), 1.0)


def test_updates_keep_the_pattern_or_change_nothing():
    a = scaled()
    other = a + np.diag(np.diag(a))
    for block in (1, 3):
        made = sparse.FSAI(matrix(a, block), max_row_size=5, reuse_pattern=True)
        before, pattern = dense(made.G), dense(made.G) != 0
        assert made.update() is made
        np.testing.assert_allclose(dense(made.G), before, rtol=1e-12, atol=1e-14 * np.abs(before).max())
        made.update(matrix(other, block))
        g = dense(made.G)
        assert not g[~pattern].any()
        for row in range(18):
            support = np.flatnonzero(pattern[row])
            z = np.linalg.solve(other[np.ix_(support, support)], np.eye(len(support))[-1])
            np.testing.assert_allclose(g[row, support], z / np.sqrt(z[-1]), rtol=1e-10)
        # Of blocks of 3 x 3 all are there.
        cases = [(a - 3.0 * np.diag(np.diag(a)), "positive definite on its pattern")]
        for wrong, message in (*cases, *([(a + 1.0, "of another pattern")] if block == 1 else [])):
            with pytest.raises(ValueError, match=message):
                made.update(matrix(wrong, block))
            np.testing.assert_array_equal(dense(made.G), g)
            np.testing.assert_array_equal(dense(made.GT), g.T)
    with pytest.raises(ValueError, match="make it with reuse_pattern=True"):
        sparse.FSAI(matrix(a)).update()


def test_the_incomplete_factor_has_the_pattern_of_the_matrix():
    a = laplacian(12)
    made = sparse.IncompleteCholesky(sparse.from_scipy(a))
    begins, columns, factor = (held.numpy() for held in made._factor)
    lower = scipy_sparse.csr_array((factor, columns, begins), shape=a.shape).toarray()
    product, entries = lower @ lower.T, a.toarray() != 0
    np.testing.assert_allclose(product[entries], a.toarray()[entries], atol=1e-12)
    assert made.shift == 0.0
    x = dk.array(RNG.normal(size=144))
    z = dk.zeros_like(x)
    made.matvec(x, z, z, 1.0, 0.0)
    np.testing.assert_allclose(product @ z.numpy(), x.numpy(), rtol=1e-10, atol=1e-10)
    # Kershaw's matrix is positive definite, and has no incomplete factor.
    kershaw = np.array([[3.0, -2, 0, 2], [-2, 3, -2, 0], [0, -2, 3, -2], [2, 0, -2, 3]])
    assert sparse.IncompleteCholesky(matrix(kershaw)).shift > 0.0


@pytest.mark.parametrize("ptype", ["fsai", "ic0"])
def test_solvers_are_quicker_and_gradients_stay_what_they_are(ptype):
    a = laplacian(16)
    A, b = sparse.from_scipy(a), dk.array(RNG.normal(size=256))
    counts = []
    for M in (None, linear.preconditioner(A, ptype)):
        x = dk.zeros_like(b)
        counts.append(linear.cg(A, b, x, tol=1e-10, M=M, check_every=1)[0])
        np.testing.assert_allclose(a @ x.numpy(), b.numpy(), atol=1e-7)
    assert counts[1] < 0.6 * counts[0]
    weights = dk.array(RNG.normal(size=256))
    for method in ("cg", "cr", "bicgstab", "gmres"):
        gradient = dk.grad(lambda b, m=method: (dk.linear_solve(A, b, method=m, M=ptype) * weights).sum())(b)
        np.testing.assert_allclose(a @ gradient.numpy(), weights.numpy(), atol=1e-7)
    with dk.record(run=False) as sequence:
        found = dk.linear_solve(A, b, method="cg", M=ptype)
    b.fill_(1.0)
    sequence.replay()
    np.testing.assert_allclose(a @ found.numpy(), 1.0, atol=1e-7)
    with dk.record(run=False):
        A.values.fill_(2.0)
        with pytest.raises(LaunchError, match="is read while work for it is recorded"):
            linear.preconditioner(A, ptype)


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32])
def test_other_precisions_blocks_and_names_of_warp(dtype):
    a = 0.1 * np.ones((6, 6)) + np.eye(6)
    A = sparse.bsr_copy(matrix(a, 3), scalar_type=dtype)
    x = dk.ones(6, dtype=dtype)
    for ptype in ("fsai", "ic0"):
        z = dk.zeros_like(x)
        wp.optim.linear.preconditioner(A, ptype).matvec(x, z, z, 1.0, 0.0)
        np.testing.assert_allclose(z.numpy(), 1.0 / 1.6, rtol=2e-3)
    assert isinstance(wp.optim.linear.preconditioner(A, "fsai"), wp.optim.linear.FSAI)
    for transpose in (False, True):
        np.testing.assert_allclose(sparse.bsr_mv(A, x, transpose=transpose).numpy().ravel(), 1.6, rtol=2e-3)
    np.testing.assert_allclose(sparse.bsr_get_diag(A).numpy(), [a[:3, :3], a[3:, 3:]], rtol=1e-3)
    empty = sparse.FSAI(sparse.bsr_zeros(0, 0, dtype))
    empty.matvec(dk.zeros(0, dtype=dtype), dk.zeros(0, dtype=dtype), dk.zeros(0, dtype=dtype), 1.0, 0.0)


def test_what_has_no_factor():
    a = scaled()
    indefinite = np.array([[1.0, 5.0], [5.0, 1.0]])
    with pytest.raises(LaunchError, match="no incomplete Cholesky factor"):
        sparse.IncompleteCholesky(matrix(1e9 * indefinite - np.diag([1e9 - 1.0] * 2)))
    assert sparse.FSAI(matrix(indefinite)).truncated_rows == 1
    for wrong in (-a, a - np.diag(np.diag(a)), np.diag([1.0, np.nan])):
        for make in (sparse.FSAI, sparse.IncompleteCholesky):
            with pytest.raises(ValueError, match="a diagonal of finite positive numbers"):
                make(matrix(wrong))
    with pytest.raises(ValueError, match="square sparse matrices"):
        sparse.FSAI(sparse.bsr_zeros(2, 3, dk.float64))
    for options in ({"max_row_size": 0}, {"max_step_size": 65}, {"kap_tolerance": 1.0}, {"pivot_floor": 0.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            sparse.FSAI(matrix(a), **options)
    with pytest.raises(ValueError, match="pass reuse_pattern=True"):
        sparse.FSAI(matrix(a), defer_pattern=True)


def pairs(first: list[list[float]], second: list[list[float]]) -> np.ndarray:
    a = np.zeros((4, 4))
    a[:2, :2], a[2:, 2:] = first, second
    return a


GOOD, SINGULAR, BROKEN = [[1.0, 0.5], [0.5, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[-1.0, 0.5], [0.5, 1.0]]


def test_a_regularized_refit_leaves_no_row_as_it_was():
    changed = [[2.0, 0.5], [0.5, 1.0]]
    wanted = dense(sparse.FSAI(matrix(pairs(GOOD, changed)), max_row_size=2).G)[2:, 2:]
    made = sparse.FSAI(matrix(pairs(GOOD, GOOD)), max_row_size=2, reuse_pattern=True, regularize_refit=True)
    for first, status in ((SINGULAR, [0, 0, 0, 1]), (BROKEN, [0, 1, 1, 1]), (GOOD, [0, 0, 0, 0])):
        made.update(matrix(pairs(first, changed)))
        np.testing.assert_array_equal(made.update_status.numpy(), status)
        g = dense(made.G)
        np.testing.assert_allclose(g[2:, 2:], wanted, rtol=1e-12)
        np.testing.assert_array_equal(dense(made.GT), g.T)
        assert np.isfinite(g).all()
        assert (np.diag(g) > 0).all()
        if first is SINGULAR:  # the last pivot of row 1, which is 0, is 1e-12 instead
            np.testing.assert_allclose(g[1, :2], np.array([-1.0, 1.0]) / np.sqrt(1e-12 / (1 + 1e-12)), rtol=1e-3)
        if first is BROKEN:
            np.testing.assert_array_equal(g[0], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(g, dense(sparse.FSAI(matrix(pairs(GOOD, changed)), max_row_size=2).G), rtol=1e-12)


@pytest.mark.parametrize("block", [1, 3])
def test_a_deferred_pattern_is_the_one_that_is_chosen_at_once(block: int):
    a = scaled()
    options: dict[str, Any] = {"max_row_size": 6, "max_step_size": 2, "reuse_pattern": True}
    given = matrix(a, block)
    values = given.values.numpy().copy()
    given.values.zero_()
    made, x = sparse.FSAI(given, defer_pattern=True, **options), dk.array(RNG.normal(size=18))
    y = dk.zeros(18, dtype=dk.float64)
    with dk.record() as sequence:
        made.matvec(x, y, y, 1.0, 0.0)
    sequence.replay()
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert made.truncated_rows is None
    assert made.pattern_ready.numpy()[0] == 0
    with pytest.raises(ValueError, match="needs a diagonal"):
        made.update()
    np.testing.assert_array_equal(dense(made.G), np.eye(18))
    given.values.assign(values)
    made.update()
    wanted = sparse.FSAI(matrix(a, block), **options)
    np.testing.assert_array_equal(dense(made.G), dense(wanted.G))
    np.testing.assert_array_equal(dense(made.GT), dense(wanted.GT))
    assert made.pattern_ready.numpy()[0] == 1
    assert made.pattern_status.numpy()[1] == wanted.truncated_rows
    sequence.replay()  # recorded before, with the arrays that there are now
    np.testing.assert_allclose(y.numpy(), dense(wanted.G).T @ (dense(wanted.G) @ x.numpy()), rtol=1e-12)
    given.values.assign(0.5 * values)
    made.update()
    np.testing.assert_allclose(dense(made.G), dense(wanted.G) * np.sqrt(2.0), rtol=1e-12)


def test_a_deferred_pattern_has_a_row_for_an_unusable_diagonal():
    made = sparse.FSAI(
        matrix(pairs(BROKEN, GOOD)), max_row_size=2, reuse_pattern=True, defer_pattern=True, regularize_refit=True
    )
    made.update()
    np.testing.assert_array_equal(dense(made.G)[0], [1.0, 0.0, 0.0, 0.0])
    assert made.update_status.numpy()[1] == 1
    np.testing.assert_allclose(dense(made.G)[2:, 2:], dense(sparse.FSAI(matrix(pairs(GOOD, GOOD)), 2).G)[2:, 2:])
