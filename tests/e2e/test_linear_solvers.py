"""The iterative solvers against what Warp's made of the same systems, SciPy's and NumPy's."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import LaunchError, MisuseError
from diffkern.optim import linear
from tests.support import solver_systems

F64 = dk.float64
CASES = solver_systems.cases()
OF_WARP = json.loads(solver_systems.TABLE.read_text())
SOLVERS = {"cg": linear.cg, "cr": linear.cr, "bicgstab": linear.bicgstab, "gmres": linear.gmres}
SYMMETRIC, RIGHT = solver_systems.system("symmetric", 24)
GENERAL, _ = solver_systems.system("general", 24)


def doubles(values: Any, **options: Any) -> dk.array:
    return dk.array(np.asarray(values, np.float64), **options)


@pytest.mark.parametrize("name", CASES)
def test_iterations_and_results_are_those_of_warp(name):
    case, expected = CASES[name], OF_WARP[name]
    found = solver_systems.run(wp, wp.optim.linear, case)
    single = case["bits"] == 32
    assert found["found"][0] == expected["found"][0]
    assert [count for count, _ in found["told"]] == [count for count, _ in expected["told"]]
    np.testing.assert_allclose(found["found"][2], expected["found"][2], rtol=1e-6 if single else 1e-12)
    norms, of_warp = ([norm for _, norm in one["told"]] for one in (found, expected))
    if "ill_conditioned" in name:
        # Rounding has the last word there; ours must not be lost where Warp's is not.
        assert case["method"] != "gmres" or norms[-1] <= 2.0 * of_warp[-1]
        return
    floor = (1e-6 if single else 1e-12) * max(of_warp[0], 1.0)
    np.testing.assert_allclose(norms, of_warp, rtol=5e-3 if single else 1e-6, atol=floor, equal_nan=True)
    np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-4 if single else 1e-8, atol=1e-4 if single else 1e-8)


@pytest.mark.parametrize("method", SOLVERS)
def test_solutions_are_those_of_scipy(method):
    n = 9000  # several chunks
    diagonal = 4.0 + np.sin(np.arange(n))
    b = np.cos(np.arange(n) ** 2)

    @dk.kernel
    def product(d: dk.array[F64], x: dk.array[F64], y: dk.array[F64], z: dk.array[F64], alpha: F64, beta: F64):
        i = dk.tid()
        s = d[i] * x[i]
        if i > 0:
            s -= x[i - 1]
        if i < x.shape[0] - 1:
            s -= x[i + 1]
        z[i] = alpha * s
        if beta != 0.0:
            z[i] = alpha * s + beta * y[i]

    d = doubles(diagonal)
    matrix = scipy.sparse.diags([-np.ones(n - 1), diagonal, -np.ones(n - 1)], [-1, 0, 1]).tocsc()
    expected = scipy.sparse.linalg.spsolve(matrix, b)
    for recordable in (False, True):
        operator = linear.LinearOperator(
            (n, n), F64, "cpu", lambda x, y, z, a, b: dk.launch(product, n, [d, x, y, z, a, b]), recordable=recordable
        )
        x = doubles(np.zeros(n))
        count, norm, tolerance = SOLVERS[method](operator, doubles(b), x, tol=1e-12)
        assert norm <= tolerance
        assert count < 100
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("every", [0, 1, 7])
def test_systems_of_a_batch(method, every):
    sizes = [5, 0, 12, 1, 6]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = int(offsets[-1]) + 2  # two unknowns that belong to no system
    a, b = np.zeros((total, total)), np.cos(np.arange(total))
    for k, (begin, end) in enumerate(itertools.pairwise(offsets)):
        a[begin:end, begin:end] = SYMMETRIC[: end - begin, : end - begin] * 10.0**k
    a[-2:] = 1.0
    operator = linear.aslinearoperator(doubles(a), dk.array(offsets.astype(np.int32)), max_batch_length=12)
    assert operator.batch_count == 5
    x = doubles(np.full(total, 7.0))
    options = {"restart": 12} if method == "gmres" else {}
    found = SOLVERS[method](operator, doubles(b), x, tol=1e-10, maxiter=120, check_every=every, **options)
    if every == 0:
        assert all(one.shape == (5,) for one in found[1:])
        assert (found[1].numpy() <= found[2].numpy()).all()
    else:
        assert found[1] <= found[2]
    for begin, end in itertools.pairwise(offsets):
        expected = np.linalg.solve(a[begin:end, begin:end], b[begin:end])
        np.testing.assert_allclose(x.numpy()[begin:end], expected, rtol=1e-8)
    np.testing.assert_array_equal(x.numpy()[-2:], 7.0)


@pytest.mark.parametrize("method", SOLVERS)
def test_unknowns_that_are_vectors(method):
    rng = np.random.default_rng(0)
    blocks = rng.normal(size=(6, 3, 3))
    blocks = blocks @ blocks.transpose(0, 2, 1) + np.eye(3)
    b = rng.normal(size=(6, 3))
    for matrix, expected in (
        (dk.array(blocks, dtype=dk.mat33d), np.linalg.solve(blocks, b[..., None])[..., 0]),
        (dk.array(blocks[:, 0] ** 2 + 1, dtype=dk.vec3d), b / (blocks[:, 0] ** 2 + 1)),
        (dk.array(np.einsum("ij,nrc->ijrc", np.eye(6), blocks[:1]), dtype=dk.mat33d), b @ np.linalg.inv(blocks[0])),
    ):
        for right in (dk.array(b, dtype=dk.vec3d), doubles(b.reshape(-1))):
            x = dk.zeros_like(right)
            SOLVERS[method](matrix, right, x, tol=1e-12, maxiter=60)
            np.testing.assert_allclose(x.numpy().reshape(6, 3), expected, rtol=1e-9, atol=1e-10)


def test_half_precision():
    x = dk.zeros(24, dtype=dk.float16)
    half = dk.array(SYMMETRIC.astype(np.float16))
    _, norm, tolerance = linear.cg(half, dk.array(RIGHT.astype(np.float16)), x, tol=1e-2, maxiter=60)
    assert norm <= tolerance
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(SYMMETRIC, RIGHT), atol=2e-2)


@pytest.mark.parametrize("method", SOLVERS)
def test_a_solver_is_called_again(method):
    x = doubles(np.zeros(24))
    solver = SOLVERS[method](doubles(SYMMETRIC), doubles(RIGHT), x, tol=1e-10, maxiter=200, run=False)
    assert isinstance(solver, linear.LinearSolverState)
    first = solver()
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(SYMMETRIC, RIGHT), rtol=1e-8)
    again = doubles(np.zeros(24))
    assert solver(A=doubles(SYMMETRIC * 2.0), x=again, b=doubles(RIGHT * 2.0))[0] == first[0]
    np.testing.assert_allclose(again.numpy(), x.numpy(), rtol=1e-8)
    with pytest.raises(ValueError, match="one shape and type"):
        solver(b=doubles(RIGHT[:5]))
    with pytest.raises(ValueError, match="has no unknowns like"):
        solver(A=doubles(SYMMETRIC[:5, :5]))
    with pytest.raises(ValueError, match="made for b like"):
        solver(A=doubles(SYMMETRIC[:5, :5]), b=doubles(RIGHT[:5]), x=doubles(RIGHT[:5]))


def test_arrays_with_strides_and_of_one_element():
    rows, wide = doubles(RIGHT.reshape(6, 4)), doubles(np.zeros((6, 8)))
    linear.gmres(doubles(GENERAL), rows, wide[:, ::2], tol=1e-10, maxiter=100)
    np.testing.assert_allclose(wide.numpy()[:, ::2].reshape(-1), np.linalg.solve(GENERAL, RIGHT), rtol=1e-8)
    linear.aslinearoperator(doubles(GENERAL)).matvec(rows, rows, wide[:, 1::2], 2.0, -1.0)
    np.testing.assert_allclose(wide.numpy()[:, 1::2].reshape(-1), 2.0 * GENERAL @ RIGHT - RIGHT, rtol=1e-12)
    wide = doubles(np.zeros((24, 2)))
    x = wide[:, 0]
    linear.cg(doubles(SYMMETRIC), doubles(np.repeat(RIGHT, 2))[::2], x, tol=1e-10, maxiter=100)
    np.testing.assert_allclose(wide.numpy()[:, 0], np.linalg.solve(SYMMETRIC, RIGHT), rtol=1e-8)
    np.testing.assert_array_equal(wide.numpy()[:, 1], 0.0)
    for method in SOLVERS.values():
        x = doubles([0.0])
        assert method(doubles([[4.0]]), doubles([2.0]), x)[1] == 0.0
        assert x.numpy()[0] == 0.5
        empty = doubles([])
        assert method(doubles(np.zeros((0, 0))), doubles([]), empty)[0] == 0


@pytest.mark.parametrize("method", SOLVERS)
def test_a_right_side_with_strides_is_read_in_each_run(method):
    wide, x = doubles(np.ones(48)), doubles(np.zeros(24))
    solver = SOLVERS[method](doubles(SYMMETRIC), wide[::2], x, tol=1e-10, maxiter=100, run=False)
    for right in (RIGHT, RIGHT[::-1]):
        wide.assign(np.repeat(right, 2))
        solver()
        np.testing.assert_allclose(x.numpy(), np.linalg.solve(SYMMETRIC, right), rtol=1e-7)


@pytest.mark.parametrize("method", SOLVERS)
def test_unknowns_that_are_the_right_side_or_part_of_the_matrix(method):
    expected = np.linalg.solve(SYMMETRIC, RIGHT)
    options: dict[str, Any] = {"tol": 1e-10, "maxiter": 100}
    if method != "bicgstab":
        options["restart"] = 12
    b = doubles(RIGHT)
    assert SOLVERS[method](doubles(SYMMETRIC), b, b, **options)[1] < 1e-8
    np.testing.assert_allclose(b.numpy(), expected, rtol=1e-7)
    a, diagonal = doubles(SYMMETRIC), doubles(1.0 / np.diag(SYMMETRIC))
    for x, M in ((a[2], None), (diagonal, diagonal)):
        a.assign(SYMMETRIC)
        SOLVERS[method](a, doubles(RIGHT), x, M=M, **options)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-7)


# -- preconditioners ---------------------------------------------------------------------------------------------------


def applied(operator: Any, values: Any) -> Any:
    x = doubles(values)
    z = dk.zeros_like(x)
    operator.matvec(x, z, z, alpha=2.0, beta=0.0)
    operator.matvec(x, x, z, alpha=1.0, beta=-1.0)
    return z.numpy() + np.asarray(values)


def test_preconditioners():
    a, x = np.diag([2.0, 0.0, -4.0]) + np.eye(3, k=1), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(applied(linear.preconditioner(doubles(a)), x), [0.5, 2.0, -0.75])
    np.testing.assert_array_equal(applied(linear.preconditioner(doubles(a), "diag_abs"), x), [0.5, 2.0, 0.75])
    np.testing.assert_array_equal(applied(linear.preconditioner(doubles([2.0, 0.0, -4.0])), x), [0.5, 2.0, -0.75])
    assert linear.preconditioner(doubles(a), "id") is None
    blocks = np.array([[[4.0, 1.0], [0.1, 3.0]], [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 4.0]], -np.eye(2)])
    x = np.arange(1.0, 9.0)
    direct = np.concatenate([np.linalg.solve(blocks[k], x[2 * k : 2 * k + 2]) for k in (0, 1)] + [x[4:6], -x[6:]])
    matrix = dk.array(blocks, dtype=dk.mat22d)
    np.testing.assert_allclose(applied(linear.preconditioner(matrix, "block_jacobi_direct"), x), direct)
    np.testing.assert_allclose(applied(linear.preconditioner(matrix, "block_jacobi"), x), direct)
    definite = np.concatenate([x[:2], direct[2:4], x[4:]])
    for ptype in ("block_jacobi_sequential", "block_jacobi_tile"):
        np.testing.assert_allclose(applied(linear.preconditioner(matrix, ptype), x), definite)
    diagonal = applied(linear.preconditioner(matrix, "diag"), x)
    np.testing.assert_allclose(diagonal, x / np.einsum("kii->ki", blocks).reshape(-1))


def test_preconditioners_that_there_are_not():
    with pytest.raises(ValueError, match="no preconditioner 'ilu'"):
        linear.preconditioner(doubles(SYMMETRIC), "ilu")
    with pytest.raises(ValueError, match="of matrices of blocks"):
        linear.preconditioner(doubles(SYMMETRIC), "block_jacobi_direct")
    with pytest.raises(ValueError, match="square matrix blocks"):
        linear.preconditioner(dk.zeros(3, dtype=dk.types.matrix((2, 3), F64)), "block_jacobi_direct")
    product = linear.LinearOperator((3, 3), F64, "cpu", lambda *_: None)
    with pytest.raises(MisuseError, match=r"the diagonal of .* is not known"):
        linear.preconditioner(product)


# -- records and refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SOLVERS)
def test_a_recorded_solve_adapts_to_its_data(method):
    a, b, x = doubles(SYMMETRIC), doubles(RIGHT), doubles(np.zeros(24))
    options = {"restart": 4} if method == "gmres" else {}
    with dk.record() as sequence:
        count, squares, tolerances = SOLVERS[method](a, b, x, tol=1e-9, maxiter=200, check_every=0, **options)
    counts = []
    for matrix in (SYMMETRIC, 3.0 * np.eye(24), SYMMETRIC @ SYMMETRIC):
        a.assign(matrix)
        x.zero_()
        sequence.replay()
        counts.append(count.numpy()[0])
        assert squares.numpy()[0] <= tolerances.numpy()[0]
        np.testing.assert_allclose(matrix @ x.numpy(), RIGHT, rtol=1e-6, atol=1e-7)
    assert counts[1] < counts[0] < counts[2]
    with dk.ScopedCapture() as capture:
        SOLVERS[method](a, b, x, tol=1e-9, maxiter=200, check_every=0, **options)
    x.zero_()
    dk.capture_launch(capture.graph)
    np.testing.assert_allclose(matrix @ x.numpy(), RIGHT, rtol=1e-6, atol=1e-7)
    with pytest.raises(LaunchError, match="looks at residuals on the host"), dk.record():
        SOLVERS[method](a, b, x)


def test_a_kernel_is_called_back():
    @dk.kernel
    def stop(count: dk.array[dk.int32], square: dk.array[F64], tolerance: dk.array[F64]):
        if count[0] == 3:
            tolerance[0] = 2.0 * square[0]

    x = doubles(np.zeros(24))
    count, square, tolerance = linear.cg(
        doubles(SYMMETRIC), doubles(RIGHT), x, check_every=0, callback=stop, tol=1e-6
    )  # fmt: skip
    assert count.numpy()[0] == 4  # in the fourth iteration nothing moves any more
    assert tolerance.numpy()[0] == 2.0 * square.numpy()[0]
    norm = linear.cg(doubles(SYMMETRIC), doubles(RIGHT), doubles(np.zeros(24)), maxiter=3, check_every=1)[1]
    np.testing.assert_allclose(square.numpy()[0] ** 0.5, norm)


def test_what_does_not_fit():
    a, b, x = doubles(SYMMETRIC), doubles(RIGHT), doubles(np.zeros(24))
    for wrong, message in (
        ((doubles(SYMMETRIC[:5]), b, x), "a square matrix"),
        ((a, b, doubles([0.0])), "one shape and type"),
        ((doubles(SYMMETRIC[:5, :5]), b, x), "has no unknowns like"),
        ((dk.array(SYMMETRIC.astype(np.float32)), b, x), "the matrix consists of"),
    ):
        with pytest.raises(ValueError, match=message):
            linear.cg(*wrong)
    for shape in ((30,), (3,), (24, 3), (30, 30)):
        for method in SOLVERS.values():
            with pytest.raises(ValueError, match="a preconditioner of shape"):
                method(a, b, x, M=doubles(np.ones(shape)))
    for matrix in (3.0, doubles(np.zeros((2, 2, 2))), dk.zeros((24, 24), dtype=dk.int32)):
        with pytest.raises(MisuseError, match="is made of a matrix"):
            linear.cg(matrix, b, x)
    with pytest.raises(MisuseError, match="an array of floats"):
        linear.cg(a, RIGHT, x)
    with pytest.raises(ValueError, match="requires batch_offsets"):
        linear.aslinearoperator(a, max_batch_length=3)
    with pytest.raises(MisuseError, match="rising numbers"):
        linear.cg(linear.aslinearoperator(a, dk.array([0, 30], dtype=dk.int32)), b, x)
    for restart in (True, 1.5):
        with pytest.raises(TypeError, match="restart is a number"):
            linear.cg(a, b, x, restart=restart)
    with pytest.raises(ValueError, match="positive number"):
        linear.cr(a, b, x, restart=0)
    with pytest.raises(ValueError, match="made without a preconditioner"):
        linear.bicgstab(a, b, x, run=False)(M=linear.preconditioner(a))
    assert math.isnan(linear.cg(a, doubles(RIGHT * np.nan), x)[1])
    with pytest.raises(ValueError, match="FSAI is a preconditioner of square sparse matrices"):
        wp.optim.linear.FSAI(a)
    with pytest.raises(ValueError, match="'ic0' is a preconditioner of sparse matrices"):
        linear.preconditioner(a, "ic0")
