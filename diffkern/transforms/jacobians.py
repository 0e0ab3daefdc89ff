"""Whole Jacobians and Hessians of functions that launch kernels, as NumPy arrays.

The input is a function of an array, the array, and the sparsity pattern of the result if it is known. The matrix is
computed from one directional derivative for each column, row, or group of structurally orthogonal ones. The function is
called once for each direction, so it has to do the same each time; the array is restored if it overwrites that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.effects.function_tape import FunctionTape
from diffkern.runtime.effects.unchanged import Unchanged
from diffkern.transforms.higher import hvp, jvp
from diffkern.transforms.kept_solutions import KeptSolutions
from diffkern.transforms.sparsity import colours, find, is_whole

__all__ = ["hessian", "jacobian"]

Function = Callable[..., Any]
Numbers = np.ndarray[Any, Any]


@brief
def jacobian(
    function: Function,
    x: array,
    *,
    mode: Literal["forward", "reverse"] | None = None,
    sparsity: Any = None,
) -> Numbers:
    """Return the Jacobian of a function of one array, in NumPy's numbers.

    Parameters
    ----------
    function : callable
        A function of an array that returns an array.
    x : array
        Where. Its gradient is not changed, and its contents are restored if the function overwrites them.
    mode : {"forward", "reverse"}, optional
        Column by column, or row by row; by default what takes fewer sweeps.
    sparsity : array_like of bool or "find", optional
        Where the Jacobian may differ from 0, a matrix with a row for each number of the result and a column for each
        number of `x`. Columns (rows) without a common row (column) are computed together. ``"find"`` finds that out by
        sweeps along NaN, compares a product with the matrix that is found, and computes all columns if they differ.

    Returns
    -------
    ndarray
        Its shape is that of the result followed by that of `x`, as ``numpy()`` has them.

    Raises
    ------
    MisuseError
        If the function returns anything but an array, or `sparsity` has another number of columns than `x` numbers.
    """
    with _Start(x) as start:
        return _jacobian(_Matrix(function, x, start), mode, sparsity)


def _jacobian(given: _Matrix, mode: Literal["forward", "reverse"] | None, sparsity: Any) -> Numbers:
    """Return the Jacobian of a function at an array."""
    is_found = isinstance(sparsity, str)
    if is_found:
        _check(sparsity)
        pattern = given.found(mode)
    elif sparsity is None:
        return given.whole(mode)
    else:
        pattern = np.asarray(sparsity, bool)
    if pattern.ndim != 2 or pattern.shape[1] != given.columns:
        raise MisuseError(
            f"sparsity has a column for each of the {given.columns} numbers of x, not the shape {pattern.shape}",
            remedy="make the pattern with a row for each result and a column for each number of x",
        )
    matrix = given.by_pattern(pattern, mode)
    # A pattern found at one point may miss entries that depend on a branch, or that are infinite: the product shows it.
    return given.whole(mode) if is_found and not given.is_whole(matrix.reshape(pattern.shape), mode) else matrix


def _only(result: Any) -> array:
    """Return the result of a function if it is an array."""
    if not isinstance(result, array):
        raise MisuseError(
            f"dk.jacobian is of a function that returns an array, not {described(result)}",
            remedy="return one array; that of an indexed array is its contiguous()",
        )
    return result


def _check(sparsity: str) -> None:
    if sparsity != "find":
        raise MisuseError(f"sparsity is a matrix of booleans or 'find', not {sparsity!r}", remedy="write 'find'")


class _Start:
    """The contents of an array before a function is called, for each of several calls and behind them.

    Parameters
    ----------
    x : array
        The array.
    """

    def __init__(self, x: array) -> None:
        self._x, self._contents, self._unchanged = x, clone(x), Unchanged((x,))

    def __enter__(self) -> _Start:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Restore the array if it was written to, by launches or through NumPy."""
        # Not otherwise: it may be read-only, and others count what is written to their memory.
        if self._unchanged.changed() is not None:
            copy(self._x, self._contents)
            self._unchanged = Unchanged((self._x,))


class _Matrix:
    """The Jacobian of a function at an array."""

    def __init__(self, function: Function, x: array, start: _Start) -> None:
        self.function, self.x, self._start = function, x, start
        self.columns = x._data.size
        self._solutions = KeptSolutions()
        self._result: array | None = None
        self._taped: tuple[FunctionTape, array] | None = None

    @property
    def result(self) -> array:
        """The result of the function."""
        # The result of a run that was made anyway serves for its shape.
        if self._taped is not None:
            return self._taped[1]
        if self._result is None:
            with self._solutions.call():
                self._result = _only(self.function(self.x))
            self._start.restore()
        return self._result

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is returned to the user."""
        return (*self.result._data.shape, *self.x._data.shape)

    def along(self, direction: Numbers) -> Numbers:
        """Return the change of the result along a direction."""
        # Forward mode runs the function for each direction; reverse mode records it once, and sweeps back for each row.
        way = direction.astype(self.x._data.dtype).reshape(self.x._data.shape)
        with self._solutions.call():
            self._result, change = jvp(self.function, (self.x,), (way,))
        self._start.restore()
        return np.array(change.numpy(), np.float64).reshape(-1)

    def against(self, weights: Numbers) -> Numbers:
        """Return the gradient of the result with weights."""
        if self._taped is None:
            with self._solutions.call(), FunctionTape((self.x,)) as tape:
                self._taped = tape, _only(self.function(self.x))
        tape, result = self._taped
        # A seed is an array like the result, on its device and with its strides.
        seed = result._like()
        seed.assign(weights.astype(seed._data.dtype).reshape(seed._data.shape))
        (gradient,) = tape.gradients((self.x,), [(result, seed)])
        return np.array(gradient.numpy(), np.float64).reshape(-1)

    def is_forward(self, mode: str | None, columns: int, rows: int) -> bool:
        """Return whether columns are computed, by forward mode, rather than rows, by reverse mode."""
        # Forward mode wins a tie, as it needs no tape.
        return columns <= rows if mode is None else mode == "forward"

    def whole(self, mode: str | None) -> Numbers:
        """Return all of it."""
        # The number of rows is known only after a run; that of columns is given.
        rows = self.result._data.size
        if self.is_forward(mode, self.columns, rows):
            found = [self.along(row) for row in np.eye(self.columns)]
            return np.array(found).reshape(self.columns, rows).T.reshape(self.shape)
        return np.array([self.against(row) for row in np.eye(rows)]).reshape(self.shape)

    def found(self, mode: str | None) -> Numbers:
        """Return where it may differ from zero."""
        rows = self.result._data.size
        if self.is_forward(mode, self.columns, rows):
            return find(self.along, rows, self.columns)
        return find(self.against, self.columns, rows).T

    def is_whole(self, matrix: Numbers, mode: str | None) -> bool:
        """Return whether a matrix that was computed by a pattern gives a product as it should."""
        if self.is_forward(mode, self.columns, len(matrix)):
            return is_whole(self.along, matrix)
        return is_whole(self.against, matrix.T)

    def by_pattern(self, pattern: Numbers, mode: str | None) -> Numbers:
        """Return it, computed where a pattern says that it may differ from zero."""
        # Columns of one colour share no row, so each number of their sum belongs to one of them, and the pattern tells
        # which.
        columns, rows = colours(pattern), colours(pattern.T)
        count, other = columns.max(initial=-1) + 1, rows.max(initial=-1) + 1
        matrix = np.zeros(pattern.shape)
        if self.is_forward(mode, count, other):
            for colour in range(count):
                own = columns == colour
                matrix += np.where(pattern & own, self.along(own)[:, None], 0.0)
        else:
            for colour in range(other):
                own = rows == colour
                matrix += np.where(pattern & own[:, None], self.against(own), 0.0)
        return matrix.reshape(self.shape)


@brief
def hessian(function: Function, x: array, *, sparsity: Any = None) -> Numbers:
    """Return the second derivatives of a function of one array, in NumPy's numbers.

    Parameters
    ----------
    function : callable
        A function of an array that returns an array of one element.
    x : array
        Where. Its gradient is not changed, and its contents are restored if the function overwrites them.
    sparsity : array_like of bool or "find", optional
        Where the matrix may differ from 0, with a row and a column for each number of `x`; columns without a common
        row are computed together. ``"find"`` as in :func:`jacobian`.

    Returns
    -------
    ndarray
        Its shape is that of `x` twice, as ``numpy()`` has it.
    """
    with _Start(x) as start:
        return _hessian(function, x, start, sparsity)


def _hessian(function: Function, x: array, start: _Start, sparsity: Any) -> Numbers:
    """Return the Hessian of a function at an array."""
    size, shape, solutions = x._data.size, x._data.shape, KeptSolutions()

    def product(vector: Numbers) -> Numbers:
        # The matrix is symmetric, so products give columns and rows alike.
        with solutions.call():
            (found,) = hvp(function, (x,), (vector.astype(x._data.dtype).reshape(shape),))
        start.restore()
        return np.array(found.numpy(), np.float64).reshape(-1)

    def by_pattern(pattern: Numbers) -> Numbers:
        matrix, columns = np.zeros((size, size)), colours(pattern)
        for colour in range(columns.max(initial=-1) + 1):
            own = columns == colour
            matrix += np.where(pattern & own, product(own)[:, None], 0.0)
        return matrix

    # With a full pattern each column has a colour of its own.
    everywhere = np.ones((size, size), bool)
    is_found = isinstance(sparsity, str)
    if is_found:
        _check(sparsity)
        pattern = find(product, size, size)
    else:
        pattern = everywhere if sparsity is None else np.asarray(sparsity, bool)
    if pattern.shape != (size, size):
        raise MisuseError(
            f"sparsity has the shape {(size, size)}, not {pattern.shape}",
            remedy="make the pattern square, with a row and a column for each number of x",
        )
    matrix = by_pattern(pattern)
    if is_found and not is_whole(product, matrix):
        matrix = by_pattern(everywhere)
    return matrix.reshape(*shape, *shape)
