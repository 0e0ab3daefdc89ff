"""GMRES in NumPy's numbers: equations on which a short basis, restarted, comes to a standstill."""

from __future__ import annotations

import numpy as np
import pytest

from diffkern.transforms import gmres as module
from diffkern.transforms.gmres import gmres


def matrix(rng: np.random.Generator, eigenvalues: np.ndarray) -> np.ndarray:
    basis, _ = np.linalg.qr(rng.normal(size=(eigenvalues.size,) * 2))
    return basis * eigenvalues @ basis.T


def test_a_stiff_and_indefinite_equation_is_solved() -> None:
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1.0, 1e4, 200) * np.where(np.arange(200) % 10 == 0, -1.0, 1.0)
    a, b = matrix(rng, sizes), rng.normal(size=200)
    x = gmres(lambda v: a @ v, b, 1e-9)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4, atol=1e-7)


def test_it_needs_as_many_products_as_the_matrix_has_eigenvalues() -> None:
    rng, products = np.random.default_rng(1), []
    a, b = matrix(rng, np.repeat([1.0, 2.0, -5.0, 7.0], 10)), rng.normal(size=40)
    x = gmres(lambda v: (products.append(1), a @ v)[1], b, 1e-12)
    np.testing.assert_allclose(a @ x, b, atol=1e-10)
    assert len(products) <= 6  # four, and those that look at the residual


def test_a_long_basis_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOM", 0)
    rng = np.random.default_rng(2)
    a, b = matrix(rng, np.geomspace(1.0, 100.0, 150)), rng.normal(size=150)
    np.testing.assert_allclose(a @ gmres(lambda v: a @ v, b, 1e-10), b, atol=1e-7)


@pytest.mark.parametrize("is_consistent", [True, False])
def test_a_singular_matrix_gives_what_is_nearest(is_consistent: bool) -> None:
    rng = np.random.default_rng(3)
    a = matrix(rng, np.r_[0.0, 0.0, np.linspace(1.0, 3.0, 18)])
    side = rng.normal(size=20)
    b = a @ side if is_consistent else side
    x = gmres(lambda v: a @ v, b, 1e-11)
    nearest = a @ np.linalg.lstsq(a, b, rcond=1e-12)[0]
    np.testing.assert_allclose(a @ x, nearest, atol=1e-7)


def test_an_unsymmetric_one_and_zeros() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(70, 70)) + 3.0 * np.eye(70), rng.normal(size=70)
    np.testing.assert_allclose(gmres(lambda v: a @ v, b, 1e-12), np.linalg.solve(a, b), rtol=1e-6, atol=1e-9)
    assert not gmres(lambda v: 0.0 * v, b, 1e-12).any()
    assert not gmres(lambda v: a @ v, 0.0 * b, 1e-12).any()


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e160, 1e300])
def test_squares_out_of_range_do_not_matter(size: float) -> None:
    a, b = np.array([[2.5, 0.0, 0.0], [0.5, 2.0, 0.0], [0.0, 0.5, 2.0]]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(gmres(lambda v: a @ v, b * size, 1e-12) / size, np.linalg.solve(a, b))
