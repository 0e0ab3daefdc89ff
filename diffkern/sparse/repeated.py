"""Products of a matrix with the same vectors, again: what a small one takes longer for is not to multiply.

Which kernel multiplies, whether the vectors fit, and the bytes that the kernel takes of all arguments depend on the
arrays, by what kernels take for them, and on numbers. A matrix keeps launches by these as long as it has the arrays
that it had.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.plain_launch import Prepared, prepared
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.sparse.matrix import BsrMatrix

__all__ = ["note_product", "repeated"]

_NUMBERS: Final = frozenset((float, int))
_KEPT: Final = 8
"""The most products that a matrix keeps launches of."""


class _Product:
    """A product that was seen: with what kernels take for the vectors, which tells them from any later ones."""

    __slots__ = ("is_cleared", "launch", "packed")

    def __init__(self, packed: tuple[bytes, bytes], is_cleared: bool) -> None:
        self.packed, self.is_cleared = packed, is_cleared
        self.launch: Prepared | None = None


class _Products:
    """The products of a matrix with some arrays.

    Attributes
    ----------
    offsets, columns, values : bytes
        What kernels take for the arrays.
    nrow, ncol : int
        The extents.
    of : dict
        The products, by the ids of the bytes for the vectors, which a product holds, and the numbers.
    """

    __slots__ = ("columns", "ncol", "nrow", "of", "offsets", "values")

    def __init__(self, matrix: BsrMatrix) -> None:
        self.offsets, self.columns = matrix.offsets._packed, matrix.columns._packed
        self.values, self.nrow, self.ncol = matrix.values._packed, matrix.nrow, matrix.ncol
        self.of: dict[tuple[Any, ...], _Product] = {}

    def is_of(self, matrix: BsrMatrix) -> bool:
        """Return whether the matrix has the arrays and the extents that it had."""
        return (
            matrix.values._packed is self.values
            and matrix.columns._packed is self.columns
            and matrix.offsets._packed is self.offsets
            and matrix.nrow == self.nrow
            and matrix.ncol == self.ncol
            and matrix.row_counts is None
        )


def repeated(matrix: BsrMatrix, x: array, y: array, alpha: Any, beta: Any, transpose: bool) -> bool:
    """Compute a product into `y` as it was computed before; False if it was not, and nothing was done."""
    if slow_path_flags.word[0] or type(alpha) not in _NUMBERS or type(beta) not in _NUMBERS:
        return False
    if type(x) is not array or type(y) is not array:
        return False
    held: _Products | None = vars(matrix).get("_products")
    if held is None or not held.is_of(matrix):
        return False
    found = held.of.get((id(x._packed), id(y._packed), alpha, beta, transpose))
    if found is None or found.launch is None:
        return False
    if found.is_cleared:
        y.zero_()
    return found.launch.run(y)


def note_product(
    matrix: BsrMatrix, x: array, y: array, numbers: tuple[Any, Any, bool], kernel: Kernel, dim: int, inputs: list[Any]
) -> None:
    """Keep the launch of a product that has been computed, if that is the second time.

    Parameters
    ----------
    matrix : BsrMatrix
        The matrix.
    x, y : array
        The vectors as they were given.
    numbers : tuple
        Both factors, and whether the matrix is transposed.
    kernel, dim, inputs
        What was launched.
    """
    alpha, beta, transpose = numbers
    if slow_path_flags.word[0] or matrix.row_counts is not None or not {type(alpha), type(beta)} <= _NUMBERS:
        return
    # `y` times a factor is another launch.
    if transpose and beta != 0.0:
        return
    held: _Products | None = vars(matrix).get("_products")
    if held is None or not held.is_of(matrix):
        held = vars(matrix)["_products"] = _Products(matrix)
    key = id(x._packed), id(y._packed), alpha, beta, transpose
    found = held.of.get(key)
    if found is not None:
        found.launch = prepared(kernel, dim, inputs)
        return
    if len(held.of) >= _KEPT:
        held.of.clear()
    held.of[key] = _Product((x._packed, y._packed), transpose)
