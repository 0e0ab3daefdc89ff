"""SciPy's sparse matrices, and the arrays of coordinate and compressed formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.types import STORAGE_ONLY, Mat, Scalar
from diffkern.lang.dtypes import resolve_dtype
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import from_numpy
from diffkern.runtime.arrays.type_keys import dtype_of
from diffkern.runtime.memory.device import get_device
from diffkern.sparse.assembly import bsr_zeros
from diffkern.sparse.matrix import BsrMatrix, MatrixLike, split
from diffkern.sparse.storage import numbers_of
from diffkern.sparse.structure import bsr_copy

__all__ = ["from_scipy", "to_coo", "to_csr", "to_scipy"]


def from_scipy(
    matrix: Any, block_shape: tuple[int, int] | None = None, dtype: Any = None, device: Any = None
) -> BsrMatrix:
    """Make a matrix of one of SciPy's, in any of its formats.

    Parameters
    ----------
    matrix : object
        The matrix, of ``scipy.sparse``. Its entries are sorted, and those at one place added up.
    block_shape : (int, int), optional
        Rows and columns of blocks; those of a matrix in SciPy's block format by default, otherwise numbers.
    dtype : type, optional
        The type of numbers; that of the matrix by default.
    device : str or diffkern.Device, optional
        Where the arrays are.

    Returns
    -------
    BsrMatrix
        The matrix.

    Raises
    ------
    ValueError
        If the extents of the matrix are no multiples of those of a block, or its numbers are complex.
    TypeError
        If it is no matrix of SciPy's.
    """
    if not hasattr(matrix, "tocsr"):
        raise TypeError(f"from_scipy takes a matrix of scipy.sparse, not {type(matrix).__name__}")
    if len(matrix.shape) != 2:
        raise ValueError(f"from_scipy takes a matrix, with two axes, not one of shape {matrix.shape}")
    shape = block_shape
    if shape is None:
        shape = matrix.blocksize if getattr(matrix, "format", "") == "bsr" else (1, 1)
    rows, columns = (int(n) for n in shape)
    if matrix.shape[0] % rows or matrix.shape[1] % columns:
        raise ValueError(f"a matrix of {matrix.shape[0]} x {matrix.shape[1]} has no blocks of {rows} x {columns}")
    held = matrix.tocsr() if (rows, columns) == (1, 1) else matrix.tobsr(blocksize=(rows, columns))
    if not held.has_canonical_format:
        held = held.copy()
        held.sum_duplicates()
    scalar = resolve_dtype(held.dtype if dtype is None else dtype)
    if not isinstance(scalar, Scalar):
        raise ValueError(f"blocks have real numbers, not {scalar}: convert the matrix, or its two parts, first")
    element = scalar if (rows, columns) == (1, 1) else Mat(scalar, rows, columns)
    made = bsr_zeros(matrix.shape[0] // rows, matrix.shape[1] // columns, dtype_of(element), device)
    place = get_device(device)
    made.offsets = from_numpy(held.indptr.astype(np.int32), device=place)
    made.columns = from_numpy(held.indices.astype(np.int32), device=place)
    made.values = from_numpy(held.data.astype(scalar.name), dtype=dtype_of(element), device=place)
    made.nnz = int(held.indices.size)
    return made


def to_scipy(A: MatrixLike, format: str = "bsr") -> Any:
    """Return a matrix as one of SciPy's, with its own memory.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.
    format : str, optional
        A format of SciPy: ``"bsr"``, ``"csr"``, ``"coo"``, ….

    Returns
    -------
    scipy.sparse.bsr_array or one in the other format
        The matrix.

    Raises
    ------
    ValueError
        If its numbers are float16 or bfloat16, which SciPy does not have.
    """
    try:
        from scipy.sparse import bsr_array
    except ImportError as error:
        raise ImportError("to_scipy needs SciPy: pip install 'diffkern[sparse]'") from error
    matrix, factor = split(A)
    if numbers_of(matrix.values) in STORAGE_ONLY:
        raise ValueError(
            f"SciPy has no matrices of {numbers_of(matrix.values)}: pass bsr_copy(A, scalar_type=dk.float32)"
        )
    offsets, columns, values = to_csr(matrix)
    shape = matrix.block_shape
    parts = values.numpy().reshape((-1, *shape))
    if factor != 1.0:
        parts = parts * parts.dtype.type(factor)
    made = bsr_array(
        (parts.copy(), columns.numpy().copy(), offsets.numpy().copy()), shape=matrix.shape, blocksize=shape
    )
    return made if format == "bsr" else made.asformat(format)


def to_csr(A: MatrixLike) -> tuple[array, array, array]:
    """Return offsets, columns and values with as many elements as there are blocks, in compressed rows.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.

    Returns
    -------
    offsets, columns : array of int32
        The end of the last row is the number of blocks.
    values : array
        The blocks. They are parts of the arrays of a compact matrix.
    """
    matrix, _ = split(A)
    if matrix is not A or matrix.row_counts is not None:
        matrix = bsr_copy(A)
    n = matrix.nnz_sync()
    return matrix.offsets[: matrix.nrow + 1], matrix.columns[:n], matrix.values[:n]


def to_coo(A: MatrixLike) -> tuple[array, array, array]:
    """Return row, column and value of each block.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.

    Returns
    -------
    rows, columns : array of int32
        The places of blocks, row by row.
    values : array
        The blocks.
    """
    matrix, _ = split(A)
    if matrix is not A or matrix.row_counts is not None:
        matrix = bsr_copy(A)
    _, columns, values = to_csr(matrix)
    return matrix.uncompress_rows(), columns, values
