"""Block-sparse matrices: the class, its storage, and expressions with a factor.

The rows of blocks lie one behind the other in ``columns`` and ``values``; row r starts at ``offsets[r]``. A compact
matrix uses all entries up to ``offsets[r + 1]``, a padded one the first ``row_counts[r]`` of them.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, Final, TypeAlias

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import BOOL, FLOAT32, FLOAT64, INT32, Mat, Scalar, is_differentiable, scalar_of
from diffkern.lang.annotations import ArrayAnnotation, array_annotation
from diffkern.lang.dtypes import SCALARS, resolve_dtype
from diffkern.lang.structs import resolve_type
from diffkern.process.late import (
    SPARSE_AXPY,
    SPARSE_COPY,
    SPARSE_OPERATOR,
    SPARSE_PRECONDITIONER,
    SPARSE_PRODUCT,
    SPARSE_SCALE,
    SPARSE_SUM,
    SPARSE_TRANSPOSED,
    SPARSE_VECTOR,
)
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.structs import declared
from diffkern.runtime.arrays.type_keys import dtype_of
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse.storage import as_parts, block_shape_of, grown, integers, numbers_of, unsigned

__all__ = ["BSR_STATUS_ROW_CAPACITY_EXCEEDED", "BSR_STATUS_SUCCESS", "BsrExpression", "BsrMatrix", "bsr_matrix_t"]

BSR_STATUS_SUCCESS: Final = 0
"""All blocks had room."""
BSR_STATUS_ROW_CAPACITY_EXCEEDED: Final = 1
"""A padded matrix did not get all blocks, since a row has too little room."""


class BsrMatrix:
    """A sparse matrix of blocks, or of numbers, which are blocks of one row and column.

    Functions such as :func:`bsr_zeros` and :func:`bsr_from_triplets` make matrices. A kernel takes one by value: the
    annotation is ``bsr_matrix_t(dtype)``, and the attributes below are its fields. ``A @ x`` with an array is
    :func:`bsr_mv`, ``A @ B`` :func:`bsr_mm`, ``A + B`` and ``A - B`` :func:`bsr_axpy`; ``2.0 * A``, ``A / 2.0`` and
    ``-A`` are expressions, which all these take without a copy.

    Attributes
    ----------
    nrow, ncol : int
        Number of rows and columns of blocks.
    nnz : int
        An upper bound of the number of blocks, known without waiting for the device; see :meth:`nnz_sync`.
    offsets : array of int32
        Where each row begins, and the end of the last; at least ``nrow + 1`` elements.
    row_counts : array of int32 or None
        Number of blocks in each row, of a padded matrix.
    columns : array of int32
        The column of each block, ascending in a row; at least `nnz` elements.
    values : array
        The blocks; at least `nnz` elements.
    """

    nrow: int
    ncol: int
    nnz: int
    offsets: array
    row_counts: array | None
    columns: array
    values: array

    # An operand of NumPy's on the left side leaves operators to the matrix.
    __array_ufunc__ = None

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    @property
    def scalar_type(self) -> Any:
        """The type of the numbers in blocks."""
        return SCALARS[numbers_of(self.values).name]

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return block_shape_of(self.values._element)

    @property
    def block_size(self) -> int:
        """The count of numbers in a block."""
        rows, columns = self.block_shape
        return rows * columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of numbers."""
        rows, columns = self.block_shape
        return self.nrow * rows, self.ncol * columns

    @property
    def dtype(self) -> Any:
        """The type of blocks, a number's or a matrix's."""
        return self.values.dtype

    @property
    def device(self) -> Any:
        """Where the arrays are."""
        return self.offsets.device

    @property
    def requires_grad(self) -> bool:
        """True if the values have a gradient."""
        return bool(self.values.requires_grad)

    @property
    def scalar_values(self) -> array:
        """The values as numbers, of shape (size, rows of a block, columns of a block), over the same memory."""
        return as_parts(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        # The views of unsigned integers would become copies, which no change of the matrix reaches.
        kept = {name: value for name, value in vars(self).items() if name not in ("_unsigned", "_pattern", "_products")}
        return _unpickled, (self.dtype,), kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def _note_pattern(self) -> None:
        """Take note that the pattern is another one now, for maps of triplets, which are for one pattern."""
        vars(self)["_pattern"] = object()

    # -- where rows begin and end --------------------------------------------------------------------------------------

    def _rows(self) -> tuple[array, array, array]:
        """Return where each row begins and ends, and the columns, as unsigned integers."""
        offsets, counts, columns = self.offsets, self.row_counts, self.columns
        known = vars(self).get("_unsigned")
        if known is None or known[0] is not offsets or known[1] is not columns or known[2] != self.nrow:
            starts = unsigned(offsets)
            known = offsets, columns, self.nrow, starts, starts[1 : self.nrow + 1], unsigned(columns)
            vars(self)["_unsigned"] = known
        _, _, n, starts, ends, columns = known
        if counts is not None:
            ends = integers(n, self)
            launch(kernels.row_ends, dim=n, inputs=[offsets, counts, ends])
            ends = unsigned(ends)
        return starts, ends, columns

    def uncompress_rows(self, out: array | None = None) -> array:
        """Write the row of each block.

        Parameters
        ----------
        out : array of int32, optional
            Takes the rows; at least `nnz` elements.

        Returns
        -------
        array of int32
            The rows, and -1 where no block is.

        Raises
        ------
        ValueError
            If `out` has too few elements.
        """
        if out is None:
            out = integers(self.nnz, self)
        elif out.size < self.nnz:
            raise ValueError(f"the rows of {self.nnz} blocks are written, and out has {out.size} elements")
        out[: self.nnz].fill_(-1)
        if self.nnz:
            starts, ends, _ = self._rows()
            launch(kernels.rows_of_blocks, dim=self.nrow, inputs=[starts, ends, out])
        return out

    def nnz_sync(self) -> int:
        """Read the end of the last row from the device, and let :attr:`nnz` be that.

        Of a compact matrix it is the number of blocks, of a padded one the number of blocks that it has room for.

        Returns
        -------
        int
            The number.
        """
        self.nnz = int(self.offsets[self.nrow : self.nrow + 1].numpy()[0])
        return self.nnz

    def copy_nnz_async(self) -> None:
        """Do nothing but warn: :meth:`nnz_sync` reads the number when it is called."""
        warnings.warn(
            "copy_nnz_async is deprecated, as in Warp: call nnz_sync where the number is needed",
            DeprecationWarning,
            stacklevel=2,
        )

    def notify_nnz_changed(self, nnz: int | None = None, nnz_capacity: int | None = None) -> None:
        """Take note that ``offsets`` were changed, and make room for as many blocks.

        Parameters
        ----------
        nnz : int, optional
            The new upper bound of the number of blocks; read from the device if neither argument is given.
        nnz_capacity : int, optional
            The number of blocks to have room for.
        """
        if nnz is None and nnz_capacity is None:
            nnz = self.nnz_sync()
        bound = nnz if nnz is not None else nnz_capacity
        assert bound is not None
        self.nnz = max(bound, nnz_capacity or 0)
        self.columns = grown(self.columns, self.nnz)
        self.values = grown(self.values, self.nnz)

    # -- status --------------------------------------------------------------------------------------------------------

    def _ensure_status(self) -> array:
        status = vars(self).get("_status")
        if status is None or status.device is not self.device:
            status = vars(self)["_status"] = integers(1, self, zero=True)
        return status

    def status_sync(self) -> int:
        """Read whether all operations had room for their blocks; an operation that had does not clear the status.

        Returns
        -------
        int
            ``BSR_STATUS_SUCCESS`` or ``BSR_STATUS_ROW_CAPACITY_EXCEEDED``.
        """
        status = vars(self).get("_status")
        return BSR_STATUS_SUCCESS if status is None else int(status.numpy()[0])

    def status_message(self) -> str:
        """Return :meth:`status_sync` in words."""
        if self.status_sync() == BSR_STATUS_SUCCESS:
            return "all blocks had room"
        return "a row of the padded matrix has too little room for its blocks"

    def clear_status(self) -> None:
        """Set the status to success."""
        if (status := vars(self).get("_status")) is not None:
            status.zero_()

    # -- operators -----------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other)  # type: ignore[no-any-return]

    __radd__ = __add__

    def __iadd__(self, other: Any) -> BsrMatrix:
        return SPARSE_AXPY(other, self)  # type: ignore[no-any-return]

    def __sub__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other, 1.0, -1.0)  # type: ignore[no-any-return]

    def __rsub__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other, -1.0)  # type: ignore[no-any-return]

    def __isub__(self, other: Any) -> BsrMatrix:
        return SPARSE_AXPY(other, self, alpha=-1.0)  # type: ignore[no-any-return]

    def __mul__(self, factor: float) -> BsrExpression:
        return BsrExpression(self, factor)

    def __rmul__(self, factor: float) -> BsrExpression:
        return BsrExpression(self, factor)

    def __imul__(self, factor: float) -> BsrMatrix:
        return SPARSE_SCALE(self, factor)  # type: ignore[no-any-return]

    def __truediv__(self, divisor: float) -> BsrExpression:
        return BsrExpression(self, 1.0 / divisor)

    def __neg__(self) -> BsrExpression:
        return BsrExpression(self, -1.0)

    def __matmul__(self, other: Any) -> Any:
        return (SPARSE_VECTOR if isinstance(other, array) else SPARSE_PRODUCT)(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return SPARSE_VECTOR(self, other, transpose=True) if isinstance(other, array) else SPARSE_PRODUCT(other, self)

    def __imatmul__(self, other: Any) -> BsrMatrix:
        return SPARSE_PRODUCT(self, other, self)  # type: ignore[no-any-return]

    def transpose(self) -> BsrMatrix:
        """Return the transposed matrix, a new one."""
        return SPARSE_TRANSPOSED(self)  # type: ignore[no-any-return]

    def linear_operator(self) -> Any:
        """Return the matrix as an operator for solvers of linear systems, which call this themselves.

        Returns
        -------
        LinearOperator
            Its products read the values that the matrix has then.
        """
        return SPARSE_OPERATOR(self)

    def _preconditioner(self, ptype: str) -> Any:
        """Return a preconditioner with a factor of the matrix, for :func:`diffkern.optim.linear.preconditioner`."""
        return SPARSE_PRECONDITIONER(self, ptype)


class BsrExpression:
    """A sparse matrix times a number, which operations take without computing the product.

    Attributes
    ----------
    mat : BsrMatrix
        The matrix.
    scale : float
        The number.
    """

    __array_ufunc__ = None

    def __init__(self, mat: BsrMatrix, scale: float) -> None:
        self.mat = mat
        self.scale = checked_factor(scale)

    def eval(self) -> BsrMatrix:
        """Return a new matrix with the scaled values."""
        return SPARSE_COPY(self)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_MATRIX:
            return getattr(self.mat, name)
        raise AttributeError(f"a scaled sparse matrix has no attribute {name!r}: call eval() for a matrix")

    def __add__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other)  # type: ignore[no-any-return]

    __radd__ = __add__

    def __sub__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other, 1.0, -1.0)  # type: ignore[no-any-return]

    def __rsub__(self, other: Any) -> BsrMatrix:
        return SPARSE_SUM(self, other, -1.0)  # type: ignore[no-any-return]

    def __mul__(self, factor: float) -> BsrExpression:
        return BsrExpression(self.mat, self.scale * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> BsrExpression:
        return BsrExpression(self.mat, self.scale / divisor)

    def __neg__(self) -> BsrExpression:
        return BsrExpression(self.mat, -self.scale)

    def __matmul__(self, other: Any) -> Any:
        return (SPARSE_VECTOR if isinstance(other, array) else SPARSE_PRODUCT)(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return SPARSE_VECTOR(self, other, transpose=True) if isinstance(other, array) else SPARSE_PRODUCT(other, self)

    def transpose(self) -> BsrExpression:
        """Return the transposed matrix times the number."""
        return BsrExpression(self.mat.transpose(), self.scale)


_OF_THE_MATRIX: Final = frozenset(
    (
        "nrow ncol nnz offsets row_counts columns scalar_type block_shape block_size shape dtype requires_grad device"
    ).split()
)

MatrixLike: TypeAlias = BsrMatrix | BsrExpression


def split(operand: Any) -> tuple[BsrMatrix, float]:
    """Return the matrix and the factor of an operand."""
    if isinstance(operand, BsrMatrix):
        return operand, 1.0
    if isinstance(operand, BsrExpression):
        return operand.mat, operand.scale
    if isinstance(operand, (np.ndarray, list, tuple)):
        raise ValueError(f"{type(operand).__name__} is not a BsrMatrix: make an array with dk.array(…) for a vector")
    raise ValueError(f"{type(operand).__name__} is not a BsrMatrix, nor one times a number")


def checked_factor(factor: Any) -> Any:
    """Return a factor of a matrix, if it is a number of Python's.

    Raises
    ------
    TypeError
        If it is an array or another matrix, with respect to which there would be no derivative.
    """
    if isinstance(factor, (array, BsrMatrix, BsrExpression)) or getattr(factor, "requires_grad", False):
        kind = "a sparse matrix" if hasattr(factor, "nrow") else f"an object of {type(factor).__name__}"
        raise TypeError(
            f"a factor is a number, not {kind}: write @ for a product, and multiply values or vectors in a kernel by "
            "what is in an array, with a derivative"
        )
    return factor


def as_factor(factor: Any, matrix: BsrMatrix) -> Any:
    """Return a factor as a number of the type of a matrix.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If the matrix has integers, and the factor is none.
    """
    scalar = numbers_of(matrix.values)
    # The usual cases first, by identity: the rest takes as long as the product of a small matrix.
    if type(factor) is float:
        if scalar is FLOAT64:
            return np.float64(factor)
        if scalar is FLOAT32:
            return np.float32(factor)
    checked_factor(factor)
    if not is_differentiable(scalar) and factor != int(factor):
        raise ValueError(f"a matrix of {numbers_of(matrix.values)} has integers as factors, not {factor}")
    return matrix.scalar_type(factor)


# -- classes for types of blocks ---------------------------------------------------------------------------------------


def bsr_matrix_t(dtype: Any) -> type[BsrMatrix]:
    """Return the class of matrices with blocks of a type, a struct that kernels take.

    Parameters
    ----------
    dtype : type
        The type of blocks, a number's or a matrix's.

    Returns
    -------
    type
        The class, derived from :class:`BsrMatrix`; the same one at each call.

    Raises
    ------
    ValueError
        If blocks have another type.
    """
    return _class(block_type(dtype))


def _unpickled(dtype: Any) -> BsrMatrix:
    """Return a matrix that gets its fields from a pickle or the matrix that is copied."""
    return object.__new__(bsr_matrix_t(dtype))


def block_type(dtype: Any) -> Scalar | Mat:
    """Return the type of blocks that is meant."""
    try:
        found = resolve_type(dtype)
    except (TypeError, LaunchError):
        found = None
    if not isinstance(found, (Scalar, Mat)) or found == BOOL:
        shown = getattr(dtype, "__name__", dtype)
        raise ValueError(f"BsrMatrix block type must be either warp matrix or scalar type, not {shown}")
    return found


def compact_matrix(nrow: int, ncol: int, nnz: int, offsets: array, columns: array, values: array) -> BsrMatrix:
    """Return a compact matrix of arrays that fit it, which are not checked."""
    made: BsrMatrix = object.__new__(_class(values._element))
    vars(made).update(nrow=nrow, ncol=ncol, nnz=nnz, offsets=offsets, row_counts=None, columns=columns, values=values)
    made._note_pattern()
    return made


def empty_matrix(nrow: int, ncol: int, values: array) -> BsrMatrix:
    """Return a matrix without blocks, with an array of values that has no elements."""
    place = values._memory.device
    return compact_matrix(nrow, ncol, 0, new((nrow + 1,), INT32, True, place), new((0,), INT32, False, place), values)


@functools.cache
def _class(element: Scalar | Mat) -> type[BsrMatrix]:
    ints = array_annotation(resolve_dtype(int), 1)
    blocks: ArrayAnnotation = array_annotation(dtype_of(element), 1)
    fields = {"nrow": int, "ncol": int, "nnz": int}
    arrays = {"offsets": ints, "row_counts": ints, "columns": ints, "values": blocks}
    rows, columns = block_shape_of(element)
    name = f"BsrMatrix_{scalar_of(element).name}" + (f"_{rows}_{columns}" if isinstance(element, Mat) else "")
    made = type(name, (BsrMatrix,), {"__annotations__": {**fields, **arrays}, "__module__": __name__})
    declared(made, sys._getframe(), base=BsrMatrix)
    # Matrices are told apart by identity, not by their values.
    made.__eq__ = object.__eq__  # type: ignore[method-assign,assignment]
    made.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]
    return made
