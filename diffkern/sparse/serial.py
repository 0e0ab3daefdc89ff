"""Patterns that one thread of a CPU finds in one pass, of operands whose rows are in ascending order."""

from __future__ import annotations

import threading
from typing import Any, Final

from diffkern.ir.types import FLOAT32, INT32, INT64, STORAGE_ONLY, UINT32
from diffkern.lang.dtypes import SCALARS
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.native.pool import num_threads
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.sparse import assembly_kernels
from diffkern.sparse import row_kernels as kernels
from diffkern.sparse.matrix import BsrMatrix
from diffkern.sparse.storage import integers, new_values

__all__ = [
    "ALONE",
    "BlockProducts",
    "ExchangedRows",
    "MergedRows",
    "exchanged",
    "exchanged_at_once",
    "is_serial",
    "merged",
    "multiplied",
    "multiplied_at_once",
    "sets_at_once",
    "sum_at_once",
    "summed",
]

ALONE: Final[Any] = SCALARS[UINT32.name](0xFFFFFFFF)
"""In the place of a block's number: there is none."""


_MANY: Final = 1 << 16
"""The most blocks for which threads are never worth it."""
_SMALL: Final = 1 << 10
"""The most columns of a product for which arrays of a row are kept."""
_ORDERING_GAIN: Final = 3
"""By which factor several threads together take longer for triplets than one."""
_UNGROUPED: Final = 1 << 14
"""The most triplets that are placed at random in memory at once: what they fill is in a cache."""
_GROUPS: Final = 8
"""The number of uppermost bits of a row's number by which rows are grouped."""


@dataclass(frozen=True)
class MergedRows:
    """The pattern of a sum, with the number that each block has in either matrix, or ALONE."""

    offsets: array
    columns: array
    left: array
    right: array
    count: int


@dataclass(frozen=True)
class ExchangedRows:
    """The pattern of a transposed matrix, with the number that each block has in the given one."""

    offsets: array
    columns: array
    order: array
    count: int


@dataclass(frozen=True)
class BlockProducts:
    """The products of blocks that each block b of a product sums: ``left[p]`` times ``right[p]``, for p in a range.

    Attributes
    ----------
    first, last : array of uint32
        The range of each block. Blocks without products have ``first[b] == last[b]``.
    left, right : array of uint32
        The numbers of the factors.
    count : int
        Number of blocks, or an upper bound.
    """

    first: array
    last: array
    left: array
    right: array
    count: int


def is_serial(matrix: BsrMatrix, gain: int) -> bool:
    """Return whether a pattern is found by one thread, and the host may look at what it found.

    Otherwise all threads sort, which takes about `gain` times as much of their time.
    """
    if not matrix.values._memory.device.is_cpu or will_replay():
        return False
    return matrix.nnz <= _MANY or num_threads() <= gain


def merged(x: BsrMatrix, y: BsrMatrix, of_x: bool, of_y: bool) -> MergedRows | None:
    """Return the pattern of the sum of two matrices, or of one of them; None if rows are not ascending."""
    lists, room = _rows_of_both(x, y, of_x, of_y)
    offsets, columns, left, right = _made(x, x.nrow + 1, room, UINT32, UINT32)
    launch(kernels.merge_rows, dim=1, inputs=[*lists, ALONE, offsets, columns, left, right])
    count = _last(offsets, x.nrow)
    return None if count < 0 else MergedRows(offsets, columns, left, right, count)


def summed(
    x: BsrMatrix, y: BsrMatrix, of_x: bool, of_y: bool, beta: Any, alpha: Any
) -> tuple[array, array, array, int] | None:
    """Return the offsets, columns and values of ``alpha * x + beta * y``, and their count; None as :func:`merged`."""
    lists, room = _rows_of_both(x, y, of_x, of_y)
    offsets, columns, out = _made(x, x.nrow + 1, room, x.values._element)
    launch(kernels.add_rows, dim=1, inputs=[*lists, y.values, beta, x.values, alpha, offsets, columns, out])
    count = _last(offsets, x.nrow)
    return None if count < 0 else (offsets, columns, out, count)


def _rows_of_both(x: BsrMatrix, y: BsrMatrix, of_x: bool, of_y: bool) -> tuple[list[Any], int]:
    (xs, xe, _), (ys, ye, _) = x._rows(), y._rows()
    lists = [ys, ye if of_y else ys, y.columns, xs, xe if of_x else xs, x.columns, x.nrow]
    return lists, (x.nnz if of_x else 0) + (y.nnz if of_y else 0)


def exchanged(source: BsrMatrix) -> ExchangedRows | None:
    """Return the pattern of the transposed matrix; None if a place has two blocks."""
    offsets, columns, order = _made(source, source.ncol + 1, source.nnz, UINT32)
    starts, ends, _ = source._rows()
    inputs = [starts, ends, source.columns, source.nrow, source.ncol, offsets, columns, order]
    launch(kernels.exchange_rows, dim=1, inputs=inputs)
    count = _last(offsets, source.ncol)
    return None if count < 0 else ExchangedRows(offsets, columns, order, count)


def exchanged_at_once(source: BsrMatrix) -> tuple[array, array, array, int] | None:
    """Return the offsets, columns and values of the transposed of a matrix of numbers, and their count."""
    values = source.values
    offsets, columns, out = _made(source, source.ncol + 1, source.nnz, values._element)
    starts, ends, _ = source._rows()
    inputs = [starts, ends, source.columns, source.nrow, source.ncol, values, offsets, columns, out]
    launch(kernels.exchange_numbers, dim=1, inputs=inputs)
    count = _last(offsets, source.ncol)
    return None if count < 0 else (offsets, columns, out, count)


def multiplied(x: BsrMatrix, y: BsrMatrix) -> tuple[array, array, BlockProducts] | None:
    """Return offsets and columns of a product, and the products of blocks; None if a column does not exist."""
    lists, room = _products_of(x, y, integers(1, x))
    if room < 0:
        return None
    offsets, columns, first, last, left, right = _made(x, x.nrow + 1, room, *(UINT32,) * 4)
    block_of = integers(y.ncol, x, zero=True, element=UINT32)
    launch(kernels.multiply_rows, dim=1, inputs=[*lists, block_of, offsets, columns, first, last, left, right])
    return offsets, columns, BlockProducts(first, last, left, right, _last(offsets, x.nrow))


def multiplied_at_once(x: BsrMatrix, y: BsrMatrix, alpha: Any) -> tuple[array, array, array, int] | None:
    """Return the offsets, columns and values of ``alpha * x @ y`` and their count; None as :func:`multiplied`."""
    offsets = integers(x.nrow + 1, x)
    lists, room = _products_of(x, y, offsets)
    if room < 0:
        return None
    element = x.values._element
    columns, out = integers(room, x), new_values(room, element, x.values, False)
    inputs = [*lists, x.values, y.values, alpha, *_row_of(y.ncol, element), offsets, columns, out]
    launch(kernels.multiply_rows_at_once, dim=1, inputs=inputs)
    return offsets, columns, out, _last(offsets, x.nrow)


def sets_at_once(n: int) -> bool:
    """Return True if one thread makes a matrix of n triplets of numbers sooner than all threads do."""
    return n <= _MANY or num_threads() <= _ORDERING_GAIN


def sum_at_once(
    triplets: tuple[array, array, array], limits: list[Any], offsets: array, columns: array, out: array
) -> None:
    """Write the offsets and columns of a matrix, and the sums of triplets of numbers, with zeros after them.

    Parameters
    ----------
    triplets : tuple of array
        Rows, columns and numbers.
    limits : list
        What kernels take of which triplets there are: an array with their number, the extents of the matrix, whether
        there are as few as that array says, and whether those with the number zero are left out.
    offsets, columns, out : array
        Where to write; columns and sums have at least as many elements as there are triplets.
    """
    n, numbers, (nrow, ncol) = triplets[0].shape[0], triplets[2], limits[1:3]
    given, found = [*triplets, *limits], [offsets, columns, out]
    if n <= _UNGROUPED:
        launch(assembly_kernels.sum_triplets, dim=1, inputs=[*given, *_room_for(nrow, ncol, n, numbers), *found])
        return
    shift = max((nrow - 1).bit_length() - _GROUPS, 0)
    groups = ((nrow - 1) >> shift) + 1
    ends = integers(groups + 1, offsets, zero=True, element=UINT32)
    places, grouped = new((n,), INT64, False), new((n,), numbers._element, False)
    launch(assembly_kernels.group_triplets, dim=1, inputs=[*given, shift, ends, places, grouped])
    own = _room_for(1 << shift, ncol, _last(ends, groups), numbers)
    launch(assembly_kernels.sum_groups, dim=1, inputs=[ends, places, grouped, nrow, shift, *own, *found])


def _room_for(nrow: int, ncol: int, n: int, numbers: array) -> list[array]:
    """Return room for the ends of rows, for keys twice, for numbers, and zeros for each column."""
    element = _sum_type(numbers._element)
    kinds = (nrow + 1, INT32), (n, INT64), (n, INT64), (n, element)
    return [*(new((length,), kind, False) for length, kind in kinds), new((ncol,), UINT32, True)]


class _Rows(threading.local):
    """The arrays for one row of a product that a thread has used, by the type of numbers."""

    def __init__(self) -> None:
        self.of: dict[Any, tuple[array, array, array]] = {}


_rows = _Rows()


def _row_of(ncol: int, element: Any) -> tuple[array, array, array]:
    """Return zeros for each column, and room for the columns and sums of one row of a product."""
    if ncol > _SMALL:
        return _new_row(ncol, element, True)
    # For small matrices, making arrays takes as long as multiplying.
    held = _rows.of.get(element)
    if held is None:
        held = _rows.of[element] = _new_row(_SMALL, element, False)
    held[0]._data[:ncol] = 0
    return held


def _new_row(count: int, element: Any, zero: bool) -> tuple[array, array, array]:
    return new((count,), UINT32, zero), new((count,), INT32, False), new((count,), _sum_type(element), False)


def _sum_type(element: Any) -> Any:
    """Return the type in which numbers are added up in memory: halves in single precision, as in a register."""
    return FLOAT32 if element in STORAGE_ONLY else element


def _products_of(x: BsrMatrix, y: BsrMatrix, found: array) -> tuple[list[Any], int]:
    """Return what kernels take of two factors, and the number of products of blocks, which `found` is used for."""
    (xs, xe, _), (ys, ye, _) = x._rows(), y._rows()
    lists = [xs, xe, x.columns, ys, ye, y.columns, x.nrow]
    launch(kernels.count_all_products, dim=1, inputs=[*lists, y.nrow, y.ncol, found])
    return lists, _last(found, 0)


def _made(beside: BsrMatrix, rows: int, room: int, *elements: Any) -> list[array]:
    """Return new offsets, columns, and further arrays with an element for each block that there may be."""
    return [
        integers(rows, beside),
        integers(room, beside),
        *(new_values(room, element, beside.values, False) for element in elements),
    ]


def _last(held: array, n: int) -> int:
    """Read the element n of integers that a kernel has written."""
    # Nothing is pending if the word is 0; what the general way asks takes as long as a small pattern.
    data = held.numpy() if slow_path_flags.word[0] else held._data
    return int(data[n])
