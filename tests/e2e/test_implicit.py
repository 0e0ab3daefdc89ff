"""Solutions of equations have derivatives by the implicit function theorem, of any order, or there is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError, MisuseError

F64 = dk.float64
N = 5
A = np.array([1.5, -0.3, 0.8, 2.0, 0.1])
C = np.array([0.6])
T = np.array([0.7, -1.0, 0.4, 0.2, 1.1])


def doubles(values: Any, requires_grad: bool = False) -> dk.array:
    return dk.array(np.asarray(values, np.float64), dtype=F64, requires_grad=requires_grad)


@dk.kernel
def chain(x: dk.array[F64], a: dk.array[F64], c: dk.array[F64], r: dk.array[F64]):
    i = dk.tid()
    left = dk.where(i > 0, x[dk.max(i - 1, 0)], dk.float64(0.0))
    right = dk.where(i < N - 1, x[dk.min(i + 1, N - 1)], dk.float64(0.0))
    r[i] = x[i] * x[i] * x[i] + 3.0 * x[i] - c[0] * left - 0.5 * right * a[i] - a[i]


def residual(x, a, c):
    r = dk.zeros_like(x)
    chain[N](x, a, c, r)
    return r


def solved_by_numpy(a, c):
    x = np.zeros(N)
    for _ in range(60):
        left, right = np.r_[0.0, x[:-1]], np.r_[x[1:], 0.0]
        r = x**3 + 3 * x - c * left - 0.5 * right * a - a
        jacobian = np.diag(3 * x**2 + 3) - np.diag(np.broadcast_to(c, N - 1), -1) - np.diag(0.5 * a[:-1], 1)
        x = x - np.linalg.solve(jacobian, r)
    return x


def by_differences(f, values, h=1e-3):
    """Central differences of sixth order."""
    flat, found = values.reshape(-1), []
    for k in range(flat.size):
        total = 0.0
        for step, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
            ends = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[k] += sign * step * h
                ends.append(np.asarray(f(moved.reshape(values.shape)), np.float64))
            total = total + weight * (ends[0] - ends[1]) / (60 * h)
        found.append(total)
    return np.array(found)


@dk.kernel
def quartics(x: dk.array[F64], s: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(s, 0, (1.0 + i) * x[i] * x[i] * x[i] * x[i])


def score(x):
    s = dk.zeros(1, dtype=F64)
    quartics[x.size](x, s)
    return s


def score_of(x):
    return (np.arange(1, x.size + 1) * x**4).sum()


def loss(a, c):
    return score(dk.root(residual, dk.zeros_like(a), a, c))


def test_the_root_is_one():
    x = dk.root(residual, dk.zeros(N, dtype=F64), doubles(A), doubles(C))
    np.testing.assert_allclose(x.numpy(), solved_by_numpy(A, C), rtol=1e-10)


def test_gradients_on_a_tape():
    a, c = doubles(A, True), doubles(C, True)
    with dk.Tape() as tape:
        s = loss(a, c)
    for _ in range(2):
        a.grad.zero_()
        c.grad.zero_()
        tape.backward(s)
        expected = by_differences(lambda a: score_of(solved_by_numpy(a, C)), A)
        np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-7, atol=1e-9)
        expected = by_differences(lambda c: score_of(solved_by_numpy(A, c)), C)
        np.testing.assert_allclose(c.grad.numpy(), expected, rtol=1e-7)


def test_both_modes_and_second_order():
    a, c, t = doubles(A), doubles(C), doubles(T)

    def of_a(a):
        return loss(a, c)

    def gradient(a):
        return dk.grad(of_a)(doubles(a)).numpy()

    slope = by_differences(lambda a: score_of(solved_by_numpy(a, C)), A)
    np.testing.assert_allclose(dk.jvp(of_a, (a,), (t,))[1].numpy(), [slope @ T], rtol=1e-8)
    second = by_differences(gradient, A)
    np.testing.assert_allclose(dk.hvp(of_a, (a,), (t,))[-1].numpy(), second @ T, rtol=1e-7)
    np.testing.assert_allclose(dk.grad(lambda a: (dk.grad(of_a)(a) * t).sum())(a).numpy(), second @ T, rtol=1e-7)
    np.testing.assert_allclose(dk.jvp(dk.grad(of_a), (a,), (t,))[1].numpy(), second @ T, rtol=1e-7)


def test_in_the_steps_of_a_roll_out():
    a, c = doubles(A, True), doubles(C, True)
    with dk.Tape() as tape:
        state = a + 0.0

        def step(k):
            dk.copy(state, dk.root(residual, state, state, c))

        dk.checkpoint(step, 3, 2)
        s = score(state)
    tape.backward(s)

    def by_numpy(a):
        for _ in range(3):
            a = solved_by_numpy(a, C)
        return score_of(a)

    np.testing.assert_allclose(a.grad.numpy(), by_differences(by_numpy, A), rtol=1e-6, atol=1e-12)


def test_a_solver_of_the_users():
    def solver(x0, a, c):
        return doubles(solved_by_numpy(a.numpy(), c.numpy()))

    def own(a, c):
        return score(dk.root(residual, dk.zeros_like(a), a, c, solver=solver))

    for found, expected in zip(
        dk.grad(own)(doubles(A), doubles(C)), dk.grad(loss)(doubles(A), doubles(C)), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-8)
    with pytest.raises(LaunchError, match="behind the given solver"):
        dk.root(residual, dk.zeros(N, dtype=F64), doubles(A), doubles(C), solver=lambda x0, *_: x0)


@dk.kernel
def relax(x: dk.array[F64], a: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = 0.5 * dk.cos(x[(i + 1) % N]) * a[i] + 0.2 * x[i]


def relaxed(x, a):
    y = dk.zeros_like(x)
    relax[N](x, a, y)
    return y


def test_fixed_points():
    def by_numpy(a):
        x = np.zeros(N)
        for _ in range(400):
            x = 0.5 * np.cos(np.roll(x, -1)) * a + 0.2 * x
        return score_of(x)

    def of_a(a):
        return score(dk.fixed_point(relaxed, dk.zeros_like(a), a))

    np.testing.assert_allclose(of_a(doubles(A)).numpy(), [by_numpy(A)], rtol=1e-8)
    np.testing.assert_allclose(dk.grad(of_a)(doubles(A)).numpy(), by_differences(by_numpy, A), rtol=1e-7, atol=1e-9)
    second = by_differences(lambda a: dk.grad(of_a)(doubles(a)).numpy(), A)
    np.testing.assert_allclose(dk.hvp(of_a, (doubles(A),), (doubles(T),))[-1].numpy(), second @ T, rtol=1e-6)
    with pytest.raises(LaunchError, match="does not come to rest"):
        dk.fixed_point(lambda x, a: x * -1.0 + a, dk.zeros(N, dtype=F64), doubles(A), maxiter=20)


MATRIX = np.random.default_rng(3).normal(size=(N, N)) + 4 * np.eye(N)


def test_linear_equations():
    def by_numpy(m, b):
        return score_of(np.linalg.solve(m, b))

    def of(m, b):
        return score(dk.linear_solve(m, b))

    of_m, of_b = dk.grad(of)(doubles(MATRIX), doubles(A))
    expected = by_differences(lambda m: by_numpy(m, A), MATRIX)
    np.testing.assert_allclose(of_m.numpy().reshape(-1), expected, rtol=1e-7, atol=1e-11)
    np.testing.assert_allclose(of_b.numpy(), by_differences(lambda b: by_numpy(MATRIX, b), A), rtol=1e-7)
    second = by_differences(lambda b: dk.grad(of)(doubles(MATRIX), doubles(b))[1].numpy(), A)
    found = dk.grad(lambda b: (dk.grad(of)(doubles(MATRIX), b)[1] * doubles(T)).sum())(doubles(A))
    np.testing.assert_allclose(found.numpy(), second @ T, rtol=1e-7)


@dk.kernel
def diffusion(x: dk.array[F64], k: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    last = x.shape[0] - 1
    left = dk.where(i > 0, x[dk.max(i - 1, 0)], dk.float64(0.0))
    right = dk.where(i < last, x[dk.min(i + 1, last)], dk.float64(0.0))
    y[i] = x[i] + k[i] * (2.0 * x[i] - left - right)


def test_linear_equations_without_a_matrix():
    n = 150  # more unknowns than the basis of GMRES has room for
    rng = np.random.default_rng(4)
    k, b, t = 2.0 + rng.random(n), rng.normal(size=n), rng.normal(size=n)

    def operator(x, k):
        y = dk.zeros_like(x)
        dk.launch(diffusion, n, [x, k, y])
        return y

    def matrix(k):
        return np.eye(n) + k[:, None] * (2 * np.eye(n) - np.eye(n, k=-1) - np.eye(n, k=1))

    x = dk.linear_solve(operator, doubles(b), doubles(k))
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix(k), b), rtol=1e-7, atol=1e-9)
    found = dk.grad(lambda b, k: score(dk.linear_solve(operator, b, k)))(doubles(b), doubles(k))
    solution = np.linalg.solve(matrix(k), b)
    multiplier = np.linalg.solve(matrix(k).T, 4 * np.arange(1, n + 1) * solution**3)
    np.testing.assert_allclose(found[0].numpy(), multiplier, rtol=1e-6, atol=1e-8 * np.abs(multiplier).max())
    ct_k = -multiplier * (2 * solution - np.r_[0, solution[:-1]] - np.r_[solution[1:], 0])
    np.testing.assert_allclose(found[1].numpy(), ct_k, rtol=1e-6, atol=1e-8 * np.abs(ct_k).max())
    moved = dk.jvp(lambda b: dk.linear_solve(operator, b, doubles(k)), (doubles(b),), (doubles(t),))[1]
    np.testing.assert_allclose(moved.numpy(), np.linalg.solve(matrix(k), t), rtol=1e-6, atol=1e-8)


@dk.kernel
def two_vectors(x: dk.array[dk.vec3], a: dk.array[dk.vec3], r: dk.array[dk.vec3]):
    i = dk.tid()
    r[i] = x[i] * (1.0 + dk.dot(x[i], x[i])) - a[i]


def test_vectors_in_single_precision():
    values = np.float32([[1, 2, 0.5], [0.1, -1, 3]])
    a = dk.array(values, dtype=dk.vec3, requires_grad=True)

    def of(x, a):
        r = dk.zeros_like(x)
        dk.launch(two_vectors, 2, [x, a, r])
        return r

    with dk.Tape() as tape:
        x = dk.root(of, dk.zeros_like(a), a)
    tape.backward(grads={x: dk.ones_like(x)})
    for k, solution in enumerate(x.numpy()):
        jacobian = np.eye(3) * (1 + solution @ solution) + 2 * np.outer(solution, solution)
        np.testing.assert_allclose(a.grad.numpy()[k], np.linalg.solve(jacobian.T, np.ones(3)), rtol=1e-4)


def test_constants_among_the_parameters_and_none_that_varies():
    def scaled(x, a, factor, table):
        return residual(x, a, doubles([factor])) + x * 0.0

    table = dk.array([1, 2, 3], dtype=int)
    found = dk.grad(lambda a: score(dk.root(scaled, dk.zeros_like(a), a, 0.6, table)))(doubles(A))
    np.testing.assert_allclose(found.numpy(), dk.grad(lambda a: loss(a, doubles(C)))(doubles(A)).numpy(), rtol=1e-8)
    x0 = doubles(A, True)
    with dk.Tape() as tape:
        x = dk.root(residual, x0, doubles(A), doubles(C))
        s = score(x) + score(x0)
    tape.backward(s)
    np.testing.assert_allclose(x0.grad.numpy(), 4 * np.arange(1, N + 1) * A**3)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_equations_without_a_solution():
    @dk.kernel
    def squares(x: dk.array[F64], r: dk.array[F64]):
        i = dk.tid()
        r[i] = x[i] * x[i] + 1.0

    def no_root(x):
        r = dk.zeros_like(x)
        squares[N](x, r)
        return r

    with pytest.raises(LaunchError, match=r"dk\.root is not solved"):
        dk.root(no_root, doubles(A))
    singular = np.outer(A, A)
    with pytest.raises(LaunchError, match=r"dk\.linear_solve"):
        dk.linear_solve(doubles(singular), doubles(np.arange(N) + 1.0))
    with pytest.raises(LaunchError, match="not solved"):
        dk.linear_solve(lambda x, b: b * (x * b).sum(), doubles(np.arange(N) + 1.0), doubles(A))


def test_a_derivative_that_has_no_solution():
    # At a double root the Jacobian is singular.
    def residual(x, a):
        return (x - a) * (x - a)

    a = doubles([1.0, 2.0])
    with pytest.raises(LaunchError, match=r"the adjoint of dk\.root is not solved"):
        dk.grad(lambda a: dk.root(residual, a * 1.0, a).sum())(a)


def test_a_parameter_that_is_not_passed():
    hidden = doubles(C, True)
    with dk.Tape(), pytest.raises(LaunchError, match="is none of its arguments"):
        dk.root(lambda x, a: residual(x, a, hidden), dk.zeros(N, dtype=F64), doubles(A, True))


def test_what_does_not_fit():
    with pytest.raises(MisuseError, match=r"dk\.root takes a function"):
        dk.root(3, doubles(A))
    with pytest.raises(MisuseError, match="begins with an array of floats"):
        dk.root(residual, 0.0)
    with pytest.raises(LaunchError, match="return an array like the unknown"):
        dk.root(lambda x: x[1:], doubles(A))
    with pytest.raises(MisuseError, match="a square matrix"):
        dk.linear_solve(doubles(MATRIX[:3]), doubles(A))
    with pytest.raises(LaunchError, match="not finite"):
        dk.root(lambda x: x / 0.0, doubles(A))
    with pytest.raises(LaunchError, match="is read while work for it is recorded"), dk.record():
        dk.root(residual, dk.zeros(N, dtype=F64), doubles(A), doubles(C))
