"""Sums and multiples of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.types import INT64
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse import row_kernels
from diffkern.sparse import value_kernels as values_of
from diffkern.sparse.assembly import bsr_set_zero
from diffkern.sparse.matrix import (
    BsrMatrix,
    MatrixLike,
    as_factor,
    checked_factor,
    compact_matrix,
    empty_matrix,
    split,
)
from diffkern.sparse.patterns import (
    Contributions,
    Placed,
    checked,
    place,
    prefix_sums,
    set_pattern,
    set_row_lengths,
    target,
)
from diffkern.sparse.serial import ALONE, is_serial, merged, summed
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
    checked_factor(alpha)
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
        rows. The arrays of `y` may be written or replaced: give another matrix its own with :func:`bsr_copy`.

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
    for number in (alpha, beta):
        checked_factor(number)
    alpha = alpha * factor
    topology = checked(topology)
    if y is None:
        if topology != "compact":
            raise ValueError(f"topology={topology!r} is about the pattern of y: pass a matrix")
        y = empty_matrix(x.nrow, x.ncol, new_values(0, x.values._element, x.values, False))
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
    alpha, beta = alpha * sign, beta * sign2
    if (found := _at_once(x, y, alpha, beta, "compact")) is not None:
        offsets, columns, values, count = found
        return compact_matrix(x.nrow, x.ncol, count, offsets, columns, values)
    made = empty_matrix(x.nrow, x.ncol, new_values(0, x.values._element, x.values, False))
    _add(x, y, alpha, beta, made, "compact")
    return made


def _used(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any) -> tuple[bool, bool]:
    """Return which of two matrices have blocks in their sum."""
    # A factor of zero drops the blocks of its matrix, so that they may have any values.
    return (alpha != 0.0 or beta == 0.0) and x.nnz > 0, beta != 0.0 and y.nnz > 0


def _at_once(
    x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any, topology: str
) -> tuple[array, array, array, int] | None:
    """Return offsets, columns, values and count of a sum that nothing observes, or None."""
    if slow_path_flags.word[0] or topology != "compact" or not is_serial(x, gain=7) or (alpha == 0.0 and beta == 0.0):
        return None
    of_x, of_y = _used(x, y, alpha, beta)
    if not (of_x or of_y) or not (x.values.size and y.values.size):
        return None
    found = summed(x, y, of_x, of_y, as_factor(beta, x), as_factor(alpha, x))
    if found is not None and (x.values.requires_grad or y.values.requires_grad):
        found[2].requires_grad = True
    return found


def _added_into(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any) -> bool:
    """Let a padded matrix become a sum in its own memory, if nothing observes that; else return False.

    All rows have to be strictly ascending.
    """
    if slow_path_flags.word[0] or not x.device.is_cpu or will_replay() or not x.nrow or (alpha == 0.0 and beta == 0.0):
        return False
    own, given = (y.values, y.columns), (x.values, x.columns)
    if y.values.requires_grad or x.values.requires_grad or min(one.size for one in own) < y.nnz:
        return False
    if any(np.may_share_memory(one._data, other._data) for one in own for other in given):
        return False
    of_x, of_y = _used(x, y, alpha, beta)
    set_row_lengths(y)
    (xs, xe, _), (ys, ye, _) = x._rows(), y._rows()
    pattern, more = [ys, ye if of_y else ys, y.columns], [xs, xe if of_x else xs, x.columns]
    counts, unordered = integers(x.nrow, y), integers(1, y, zero=True)
    launch(row_kernels.count_merged, dim=x.nrow, inputs=[*pattern, *more, counts, unordered])
    if unordered._data[0]:
        return False
    factors = [as_factor(beta, x), x.values, as_factor(alpha, x)]
    out = [y.row_counts, y.values, y._ensure_status()]
    launch(row_kernels.add_into_rows, dim=x.nrow, inputs=[*pattern, ye, *more, *factors, counts, *out])
    y._note_pattern()
    return True


def _add(x: BsrMatrix, y: BsrMatrix, alpha: Any, beta: Any, dest: BsrMatrix, topology: str) -> None:
    """Let a matrix, which may be one of the two, be their sum."""
    of_x, of_y = _used(x, y, alpha, beta)
    if not (of_x or of_y):
        bsr_set_zero(dest, topology=topology)
        return
    if dest is y and (at_once := _at_once(x, y, alpha, beta, topology)) is not None:
        offsets, columns, dest.values, count = at_once
        set_pattern(dest, x.nrow, x.ncol, count, offsets, columns)
        return
    if dest is y and topology == "padded" and _added_into(x, y, alpha, beta):
        return
    if topology == "compact" and is_serial(x, gain=7) and (found := merged(x, y, of_x, of_y)) is not None:
        set_pattern(dest, x.nrow, x.ncol, found.count, found.offsets, found.columns)
        where, kernel, count = [found.left, found.right, ALONE], values_of.combine_merged, found.count
    else:
        base = y.nnz if of_y else 0  # looked up now, as the sum may get a pattern in the place of y's
        placed = _placed_sum(x, y, of_x, base, dest, topology)
        where, kernel, count = [placed.first, placed.last, placed.order, base], values_of.combine, placed.count
    of_both = x.values, y.values
    out = target(dest, count, any(one.requires_grad for one in of_both), *of_both)
    if alpha == 0.0 and beta == 0.0:  # times zero a NaN would stay
        out.zero_()
        dest.values = out
        return
    # Of a matrix without blocks an array of one element is passed, which is not read.
    x_values, y_values = (v if v.size else new_values(1, v._element, v, False) for v in of_both)
    factors = [y_values, as_factor(beta, x), x_values, as_factor(alpha, x), out]
    launch(kernel, dim=count, inputs=[*where, *factors])
    dest.values = out


def _placed_sum(x: BsrMatrix, y: BsrMatrix, of_x: bool, base: int, dest: BsrMatrix, topology: str) -> Placed:
    """Give a matrix the pattern of a sum by sorting.

    The blocks of `x` are numbered from `base`, the count of those of `y`; with 0 these are not in the sum.
    """
    n = x.nrow
    room = base + (x.nnz if of_x else 0)
    xs, xe, _ = x._rows()
    ys, ye, _ = y._rows()
    lists = [ys, ye if base else ys, y.columns, xs, xe if of_x else xs, x.columns]
    counts, starts = integers(n, y), integers(n + 1, y)
    launch(kernels.count_both, dim=n, inputs=[*lists[:2], *lists[3:5], counts])
    prefix_sums(counts, starts, n)
    keys = new((room,), INT64, False, y.values._memory.device)
    launch(kernels.list_both, dim=n, inputs=[*lists, base, starts, keys])
    return place(Contributions(starts, keys, n), dest, x.ncol, topology)


def _check(x: BsrMatrix, y: BsrMatrix) -> None:
    if x.device is not y.device:
        raise ValueError(f"both matrices must be on the same device, not {x.device} and {y.device}")
    if x.values._element != y.values._element:
        raise ValueError(f"Matrices must have the same block type, not {x.values._element} and {y.values._element}")
    if (x.nrow, x.ncol) != (y.nrow, y.ncol):
        raise ValueError(
            f"Matrices must have the same number of rows and columns, not {x.nrow} x {x.ncol} and {y.nrow} x {y.ncol}"
        )
