"""Copies, transposed and diagonal matrices, and other shapes of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.ir.types import UINT32, Mat, Scalar, scalar_of
from diffkern.lang.dtypes import element_of_value
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.arrays.type_keys import dtype_of
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse import value_kernels as values_of
from diffkern.sparse.assembly import bsr_set_zero, bsr_zeros, resize
from diffkern.sparse.matrix import BsrMatrix, MatrixLike, as_factor, block_type, compact_matrix, empty_matrix, split
from diffkern.sparse.patterns import (
    Placed,
    checked,
    from_blocks,
    place,
    place_triplets,
    prefix_sums,
    set_pattern,
    target,
)
from diffkern.sparse.serial import exchanged, exchanged_at_once, is_serial
from diffkern.sparse.storage import as_parts, grown, integers, is_by_parts, new_values
from diffkern.sparse.sums import bsr_scale
from diffkern.utils.sums import array_cast

__all__ = [
    "bsr_assign",
    "bsr_copy",
    "bsr_diag",
    "bsr_get_diag",
    "bsr_identity",
    "bsr_set_diag",
    "bsr_set_identity",
    "bsr_set_transpose",
    "bsr_transposed",
]


# -- copies and shapes of blocks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reshaping:
    """A change of the shape of blocks: each is split into parts, of which blocks are joined.

    Attributes
    ----------
    split, joined : tuple of int
        Number of parts of an old and of a new block, along rows and columns.
    nrow, ncol : int
        Rows and columns of new blocks.
    """

    split: tuple[int, int]
    joined: tuple[int, int]
    nrow: int
    ncol: int

    @property
    def is_plain(self) -> bool:
        """True if the blocks keep their shape."""
        return self.split == self.joined == (1, 1)


def _reshaping(source: BsrMatrix, shape: tuple[int, int]) -> _Reshaping:
    old = source.block_shape
    pairs = [(max(a // b, 1), max(b // a, 1)) for a, b in zip(old, shape, strict=True)]
    (row_parts, rows_joined), (column_parts, columns_joined) = pairs
    nrow, ncol = source.nrow * row_parts // rows_joined, source.ncol * column_parts // columns_joined
    whole = nrow * shape[0] == source.shape[0] and ncol * shape[1] == source.shape[1]
    if any(a * joined != b * parts for a, b, (parts, joined) in zip(old, shape, pairs, strict=True)):
        raise ValueError(
            f"Incompatible dest and src block shapes: {shape} and {old}; rows and columns of one must be multiples of "
            "the other's"
        )
    if not whole:
        raise ValueError(
            f"The requested block shape {tuple(shape)} does not evenly divide the source matrix of total size "
            f"{source.shape}"
        )
    return _Reshaping((row_parts, column_parts), (rows_joined, columns_joined), nrow, ncol)


def bsr_copy(
    A: MatrixLike,
    scalar_type: Any = None,
    block_shape: tuple[int, int] | None = None,
    structure_only: bool = False,
    topology: str = "compact",
) -> BsrMatrix:
    """Copy a matrix, perhaps with other numbers or another shape of blocks.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.
    scalar_type : type, optional
        The type of numbers.
    block_shape : (int, int), optional
        Rows and columns of blocks: multiples or divisors of those of the matrix.
    structure_only : bool, optional
        Whether to copy the pattern alone.
    topology : str, optional
        ``"compact"``, or ``"padded"`` to copy the room of rows as well.

    Returns
    -------
    BsrMatrix
        A new matrix.

    Raises
    ------
    ValueError
        If the matrix cannot be divided into such blocks.
    """
    source, _ = split(A)
    topology = checked(topology, "compact", "padded")
    shape = source.block_shape if block_shape is None else (int(block_shape[0]), int(block_shape[1]))
    element: Any = source.values._element
    plain = block_shape is None and scalar_type is None and topology == "compact" and not structure_only
    if plain and source is A and (copied := _copied_at_once(source)) is not None:
        return copied
    if block_shape is not None or scalar_type is not None:
        scalar = scalar_of(element) if scalar_type is None else block_type(scalar_type)
        assert isinstance(scalar, Scalar)
        element = scalar if shape == (1, 1) else Mat(scalar, *shape)
    how = _reshaping(source, shape)
    made = empty_matrix(how.nrow, how.ncol, new_values(0, element, source.values, False))
    if topology == "padded":
        _copy_room(made, source, how)
    bsr_assign(made, A, structure_only, topology)
    return made


def _copied_at_once(source: BsrMatrix) -> BsrMatrix | None:
    """Return a copy of a compact matrix on a CPU, if nothing observes it."""
    old = source.offsets, source.columns, source.values
    if slow_path_flags.word[0] or source.row_counts is not None or not source.device.is_cpu:
        return None
    n, nnz = source.nrow + 1, source.nnz
    if not nnz or any(len(held.shape) != 1 for held in old):
        return None
    warp, made = source.values.in_warps_dialect, []
    for count, held in zip((n, nnz, nnz), old, strict=True):
        one = new((count,), held._element, False)
        if warp:
            one._speak(warp)
        one._data[...] = held._data[:count]
        made.append(one)
    if source.values.requires_grad:
        made[2].requires_grad = True
    return compact_matrix(source.nrow, source.ncol, nnz, *made)


def _copy_room(made: BsrMatrix, source: BsrMatrix, how: _Reshaping) -> None:
    """Let rows have room for all that those of another matrix have room for."""
    n = made.nrow
    if how.is_plain:
        made.offsets.assign(source.offsets[: n + 1])
    else:
        counts = integers(n, made)
        offsets, ends = source.offsets, source.offsets[1:]
        inputs = [offsets, ends, how.split[0], how.split[1], how.joined[0], counts]
        launch(kernels.scaled_capacities, dim=n, inputs=inputs)
        prefix_sums(counts, made.offsets, n)
    made.row_counts = integers(n, made, zero=True)
    made.notify_nnz_changed(source.nnz * how.split[0] * how.split[1])
    made._ensure_status()


def bsr_assign(dest: BsrMatrix, src: MatrixLike, structure_only: bool = False, topology: str | None = None) -> None:
    """Copy the blocks of a matrix to another one, which may have other numbers and another shape of blocks.

    Parameters
    ----------
    dest : BsrMatrix
        Takes the blocks.
    src : BsrMatrix or expression
        The matrix to copy.
    structure_only : bool, optional
        Whether to copy the pattern alone.
    topology : str, optional
        ``"compact"``; ``"masked"`` leaves out what is not in the pattern of `dest`; ``"padded"`` uses the room of its
        rows, and sets the status if there is too little.

    Raises
    ------
    ValueError
        If extents, shapes of blocks or devices do not fit together.
    """
    source, factor = split(src)
    topology = checked(topology)
    if dest.device is not source.device:
        raise ValueError(f"both matrices must be on the same device, not {dest.device} and {source.device}")
    how = _reshaping(source, dest.block_shape)
    if topology != "compact" and (how.nrow, how.ncol) != (dest.nrow, dest.ncol):
        raise ValueError(f"the matrix must have {how.nrow} x {how.ncol} blocks, not {dest.nrow} x {dest.ncol}")
    if dest is source:
        if not structure_only:
            bsr_scale(dest, factor)
        return
    values, places = source.values, None
    if how.is_plain and topology == "compact" and source.row_counts is None:
        _copy_compact(dest, source, factor, structure_only)
        return
    if how.is_plain:
        placed = place(from_blocks(source), dest, how.ncol, topology)
    else:
        rows, columns, places = _parts(source, how)
        placed = place_triplets(rows, columns, dest, how.nrow, how.ncol, topology)
    if structure_only:
        dest.values = grown(dest.values, placed.count)
        return
    if not values.size:
        dest.values = grown(dest.values, placed.count)
        dest.values.zero_()
        return
    out = target(dest, placed.count, bool(values.requires_grad), values)
    _copy_values(placed, places, source, factor, how, out)
    dest.values = out


def _copy_compact(dest: BsrMatrix, source: BsrMatrix, factor: float, structure_only: bool) -> None:
    """Copy arrays as they are, and convert or scale values."""
    dest._note_pattern()
    n, nnz, values = source.nrow, source.nnz, source.values
    dest.nrow, dest.ncol, dest.nnz, dest.row_counts = n, source.ncol, nnz, None
    dest.offsets, dest.columns = grown(dest.offsets, n + 1), grown(dest.columns, nnz)
    copy(dest.offsets, source.offsets, count=n + 1)
    if nnz:
        copy(dest.columns, source.columns, count=nnz)
    out = target(dest, nnz, bool(values.requires_grad) and not structure_only)
    if nnz and not structure_only:
        if out._element != values._element:
            array_cast(values, out, nnz)
            if factor != 1.0:
                launch(values_of.scale_values, dim=nnz, inputs=[out, as_factor(factor, dest), out])
        elif factor == 1.0:
            copy(out, values, count=nnz)
        else:
            launch(values_of.scale_values, dim=nnz, inputs=[values, as_factor(factor, source), out])
    dest.values = out


def _parts(source: BsrMatrix, how: _Reshaping) -> tuple[array, array, array]:
    """Return the rows and columns that parts of blocks have in new blocks, and their places in these."""
    n = source.nnz * how.split[0] * how.split[1]
    rows, columns = integers(n, source), integers(n, source)
    places = integers(n, source, element=UINT32)
    rows.fill_(-1)
    starts, ends, _ = source._rows()
    inputs = [starts, ends, source.columns, source.ncol, *how.split, *how.joined, rows, columns, places]
    launch(kernels.list_parts, dim=source.nrow, inputs=inputs)
    return rows, columns, places


def _copy_values(
    placed: Placed, places: array | None, source: BsrMatrix, factor: float, how: _Reshaping, out: array
) -> None:
    scale, parts = as_factor(factor, source), as_parts(out)
    where = [placed.first, placed.last, placed.order]
    dim = (placed.count, *parts.shape[1:])
    same = places is None and out._element == source.values._element and not is_by_parts(out)
    if same and factor == 1.0:
        launch(values_of.gather, dim=placed.count, inputs=[*where, source.values, out])
    elif same:
        launch(values_of.gather_scaled, dim=placed.count, inputs=[*where, source.values, scale, out])
    elif places is None:
        launch(values_of.gather_converted, dim=dim, inputs=[*where, source.scalar_values, scale, parts])
    else:
        height, width = (old // n for old, n in zip(source.block_shape, how.split, strict=True))
        shapes = [*how.split, how.joined[1], height, width]
        inputs = [*where, places, source.scalar_values, scale, *shapes, parts]
        launch(values_of.gather_joined, dim=dim, inputs=inputs)


# -- transposed --------------------------------------------------------------------------------------------------------


def bsr_set_transpose(dest: BsrMatrix, src: MatrixLike, topology: str | None = None) -> None:
    """Let a matrix be the transposed of another.

    Parameters
    ----------
    dest : BsrMatrix
        Takes the blocks, with rows and columns exchanged.
    src : BsrMatrix or expression
        The matrix to transpose.
    topology : str, optional
        ``"compact"``; ``"masked"`` leaves out what is not in the pattern of `dest`; ``"padded"`` uses the room of its
        rows.

    Raises
    ------
    ValueError
        If types, extents or devices do not fit together.
    """
    source, factor = split(src)
    topology = checked(topology)
    if dest.device is not source.device:
        raise ValueError(f"both matrices must be on the same device, not {dest.device} and {source.device}")
    if dest.scalar_type is not source.scalar_type:
        raise ValueError(f"both matrices have the same numbers, not {dest.scalar_type} and {source.scalar_type}")
    if dest.block_shape != source.block_shape[::-1]:
        raise ValueError(f"Destination block shape must be {source.block_shape[::-1]}, not {dest.block_shape}")
    if topology != "compact" and (dest.nrow, dest.ncol) != (source.ncol, source.nrow):
        raise ValueError(f"the matrix must have {source.ncol} x {source.nrow} blocks, not {dest.nrow} x {dest.ncol}")
    n = source.nnz
    if n == 0:
        if topology == "compact":
            resize(dest, source.ncol, source.nrow)
        bsr_set_zero(dest, topology=topology)
        return
    old, is_blocks = source.values, isinstance(source.values._element, Mat)
    if topology == "compact" and is_serial(source, gain=3) and (found := exchanged(source)) is not None:
        count, where = found.count, [found.order]
        set_pattern(dest, source.ncol, source.nrow, count, found.offsets, found.columns)
        kernel = values_of.permute_transposed if is_blocks else values_of.permute
    else:
        placed = _placed_transposed(source, dest, topology)
        count, where = placed.count, [placed.first, placed.last, placed.order]
        kernel = values_of.gather_transposed if is_blocks else values_of.gather
    out = target(dest, count, bool(old.requires_grad), old)
    launch(kernel, dim=count, inputs=[*where, old, out])
    dest.values = out
    if factor != 1.0:
        bsr_scale(dest, factor)


def _placed_transposed(source: BsrMatrix, dest: BsrMatrix, topology: str) -> Placed:
    """Give a matrix the pattern of the transposed matrix by sorting."""
    n = source.nnz
    rows, columns = integers(n, source), integers(n, source)
    rows.fill_(-1)
    starts, ends, _ = source._rows()
    launch(kernels.list_transposed, dim=source.nrow, inputs=[starts, ends, source.columns, rows, columns])
    return place_triplets(rows, columns, dest, source.ncol, source.nrow, topology)


def bsr_transposed(A: MatrixLike) -> BsrMatrix:
    """Return the transposed of a matrix.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.

    Returns
    -------
    BsrMatrix
        A new matrix.
    """
    source, _ = split(A)
    element = source.values._element
    if (made := _transposed_at_once(source)) is not None:
        return made if source is A else bsr_scale(made, split(A)[1])
    if isinstance(element, Mat):
        element = Mat(element.dtype, element.cols, element.rows)
    made = empty_matrix(source.ncol, source.nrow, new_values(0, element, source.values, False))
    bsr_set_transpose(made, A)
    return made


def _transposed_at_once(source: BsrMatrix) -> BsrMatrix | None:
    """Return the transposed of a matrix of numbers, if nothing observes it."""
    values = source.values
    if slow_path_flags.word[0] or not source.nnz or isinstance(values._element, Mat) or not is_serial(source, gain=3):
        return None
    if (found := exchanged_at_once(source)) is None:
        return None
    offsets, columns, out, count = found
    if values.requires_grad:
        out.requires_grad = True
    return compact_matrix(source.ncol, source.nrow, count, offsets, columns, out)


# -- diagonals ---------------------------------------------------------------------------------------------------------


def bsr_get_diag(A: MatrixLike, out: array | None = None) -> array:
    """Return the blocks on the diagonal; zeros where there is none.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.
    out : array, optional
        Takes the blocks; at least as many elements.

    Returns
    -------
    array
        The blocks.

    Raises
    ------
    ValueError
        If `out` has another type, device or too few elements.
    """
    matrix, factor = split(A)
    n = min(matrix.nrow, matrix.ncol)
    values = matrix.values
    if out is None:
        out = new_values(n, values._element, values, bool(values.requires_grad))
    elif out._element != values._element or out.device is not matrix.device or out.shape[0] < n:
        raise ValueError(f"the diagonal is {n} blocks {values._element} on {matrix.device}, not {out._summary()}")
    else:
        out.zero_()
    if not values.size:
        out.zero_()
        return out
    starts, ends, columns = matrix._rows()
    rows = [starts, ends, columns]
    if is_by_parts(values):
        parts, scale = as_parts(out), as_factor(factor, matrix)
        launch(values_of.diagonal_parts, dim=(n, *parts.shape[1:]), inputs=[*rows, as_parts(values), scale, parts])
    else:
        launch(values_of.diagonal, dim=n, inputs=[*rows, values, as_factor(factor, matrix), out])
    return out


def bsr_set_diag(A: BsrMatrix, diag: Any, rows_of_blocks: int | None = None, cols_of_blocks: int | None = None) -> None:
    """Let a matrix have blocks on the diagonal alone.

    Parameters
    ----------
    A : BsrMatrix
        The matrix.
    diag : array, block or None
        The blocks, or the one block; None for the pattern alone.
    rows_of_blocks, cols_of_blocks : int, optional
        New extents; one of them means both. Otherwise they are those of the array, or the old ones.
    """
    rows, columns = _extents(diag, rows_of_blocks, cols_of_blocks)
    if rows is not None:
        A.row_counts = None
        resize(A, rows, columns)
    A._note_pattern()
    n = min(A.nrow, A.ncol)
    values = A.values
    A.columns = grown(A.columns, n)
    launch(kernels.set_diagonal, dim=A.nrow + 1, inputs=[n, A.offsets, A.columns])
    A.nnz, A.row_counts = n, None
    if isinstance(diag, array):
        if diag._element != values._element or diag.shape[0] < n:
            raise ValueError(f"a diagonal is {n} blocks {values._element}, not {diag._summary()}")
        A.values = target(A, n, bool(diag.requires_grad), diag)
        if n:
            copy(A.values, diag, count=n)
        return
    A.values = grown(values, n)
    if diag is not None and n:
        A.values[:n].fill_(diag)


def _extents(diag: Any, rows: int | None, columns: int | None) -> tuple[int | None, int | None]:
    if rows is None and columns is None and isinstance(diag, array):
        return diag.shape[0], diag.shape[0]
    return (columns if rows is None else rows), (rows if columns is None else columns)


def bsr_diag(
    diag: Any = None,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    block_type: Any = None,
    device: Any = None,
) -> BsrMatrix:
    """Make a matrix with blocks on the diagonal alone.

    Parameters
    ----------
    diag : array, block or None, optional
        The blocks, or the one block; None for the pattern alone.
    rows_of_blocks, cols_of_blocks : int, optional
        Extents; one of them means both. They may be left out with an array.
    block_type : type, optional
        The type of blocks, without `diag`.
    device : str or diffkern.Device, optional
        Where its arrays are, unless `diag` is an array.

    Returns
    -------
    BsrMatrix
        The matrix.

    Raises
    ------
    ValueError
        If extents or the type of blocks are not known.
    """
    rows, columns = _extents(diag, rows_of_blocks, cols_of_blocks)
    if rows is None or columns is None:
        raise ValueError("the extents of a matrix with one block everywhere: pass rows_of_blocks or cols_of_blocks")
    if isinstance(diag, array):
        block_type, device = diag.dtype, diag.device
    elif block_type is None:
        if diag is None:
            raise ValueError("without diag pass block_type, the type of blocks")
        block_type = _type_of_block(diag)
    made = bsr_zeros(rows, columns, block_type, device)
    if isinstance(diag, array):
        made.values._speak(diag.in_warps_dialect)
    bsr_set_diag(made, diag, rows, columns)
    return made


def _type_of_block(block: Any) -> Any:
    if isinstance(block, np.ndarray) and block.ndim == 2:
        found = element_of_value(block.dtype.type(0))
        return dtype_of(Mat(found, *block.shape)) if isinstance(found, Scalar) else block.dtype
    return type(block)


def bsr_set_identity(A: BsrMatrix, rows_of_blocks: int | None = None) -> None:
    """Let a matrix be the identity.

    Parameters
    ----------
    A : BsrMatrix
        The matrix, whose blocks have as many rows as columns.
    rows_of_blocks : int, optional
        New number of rows and columns of blocks.
    """
    rows, columns = A.block_shape
    if rows != columns:
        raise ValueError(f"an identity has blocks with as many rows as columns, not {rows} x {columns}")
    one = np.eye(rows, dtype=np.int8) if isinstance(A.values._element, Mat) else 1
    bsr_set_diag(A, one, rows_of_blocks, rows_of_blocks)


def bsr_identity(rows_of_blocks: int, block_type: Any, device: Any = None) -> BsrMatrix:
    """Make an identity.

    Parameters
    ----------
    rows_of_blocks : int
        Number of rows and columns of blocks.
    block_type : type
        The type of blocks, with as many rows as columns.
    device : str or diffkern.Device, optional
        Where its arrays are.

    Returns
    -------
    BsrMatrix
        The matrix.
    """
    made = bsr_zeros(rows_of_blocks, rows_of_blocks, block_type, device)
    bsr_set_identity(made)
    return made
