"""Derivatives of solutions of linear systems and of minimizers: against unrolled iterations, NumPy and differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError, MisuseError
from diffkern.optim import linear

F64 = dk.float64
N = 6
RNG = np.random.default_rng(11)
C = RNG.normal(size=(N, N))
SYMMETRIC = C @ C.T + N * np.eye(N)
GENERAL = C + 2 * N * np.eye(N)
B, WEIGHTS = RNG.normal(size=N), RNG.normal(size=N)
OF_B = RNG.normal(size=N)
SOLVERS = {"cg": linear.cg, "cr": linear.cr, "bicgstab": linear.bicgstab, "gmres": linear.gmres}
MATRICES = {"cg": SYMMETRIC, "cr": SYMMETRIC, "bicgstab": GENERAL, "gmres": GENERAL, "direct": GENERAL}


def doubles(values: Any, requires_grad: bool = False) -> dk.array:
    return dk.array(np.asarray(values, np.float64), requires_grad=requires_grad)


def score(x: dk.array) -> dk.array:
    return (x * x * doubles(np.resize(WEIGHTS, x.shape))).sum()


def by_numpy(a: Any, b: Any) -> tuple[Any, Any]:
    """The gradients of the score with respect to matrix and right side."""
    x = np.linalg.solve(a, b)
    multiplier = np.linalg.solve(a.T, 2 * WEIGHTS * x)
    return -np.outer(multiplier, x), multiplier


def second_by_differences(f: Any, points: Any, along: Any, h: float = 1e-4) -> list[Any]:
    ends = []
    for step in (1, -1, 2, -2):
        moved = [doubles(p + step * h * t) for p, t in zip(points, along, strict=True)]
        found = dk.grad(f)(*moved)
        ends.append([g.numpy() for g in (found if isinstance(found, tuple) else (found,))])
    return [(8 * (p - m) - (p2 - m2)) / (12 * h) for p, m, p2, m2 in zip(*ends, strict=True)]


# -- the solvers of optim.linear, which write the unknown --------------------------------------------------------------


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("method", SOLVERS)
def test_solvers_on_a_tape(method, preconditioned):
    a, b, x = doubles(MATRICES[method], True), doubles(B, True), doubles(np.ones(N), True)
    with dk.Tape() as tape:
        conditioner = linear.preconditioner(a) if preconditioned else None
        SOLVERS[method](a, b, x, tol=1e-12, maxiter=100, M=conditioner)
        s = score(x)
    of_a, of_b = by_numpy(MATRICES[method], B)
    for _ in range(2):
        a.grad.zero_()
        b.grad.zero_()
        x.grad.zero_()
        tape.backward(s)
        np.testing.assert_allclose(a.grad.numpy(), of_a, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(b.grad.numpy(), of_b, rtol=1e-8)
        np.testing.assert_array_equal(x.grad.numpy(), 0.0)  # what x held does not matter


@pytest.mark.parametrize("method", SOLVERS)
def test_solvers_in_both_modes_and_second_order(method):
    def f(a, b):
        x = dk.zeros_like(b)
        SOLVERS[method](a, b, x, tol=1e-13, maxiter=100, check_every=1)
        return score(x)

    points, along = (MATRICES[method], B), (SYMMETRIC / 9.0, OF_B)
    given, moved = [doubles(p) for p in points], [doubles(t) for t in along]
    of_a, of_b = by_numpy(*points)
    found = dk.jvp(f, given, moved)[1].numpy()
    np.testing.assert_allclose(found, [(of_a * along[0]).sum() + of_b @ along[1]], rtol=1e-8)
    expected = second_by_differences(f, points, along)
    for second, difference in zip(dk.hvp(f, given, moved), expected, strict=True):
        np.testing.assert_allclose(second.numpy(), difference, rtol=1e-6, atol=1e-9)


def test_results_that_stay_on_the_device_on_a_tape():
    a, b, x = doubles(SYMMETRIC), doubles(B, True), doubles(np.zeros(N))
    with dk.Tape() as tape:
        count, squares, tolerances = linear.cg(a, b, x, tol=1e-10, check_every=0)
    assert squares.numpy()[0] <= tolerances.numpy()[0]
    assert 0 < count.numpy()[0] <= N
    tape.backward(grads={x: doubles(WEIGHTS)})
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.solve(SYMMETRIC, WEIGHTS), rtol=1e-8)


def test_systems_of_a_batch_on_a_tape():
    matrix = np.zeros((2 * N, 2 * N))
    matrix[:N, :N], matrix[N:, N:] = GENERAL, GENERAL.T * 3.0
    a, b, x = doubles(matrix, True), doubles(np.r_[B, OF_B], True), doubles(np.zeros(2 * N))
    offsets = dk.array(np.array([0, N, 2 * N], np.int32))
    with dk.Tape() as tape:
        linear.gmres(linear.aslinearoperator(a, offsets), b, x, tol=1e-12, restart=N, maxiter=60)
    tape.backward(grads={x: doubles(np.r_[WEIGHTS, B])})
    multiplier = np.linalg.solve(matrix.T, np.r_[WEIGHTS, B])
    np.testing.assert_allclose(b.grad.numpy(), multiplier, rtol=1e-9)
    expected = -np.outer(multiplier, np.linalg.solve(matrix, np.r_[B, OF_B]))
    np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("form", ["vectors", "rows", "strides"])
def test_unknowns_of_no_system_keep_their_value_and_derivative(form):
    matrix, inner = np.eye(12), slice(1, 1 + N)
    matrix[inner, inner] = GENERAL
    right, begin, ct = np.r_[B, OF_B], np.r_[OF_B, WEIGHTS], np.r_[WEIGHTS, B]

    def shaped(values):
        if form == "vectors":
            return dk.array(values.reshape(4, 3), dtype=dk.vec3d)
        return doubles(values.reshape(3, 4) if form == "rows" else values)

    def f(a, b, x0):
        x = dk.clone(x0)
        if form == "strides":
            wide = dk.zeros(24, dtype=F64)
            dk.copy(wide[::2], x)
            x = wide[::2]
        operator = linear.aslinearoperator(a, dk.array(np.array([1, 3, 1 + N], np.int32)))
        linear.gmres(operator, b, x, tol=1e-12, maxiter=60)
        return x * 1.0

    matrix[1:3, 3:7] = matrix[3:7, 1:3] = 0.0
    x, (of_a, of_b, of_x0) = dk.vjp(f, (doubles(matrix), shaped(right), shaped(begin)), shaped(ct))
    whole, kept, multiplier = begin.copy(), ct.copy(), np.zeros(12)
    whole[inner], kept[inner] = np.linalg.solve(matrix[inner, inner], right[inner]), 0.0
    multiplier[inner] = np.linalg.solve(matrix[inner, inner].T, ct[inner])
    np.testing.assert_allclose(of_a.numpy(), -np.outer(multiplier, whole), rtol=1e-8, atol=1e-12)
    for found, expected in ((x, whole), (of_b, multiplier), (of_x0, kept)):
        np.testing.assert_allclose(found.numpy().reshape(-1), expected, rtol=1e-8)


def test_the_derivative_of_what_did_not_converge_is_refused():
    a, b, x = doubles(SYMMETRIC), doubles(B, True), doubles(np.zeros(N))
    with dk.Tape() as tape:
        linear.cg(a, b, x, tol=1e-10, maxiter=2)
    with pytest.raises(LaunchError, match="cg did not converge"):
        tape.backward(grads={x: doubles(WEIGHTS)})


@pytest.mark.parametrize(("size", "dtype"), [
    *itertools.product((1e-30, 1e-9, 1e18), (np.float32, np.float64)), (1e-200, np.float64), (1e200, np.float64),
])  # fmt: skip
def test_cotangents_and_right_sides_of_any_size(size, dtype):
    a, tolerance = dk.array(SYMMETRIC.astype(dtype)), 1e-4 if dtype == np.float32 else 1e-8
    expected = np.linalg.solve(SYMMETRIC, WEIGHTS)
    for method, solver in SOLVERS.items():
        b, x = dk.array(B.astype(dtype), requires_grad=True), dk.zeros(N, dtype=dtype)
        with dk.Tape() as tape:
            solver(a, b, x, tol=1e-6 if dtype == np.float32 else 1e-11, maxiter=100)
        tape.backward(grads={x: dk.array((WEIGHTS * size).astype(dtype))})
        np.testing.assert_allclose(b.grad.numpy() / size, expected, rtol=tolerance * 1e2, atol=tolerance)
        found = dk.linear_solve(a, dk.array((WEIGHTS * size).astype(dtype)), method=method).numpy() / size
        np.testing.assert_allclose(found, expected, rtol=tolerance * 1e2, atol=tolerance)


def test_systems_of_very_different_sizes():
    stiff = C @ C.T + 1e-3 * np.eye(N)
    matrices = np.stack([2.0 * np.eye(N), stiff, SYMMETRIC, GENERAL])
    sides = np.stack([B, 1e-20 * OF_B, 0.0 * B, 1e200 * WEIGHTS])
    cotangents = np.stack([1e-200 * B, WEIGHTS, 1e-30 * OF_B, 0.0 * B])
    for method in ("gmres", "direct", "cg", "bicgstab", "cr"):
        chosen = np.where(np.arange(4)[:, None, None] == 3, matrices[2], matrices) if method[0] == "c" else matrices
        b, x0 = doubles(sides, True), doubles(np.ones((4, N)))
        with dk.Tape() as tape:
            x = dk.linear_solve(doubles(chosen), b, method=method, x0=x0, maxiter=500)
        tape.backward(grads={x: doubles(cotangents)})
        for k in range(4):
            for found, matrix, right in ((x, chosen[k], sides[k]), (b.grad, chosen[k].T, cotangents[k])):
                expected = np.linalg.solve(matrix, right)
                size = np.abs(expected).max()
                np.testing.assert_allclose(found.numpy()[k], expected, rtol=1e-4, atol=1e-5 * size)
        # What is small beside the other systems is a system all the same.
        if method != "direct":
            with pytest.raises(LaunchError, match="not solved"):
                dk.linear_solve(doubles(chosen[:2]), doubles(sides[:2]), method=method, maxiter=2)


@dk.kernel
def one_sided(x: dk.array[Any], share: Any, y: dk.array[Any]):
    i = dk.tid()
    y[i] = x.dtype(2.0) * x[i]
    if i == 0:
        y[i] = y[i] + x.dtype(share) * x[1]


@pytest.mark.parametrize(("dtype", "size", "share"), [(np.float32, 4000, 0.2), (np.float64, N, 3e-3)])
@pytest.mark.parametrize("method", ["cg", "cr"])
def test_products_without_parameters_that_are_not_symmetric(method, dtype, size, share):
    def product(x):
        y = dk.zeros_like(x)
        dk.launch(one_sided, size, [x, dtype(share), y])
        return y

    def matvec(x, y, z, alpha, beta):
        z.assign(dtype(alpha) * product(x).numpy() + (dtype(beta) * y.numpy() if beta else dtype(0.0)))

    def launched(x, y, z, alpha, beta):
        dk.copy(z, product(x) * alpha + y * beta if beta else product(x) * alpha)

    b, first = dk.array(np.ones(size, dtype), requires_grad=True), np.zeros(size, dtype)
    first[0] = 1.0
    for of in (launched, matvec):
        x = dk.zeros_like(b)
        with dk.Tape() as tape:
            operator = linear.LinearOperator((size, size), b.dtype, "cpu", of)
            _, norm, tolerance = SOLVERS[method](operator, b, x, tol=1e-3, maxiter=100)
        assert norm <= tolerance
        if of is launched or dtype == np.float64:
            with pytest.raises(LaunchError, match="the matrix is not symmetric"):
                tape.backward(grads={x: dk.array(first)})
    if dtype == np.float32:
        # The products that are looked at when it is solved do not show one entry among so many.
        with dk.Tape() as tape:
            x = dk.linear_solve(product, b, method=method)
        with pytest.raises(LaunchError, match="the matrix is not symmetric"):
            tape.backward(grads={x: dk.array(first)})


def test_vectors_and_a_matrix_of_numbers_on_a_tape():
    for matrix in (GENERAL, np.diag(GENERAL)):
        a, b = doubles(matrix, True), dk.array(B.reshape(2, 3), dtype=dk.vec3d, requires_grad=True)
        x = dk.zeros_like(b)
        with dk.Tape() as tape:
            linear.gmres(a, b, x, tol=1e-12)
        tape.backward(grads={x: dk.array(WEIGHTS.reshape(2, 3), dtype=dk.vec3d)})
        whole = matrix if matrix.ndim == 2 else np.diag(matrix)
        multiplier, found = np.linalg.solve(whole.T, WEIGHTS), np.linalg.solve(whole, B)
        of_a = -np.outer(multiplier, found)
        np.testing.assert_allclose(a.grad.numpy(), of_a if matrix.ndim == 2 else np.diag(of_a), rtol=1e-9)
        np.testing.assert_allclose(b.grad.numpy().reshape(-1), multiplier, rtol=1e-9)


def test_no_unknowns():
    a, b = doubles(np.zeros((0, 0)), True), doubles([], True)
    for method in (*MATRICES, None):
        with dk.Tape() as tape:
            x = dk.linear_solve(a, b, method=method)
        tape.backward(grads={x: doubles([])})
        assert b.grad.shape == (0,)
        assert a.grad.shape == (0, 0)


def test_a_preconditioner_and_an_operator_that_only_the_host_knows():
    inverse = np.linalg.inv(SYMMETRIC + 0.1 * np.eye(N))

    def by_host(matrix):
        def matvec(x, y, z, alpha, beta):
            z.assign(alpha * (matrix @ x.numpy()) + (beta * y.numpy() if beta else 0.0))

        return linear.LinearOperator((N, N), F64, "cpu", matvec)

    expected = np.linalg.solve(SYMMETRIC, WEIGHTS)
    b, x = doubles(B, True), doubles(np.zeros(N))
    with dk.Tape() as tape:
        linear.cg(doubles(SYMMETRIC), b, x, tol=1e-10, M=by_host(inverse))
    tape.backward(grads={x: doubles(WEIGHTS)})
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-8)
    b.grad.zero_()
    with dk.Tape() as tape:
        linear.cg(by_host(SYMMETRIC), b, x, tol=1e-10, maxiter=50)
    tape.backward(grads={x: doubles(WEIGHTS)})
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-8)


@dk.kernel
def springs(x: dk.array[F64], k: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    last = x.shape[0] - 1
    s = x[i]
    if i > 0:
        s += k[i - 1] * (x[i] - x[i - 1])
    if i < last:
        s += k[i] * (x[i] - x[i + 1])
    y[i] = s


@dk.kernel
def springs_scaled(x: dk.array[F64], k: dk.array[F64], y: dk.array[F64], z: dk.array[F64], alpha: F64, beta: F64):
    i = dk.tid()
    last = x.shape[0] - 1
    s = x[i]
    if i > 0:
        s += k[i - 1] * (x[i] - x[i - 1])
    if i < last:
        s += k[i] * (x[i] - x[i + 1])
    z[i] = alpha * s
    if beta != 0.0:
        z[i] = alpha * s + beta * y[i]


STIFFNESS = RNG.uniform(0.5, 2.0, size=N - 1)


def chain(k: Any) -> Any:
    off = np.diag(k, 1)
    return np.eye(N) + np.diag(np.r_[k, 0.0] + np.r_[0.0, k]) - off - off.T


def of_springs(k: dk.array) -> linear.LinearOperator:
    return linear.LinearOperator(
        (N, N), F64, "cpu", lambda x, y, z, a, b: dk.launch(springs_scaled, N, [x, k, y, z, a, b]),
        parameters=[k], rebuild=of_springs,
    )  # fmt: skip


def gradient_of_stiffness(k: Any, b: Any) -> Any:
    x = np.linalg.solve(chain(k), b)
    multiplier = np.linalg.solve(chain(k), 2 * WEIGHTS * x)
    return -(multiplier[:-1] - multiplier[1:]) * (x[:-1] - x[1:])


def test_operators_with_and_without_parameters():
    k, b, x = doubles(STIFFNESS, True), doubles(B, True), doubles(np.zeros(N))
    with dk.Tape() as tape:
        linear.cg(of_springs(k), b, x, tol=1e-12, maxiter=100)
        s = score(x)
    tape.backward(s)
    np.testing.assert_allclose(k.grad.numpy(), gradient_of_stiffness(STIFFNESS, B), rtol=1e-8)
    hidden = linear.LinearOperator((N, N), F64, "cpu", of_springs(k).matvec)
    with dk.Tape(), pytest.raises(LaunchError, match="none of its arguments"):
        linear.cg(hidden, b, x)
    k.requires_grad = False
    b.grad.zero_()
    with dk.Tape() as tape:
        linear.bicgstab(hidden, b, x, tol=1e-12, maxiter=100)
        s = score(x)
    tape.backward(s)
    np.testing.assert_allclose(b.grad.numpy(), by_numpy(chain(STIFFNESS), B)[1], rtol=1e-8)


def test_an_operator_that_is_another_one_at_its_derivative():
    k, b, x = doubles(STIFFNESS), doubles(B, True), doubles(np.zeros(N))
    factor = [1.0]

    def matvec(x, y, z, alpha, beta):
        dk.launch(springs_scaled, N, [x, k, y, z, factor[0] * alpha, beta])

    with dk.Tape() as tape:
        linear.cg(linear.LinearOperator((N, N), F64, "cpu", matvec), b, x, tol=1e-10, maxiter=100)
    factor[0] = 2.0
    with pytest.raises(LaunchError, match="not what it was"):
        tape.backward(grads={x: doubles(WEIGHTS)})


def test_against_an_unrolled_iteration():
    def richardson(a, b):
        x = b * 0.0
        for _ in range(400):
            y = dk.zeros_like(x)
            dk.launch(rows, N, [a, x, y])
            x = x + (b - y) * 0.04
        return x

    given = doubles(SYMMETRIC), doubles(B)
    unrolled = dk.grad(lambda a, b: score(richardson(a, b)))(*given)
    for method in ("cg", "cr", "bicgstab", "gmres", "direct"):
        implicit = dk.grad(lambda a, b, m=method: score(dk.linear_solve(a, b, method=m)))(*given)
        for one, other in zip(implicit, unrolled, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-9)


@dk.kernel
def rows(a: dk.array2d[F64], x: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    s = F64(0.0)
    for k in range(x.shape[0]):
        s += a[i, k] * x[k]
    y[i] = s


# -- dk.linear_solve ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MATRICES)
def test_linear_solve_of_matrices(method):
    options = {} if method == "direct" else {"M": "diag", "x0": doubles(np.ones(N))}

    def f(a, b):
        return score(dk.linear_solve(a, b, method=method, tol=1e-12, **options))

    points, along = (MATRICES[method], B), (SYMMETRIC / 9.0, OF_B)
    given, moved = [doubles(p) for p in points], [doubles(t) for t in along]
    for found, expected in zip(dk.grad(f)(*given), by_numpy(*points), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-12)
    for second, difference in zip(dk.hvp(f, given, moved), second_by_differences(f, points, along), strict=True):
        np.testing.assert_allclose(second.numpy(), difference, rtol=1e-6, atol=1e-9)
    third = dk.jvp(lambda a, b: dk.hvp(f, (a, b), moved)[1], given, moved)[1].numpy()
    ends = [dk.hvp(f, [doubles(p + s * t) for p, t in zip(points, along, strict=True)], moved)[1].numpy()
            for s in (1e-4, -1e-4)]  # fmt: skip
    np.testing.assert_allclose(third, (ends[0] - ends[1]) / 2e-4, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["cg", "gmres", None])
def test_linear_solve_without_a_matrix(method):
    def product(x, k):
        y = dk.zeros_like(x)
        dk.launch(springs, N, [x, k, y])
        return y

    def f(b, k):
        return score(dk.linear_solve(product, b, k, method=method))

    found = dk.grad(f)(doubles(B), doubles(STIFFNESS))
    np.testing.assert_allclose(found[0].numpy(), by_numpy(chain(STIFFNESS), B)[1], rtol=1e-8)
    np.testing.assert_allclose(found[1].numpy(), gradient_of_stiffness(STIFFNESS, B), rtol=1e-8)
    along = OF_B, STIFFNESS
    seconds = dk.hvp(f, (doubles(B), doubles(STIFFNESS)), [doubles(t) for t in along])
    for second, difference in zip(seconds, second_by_differences(f, (B, STIFFNESS), along), strict=True):
        np.testing.assert_allclose(second.numpy(), difference, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["direct", "bicgstab", "gmres", None])
def test_linear_solve_of_several_systems(method):
    matrices, sides = np.stack([GENERAL, SYMMETRIC, GENERAL.T]), RNG.normal(size=(3, N))

    def f(a, b):
        return score(dk.linear_solve(a, b, method=method, tol=1e-12))

    of_a, of_b = dk.grad(f)(doubles(matrices), doubles(sides))
    for k in range(3):
        expected = by_numpy(matrices[k], sides[k])
        np.testing.assert_allclose(of_a.numpy()[k], expected[0], rtol=1e-7, atol=1e-11)
        np.testing.assert_allclose(of_b.numpy()[k], expected[1], rtol=1e-7, atol=1e-11)


def test_linear_solve_of_diagonals_blocks_and_in_single_precision():
    blocks = np.einsum("ij,rc->ijrc", np.eye(2), SYMMETRIC[:3, :3])
    for matrix, right, expected in (
        (doubles(2.0 + WEIGHTS**2), doubles(B), B / (2.0 + WEIGHTS**2)),
        (dk.array(blocks, dtype=dk.mat33d), dk.array(B.reshape(2, 3), dtype=dk.vec3d),
         np.linalg.solve(SYMMETRIC[:3, :3], B.reshape(2, 3).T).T),
        (dk.array(SYMMETRIC.astype(np.float32)), dk.array(B.astype(np.float32)), np.linalg.solve(SYMMETRIC, B)),
    ):  # fmt: skip
        for method in MATRICES:
            found = dk.linear_solve(matrix, right, method=method).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-8 if found.dtype == np.float64 else 1e-3)


def test_a_jacobian_by_columns_solves_once_for_each():
    calls = [0]

    def counted(x, a):
        calls[0] += 1
        y = dk.zeros_like(x)
        dk.launch(rows, N, [a, x, y])
        return y

    a = doubles(GENERAL)

    def solve(b):
        return dk.linear_solve(counted, b, a, method="bicgstab")

    solve(doubles(B))
    once, calls[0] = calls[0], 0
    found = dk.jacobian(solve, doubles(B), mode="forward")
    np.testing.assert_allclose(found, np.linalg.inv(GENERAL), rtol=1e-7, atol=1e-10)
    assert calls[0] < 3 * (N + 1) * once


def test_in_the_steps_of_a_checkpoint():
    a = doubles(GENERAL)
    b = doubles(B, True)
    with dk.Tape() as tape:
        state = b + 0.0
        dk.checkpoint(lambda k: dk.copy(state, dk.linear_solve(a, state, method="gmres")), 3, 2)
        s = score(state)
    tape.backward(s)
    inverse = np.linalg.matrix_power(np.linalg.inv(GENERAL), 3)
    np.testing.assert_allclose(b.grad.numpy(), inverse.T @ (2 * WEIGHTS * (inverse @ B)), rtol=1e-7, atol=1e-13)


def test_linear_solves_that_are_refused():
    a, b = doubles(SYMMETRIC), doubles(B)
    for method in ("cg", "cr"):
        with pytest.raises(LaunchError, match="not symmetric"):
            dk.linear_solve(doubles(GENERAL), b, method=method)
        with pytest.raises(LaunchError, match="not positive definite"):
            dk.linear_solve(doubles(SYMMETRIC - 12.0 * np.eye(N)), b, method=method)
    for method in ("bicgstab", "gmres", "direct"):
        with pytest.raises(LaunchError, match=r"not solved|is singular"):
            dk.linear_solve(doubles(np.ones((N, N))), b, method=method)
    with pytest.raises(LaunchError, match=r"not solved: .* after 4 iterations of cg"):
        dk.linear_solve(a, b, method="cg", maxiter=4)
    with pytest.raises(LaunchError, match="the right side is not finite"):
        dk.linear_solve(a, doubles(B * np.nan), method="gmres")
    with pytest.raises(LaunchError, match=r"the adjoint of dk\.linear_solve: the right side is not finite"):
        dk.grad(lambda b: (dk.linear_solve(a, b, method="cg") * np.inf).sum())(b)
    with pytest.raises(MisuseError, match="has no method 'lu'"):
        dk.linear_solve(a, b, method="lu")
    with pytest.raises(MisuseError, match="begins with"):
        dk.linear_solve(a, b, method="cg", x0=doubles([1.0]))
    with pytest.raises(MisuseError, match="needs a matrix, not a product"):
        dk.linear_solve(of_springs(doubles(STIFFNESS)), b, method="direct")
    with pytest.raises(MisuseError, match="parameters for a function alone"):
        dk.linear_solve(a, b, b, method="cg")
    with pytest.raises(LaunchError, match="is read while work for it is recorded"), dk.record():
        dk.linear_solve(lambda x: x * 2.0, b)
    np.testing.assert_array_equal(dk.linear_solve(a, b * 0.0, method="cg", x0=b).numpy(), 0.0)


# -- minimizers --------------------------------------------------------------------------------------------------------


@dk.kernel
def energies(x: dk.array[F64], a: dk.array[F64], e: dk.array[F64]):
    i = dk.tid()
    n = x.shape[0]
    pair = x[i] * x[(i + 1) % n]
    dk.atomic_add(e, 0, dk.cosh(x[i] - a[i]) + 0.1 * pair * pair + 0.5 * x[i] * x[i])


def energy(x, a):
    e = dk.zeros(1, dtype=F64)
    dk.launch(energies, x.size, [x, a, e])
    return e


def minimizer(a: Any) -> Any:
    """By Newton's method with the Hessian written out."""
    x = np.zeros(N)
    for _ in range(30):
        after, before = np.roll(x, -1), np.roll(x, 1)
        slope = np.sinh(x - a) + 0.2 * x * (after**2 + before**2) + x
        hessian = np.diag(np.cosh(x - a) + 0.2 * (after**2 + before**2) + 1.0)
        for i in range(N):
            j = (i + 1) % N
            hessian[i, j] += 0.4 * x[i] * x[j]
            hessian[j, i] += 0.4 * x[i] * x[j]
        x = x - np.linalg.solve(hessian, slope)
    return x


@pytest.mark.parametrize("solver", ["newton", "lbfgs", lambda x0, a: doubles(minimizer(a.numpy()))])
def test_minimizers(solver):
    def f(a):
        return score(dk.optim.argmin(energy, dk.zeros_like(a), a, solver=solver))

    np.testing.assert_allclose(
        dk.optim.argmin(energy, doubles(np.zeros(N)), doubles(B), solver=solver).numpy(), minimizer(B), rtol=1e-8
    )
    expected = []
    for k in range(N):
        ends = [(WEIGHTS * minimizer(B + step * np.eye(N)[k]) ** 2).sum() for step in (1e-4, -1e-4)]
        expected.append((ends[0] - ends[1]) / 2e-4)
    gradient = dk.grad(f)(doubles(B)).numpy()
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dk.jvp(f, (doubles(B),), (doubles(OF_B),))[1].numpy(), [gradient @ OF_B], rtol=1e-7)
    second = dk.hvp(f, (doubles(B),), (doubles(OF_B),))
    np.testing.assert_allclose(second[-1].numpy() if isinstance(second, tuple) else second.numpy(),
                               second_by_differences(f, (B,), (OF_B,))[0], rtol=1e-5, atol=1e-7)  # fmt: skip


@dk.kernel
def two_valleys(x: dk.array[F64], e: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(e, 0, x[i] * x[i] * x[i] * x[i] - x[i] * x[i])


def test_what_is_no_minimizer():
    def valleys(x):
        e = dk.zeros(1, dtype=F64)
        dk.launch(two_valleys, x.size, [x, e])
        return e

    found = dk.optim.argmin(valleys, doubles([0.1, -0.2, 3.0])).numpy()
    np.testing.assert_allclose(found, np.array([1.0, -1.0, 1.0]) / 2**0.5, rtol=1e-8)
    with pytest.raises(LaunchError, match="Hessian is not positive definite"):
        dk.optim.argmin(valleys, doubles(np.zeros(3)))
    with pytest.raises(LaunchError, match="Hessian is not positive definite"):
        dk.optim.argmin(lambda x: (x * doubles([1.0, 0.0])).sum() * 0.0, doubles(np.ones(2)))
    with pytest.raises(LaunchError, match="the largest component of the gradient is 2"):
        dk.optim.argmin(valleys, doubles(np.ones(3)), solver=lambda x0: x0)
    with pytest.raises(LaunchError, match="an array of one element"):
        dk.optim.argmin(lambda x: x * x, doubles(np.ones(3)))
    with pytest.raises(LaunchError, match=r"no step downhill|found no minimizer"):
        dk.optim.argmin(lambda x: x.sum(), doubles(np.ones(3)))
    with pytest.raises(MisuseError, match="no solver 'bfgs'"):
        dk.optim.argmin(valleys, doubles(np.ones(3)), solver="bfgs")
    with pytest.raises(MisuseError, match="takes a function"):
        dk.optim.argmin(3, doubles(np.ones(3)))
