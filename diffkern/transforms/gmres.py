"""GMRES: linear equations whose matrix is known by its products alone, in NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Numbers", "gmres"]

Numbers = np.ndarray[Any, Any]
_LEAST, _ROOM = 60, 1 << 23
"""The fewest vectors of a basis before a restart, and the numbers that its vectors may have in all, 64 MiB.

A long one is worth its memory: on stiff or indefinite equations a short one, restarted, may come to a standstill.
"""


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
    x = np.zeros_like(b)
    if not b.any():
        return x
    # Squares of what is very small or large are no numbers any more; a power of two scales without rounding.
    exponent = np.frexp(np.abs(b).max())[1]
    b = residual = np.ldexp(b, -exponent)
    size = float(np.linalg.norm(b))
    for _ in range(restarts):
        before = float(np.linalg.norm(residual))
        x = x + _in_a_subspace(product, residual, tol * size)
        residual = b - product(x)
        now = float(np.linalg.norm(residual))
        # Nothing is won any more: the matrix is singular, or rounding is all that is left.
        if not now > tol * size or now > 0.9 * before:
            break
    return np.ldexp(x, exponent)


def _in_a_subspace(product: Callable[[Numbers], Numbers], residual: Numbers, wanted: float) -> Numbers:
    """Return the change in the Krylov subspace of a residual that makes it smallest."""
    size = float(np.linalg.norm(residual))
    count = min(residual.size, max(_ROOM // residual.size, _LEAST))
    basis: Numbers = np.empty((count + 1, residual.size))  # memory that no vector comes to is not touched
    triangle, goal = np.zeros((count, count)), np.zeros(count + 1)
    turns: list[tuple[float, float]] = []
    basis[0], goal[0] = residual / size, size
    for k in range(count):
        found = product(basis[k])
        scale, column = float(np.linalg.norm(found)), np.zeros(k + 2)
        for _ in range(2):
            parts = basis[: k + 1] @ found
            found = found - parts @ basis[: k + 1]
            column[: k + 1] += parts
        column[k + 1] = left_over = float(np.linalg.norm(found))
        _turn(column, turns, goal)
        triangle[: k + 1, k] = column[: k + 1]
        # A direction that lies in the subspace ends it: the solution lies in it too, or there is none.
        if abs(goal[k + 1]) <= wanted or left_over <= 1e-14 * scale:
            break
        basis[k + 1] = found / left_over
    made: Numbers = _backwards(triangle[: k + 1, : k + 1], goal[: k + 1]) @ basis[: k + 1]
    return made


def _backwards(triangle: Numbers, goal: Numbers) -> Numbers:
    """Return the solution of a triangular system, and that of least squares if the triangle is singular."""
    sizes = np.abs(np.diag(triangle))
    if sizes.min() <= 1e-12 * sizes.max():
        return np.linalg.lstsq(triangle, goal, rcond=None)[0]
    found = np.array(goal)
    for k in range(goal.size - 1, -1, -1):
        found[k] /= triangle[k, k]
        found[:k] -= found[k] * triangle[:k, k]
    return found


def _turn(column: Numbers, turns: list[tuple[float, float]], goal: Numbers) -> None:
    """Add a column to a triangle by Givens rotations, which turn the right side too; its last number is left."""
    k = len(turns)
    for j, (c, s) in enumerate(turns):
        column[j], column[j + 1] = c * column[j] + s * column[j + 1], c * column[j + 1] - s * column[j]
    length = float(np.hypot(column[k], column[k + 1]))
    c, s = (column[k] / length, column[k + 1] / length) if length > 0.0 else (1.0, 0.0)
    turns.append((c, s))
    column[k] = length
    goal[k], goal[k + 1] = c * goal[k], -s * goal[k]
