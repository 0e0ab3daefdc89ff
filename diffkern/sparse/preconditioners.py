"""Preconditioners with factors of a sparse matrix: an incomplete one of Cholesky, and one of its inverse.

They are of numbers, also where the matrix consists of blocks, and constants for derivatives. Setup reads the matrix on
the host, in double precision.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import FLOAT16, FLOAT32, FLOAT64, Scalar
from diffkern.lang.dtypes import SCALARS, resolve_dtype
from diffkern.optim.lbfgs import components
from diffkern.optim.linear.operators import LinearOperator
from diffkern.optim.linear.preconditioners import as_it_is_now
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import zeros
from diffkern.runtime.effects.no_grad import no_grad
from diffkern.runtime.records.launch import launch
from diffkern.sparse import factor_kernels as kernels
from diffkern.sparse.assembly import bsr_from_triplets
from diffkern.sparse.matrix import BsrMatrix
from diffkern.sparse.storage import numbers_of
from diffkern.sparse.structure import bsr_identity, bsr_transposed

__all__ = ["FSAI", "IncompleteCholesky", "made_for"]

_WORK = 1 << 22
"""Numbers of a work array of a setup, at most: more rows than have room come one batch after the other."""
_SHIFTS = (0.0, *(1e-3 * 4.0**k for k in range(8)))
"""Parts by which a diagonal is enlarged, one after the other, until an incomplete factor exists."""
_REFUSED = "an update of FSAI needs a matrix that is positive definite on its pattern"
_FLOORS = {FLOAT16: 1e-3, FLOAT32: 1e-6, FLOAT64: 1e-12}


def made_for(matrix: BsrMatrix, ptype: str) -> LinearOperator:
    """Return the preconditioner of a matrix with a name; in a recording that of the matrix as it is now."""
    read = [matrix.offsets, matrix.columns, matrix.values]
    return as_it_is_now(read, lambda: FSAI(matrix) if ptype == "fsai" else IncompleteCholesky(matrix))


def _rows_of(A: BsrMatrix) -> tuple[Any, Any, Any]:
    """Return the numbers of a matrix in compressed rows: offsets, columns, and the place of each in the blocks."""
    with no_grad():
        begins, columns = A.offsets.numpy()[: A.nrow + 1].astype(np.int64), A.columns.numpy().astype(np.int64)
    counts = np.diff(begins) if A.row_counts is None else A.row_counts.numpy()[: A.nrow].astype(np.int64)
    height, width = A.block_shape
    row = np.repeat(np.arange(A.nrow), counts)
    place = begins[:-1].repeat(counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    r, c = np.arange(height)[:, None], np.arange(width)
    shape = (len(row), height, width)
    rows = np.broadcast_to((row * height)[:, None, None] + r, shape).ravel()
    across = np.broadcast_to((columns[place] * width)[:, None, None] + c, shape).ravel()
    places = ((place * height * width)[:, None, None] + r * width + c).ravel()
    order = np.lexsort((across, rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=A.nrow * height))])
    return offsets, across[order], places[order]


def _numbers(A: BsrMatrix, places: Any) -> Any:
    with no_grad():
        return np.asarray(A.values.numpy(), np.float64).reshape(-1)[places]


def _check(A: Any, name: str) -> Any:
    """Return the type of the numbers of a matrix; raise unless it is one that can have such a factor."""
    if not isinstance(A, BsrMatrix) or A.shape[0] != A.shape[1] or A.block_shape[0] != A.block_shape[1]:
        raise ValueError(f"{name} is a preconditioner of square sparse matrices with square blocks")
    scalar = numbers_of(A.values)
    if scalar not in _FLOORS:
        raise TypeError(f"{name} supports float16, float32 and float64, not {scalar}")
    return scalar


def _diagonal_of(offsets: Any, columns: Any, values: Any, name: str) -> Any:
    """Return the diagonal; raise unless all of it is positive."""
    diagonal, wrong = _diagonal(offsets, columns, values)
    if wrong.any():
        raise ValueError(f"{name} needs a diagonal of finite positive numbers, and {int(wrong.sum())} of it are others")
    return diagonal


def _diagonal(offsets: Any, columns: Any, values: Any) -> tuple[Any, Any]:
    """Return the diagonal, and which of its entries are no finite positive numbers."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    diagonal = np.zeros(len(offsets) - 1)
    on_it = rows == columns
    diagonal[rows[on_it]] = values[on_it]
    return diagonal, ~(np.isfinite(diagonal) & (diagonal > 0.0))


class _Factored(LinearOperator):
    """The part that both have in common: the sizes, and vectors in the precision of the products."""

    def __init__(self, A: BsrMatrix, scalar: Any) -> None:
        self._work = FLOAT32 if scalar == FLOAT16 else scalar
        super().__init__(A.shape, A.dtype, A.device, self._apply, recordable=True, transposed=lambda: self)

    def _apply(self, x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        kind = SCALARS[self._work.name]
        scratch = zeros(self.shape[0], dtype=kind, device=self.device)
        number = np.dtype(kind.numpy).type
        if self.shape[0]:
            given = components(x), components(y), components(z)
            self._product(*given, scratch, number(alpha), number(beta))

    def _product(self, x: array, y: array, z: array, scratch: array, alpha: Any, beta: Any) -> None:
        raise NotImplementedError


class IncompleteCholesky(_Factored):
    """The preconditioner ``(L L^T)^-1`` with a factor L that has the pattern of the matrix, IC(0).

    Where a pivot is not positive, the diagonal is enlarged until there is a factor. Its solutions go row by row, in one
    thread; on a GPU :class:`FSAI` is quicker.

    Parameters
    ----------
    A : BsrMatrix
        A symmetric, positive definite matrix with both triangles stored.

    Attributes
    ----------
    shift : float
        The part by which the diagonal was enlarged.

    Raises
    ------
    ValueError
        If the matrix is not square, or a number on its diagonal is not positive.
    LaunchError
        If there is no factor with any enlarged diagonal that is tried.
    """

    def __init__(self, A: BsrMatrix) -> None:
        scalar = _check(A, "an incomplete Cholesky factor")
        offsets, columns, places = _rows_of(A)
        values = _numbers(A, places)
        _diagonal_of(offsets, columns, values, "an incomplete Cholesky factor")
        rows = np.repeat(np.arange(A.shape[0]), np.diff(offsets))
        lower = columns <= rows
        begins = np.concatenate([[0], np.cumsum(np.bincount(rows[lower], minlength=A.shape[0]))])
        given = [array(a, device=A.device) for a in (begins.astype(np.int32), columns[lower].astype(np.int32))]
        numbers, factor = array(values[lower], device=A.device), array(np.zeros(int(lower.sum())), device=A.device)
        failed = array(np.zeros(1, np.int32), device=A.device)
        for shift in _SHIFTS if A.shape[0] else (0.0,):
            failed.zero_()
            launch(kernels.incomplete_cholesky, 1, [*given, numbers, float(shift), factor, failed])
            if not failed.numpy()[0]:
                break
        else:
            raise LaunchError(
                "there is no incomplete Cholesky factor of the matrix",
                remedy="it may not be positive definite; pass another preconditioner",
            )
        self.shift = float(shift)
        super().__init__(A, scalar)
        kind = np.dtype(SCALARS[self._work.name].numpy)
        self._factor = (*given, array(factor.numpy().astype(kind), device=A.device))

    def _product(self, x: array, y: array, z: array, scratch: array, alpha: Any, beta: Any) -> None:
        launch(kernels.solve_with_factor, 1, [*self._factor, x, y, z, scratch, alpha, beta])


class FSAI(_Factored):
    """The preconditioner ``G^T G`` with a sparse factor G of the inverse, which is chosen row by row.

    It is applied by two sparse products, without a solution by rows. The support of a row begins with the row itself
    and grows by neighbours in the lower triangle whose residual is largest.

    Parameters
    ----------
    A : BsrMatrix
        A symmetric, positive definite matrix with both triangles stored.
    max_row_size : int, optional
        Most entries of a row of G, 1 to 64; with 1 it is the diagonal.
    kap_tolerance : float, optional
        A row stops to grow where that lowers its energy by no larger part than this; with 0 it does not.
    pivot_floor : float, optional
        The least pivot, of a matrix with ones on the diagonal: a row stops before a smaller one.
    factor_dtype : type, optional
        The type of the entries of G: that of the matrix, or float32 for one of float64.
    reuse_pattern : bool, optional
        Whether :meth:`update` may be called.
    max_step_size : int, optional
        How many entries a row gets at once, 1 to 64.
    regularize_refit : bool, optional
        Whether :meth:`update` computes all rows that it can, instead of keeping the old factor if one fails: a pivot of
        at most `pivot_floor` is raised to that, and a row without a factor becomes its entry on the diagonal.
    defer_pattern : bool, optional
        Whether only the shape of the matrix is looked at now, and the first :meth:`update` chooses the rows; until then
        the preconditioner is the identity. It needs `reuse_pattern`.
    validate_topology : bool, optional
        Whether :meth:`update` looks whether the matrix has the same pattern.

    Attributes
    ----------
    G, GT : BsrMatrix
        The factor, and its transposed.
    truncated_rows : int or None
        The number of rows that ended with a pivot that was too small; None with `defer_pattern`.
    source : BsrMatrix
        The matrix.
    pattern_ready, pattern_status : array or None
        With `defer_pattern`: 1 when the rows have been chosen, and three numbers, of which the second one is that of
        rows that ended with a pivot that was too small.
    update_status : array or None
        After an update that took place four numbers: 0, and with `regularize_refit` those of unusable entries on the
        diagonal, of rows without a factor, and of rows with a pivot that was raised.

    Raises
    ------
    TypeError
        If the matrix has no floats.
    ValueError
        If it is not square, a number on its diagonal is not positive, an option is none, or G has a number that is none
        in its type.
    """

    def __init__(
        self,
        A: BsrMatrix,
        max_row_size: int = 8,
        kap_tolerance: float = 1e-3,
        pivot_floor: float | None = None,
        factor_dtype: Any = None,
        reuse_pattern: bool = False,
        max_step_size: int = 1,
        regularize_refit: bool = False,
        validate_topology: bool = True,
        defer_pattern: bool = False,
    ) -> None:
        scalar = _check(A, "FSAI")
        floor = _FLOORS[scalar] if pivot_floor is None else float(pivot_floor)
        stored = scalar if factor_dtype is None else resolve_dtype(factor_dtype)
        _check_options(max_row_size, max_step_size, kap_tolerance, floor)
        if not isinstance(stored, Scalar) or (stored != scalar and (scalar, stored) != (FLOAT64, FLOAT32)):
            raise ValueError("factor_dtype is the type of the numbers of the matrix, or float32 for those of float64")
        if defer_pattern and not reuse_pattern:
            raise ValueError("with defer_pattern an update chooses the rows of FSAI: pass reuse_pattern=True as well")
        if reuse_pattern and A.row_counts is not None:
            raise ValueError("FSAI keeps patterns of rows without gaps between them: call bsr_compress before")
        self.max_row_size, self.max_step_size = max_row_size, max_step_size
        self.source, self.factor_dtype = A, SCALARS[stored.name]
        self._rows, self._validates, self._reuses = _rows_of(A), validate_topology, reuse_pattern
        self._kind = np.dtype(self.factor_dtype.numpy)
        self._limits, self._regularizes = (max_row_size, max_step_size, kap_tolerance, floor), regularize_refit
        self.pattern_ready = self.pattern_status = self.truncated_rows = None
        self.update_status = array(np.zeros(4, np.int32), device=A.device) if reuse_pattern else None
        if defer_pattern:
            self.pattern_ready, self.pattern_status = (array(np.zeros(k, np.int32), device=A.device) for k in (1, 3))
            self.G, self.GT = (bsr_identity(A.shape[0], self.factor_dtype, A.device) for _ in range(2))
            for made in (
                self.G,
                self.GT,
            ):  # a recording made before keeps its arrays
                made.notify_nnz_changed(A.shape[0], A.shape[0] * max_row_size)
        else:
            self.truncated_rows = self._choose(_numbers(A, self._rows[2]))[0]
        super().__init__(A, scalar)

    def _choose(self, values: Any) -> tuple[int, int]:
        """Choose the rows of the factor; returns how many ended with a small pivot, and how many had no diagonal."""
        offsets, columns, _ = self._rows
        values, diagonal, unusable = self._usable(offsets, columns, values, self.pattern_ready is not None)
        scale = 1.0 / np.sqrt(diagonal)
        pattern, found, sizes, rejected = _grown(self.source, offsets, columns, values, scale, *self._limits)
        held = None if self.pattern_ready is None else (self.G, self.GT)
        self._take_pattern(pattern, sizes)
        numbers = found / np.sqrt(found[:, :1]) * scale[np.maximum(pattern, 0)]
        try:
            self._store(numbers[self._mask][self._order])
            for old, new in zip(held or (), (self.G, self.GT), strict=bool(held)):
                old.offsets.assign(new.offsets)
                for name in ("columns", "values"):
                    made = getattr(new, name)
                    getattr(old, name)[: made.size].assign(made)
        finally:
            if held is not None:
                self.G, self.GT = held
        return int(rejected.sum()), unusable

    def _usable(self, offsets: Any, columns: Any, values: Any, is_update: bool) -> tuple[Any, Any, int]:
        """Return the values, the diagonal, and how many of its entries are none that a factor could have.

        With ``regularize_refit`` an update takes their rows for those of an identity.
        """
        if not (self._regularizes and is_update):
            return values, _diagonal_of(offsets, columns, values, "FSAI"), 0
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        diagonal, wrong = _diagonal(offsets, columns, values)
        excluded, on_diagonal = wrong[rows] | wrong[columns], rows == columns
        values = np.where(excluded, np.where(on_diagonal, 1.0, 0.0), values)
        return values, np.where(wrong, 1.0, diagonal), int(wrong.sum())

    def _take_pattern(self, pattern: Any, sizes: Any) -> None:
        """Make G and its transposed with the pattern that was found, sorted."""
        n, device = len(sizes), self.source.device
        self._mask = np.arange(self.max_row_size) < sizes[:, None]
        places, columns = np.repeat(np.arange(n), sizes), pattern[self._mask]
        self._order, self._chosen = np.lexsort((columns, places)), columns
        self._support = places, columns[self._order]
        # Numbered, so that the transposed tells where each has gone.
        numbers = np.arange(1.0, len(places) + 1.0), np.ones(len(places), self._kind)
        rows, found = (array(a.astype(np.int32), device=device) for a in self._support)
        with no_grad():
            counted, self.G = (
                bsr_from_triplets(n, n, rows, found, array(values, device=device), prune_numerical_zeros=False)
                for values in numbers
            )
            self.GT = bsr_transposed(self.G)
            self._turned = np.rint(bsr_transposed(counted).values.numpy()[: len(places)]).astype(np.int64) - 1

    def _store(self, numbers: Any) -> None:
        """Store the numbers of the factor, in the order of its rows; raise unless they are a factor."""
        rows, columns = self._support
        with np.errstate(over="ignore"):
            rounded = numbers.astype(self._kind)
        if not (np.isfinite(rounded).all() and (rounded[rows == columns] > 0).all()):
            raise ValueError("the factor of FSAI has entries that its type cannot hold")
        for matrix, held in ((self.G, rounded), (self.GT, rounded[self._turned])):
            whole = np.zeros(matrix.values.shape, self._kind)
            whole[: len(held)] = held
            matrix.values.assign(whole)

    def update(self, A: BsrMatrix | None = None) -> FSAI:
        """Compute the factor of a matrix with other values, with the pattern that was chosen before.

        Parameters
        ----------
        A : BsrMatrix, optional
            A matrix with the pattern of the first one; by default that.

        Returns
        -------
        FSAI
            This preconditioner.

        Raises
        ------
        ValueError
            If it was made without ``reuse_pattern``, or the matrix has another pattern or is not positive definite: the
            factor stays what it was then.
        """
        if not self._reuses:
            raise ValueError("this FSAI has kept no pattern to update: make it with reuse_pattern=True")
        A = self.source if A is None else A
        if not isinstance(A, BsrMatrix):
            raise ValueError("FSAI is updated to a sparse matrix")
        if A.shape != self.source.shape or A.dtype != self.source.dtype or A.device != self.source.device:
            raise ValueError("FSAI was made for a matrix of another shape, type or device: make another one")
        rows = _rows_of(A) if self._validates else self._rows
        if not all(np.array_equal(a, b) for a, b in zip(rows[:2], self._rows[:2], strict=True)):
            raise ValueError("FSAI was made for a matrix of another pattern: make another one")
        self._renew(rows, _numbers(A, rows[2]))
        self.source = A
        return self

    def _renew(self, rows: tuple[Any, Any, Any], values: Any) -> None:
        """Store the factor of other values, and what is to be said of it."""
        assert self.update_status is not None
        if self.pattern_ready is not None and not self.pattern_ready.numpy()[0]:
            assert self.pattern_status is not None
            ended, unusable = self._choose(values)
            self.pattern_ready.fill_(1)
            self.pattern_status.assign(np.array([0, ended, 0], np.int32))
            self.update_status.assign(np.array([0, unusable, unusable, 0], np.int32))
            return
        found, status = self._refitted(*rows[:2], values)
        self._store(found)
        self.update_status.assign(np.array(status, np.int32))

    def _refitted(self, offsets: Any, columns: Any, values: Any) -> tuple[Any, list[int]]:
        """Return the numbers of the factor for other values, in the order of its rows, and the status."""
        n = len(offsets) - 1
        diagonal, wrong = _diagonal(offsets, columns, values)
        if wrong.any() and not self._regularizes:
            raise ValueError(_REFUSED)
        scale = 1.0 / np.sqrt(np.where(wrong, 1.0, diagonal))
        rows = np.repeat(np.arange(n), np.diff(offsets))
        keys, scaled = rows * n + columns, values * scale[rows] * scale[columns]
        sizes = np.bincount(self._support[0], minlength=n)
        begins = np.cumsum(sizes) - sizes
        found, failed, raised = np.zeros(len(self._chosen)), 0, 0
        # Rows with supports of one size are solved together. The row itself is the first of its support.
        for size in np.unique(sizes):
            own = begins[sizes == size][:, None] + np.arange(size)
            support = self._chosen[own]
            wanted = support[:, :, None] * n + support[:, None, :]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            local = np.where(keys[place] == wanted, scaled[place], 0.0)
            numbers, none, some = _solved(local, self._limits[3] if self._regularizes else None)
            none |= wrong[support[:, 0]]
            numbers[none] = np.arange(size) == 0
            found[own] = numbers * scale[support]
            failed, raised = failed + int(none.sum()), raised + int((some & ~none).sum())
        return found[self._order], [0, int(wrong.sum()), failed, raised]

    def _product(self, x: array, y: array, z: array, scratch: array, alpha: Any, beta: Any) -> None:
        n, g, t = self.shape[0], self.G, self.GT
        launch(kernels.factor_times, n, [g.offsets, g.columns, g.values, x, scratch])
        launch(kernels.factor_times_and_add, n, [t.offsets, t.columns, t.values, scratch, y, z, alpha, beta])


def _solved(local: Any, floor: float | None) -> tuple[Any, Any, Any]:
    """Return rows of the factor of an inverse, which have no factor, and which have a pivot that was raised.

    Without a floor to raise pivots to, a matrix that is not positive definite is an error.
    """
    count, size, _ = local.shape
    none, raised = np.zeros(count, bool), np.zeros(count, bool)
    if floor is None:
        try:
            lower = np.linalg.cholesky(local)
        except np.linalg.LinAlgError:
            raise ValueError(_REFUSED) from None
    else:
        lower = np.zeros_like(local)
        with np.errstate(invalid="ignore", over="ignore"):
            for p in range(size):
                rest = local[:, p:, p] - np.einsum("rij,rj->ri", lower[:, p:, :p], lower[:, p, :p])
                pivot = rest[:, 0].copy()
                none |= ~np.isfinite(pivot)
                small = pivot <= floor
                raised |= small
                pivot[small | none] = floor
                lower[:, p:, p] = rest / np.sqrt(pivot)[:, None]
                lower[:, p, p] = np.sqrt(pivot)
        lower[none] = np.eye(size)
    unit = np.zeros((count, size, 1))
    unit[:, 0] = 1.0
    solution = np.linalg.solve(lower.swapaxes(1, 2), np.linalg.solve(lower, unit))[:, :, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        numbers = solution / np.sqrt(solution[:, :1])
    if floor is not None:
        none |= ~np.isfinite(numbers).all(1) | ~(numbers[:, 0] > 0)
    return numbers, none, raised


def _check_options(width: Any, step: Any, tolerance: float, floor: float) -> None:
    for name, value in (("max_row_size", width), ("max_step_size", step)):
        if not isinstance(value, int) or not 1 <= value <= 64:
            raise ValueError(f"{name} is an integer from 1 to 64, not {value!r}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"kap_tolerance is at least 0 and less than 1, not {tolerance!r}")
    if not 0 < floor < 1:
        raise ValueError(f"pivot_floor is more than 0 and less than 1, not {floor!r}")


def _grown(
    A: BsrMatrix, offsets: Any, columns: Any, values: Any, scale: Any, width: int, step: int, tolerance: float,
    floor: float,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Return for each row the columns and the solution, the size of its support, and whether a pivot ended it."""
    n = A.shape[0]
    batch = max(1, min(n, _WORK // width**2))
    given = [array(a, device=A.device) for a in (offsets.astype(np.int32), columns.astype(np.int32), values, scale)]
    work = functools.partial(zeros, device=A.device)
    integer, real = SCALARS["int32"], SCALARS["float64"]
    own = [
        work((batch, width), dtype=integer), work((batch, step), dtype=integer), work((batch, step), dtype=real),
        work((batch, width, width), dtype=real), *(work((batch, width), dtype=real) for _ in range(3)),
        work(batch, dtype=integer), work(batch, dtype=integer),
    ]  # fmt: skip
    pattern, _, _, _, z, _, _, sizes, rejected = own
    found: list[list[Any]] = [[np.zeros((0, width), np.int64)], [np.zeros((0, width))], [], []]
    for first in range(0, n, batch):
        count = min(batch, n - first)
        rejected.zero_()
        launch(kernels.grow_rows, count, [np.int32(first), *given, step, tolerance, floor, *own])
        for goal, held in zip(found, (pattern, z, sizes, rejected), strict=True):
            goal.append(held.numpy()[:count].copy())
    whole = [np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in found]
    return whole[0], whole[1], whole[2], whole[3]
