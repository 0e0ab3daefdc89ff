"""Sums and multiples of sparse matrices."""

from __future__ import annotations

from typing import Any

from diffkern.ir.types import INT64
from diffkern.runtime.arrays.array import new
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse import value_kernels as values_of
from diffkern.sparse.assembly import bsr_set_zero, bsr_zeros
from diffkern.sparse.matrix import BsrMatrix, MatrixLike, as_factor, split
from diffkern.sparse.patterns import Contributions, checked, place, prefix_sums, target
from diffkern.sparse.storage import integers, new_values

__all__ = ["added", "bsr_axpy", "bsr_axpy_work_arrays", "bsr_scale"]


class bsr_axpy_work_arrays:
    """Accepted by :func:`bsr_axpy`, which allocates its arrays from a pool."""


def bsr_scale(x: MatrixLike, alpha: Any) -> BsrMatrix:
    """Multiply a matrix by a number: ``x := alpha * x``.

    Parameters
    ----------
    x : BsrMatrix or expression
        The matrix, which is changed.
    alpha : float
        The number. With 0 the blocks stay, as zeros.

    Returns
    -------
    BsrMatrix
        The matrix.
    """
    matrix, factor = split(x)
    alpha = alpha * factor
    if alpha != 1.0 and matrix.nnz:
        if alpha == 0.0:
            matrix.values.zero_()
        else:
            old = matrix.values
            out = target(matrix, matrix.nnz, bool(old.requires_grad), *((old,) if old.requires_grad else ()))
            launch(values_of.scale_values, dim=matrix.nnz, inputs=[old, as_factor(alpha, matrix), out])
            matrix.values = out
    return matrix


def bsr_axpy(
    x: MatrixLike,
    y: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    work_arrays: bsr_axpy_work_arrays | None = None,
    topology: str | None = None,
) -> BsrMatrix:
    """Add two matrices, each times a number: ``y := alpha * x + beta * y``.

    Parameters
    ----------
    x : BsrMatrix or expression
        The first matrix.
    y : BsrMatrix, optional
        The second one, which takes the sum; a new matrix takes ``alpha * x`` without it. It may be `x`.
    alpha, beta : float, optional
        The numbers.
    work_arrays : bsr_axpy_work_arrays, optional
        Accepted, with no effect.
    topology : str, optional
        ``"compact"``; ``"masked"`` leaves out what is not in the pattern of `y`; ``"padded"`` uses the room of its
        rows.

    Returns
    -------
    BsrMatrix
        The matrix `y`.

    Raises
    ------
    ValueError
        If types, extents or devices differ.
    """
    x, factor = split(x)
    alpha = alpha * factor
    topology = checked(topology)
    if y is None:
        if topology != "compact":
            raise ValueError(f"topology={topology!r} is about the pattern of y: pass a matrix")
        y = bsr_zeros(x.nrow, x.ncol, x.dtype, x.device)
        y.values._speak(x.values.in_warps_dialect)
        beta = 0.0
    _check(x, y)
    if x is y:
        return bsr_scale(y, alpha + beta)
    if topology == "compact" and (alpha == 0.0 or not x.nnz) and beta != 0.0:
        return bsr_scale(y, beta)
    _add(x, y, alpha, beta, y, topology)
    return y


def added(x: MatrixLike, y: MatrixLike, sign: float = 1.0, sign2: float = 1.0) -> BsrMatrix:
    """Return the sum of two matrices, each times a sign, as a new matrix: the operators ``+`` and ``-``."""
    (x, alpha), (y, beta) = split(x), split(y)
    _check(x, y)
    made = bsr_zeros(x.nrow, x.ncol, x.dtype, x.device)
    made.values._speak(x.values.in_warps_dialect)
    _add(x, y, alpha * sign, beta * sign2, made, "compact")
    return made


def _add(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any, dest: BsrMatrix, topology: str) -> None:
    """Let a matrix, which may be one of the two, be their sum."""
    # A factor of zero drops the blocks of its matrix, so that they may have any values.
    of_x, of_y = (alpha != 0.0 or beta == 0.0) and x.nnz > 0, beta != 0.0 and y.nnz > 0
    base = y.nnz if of_y else 0
    room = base + (x.nnz if of_x else 0)
    if not room:
        bsr_set_zero(dest, topology=topology)
        return
    n = x.nrow
    xs, xe, _ = x._rows()
    ys, ye, _ = y._rows()
    lists = [ys, ye if of_y else ys, y.columns, xs, xe if of_x else xs, x.columns]
    counts, starts = integers(n, y), integers(n + 1, y)
    launch(kernels.count_both, dim=n, inputs=[*lists[:2], *lists[3:5], counts])
    prefix_sums(counts, starts, n)
    keys = new((room,), INT64, False, y.values._memory.device)
    launch(kernels.list_both, dim=n, inputs=[*lists, base, starts, keys])
    of_both = x.values, y.values
    placed = place(Contributions(starts, keys, n), dest, x.ncol, topology)
    out = target(dest, placed.count, any(one.requires_grad for one in of_both), *of_both)
    if alpha == 0.0 and beta == 0.0:  # times zero a NaN would stay
        out.zero_()
        dest.values = out
        return
    # Of a matrix without blocks an array of one element is passed, which is not read.
    x_values, y_values = (v if v.size else new_values(1, v._element, v, False) for v in of_both)
    factors = [y_values, as_factor(beta, x), x_values, as_factor(alpha, x), out]
    launch(values_of.combine, dim=placed.count, inputs=[placed.first, placed.last, placed.order, base, *factors])
    dest.values = out


def _check(x: BsrMatrix, y: BsrMatrix) -> None:
    if x.device is not y.device:
        raise ValueError(f"both matrices must be on the same device, not {x.device} and {y.device}")
    if x.values._element != y.values._element:
        raise ValueError(f"Matrices must have the same block type, not {x.values._element} and {y.values._element}")
    if (x.nrow, x.ncol) != (y.nrow, y.ncol):
        raise ValueError(
            f"Matrices must have the same number of rows and columns, not {x.nrow} x {x.ncol} and {y.nrow} x {y.ncol}"
        )
