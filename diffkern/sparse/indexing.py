"""Functions that kernels call to find blocks in the arrays of a sparse matrix.

The blocks of row r are those from offsets[r] to offsets[r + 1], in ascending order of their columns. Of a padded matrix
only the first row_counts[r] of these count.
"""

from __future__ import annotations

from typing import Any

from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["bsr_block_index", "bsr_row_index"]

lower_bound: Any = INTRINSICS["lower_bound"]
int32: Any = SCALARS["int32"]


@func
def _row_end(offsets: Any, row_counts: Any, row: int) -> Any:
    """The place behind the last block of a row."""
    end = offsets[row + 1]
    if row_counts is not None:
        end = offsets[row] + row_counts[row]
    return end


@func
def bsr_block_index(row: int, col: int, bsr_offsets: Any, bsr_columns: Any, bsr_row_counts: Any = None) -> Any:
    """The place of the block at (row, col); -1 if there is none."""
    found = int32(-1)
    if row >= 0:
        end = _row_end(bsr_offsets, bsr_row_counts, row)
        place = lower_bound(bsr_columns, bsr_offsets[row], end, col)
        if place < end and bsr_columns[place] == col:
            found = place
    return found


@func
def bsr_row_index(offsets: Any, row_count: int, block_index: int, row_counts: Any = None) -> Any:
    """The row of the block at a place; -1 if there is no block."""
    row = int32(-1)
    if block_index < offsets[row_count]:
        row = lower_bound(offsets, 0, row_count + 1, block_index + 1) - 1
        if row >= 0 and block_index >= _row_end(offsets, row_counts, row):
            row = int32(-1)
    return row
