"""GMRES: linear equations whose matrix is known by its products alone, in NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Numbers", "gmres"]

Numbers = np.ndarray[Any, Any]
_RESTART = 60


def gmres(product: Callable[[Numbers], Numbers], b: Numbers, tol: float, restarts: int = 20) -> Numbers:
    """Return the vector whose product is nearest to a right side, to a part of its length or as near as is possible.

    Saad and Schultz, "GMRES: a generalized minimal residual algorithm", SIAM J. Sci. Stat. Comput. 7 (1986), with a
    basis that is orthogonalised twice and restarted when it is large.

    Parameters
    ----------
    product : callable
        The product of the matrix and a vector.
    b : ndarray
        The right side, one axis of float64.
    tol : float
        The length of the residual that suffices, as a part of the length of `b`.
    restarts : int, optional
        How often the basis may be restarted.
    """
    x, size = np.zeros_like(b), float(np.linalg.norm(b))
    if size == 0.0:
        return x
    residual = b
    for _ in range(restarts):
        before = float(np.linalg.norm(residual))
        x = x + _in_a_subspace(product, residual, tol * size)
        residual = b - product(x)
        now = float(np.linalg.norm(residual))
        # Nothing is won any more: the matrix is singular, or rounding is all that is left.
        if not now > tol * size or now > 0.9 * before:
            break
    return x


def _in_a_subspace(product: Callable[[Numbers], Numbers], residual: Numbers, wanted: float) -> Numbers:
    """Return the change in the Krylov subspace of a residual that makes it smallest."""
    size = float(np.linalg.norm(residual))
    count = min(_RESTART, residual.size)
    basis: Numbers = np.zeros((count + 1, residual.size))
    matrix = np.zeros((count + 1, count))
    goal = np.zeros(count + 1)
    basis[0], goal[0] = residual / size, size
    change: Numbers = np.zeros(0)
    for k in range(count):
        found = product(basis[k])
        scale = float(np.linalg.norm(found))
        for _ in range(2):
            parts = basis[: k + 1] @ found
            found = found - parts @ basis[: k + 1]
            matrix[: k + 1, k] += parts
        matrix[k + 1, k] = np.linalg.norm(found)
        change, *_ = np.linalg.lstsq(matrix[: k + 2, : k + 1], goal[: k + 2], rcond=None)
        left = float(np.linalg.norm(goal[: k + 2] - matrix[: k + 2, : k + 1] @ change))
        # A direction that lies in the subspace ends it: the solution lies in it too, or there is none.
        if left <= wanted or matrix[k + 1, k] <= 1e-14 * scale:
            break
        basis[k + 1] = found / matrix[k + 1, k]
    return change @ basis[: change.size]
