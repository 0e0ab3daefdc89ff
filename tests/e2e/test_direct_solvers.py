"""Direct solutions of sparse systems by several libraries; those that may be missing are replaced by small ones."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern import sparse
from diffkern.errors import LaunchError, MisuseError

linalg = pytest.importorskip("scipy.sparse.linalg")
scipy_sparse = pytest.importorskip("scipy.sparse")
N = 20
RNG = np.random.default_rng(8)
GENERAL = np.diag(np.full(N, 4.0)) + np.diag(np.full(N - 1, -1.5), 1) + np.diag(np.full(N - 1, 0.5), -1)
SYMMETRIC = GENERAL + GENERAL.T


class NotPositiveDefiniteError(Exception):
    pass


def small_cholmod(calls: list[str]) -> types.ModuleType:
    """What is used of ``sksparse.cholmod``, by dense factors."""

    def cholesky(matrix: Any) -> Any:
        calls.append("factor")
        try:
            lower = np.linalg.cholesky(np.tril(matrix.toarray()) + np.tril(matrix.toarray(), -1).T)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError("not positive definite") from None
        return lambda side: np.linalg.solve(lower.T, np.linalg.solve(lower, side))

    made = types.ModuleType("sksparse.cholmod")
    made.cholesky = cholesky  # type: ignore[attr-defined]
    return made


def small_cudss(calls: list[str]) -> types.ModuleType:
    """What is used of ``nvmath.sparse.advanced``."""

    class DirectSolver:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b, self.state = a.toarray(), b, "made"

        def plan(self) -> None:
            self.state = "planned"

        def factorize(self) -> None:
            assert self.state == "planned"
            calls.append("factor")
            self.state = "factored"

        def reset_operands(self, *, b: Any) -> None:
            self.b = b

        def solve(self) -> Any:
            assert self.state == "factored"
            return np.linalg.solve(self.a, self.b)

    made = types.ModuleType("nvmath.sparse.advanced")
    made.DirectSolver = DirectSolver  # type: ignore[attr-defined]
    return made


@pytest.fixture
def calls(monkeypatch):
    """The factorizations that each library makes."""
    found: list[str] = []
    splu = linalg.splu
    monkeypatch.setattr(linalg, "splu", lambda a: found.append("factor") or splu(a))
    for name, make in (("sksparse.cholmod", small_cholmod), ("nvmath.sparse.advanced", small_cudss)):
        monkeypatch.setitem(sys.modules, name, make(found))
    return found


@pytest.mark.parametrize(("method", "factored"), [("direct", 1), ("superlu", 1), ("cholmod", 1), ("cudss", 2)])
def test_one_factor_serves_the_solution_and_its_derivatives(method, factored, calls):
    dense = SYMMETRIC if method == "cholmod" else GENERAL
    K, b = sparse.from_scipy(scipy_sparse.csr_array(dense)), dk.array(RNG.normal(size=N), requires_grad=True)
    K.values.requires_grad = True
    with dk.Tape() as tape:
        x = dk.linear_solve(K, b, method=method)
        loss = (x * x).sum()
    tape.backward(loss)
    wanted = np.linalg.solve(dense, b.numpy())
    multiplier = np.linalg.solve(dense.T, 2.0 * wanted)
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-10)
    np.testing.assert_allclose(b.grad.numpy(), multiplier, rtol=1e-10)
    rows, columns = np.nonzero(dense)
    np.testing.assert_allclose(K.values.grad.numpy(), -multiplier[rows] * wanted[columns], rtol=1e-9)
    assert len(calls) == factored
    along = dk.array(RNG.normal(size=N))
    product = dk.hvp(lambda b: (dk.linear_solve(K, b, method=method) ** 2.0).sum(), [b], [along])[0]
    hessian = 2.0 * np.linalg.inv(dense).T @ np.linalg.inv(dense)
    np.testing.assert_allclose(product.numpy(), hessian @ along.numpy(), rtol=1e-8)
    assert len(calls) == 2 * factored


def test_other_values_have_factors_of_their_own(calls):
    K, b = sparse.from_scipy(scipy_sparse.csr_array(GENERAL)), dk.array(np.ones(N))
    with dk.record(run=False) as sequence:
        x = dk.linear_solve(K, b, method="superlu")
    values = K.values.numpy().copy()
    for factor in (1.0, 1.0, 2.0):
        K.values.assign(factor * values)
        sequence.replay()
        np.testing.assert_allclose(factor * GENERAL @ x.numpy(), 1.0, rtol=1e-12)
    assert len(calls) == 2


def test_what_a_library_does_not_solve(calls, monkeypatch):
    b = dk.array(np.ones(N))

    def of(matrix: Any) -> sparse.BsrMatrix:
        return sparse.from_scipy(scipy_sparse.csr_array(matrix))

    with pytest.raises(LaunchError, match="CHOLMOD is for those that are") as error:
        dk.linear_solve(of(GENERAL), b, method="cholmod")
    assert "not symmetric" in str(error.value)
    with pytest.raises(LaunchError, match="not positive definite"):
        dk.linear_solve(of(-SYMMETRIC), b, method="cholmod")
    with pytest.raises(LaunchError, match=r"is singular|not solved"):
        dk.linear_solve(of(np.diag(np.arange(N) * 1.0)), b, method="superlu")
    with pytest.raises(MisuseError, match="superlu factors sparse matrices"):
        dk.linear_solve(dk.array(GENERAL), b, method="superlu")
    for method, module, package in (("cholmod", "sksparse.cholmod", "scikit-sparse"),
                                    ("cudss", "nvmath.sparse.advanced", "nvmath-python")):  # fmt: skip
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MisuseError, match=f"{package} is not installed"):
            dk.linear_solve(of(SYMMETRIC), b, method=method)
