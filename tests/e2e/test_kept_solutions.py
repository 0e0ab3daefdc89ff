"""A Jacobian by columns solves an equation once, and one system for each column; what differs is solved again."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

N = 5
Numbers = dk.array(dtype=dk.float64)
A = np.random.default_rng(0).normal(size=(N, N)) + N * np.eye(N)
B = np.random.default_rng(1).normal(size=N)


@dk.kernel
def rest(x: Numbers, b: Numbers, r: Numbers):
    i = dk.tid()
    r[i] = 2.0 * x[i] + 0.3 * x[i] * x[i] * x[i] - dk.sin(x[(i + 1) % N]) - b[i] * b[i]


def residual(x: dk.array, b: dk.array) -> dk.array:
    r = dk.zeros_like(x)
    dk.launch(rest, N, inputs=[x, b], outputs=[r])
    return r


@pytest.mark.parametrize("method", ["bicgstab", "direct"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_linear_system_is_solved_once(method: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from diffkern.optim.linear import implicit

    solved: list[str] = []
    plain = implicit.known

    def counted(solver):
        def solve(name, *given):
            solved.append(name)
            solver(name, *given)

        return plain(solve)

    monkeypatch.setattr("diffkern.optim.linear.solve.known", counted)
    a = dk.array(A)
    found = dk.jacobian(lambda b: dk.linear_solve(a, b, method=method), dk.array(B), mode=mode)
    np.testing.assert_allclose(found, np.linalg.inv(A), rtol=1e-7, atol=1e-10)
    assert solved == ["dk.linear_solve"]


def test_a_root_and_a_minimizer_are_found_once() -> None:
    calls = [0]

    def by_newton(x0: dk.array, b: dk.array) -> dk.array:
        calls[0] += 1
        return dk.root(residual, x0, b)

    def x(b: dk.array) -> dk.array:
        return dk.root(residual, dk.zeros_like(b), b, solver=by_newton)

    b = dk.array(B)
    found = dk.jacobian(x, b, mode="forward")
    assert calls == [1]
    at = x(b).numpy()
    slopes = np.diag(2.0 + 0.9 * at**2)
    slopes[np.arange(N), (np.arange(N) + 1) % N] -= np.cos(np.roll(at, -1))
    np.testing.assert_allclose(found, np.linalg.solve(slopes, np.diag(2.0 * B)), rtol=1e-7, atol=1e-10)
    calls[0] = 0
    curved = dk.hessian(lambda b: (x(b) * x(b)).sum(), b)
    assert calls == [2]  # the function solves it twice
    for k in range(N):
        ways = 1e-5 * np.eye(N)[k]
        slope = [dk.grad(lambda b: (x(b) * x(b)).sum())(dk.array(B + s * ways)).numpy() for s in (1.0, -1.0)]
        np.testing.assert_allclose(curved[k], (slope[0] - slope[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_what_follows_a_changed_number_is_solved_again() -> None:
    # Each call has another number of systems before, and another matrix: what is kept never fits but by its numbers.
    calls = [0]

    def x(b: dk.array) -> dk.array:
        calls[0] += 1
        for _ in range(calls[0]):
            b = dk.linear_solve(dk.array(A / calls[0]), b)
        return b

    found = dk.jacobian(x, dk.array(B), mode="forward")
    inverse = np.linalg.inv(A)
    for k in range(N):
        # The first call is for the shape.
        wanted = np.linalg.matrix_power(inverse * (k + 2), k + 2)[:, k]
        np.testing.assert_allclose(found[:, k], wanted, rtol=1e-9)
