"""Sparse matrices: what operations give, beside SciPy's and Warp's, and which arguments are refused."""

from __future__ import annotations

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
import scipy.sparse
from support.fake_driver.driver import fake_cuda
from support.sparse_programs import STORED, results

import diffkern as dk
import diffkern.warp as wp
import diffkern.warp.sparse as warp_sparse
from diffkern import sparse
from diffkern.sparse import serial

SHAPES = [(1, 1), (3, 3), (1, 3), (3, 1), (2, 3), (7, 6)]


def block(shape, scalar=dk.float64):
    return scalar if shape == (1, 1) else dk.types.matrix(shape, scalar)


def random(nrow, ncol, shape, seed, dtype=np.float64, density=0.3):
    """A matrix of SciPy's with blocks of a shape, with rows that are empty."""
    rng = np.random.default_rng(seed)
    pattern = (rng.random((nrow, ncol)) < density) * (rng.random((nrow, 1)) < 0.8)
    values = (rng.random((nrow, shape[0], ncol, shape[1])) + 0.1) * pattern[:, None, :, None]
    dense = values.reshape(nrow * shape[0], ncol * shape[1]).astype(dtype)
    return scipy.sparse.bsr_array(dense, blocksize=shape)


def same(found, expected, rtol=1e-12):
    np.testing.assert_allclose(sparse.to_scipy(found).toarray(), np.asarray(expected), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_vectors(shape, dtype):
    a = random(9, 7, shape, 1, dtype)
    A, rng, tol = sparse.from_scipy(a), np.random.default_rng(2), 1e-5 if dtype == np.float32 else 1e-12
    x, y = (rng.random(n).astype(dtype) for n in (a.shape[1], a.shape[0]))
    scalar = A.scalar_type
    np.testing.assert_allclose((A @ dk.array(x)).numpy().ravel(), a @ x, rtol=tol)
    np.testing.assert_allclose((dk.array(y) @ A).numpy().ravel(), y @ a, rtol=tol)
    for alpha, beta in ((2.0, -0.5), (0.0, 3.0), (-1.0, 1.0), (1.5, 0.0)):
        z = dk.array(y)
        assert sparse.bsr_mv(-A, dk.array(x), z, alpha, beta) is z
        np.testing.assert_allclose(z.numpy(), beta * y - alpha * (a @ x), rtol=tol, atol=tol)
        z = dk.array(x)
        sparse.bsr_mv(A / 2.0, dk.array(y), z, alpha, beta, transpose=True)
        np.testing.assert_allclose(z.numpy(), beta * x + alpha * (y @ a) / 2, rtol=tol, atol=tol)
    vectors = dk.array(x.reshape(-1, shape[1]), dtype=dk.types.vector(shape[1], scalar))
    np.testing.assert_allclose((A @ vectors).numpy().ravel(), a @ x, rtol=tol)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_sums_and_transposed(shape):
    a, b = random(8, 6, shape, 3), random(6, 8, shape[::-1], 4)
    A, B = sparse.from_scipy(a), sparse.from_scipy(b)
    product = A @ B
    same(product, (a @ b).toarray())
    pattern = scipy.sparse.csr_array(
        (np.ones(a.indices.size), a.indices, a.indptr), shape=(8, 6)
    ) @ scipy.sparse.csr_array((np.ones(b.indices.size), b.indices, b.indptr), shape=(6, 8))
    pattern.sort_indices()
    np.testing.assert_array_equal(product.offsets.numpy(), pattern.indptr)
    np.testing.assert_array_equal(product.columns.numpy()[: product.nnz_sync()], pattern.indices)
    same(A.transpose(), a.T.toarray())
    C = A.transpose()
    C += 2.0 * B
    same(C, (a.T + 2 * b).toarray())
    same(3.0 * B - C / 2.0, (3 * b - (a.T + 2 * b) / 2).toarray())
    Z = sparse.bsr_copy(product)
    same(sparse.bsr_mm(A, B, Z, -1.0, 0.5), -0.5 * (a @ b).toarray())
    sparse.bsr_mm(Z, Z, Z, 2.0, 3.0)
    z = -0.5 * (a @ b).toarray()
    same(Z, 2 * z @ z + 3 * z)
    work = sparse.bsr_mm_work_arrays()
    Z = sparse.bsr_mm(A, B, work_arrays=work)
    B.values.assign(2.0 * B.values.numpy())
    sparse.bsr_mm(A, B, Z, work_arrays=work, reuse_topology=True)
    same(Z, 2 * (a @ b).toarray())


def test_results_are_those_of_warp_bit_by_bit():
    expected = json.loads(STORED.read_text(encoding="utf-8"))
    found = results(dk, sparse)
    assert found.keys() == expected.keys()
    assert {name for name in found if found[name] != expected[name]} == set()
    assert results(wp, warp_sparse) == found


@pytest.mark.parametrize("n", [0, 1, 200, 6000])
def test_assembly_of_many_triplets(n):
    # Long rows, which are sorted otherwise than short ones, and more triplets than one thread sorts.
    rng = np.random.default_rng(n)
    rows, columns = rng.integers(0, 9, n), rng.integers(0, 400, n)
    values = rng.integers(-4, 5, n).astype(np.float64)
    expected = scipy.sparse.coo_array((values, (rows, columns)), shape=(9, 400)).tocsr()
    i, j = (dk.array(k.astype(np.int32), dtype=int) for k in (rows, columns))
    A = sparse.bsr_from_triplets(9, 400, i, j, dk.array(values), prune_numerical_zeros=False)
    assert A.nnz == n
    np.testing.assert_array_equal(A.offsets.numpy(), expected.indptr)
    np.testing.assert_array_equal(A.columns.numpy()[: A.nnz_sync()], expected.indices)
    np.testing.assert_array_equal(A.values.numpy()[: A.nnz], expected.data)


def test_sums_of_duplicates_have_the_same_bits_in_each_run_and_way():
    rng = np.random.default_rng(0)
    n = 5000
    i, j = (dk.array(rng.integers(0, 20, n).astype(np.int32), dtype=int) for _ in range(2))
    values = dk.array(rng.standard_normal(n).astype(np.float32))
    A = sparse.bsr_zeros(20, 20, dk.float32)
    mapping = sparse.bsr_set_from_triplets(A, i, j, values, prune_numerical_zeros=False, build_mapping=True)
    first = A.values.numpy().copy()
    expected = np.zeros((20, 20), np.float32)
    for k in range(n):  # in the order of the triplets
        expected[i.numpy()[k], j.numpy()[k]] += values.numpy()[k]
    np.testing.assert_array_equal(sparse.to_scipy(A).toarray(), expected)
    A.values.zero_()
    sparse.bsr_set_values(A, mapping, values)
    np.testing.assert_array_equal(A.values.numpy(), first)


def test_a_record_of_an_assembly_follows_its_data():
    i, j = dk.array([0, 1, 1], dtype=int), dk.array([1, 0, 0], dtype=int)
    values, x = dk.array(np.float64([1, 2, 3])), dk.array(np.float64([1, 10]))
    A, y = sparse.bsr_zeros(2, 2, dk.float64), dk.zeros(2, dtype=dk.float64)
    sparse.bsr_set_from_triplets(A, i, j, values)
    with dk.record() as steps:
        sparse.bsr_set_from_triplets(A, i, j, values)
        sparse.bsr_mv(A, x, y)
    j.assign(np.int32([0, 1, 1]))
    values.assign(np.float64([4, 5, 0]))
    steps.replay()
    np.testing.assert_array_equal(y.numpy(), [4, 50])


def test_blocks_that_are_out_of_range_and_limits():
    i, j = dk.array([0, -1, 2, 5, 1], dtype=int), dk.array([0, 0, 3, 0, 1], dtype=int)
    values = dk.array(np.float32([1, 2, 3, 4, 5]))
    A = sparse.bsr_zeros(2, 2, float)
    sparse.bsr_set_from_triplets(A, i, j, values, count=dk.array([4], dtype=int))
    assert A.nnz_sync() == 1
    padded = sparse.bsr_zeros(2, 2, float, row_capacity=1)
    sparse.bsr_set_from_triplets(padded, dk.array([0, 0], dtype=int), i[:2], values[:2], topology="padded")
    assert padded.status_sync() == sparse.BSR_STATUS_SUCCESS
    sparse.bsr_set_from_triplets(
        padded, dk.array([0, 0], dtype=int), dk.array([0, 1], dtype=int), values[:2], topology="padded"
    )
    assert padded.status_sync() == sparse.BSR_STATUS_ROW_CAPACITY_EXCEEDED
    assert "too little room" in padded.status_message()


@pytest.mark.parametrize(("nrow", "ncol"), [(0, 3), (3, 0), (0, 0), (3, 2)])
def test_matrices_without_blocks(nrow, ncol):
    A = sparse.bsr_zeros(nrow, ncol, dk.mat22)
    assert A.shape == (2 * nrow, 2 * ncol)
    x = dk.ones(ncol, dtype=dk.vec2)
    np.testing.assert_array_equal((A @ x).numpy(), np.zeros((nrow, 2)))
    assert (A @ A.transpose()).nnz_sync() == 0
    assert (A + A).nnz_sync() == 0
    assert sparse.bsr_get_diag(A).shape == (min(nrow, ncol),)
    assert sparse.to_scipy(sparse.bsr_copy(A, block_shape=(1, 1))).nnz == 0


def test_formats_of_scipy():
    a = random(6, 4, (2, 3), 5)
    for given in (a, a.tocsr(), a.tocoo(), a.tocsc()):
        for shape in (None, (1, 1), (4, 3)):
            A = sparse.from_scipy(given, shape, dtype=dk.float32)
            assert A.block_shape == (shape or (a.blocksize if given is a else (1, 1)))
            same(A, a.toarray().astype(np.float32), 1e-6)
    A = sparse.from_scipy(a)
    rows, columns, values = sparse.to_coo(A)
    same(sparse.bsr_from_triplets(6, 4, rows, columns, values), a.toarray())
    offsets, columns, values = sparse.to_csr(2.0 * A)
    np.testing.assert_array_equal(offsets.numpy(), a.indptr)
    np.testing.assert_allclose(values.numpy(), 2 * a.data)
    assert sparse.to_scipy(A, "coo").format == "coo"


@dk.kernel
def row_sums(A: sparse.bsr_matrix_t(dk.float64), sums: dk.array(dtype=dk.float64), at: dk.array2d(dtype=int)):
    i = dk.tid()
    for k in range(A.offsets[i], A.offsets[i + 1]):
        sums[i] += A.values[k]
        at[i, 0] = sparse.bsr_row_index(A.offsets, A.nrow, k)
    at[i, 1] = sparse.bsr_block_index(i, i, A.offsets, A.columns)


def test_kernels_take_matrices():
    a = random(6, 5, (1, 1), 6).tocsr()
    A = sparse.from_scipy(a)
    assert isinstance(A, sparse.BsrMatrix)
    assert type(A) is sparse.bsr_matrix_t(dk.float64)
    sums, at = dk.zeros(6, dtype=dk.float64), dk.zeros((6, 2), dtype=int)
    dk.launch(row_sums, dim=6, inputs=[A, sums, at])
    np.testing.assert_allclose(sums.numpy(), a.sum(axis=1))
    lengths = np.diff(a.indptr)
    np.testing.assert_array_equal(at.numpy()[:, 0], np.where(lengths > 0, np.arange(6), 0))
    np.testing.assert_array_equal(at.numpy()[:, 1] >= 0, [*(a.diagonal() != 0), False])


def test_mistakes():
    A, B = sparse.bsr_zeros(3, 2, dk.mat22), sparse.bsr_zeros(3, 2, dk.mat33)
    x = dk.zeros(3, dtype=dk.vec2)
    with pytest.raises(ValueError, match="Incompatible 'x'"):
        sparse.bsr_mv(A, x)
    with pytest.raises(ValueError, match="Incompatible 'y'"):
        sparse.bsr_mv(A, x[:2], dk.zeros(5))
    with pytest.raises(ValueError, match="the same block type"):
        A += B
    with pytest.raises(ValueError, match="Incompatible block sizes"):
        A @ B
    with pytest.raises(ValueError, match="number of rows/columns"):
        A @ A
    with pytest.raises(ValueError, match="topology is one of"):
        sparse.bsr_assign(A, A, topology="dense")
    with pytest.raises(ValueError, match="block type must be"):
        sparse.bsr_zeros(2, 2, dk.vec3)
    with pytest.raises(ValueError, match="needs the work_arrays"):
        sparse.bsr_mm(sparse.bsr_identity(2, float), sparse.bsr_identity(2, float), reuse_topology=True)
    C = sparse.bsr_identity(2, float)
    i = dk.array([0], dtype=int)
    mapping = sparse.bsr_set_from_triplets(C, i, i, prune_numerical_zeros=False, build_mapping=True)
    sparse.bsr_set_from_triplets(C, *(dk.array(np.zeros(9, np.int32)),) * 2)
    with pytest.raises(ValueError, match="another pattern"):
        sparse.bsr_set_values(C, mapping, dk.zeros(1))


def four(values=None):
    """A matrix of 3 x 3 numbers with four blocks."""
    i, j = dk.array([0, 0, 1, 2], dtype=int), dk.array([0, 2, 1, 0], dtype=int)
    return sparse.bsr_from_triplets(3, 3, i, j, dk.array(np.float64([1, 2, 3, 4])) if values is None else values)


DENSE = np.float64([[1, 0, 2], [0, 3, 0], [4, 0, 0]])


@pytest.mark.parametrize("way", [copy.deepcopy, lambda A: pickle.loads(pickle.dumps(A))], ids=["copy", "pickle"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_copies_and_pickles_have_patterns_of_their_own(way, shape):
    a = random(4, 4, shape, 9)
    A, x = sparse.from_scipy(a), np.arange(1.0, 1 + 4 * shape[1])
    A @ dk.array(x)  # which keeps views of the pattern
    A.values.requires_grad = True
    B = way(A)
    assert type(B) is type(A)
    assert B.requires_grad
    same(B, a.toarray())
    rows, columns, values = sparse.to_coo(A)
    sparse.bsr_set_from_triplets(B, columns, rows, values)
    transposed = a.toarray().reshape(4, shape[0], 4, shape[1]).transpose(2, 1, 0, 3).reshape(a.shape)
    same(B, transposed)
    np.testing.assert_allclose((B @ dk.array(x)).numpy().ravel(), transposed @ x)
    np.testing.assert_allclose((A @ dk.array(x)).numpy().ravel(), a @ x)


@pytest.mark.parametrize("topology", ["compact", "masked", "padded"])
def test_a_matrix_becomes_a_multiple_of_itself(topology):
    A = four()
    sparse.bsr_assign(A, -2.0 * A, topology=topology)
    same(A, -2 * DENSE)


def test_the_pattern_of_a_product_is_given_to_any_matrix():
    A, work = four(), sparse.bsr_mm_work_arrays()
    Z = sparse.bsr_mm(A, A, work_arrays=work)
    sparse.bsr_set_zero(Z)
    for z in (None, sparse.bsr_identity(3, dk.float64), Z, sparse.bsr_zeros(3, 3, dk.float64, row_capacity=2)):
        same(sparse.bsr_mm(A, 2.0 * A, z, work_arrays=work, reuse_topology=True), 2 * DENSE @ DENSE)
    sparse.bsr_mm(A, A, sparse.bsr_identity(3, dk.float64), 1.0, 3.0, work_arrays=work)
    z = sparse.bsr_diag(dk.array(np.float64([1, 2, 3])))
    same(sparse.bsr_mm(A, A, z, 2.0, -1.0, work, reuse_topology=True), 2 * DENSE @ DENSE - np.diag([1, 2, 3]))
    with pytest.raises(ValueError, match="product with beta!=0"):
        sparse.bsr_mm(A, A, z, 2.0, 0.0, work, reuse_topology=True)
    with pytest.raises(ValueError, match=r"product of \(3, 3, 3\) rows"):
        sparse.bsr_mm(*(sparse.bsr_identity(2, dk.float64),) * 2, work_arrays=work, reuse_topology=True)
    sparse.bsr_mm(A, A, sparse.bsr_copy(A), work_arrays=work, topology="masked")
    with pytest.raises(ValueError, match="needs the work_arrays"):
        sparse.bsr_mm(A, A, work_arrays=work, reuse_topology=True)


@pytest.mark.parametrize("topology", ["compact", "masked", "padded"])
def test_a_sum_of_nothing_is_zero_whatever_the_values_are(topology):
    A, B = four(), four()
    A.values.fill_(np.nan)
    B.values.fill_(np.nan)
    same(sparse.bsr_axpy(A, B, 0.0, 0.0, topology=topology), np.zeros((3, 3)))


def test_a_map_is_for_one_pattern():
    A, i = sparse.bsr_zeros(3, 3, dk.float64), dk.array([0, 1, 2], dtype=int)
    values = dk.array(np.float64([1, 2, 3]))
    j = dk.array([2, 1, 0], dtype=int)
    changes = [
        lambda: sparse.bsr_set_from_triplets(A, i, j, values),
        lambda: sparse.bsr_set_diag(A, 1.0),
        lambda: sparse.bsr_set_zero(A),
        lambda: sparse.bsr_assign(A, sparse.bsr_identity(3, dk.float64)),
        lambda: sparse.bsr_compress(A),
    ]
    for change in changes:
        mapping = sparse.bsr_set_from_triplets(A, i, i, prune_numerical_zeros=False, build_mapping=True)
        A.values.fill_(1.0)
        sparse.bsr_set_values(A, mapping, values)
        sparse.bsr_set_from_triplets(A, i, j, values, topology="masked")  # keeps the pattern
        sparse.bsr_set_values(copy.copy(A), mapping, values)
        same(A, np.diag([1, 2, 3]))
        change()
        with pytest.raises(ValueError, match="another pattern"):
            sparse.bsr_set_values(A, mapping, values)


def test_factors_are_numbers():
    A, x = four(), dk.ones(3, dtype=dk.float64)
    factor = dk.array(np.float64([1.0]), requires_grad=True)
    for wrong in (
        lambda: A * x, lambda: A / 2.0 * x, lambda: A * A, lambda: (2.0 * A) * A,
        lambda: sparse.bsr_mv(A, x, alpha=factor), lambda: sparse.bsr_mv(A, x, dk.ones_like(x), 1.0, factor),
        lambda: sparse.bsr_axpy(A, four(), factor), lambda: sparse.bsr_mm(A, A, alpha=factor),
        lambda: sparse.bsr_scale(A, factor),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="a factor is a number, not"):
            wrong()
    counts = sparse.bsr_diag(dk.array(np.int32([2, 4])))
    same((2.0 * counts).eval(), [[4, 0], [0, 8]])
    with pytest.raises(ValueError, match=r"int32 has integers as factors, not 0\.5"):
        counts / 2.0 @ dk.ones(2, dtype=int)


def test_mistakes_with_other_objects():
    A, i = four(), dk.array([0, 1], dtype=int)
    with pytest.raises(ValueError, match="has 2 elements"):
        A.uncompress_rows(i)
    with pytest.raises(TypeError, match="rows is an array, not list"):
        sparse.bsr_from_triplets(2, 2, [0, 1], i, dk.ones(2))
    with pytest.raises(TypeError, match="values is an array, not list"):
        sparse.bsr_from_triplets(2, 2, i, i, [1.0, 2.0])
    with pytest.raises(ValueError, match="ndarray is not a BsrMatrix: make an array"):
        A @ np.ones(3)
    with pytest.raises(ValueError, match="block type must be"):
        sparse.bsr_zeros(2, 2, bool)
    with pytest.raises(ValueError, match="real numbers, not complex128"):
        sparse.from_scipy(scipy.sparse.csr_array(1j * np.eye(2)))
    with pytest.raises(ValueError, match="with two axes"):
        sparse.from_scipy(scipy.sparse.coo_array(np.ones(3)))


def on(device):
    """Assembly, products and gradients on a device."""
    rng = np.random.default_rng(8)
    i, j = (dk.array(rng.integers(-1, n, 12).astype(np.int32), dtype=int, device=device) for n in (5, 4))
    values = dk.array(
        rng.integers(-4, 5, (12, 2, 3)).astype(np.float32), dtype=block((2, 3), dk.float32), device=device
    )
    x = dk.array(rng.integers(-4, 5, (4, 3)).astype(np.float32), dtype=dk.vec3, device=device)
    values.requires_grad = x.requires_grad = True
    with dk.Tape() as tape:
        A = sparse.bsr_from_triplets(5, 4, i, j, values)
        B = A @ A.transpose() + 2.0 * sparse.bsr_identity(5, dk.mat22, device)
        y = B @ (A @ x)
        z = y @ A
    z.grad.fill_(1.0)
    tape.backward()
    n = A.nnz_sync()
    arrays = A.offsets, A.columns[:n], A.values[:n], B.offsets, z, values.grad, x.grad
    return [array.numpy() for array in arrays]


def test_on_a_gpu():
    expected = on("cpu")
    with fake_cuda(run="ptx"):
        for a, b in zip(on("cuda:0"), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def raw(offsets, columns, values, ncol, lengths=None):
    """A matrix of arrays as they are, in which columns may stand in any order."""
    made = sparse.bsr_zeros(len(offsets) - 1, ncol, dk.float64)
    made.offsets, made.columns = dk.array(np.int32(offsets)), dk.array(np.int32(columns))
    made.values, made.nnz = dk.array(np.float64(values)), len(columns)
    if lengths is not None:
        made.row_counts = dk.array(np.int32(lengths))
    return made


ASCENDING = [0, 2, 2, 4, 5], [1, 3, 0, 2, 3], [1.0, -2.0, 3.0, 0.5, 4.0]
UNUSUAL = {
    "ascending": (ASCENDING, None),
    "descending": (([0, 2, 2, 4, 5], [3, 1, 2, 0, 3], [1.0, -2.0, 3.0, 0.5, 4.0]), None),
    "twice": (([0, 2, 2, 4, 5], [1, 1, 0, 2, 3], [1.0, -2.0, 3.0, 0.5, 4.0]), None),
    "with room": (([0, 3, 4, 6, 7], [1, 3, 9, 9, 0, 2, 3], [1.0, -2.0, 9.0, 9.0, 3.0, 0.5, 4.0]), [2, 0, 2, 1]),
    "empty": (([0, 0, 0, 0, 0], [], []), None),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_rows_in_any_order_and_with_room(kind, monkeypatch):
    (offsets, columns, values), lengths = UNUSUAL[kind]
    a, b = raw(offsets, columns, values, 4, lengths), raw(*ASCENDING, 4)
    dense, other = np.zeros((4, 4)), sparse.to_scipy(b).toarray()
    ends = np.array(offsets[:-1]) + np.array(lengths) if lengths else offsets[1:]
    for row, (begin, end) in enumerate(zip(offsets[:-1], ends, strict=True)):
        np.add.at(dense[row], columns[begin:end], values[begin:end])
    wanted = {
        "sum": (lambda: a + b, dense + other),
        "difference": (lambda: b - 2.0 * a, other - 2.0 * dense),
        "transposed": (lambda: sparse.bsr_transposed(3.0 * a), 3.0 * dense.T),
        "product": (lambda: a @ b, dense @ other),
        "other product": (lambda: sparse.bsr_mm(b, a, alpha=-2.0), -2.0 * other @ dense),
    }
    for name, (make, expected) in wanted.items():
        plain = make()
        with dk.Tape():
            taped = make()
        with monkeypatch.context() as many:  # threads, which sort
            many.setattr(serial, "_MANY", -1)
            many.setattr(serial, "num_threads", lambda: 64)
            together = make()
        for made in (plain, taped, together):
            np.testing.assert_allclose(sparse.to_scipy(made).toarray(), expected, rtol=1e-14, err_msg=f"{kind} {name}")
            found = made.columns.numpy()[: made.nnz_sync()]
            starts = made.offsets.numpy()
            assert all((np.diff(found[i:j]) > 0).all() for i, j in itertools.pairwise(starts))
        # All have other kernels, and the same bits.
        for made in (taped, together):
            np.testing.assert_array_equal(plain.values.numpy()[: plain.nnz], made.values.numpy()[: made.nnz])


def test_sums_do_not_let_matrices_grow():
    a, y = raw(*ASCENDING, 4), raw([0, 1, 2, 3, 4], [0, 1, 2, 3], [1.0] * 4, 4)
    for _ in range(3):
        sparse.bsr_axpy(a, y, 0.5, 1.0)
    assert y.nnz == 7
    same(y, 1.5 * sparse.to_scipy(a).toarray() + np.eye(4))


def test_a_sum_in_place_whose_pattern_is_sorted():
    """Of rows that are not ascending, and in recordings."""

    def given(order):
        columns, values = np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 4.0, 1.0])
        order = np.array(order)
        held = sparse.bsr_zeros(2, 2, dk.float64)
        held.offsets = dk.array([0, 2, 4], dtype=int)
        held.columns = dk.array(columns[order].astype(np.int32))
        held.values = dk.array(values[order], dtype=dk.float64, requires_grad=True)
        held.nnz = 4
        return held

    def other():
        return sparse.bsr_from_triplets(
            2, 2, dk.array([0, 1], dtype=int), dk.array([1, 1], dtype=int),
            dk.array([1.0, 1.0], dtype=dk.float64, requires_grad=True),
        )  # fmt: skip

    wanted = np.array([[1.0, 3.0], [4.0, 2.0]])
    for order in ([0, 1, 2, 3], [1, 0, 2, 3]):
        a, b = other(), given(order)
        with dk.Tape() as tape:
            b += a
            y = (b @ dk.ones(2, dtype=dk.float64)).sum()
        np.testing.assert_array_equal(sparse.to_scipy(b).toarray(), wanted)
        tape.backward(y)
        np.testing.assert_array_equal(a.values.grad.numpy(), np.ones(2))
        b = given(order)
        with dk.record():
            b += a
        np.testing.assert_array_equal(sparse.to_scipy(b).toarray(), wanted)


def test_products_of_halves_are_summed_in_single_precision():
    ones = np.ones(4096)
    rows, columns = np.zeros(4096, np.int32), np.arange(4096, dtype=np.int32)
    halves = dk.array(ones.astype(np.float16))
    a = sparse.bsr_from_triplets(1, 4096, dk.array(rows), dk.array(columns), halves)
    b = sparse.bsr_from_triplets(4096, 1, dk.array(columns), dk.array(rows), halves)
    assert (a @ b).values.numpy()[0] == 4096.0
