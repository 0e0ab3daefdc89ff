"""Direct solutions: factors of a matrix by the libraries that are installed, kept for the transposed system.

A sparse matrix is factored by SciPy's SuperLU, by CHOLMOD (scikit-sparse) where it is symmetric and positive definite,
or on a GPU by cuDSS (nvmath-python); a dense one by NumPy's LAPACK.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, MisuseError

__all__ = ["LIBRARIES", "Factors"]

Solve = Callable[[Any, bool], Any]
"""Returns the solution for a right side, of the transposed system if that is asked for."""


class Factors:
    """The factors of the matrix that was solved with last, for the same one again or the transposed one.

    Parameters
    ----------
    library : str
        ``"direct"`` for the one that suits the matrix, or one of `LIBRARIES`.
    """

    def __init__(self, library: str) -> None:
        self._library = library
        self._kept: tuple[Any, Solve] | None = None

    def solve(self, name: str, matrix: Any, side: Any) -> Any:
        """Return the solution of a system.

        Parameters
        ----------
        name : str
            The system, for messages.
        matrix : numpy.ndarray or scipy.sparse matrix
            The matrix; with three axes one for each system.
        side : numpy.ndarray
            The right side.

        Raises
        ------
        LaunchError
            If the matrix is singular, or not what the library needs.
        MisuseError
            If the library is not installed, or takes no such matrix.
        """
        if isinstance(matrix, np.ndarray):
            if self._library != "direct":
                raise MisuseError(
                    f"{name}: {self._library} factors sparse matrices, not arrays", remedy='pass method="direct"'
                )
            try:
                return np.linalg.solve(matrix, side)
            except np.linalg.LinAlgError:
                raise singular(name) from None
        matrix = matrix.tocsr()
        if self._kept is not None:
            known, solve = self._kept
            for is_transposed in (False, True):
                if _is_same(known, matrix.T.tocsr() if is_transposed else matrix):
                    return solve(side, is_transposed)
        solve = LIBRARIES[self._library](name, matrix)
        self._kept = matrix.copy(), solve
        return solve(side, False)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two matrices in compressed rows are the same, entry by entry."""
    if one.shape != other.shape or one.nnz != other.nnz or one.dtype != other.dtype:
        return False
    other.sort_indices()
    one.sort_indices()
    pairs = ((one.indptr, other.indptr), (one.indices, other.indices), (one.data, other.data))
    return all(np.array_equal(a, b) for a, b in pairs)


def singular(name: str) -> LaunchError:
    """Return the error of a matrix without an inverse."""
    return LaunchError(f"{name}: the matrix is singular", remedy="pass a matrix of full rank")


def _module(name: str, needed: str, package: str) -> Any:
    try:
        return importlib.import_module(needed)
    except ImportError:
        raise MisuseError(
            f"{name}: {package} is not installed", remedy=f"pip install {package}, or pass method='direct'"
        ) from None


def _superlu(name: str, matrix: Any) -> Solve:
    # Whoever has a sparse matrix of SciPy has SciPy.
    from scipy.sparse.linalg import splu  # type: ignore[import-untyped,unused-ignore]

    try:
        factors = splu(matrix.tocsc())
    except RuntimeError:
        raise singular(name) from None
    return lambda side, is_transposed: factors.solve(side, "T" if is_transposed else "N")


def _cholmod(name: str, matrix: Any) -> Solve:
    library = _module(name, "sksparse.cholmod", "scikit-sparse")
    # It reads one triangle alone, and would solve another system.
    off = abs(matrix - matrix.T)
    if off.nnz and off.max() > 1e3 * np.finfo(matrix.dtype).eps * abs(matrix).max():
        raise LaunchError(
            f"{name}: the matrix is not symmetric, and CHOLMOD is for those that are", remedy='pass method="superlu"'
        )
    try:
        # Version 0.5 has other names.
        make = getattr(library, "cholesky", None) or library.cho_factor
        factors = make(matrix.tocsc().astype(np.float64))
    except Exception as error:  # the classes of its errors differ from version to version
        if "positive" not in f"{type(error).__name__} {error}".lower():
            raise
        raise LaunchError(
            f"{name}: the matrix is not positive definite, and CHOLMOD is for those that are",
            remedy='pass method="superlu"',
        ) from None
    solve = factors if callable(factors) else factors.solve
    return lambda side, is_transposed: solve(np.asarray(side, np.float64))


def _cudss(name: str, matrix: Any) -> Solve:
    advanced = _module(name, "nvmath.sparse.advanced", "nvmath-python")
    kept: dict[bool, Any] = {}

    def solve(side: Any, is_transposed: bool) -> Any:
        # It has no solution with the transposed factors: these are factored once as well.
        solver = kept.get(is_transposed)
        right = np.ascontiguousarray(side)
        if solver is None:
            solver = advanced.DirectSolver((matrix.T.tocsr() if is_transposed else matrix), right)
            solver.plan()
            solver.factorize()
            kept[is_transposed] = solver
        else:
            solver.reset_operands(b=right)
        return np.asarray(solver.solve())

    return solve


LIBRARIES: dict[str, Callable[[str, Any], Solve]] = {
    "direct": _superlu,
    "superlu": _superlu,
    "cholmod": _cholmod,
    "cudss": _cudss,
}
"""The libraries that factor sparse matrices, by the names of methods."""
