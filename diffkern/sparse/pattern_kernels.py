"""Kernels that compute where the blocks of a sparse matrix lie: sorts, offsets, columns.

An operation lists *contributions*: each has a row, a column and a number. ``keys`` holds them row by row, with the
column in the upper and the number in the lower 32 bits, so that sorting integers sorts by column and leaves
contributions to one block in the order of their numbers. Nothing here has a derivative.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS

tid: Any = INTRINSICS["tid"]
atomic_add: Any = INTRINSICS["atomic_add"]
int64: Any = SCALARS["int64"]
uint32: Any = SCALARS["uint32"]
least: Any = INTRINSICS["min"]
greatest: Any = INTRINSICS["max"]
# One thread after the other: rows have different lengths, so that lanes would wait for one another.
_integral = functools.partial(Kernel, enable_backward=False, lanes=False)
_SHORT = 48
"""The longest row that is sorted by insertion."""


# -- prefix sums -------------------------------------------------------------------------------------------------------


@_integral
def sums_before(counts, sums, n: int):  # type: ignore[no-untyped-def]
    """Write the sum of the counts before each element, and of all behind the last."""
    s = 0
    sums[0] = 0
    for k in range(n):
        s += counts[k]
        sums[k + 1] = s


@_integral
def chunk_sums(counts, partial, chunk: int, n: int):  # type: ignore[no-untyped-def]
    c = tid()
    s = 0
    for k in range(c * chunk, least((c + 1) * chunk, n)):
        s += counts[k]
    partial[c] = s


@_integral
def sums_in_chunks(counts, before, sums, chunk: int, n: int):  # type: ignore[no-untyped-def]
    c = tid()
    s = before[c]
    if c == 0:
        sums[0] = 0
    for k in range(c * chunk, least((c + 1) * chunk, n)):
        s += counts[k]
        sums[k + 1] = s


# -- listing contributions ---------------------------------------------------------------------------------------------


@func
def _has_place(columns: Any, values: Any, ncol: int, pruned: int, k: int) -> Any:
    """Return True for a block with a column that exists, unless it is zero and those are left out."""
    kept = columns[k] >= 0 and columns[k] < ncol
    if kept and pruned != 0:
        kept = False
        for r in range(values.shape[1]):
            for c in range(values.shape[2]):
                if values[k, r, c] != 0:
                    kept = True
    return kept


@func
def _is_kept(
    rows: Any, columns: Any, values: Any, count: Any, nrow: int, ncol: int, limited: int, pruned: int, t: int
) -> Any:
    """Return True for a triplet in the matrix, unless it is zero and those are left out."""
    kept = rows[t] >= 0 and rows[t] < nrow
    if limited != 0 and t >= count[0]:
        kept = False
    if kept:
        kept = _has_place(columns, values, ncol, pruned, t)
    return kept


@_integral
def count_triplets(  # type: ignore[no-untyped-def]
    rows, columns, values, count, nrow: int, ncol: int, limited: int, pruned: int, ranks, counts
):
    """Give each triplet that counts a rank in its row, in any order."""
    t = tid()
    rank = -1
    if _is_kept(rows, columns, values, count, nrow, ncol, limited, pruned, t):
        rank = atomic_add(counts, uint32(rows[t]), 1)
    ranks[t] = rank


@_integral
def place_triplets(rows, columns, ranks, starts, keys):  # type: ignore[no-untyped-def]
    t = tid()
    rank = ranks[t]
    if rank >= 0:
        keys[uint32(starts[uint32(rows[t])] + rank)] = (int64(columns[t]) << int64(32)) | int64(t)


@_integral
def count_blocks(starts, ends, columns, values, ncol: int, pruned: int, counts):  # type: ignore[no-untyped-def]
    """Count the blocks of a row whose column exists, without those that are zero if they are pruned."""
    i = tid()
    n = 0
    for k in range(starts[i], ends[i]):
        if _has_place(columns, values, ncol, pruned, int(k)):
            n += 1
    counts[i] = n


@_integral
def list_blocks(  # type: ignore[no-untyped-def]
    starts, ends, columns, values, ncol: int, pruned: int, places, keys
):
    i = tid()
    a = places[i]
    for k in range(starts[i], ends[i]):
        if _has_place(columns, values, ncol, pruned, int(k)):
            keys[a] = (int64(columns[k]) << int64(32)) | int64(k)
            a += 1


@_integral
def count_both(starts, ends, starts2, ends2, counts):  # type: ignore[no-untyped-def]
    i = tid()
    counts[i] = int(ends[i] - starts[i] + ends2[i] - starts2[i])


@_integral
def list_both(starts, ends, columns, starts2, ends2, columns2, base: int, places, keys):  # type: ignore[no-untyped-def]
    """List the blocks of two matrices; those of the second are numbered from a base."""
    i = tid()
    a = places[i]
    for k in range(starts[i], ends[i]):
        keys[a] = (int64(columns[k]) << int64(32)) | int64(k)
        a += 1
    for k in range(starts2[i], ends2[i]):
        keys[a] = (int64(columns2[k]) << int64(32)) | int64(base + int(k))
        a += 1


@_integral
def count_products(starts, ends, columns, starts2, ends2, starts3, ends3, extra: int, counts):  # type: ignore[no-untyped-def]
    """Count the products of blocks in each row of a product of matrices, with a third matrix's blocks if asked for."""
    i = tid()
    n = 0
    for k in range(starts[i], ends[i]):
        j = uint32(columns[k])
        n += int(ends2[j] - starts2[j])
    if extra != 0:
        n += int(ends3[i] - starts3[i])
    counts[i] = n


@_integral
def list_products(  # type: ignore[no-untyped-def]
    starts,
    ends,
    columns,
    starts2,
    ends2,
    columns2,
    starts3,
    ends3,
    columns3,
    extra: int,
    alone,
    places,
    keys,
    left,
    right,
):
    """List products by the numbers of both factors; a block of the third matrix has `alone` for the right one."""
    i = tid()
    a = places[i]
    if extra != 0:
        for k in range(starts3[i], ends3[i]):
            keys[a] = (int64(columns3[k]) << int64(32)) | int64(a)
            left[a] = k
            right[a] = alone
            a += 1
    for k in range(starts[i], ends[i]):
        j = uint32(columns[k])
        for m in range(starts2[j], ends2[j]):
            keys[a] = (int64(columns2[m]) << int64(32)) | int64(a)
            left[a] = k
            right[a] = m
            a += 1


@_integral
def regroup(order, left, right, new_left, new_right):  # type: ignore[no-untyped-def]
    """Let the products that each block sums lie one behind the other."""
    a = tid()
    new_left[a] = left[order[a]]
    new_right[a] = right[order[a]]


@_integral
def list_transposed(starts, ends, columns, rows, new_columns):  # type: ignore[no-untyped-def]
    """Write row and column of each block of the transposed matrix."""
    i = tid()
    for k in range(starts[i], ends[i]):
        rows[k] = columns[k]
        new_columns[k] = i


@_integral
def list_parts(  # type: ignore[no-untyped-def]
    starts, ends, columns, ncol: int, split_rows: int, split_columns: int, joined_rows: int, joined_columns: int,
    rows, new_columns, places
):  # fmt: skip
    """List the blocks of another shape that parts of blocks belong to, and the place of each part in its new block."""
    i = tid()
    for k in range(starts[i], ends[i]):
        if columns[k] >= 0 and columns[k] < ncol:
            for r in range(split_rows):
                for c in range(split_columns):
                    part = (int(k) * split_rows + r) * split_columns + c
                    row = i * split_rows + r
                    column = columns[k] * split_columns + c
                    rows[part] = row // joined_rows
                    new_columns[part] = column // joined_columns
                    places[part] = uint32((row % joined_rows) * joined_columns + column % joined_columns)


# -- the pattern -------------------------------------------------------------------------------------------------------


@func
def _sort(keys: Any, lo: int, hi: int) -> Any:
    """Sort keys[lo:hi] in place."""
    ordered = True
    for a in range(lo + 1, hi):
        if keys[uint32(a)] < keys[uint32(a - 1)]:
            ordered = False
    if not ordered and hi - lo <= _SHORT:
        for a in range(lo + 1, hi):
            key = keys[uint32(a)]
            b = a
            while b > lo and keys[uint32(greatest(b - 1, 0))] > key:
                keys[uint32(b)] = keys[uint32(b - 1)]
                b -= 1
            keys[uint32(b)] = key
    elif not ordered:
        # Heapsort: in place, and never quadratic. First a heap is made, then its greatest key is taken out repeatedly.
        n = hi - lo
        for step in range(n // 2 + n - 1):
            root = n // 2 - 1 - step
            end = n
            if root < 0:
                end = n // 2 + n - 1 - step
                root = 0
                swapped = keys[lo + end]
                keys[lo + end] = keys[lo]
                keys[lo] = swapped
            key = keys[lo + root]
            child = 2 * root + 1
            going = child < end
            while going:
                if child + 1 < end and keys[lo + least(child + 1, n - 1)] > keys[lo + child]:
                    child += 1
                if keys[lo + child] > key:
                    keys[lo + root] = keys[lo + child]
                    root = child
                    child = 2 * root + 1
                    going = child < end
                else:
                    going = False
            keys[lo + root] = key


@func
def _distinct(keys: Any, lo: int, hi: int) -> Any:
    """The number of columns in keys[lo:hi]."""
    n = 0
    last = -1
    for a in range(lo, hi):
        column = int(keys[uint32(a)] >> int64(32))
        if column != last:
            n += 1
            last = column
    return n


@func
def _fill(
    keys: Any, lo: int, hi: int, begin: int, end: int,
    columns: Any, first: Any, last: Any, order: Any, blocks: Any, mapped: int
) -> Any:  # fmt: skip
    """Write the blocks of a row, which lie from `begin` to `end`."""
    b = begin - 1
    column = -1
    for a in range(lo, hi):
        key = keys[uint32(a)]
        new = int(key >> int64(32))
        number = uint32(key & int64(0xFFFFFFFF))
        if new != column:
            b += 1
            column = new
            if b < end:
                columns[uint32(b)] = new
                first[uint32(b)] = uint32(a)
        if b < end:
            last[uint32(b)] = uint32(a + 1)
        order[uint32(a)] = number
        if mapped != 0:
            blocks[number] = b


@_integral
def sort_rows(starts, keys, counts):  # type: ignore[no-untyped-def]
    """Sort the contributions to each row, and count its blocks."""
    i = tid()
    _sort(keys, starts[i], starts[i + 1])
    counts[i] = _distinct(keys, starts[i], starts[i + 1])


@_integral
def cap(offsets, most: int):  # type: ignore[no-untyped-def]
    i = tid()
    offsets[i] = least(offsets[i], most)


@_integral
def fill_rows(starts, keys, offsets, columns, first, last, order, blocks, mapped: int):  # type: ignore[no-untyped-def]
    """Write the column of each block, and where in `order` the numbers of its contributions stand."""
    i = tid()
    lo = starts[i]
    hi = starts[i + 1]
    _fill(keys, lo, hi, offsets[i], offsets[i + 1], columns, first, last, order, blocks, mapped)


@_integral
def place_alone(  # type: ignore[no-untyped-def]
    rows, triplet_columns, values, count, nrow: int, ncol: int, limited: int, pruned: int,
    starts, keys, offsets, columns, first, last, order, blocks, mapped: int
):  # fmt: skip
    """Do with triplets what the kernels above do, in one thread: for few, starting launches takes longer."""
    n = rows.shape[0]
    for i in range(nrow + 1):
        starts[i] = 0
    # Sums of the counts are the ends of rows; placing triplets from the last one on moves them to the starts.
    for t in range(n):
        if _is_kept(rows, triplet_columns, values, count, nrow, ncol, limited, pruned, t):
            i = uint32(rows[t])
            starts[i] = starts[i] + 1
    s = 0
    for i in range(nrow):
        s += starts[i]
        starts[i] = s
    starts[nrow] = s
    for q in range(n):
        t = n - 1 - q
        if _is_kept(rows, triplet_columns, values, count, nrow, ncol, limited, pruned, t):
            i = uint32(rows[t])
            a = starts[i] - 1
            starts[i] = a
            keys[uint32(a)] = (int64(triplet_columns[t]) << int64(32)) | int64(t)
    b = 0
    for i in range(nrow):
        lo = starts[i]
        hi = starts[i + 1]
        _sort(keys, lo, hi)
        offsets[i] = b
        end = b + _distinct(keys, lo, hi)
        _fill(keys, lo, hi, b, end, columns, first, last, order, blocks, mapped)
        b = end
    offsets[nrow] = b
    for k in range(b, first.shape[0]):
        first[k] = uint32(0)
        last[k] = uint32(0)


@_integral
def place_by_counting(  # type: ignore[no-untyped-def]
    rows, triplet_columns, values, count, nrow: int, ncol: int, limited: int, pruned: int,
    starts, column_starts, by_column, offsets, columns, first, last, order, blocks, mapped: int
):  # fmt: skip
    """Do the same by two stable sorts that count, of columns and then of rows: no two triplets are compared."""
    n = rows.shape[0]
    kept = 0
    for t in range(n):
        if _is_kept(rows, triplet_columns, values, count, nrow, ncol, limited, pruned, t):
            column = uint32(triplet_columns[t])
            column_starts[column] = column_starts[column] + 1
            row = uint32(rows[t])
            starts[row] = starts[row] + 1
            kept += 1
    s = 0
    for j in range(ncol):
        here = column_starts[j]
        column_starts[j] = s
        s += here
    # The beginnings of rows; when a row is full it is its end.
    s = 0
    for k in range(nrow):
        here = starts[k]
        starts[k] = s
        s += here
    for t in range(n):
        if _is_kept(rows, triplet_columns, values, count, nrow, ncol, limited, pruned, t):
            column = uint32(triplet_columns[t])
            place = uint32(column_starts[column])
            column_starts[column] = column_starts[column] + 1
            by_column[place] = uint32(t)
    for q in range(kept):
        number = by_column[q]
        row = uint32(rows[number])
        place = uint32(starts[row])
        starts[row] = starts[row] + 1
        order[place] = number
    b = 0
    a = 0
    for k in range(nrow):
        offsets[k] = b
        before = -1
        end = starts[k]
        while a < end:
            number = order[uint32(a)]
            new = triplet_columns[number]
            if new != before:
                before = new
                columns[uint32(b)] = new
                first[uint32(b)] = uint32(a)
                b += 1
            last[uint32(b - 1)] = uint32(a + 1)
            if mapped != 0:
                blocks[number] = b - 1
            a += 1
    offsets[nrow] = b
    for k in range(b, first.shape[0]):
        first[k] = uint32(0)
        last[k] = uint32(0)


@_integral
def fill_padded(  # type: ignore[no-untyped-def]
    offsets, columns, first, last, places, row_counts, new_columns, new_first, new_last, status
):
    """Copy the blocks of each row to where a matrix has room for them."""
    i = tid()
    lo = places[i]
    room = places[i + 1] - lo
    n = offsets[i + 1] - offsets[i]
    if n > room:
        status[0] = 1
        n = room
    row_counts[i] = n
    for k in range(n):
        new_columns[lo + k] = columns[offsets[i] + k]
        new_first[lo + k] = first[offsets[i] + k]
        new_last[lo + k] = last[offsets[i] + k]


@_integral
def fill_masked(offsets, columns, first, last, starts, ends, wanted, new_first, new_last):  # type: ignore[no-untyped-def]
    """Look the blocks of a given pattern up; those that are not there have no contributions."""
    i = tid()
    for k in range(starts[i], ends[i]):
        lo = offsets[i]
        hi = offsets[i + 1]
        while lo < hi:
            middle = (lo + hi) // 2
            if columns[middle] < wanted[k]:
                lo = middle + 1
            else:
                hi = middle
        if lo < offsets[i + 1] and columns[lo] == wanted[k]:
            new_first[k] = first[lo]
            new_last[k] = last[lo]


@_integral
def set_diagonal(n: int, offsets, columns):  # type: ignore[no-untyped-def]
    i = tid()
    offsets[i] = least(i, n)
    if i < n:
        columns[i] = i


@_integral
def uniform_offsets(room: int, offsets):  # type: ignore[no-untyped-def]
    i = tid()
    offsets[i] = i * room


@_integral
def row_lengths(offsets, lengths):  # type: ignore[no-untyped-def]
    i = tid()
    lengths[i] = offsets[i + 1] - offsets[i]


@_integral
def row_ends(offsets, counts, ends):  # type: ignore[no-untyped-def]
    i = tid()
    ends[i] = offsets[i] + counts[i]


@_integral
def rows_of_blocks(starts, ends, rows):  # type: ignore[no-untyped-def]
    i = tid()
    for k in range(starts[i], ends[i]):
        rows[k] = i


@_integral
def extend_offsets(old: int, offsets):  # type: ignore[no-untyped-def]
    """Give new rows behind the last one no blocks."""
    i = old + 1 + tid()
    offsets[i] = offsets[old]


@_integral
def scaled_capacities(starts, ends, split_rows: int, split_columns: int, joined_rows: int, counts):  # type: ignore[no-untyped-def]
    """Write the number of blocks of another shape that each row may get."""
    i = tid()
    n = 0
    first = i * joined_rows // split_rows
    for r in range(first, first + greatest(joined_rows, 1)):
        n += (ends[r] - starts[r]) * split_columns
    counts[i] = n
