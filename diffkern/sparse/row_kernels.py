"""Kernels of a CPU that find the pattern of a sum, a product or a transposed matrix, most of them in one thread.

Rows are merged, columns counted, products placed by the block that they belong to: nothing is sorted but the columns of
a product's row, and one pass takes the place of several launches and of arrays between them. The last offset is the
number of blocks, or -1 if a row is not strictly ascending, which :mod:`diffkern.sparse.pattern_kernels` can do. Rows of
a padded matrix begin where they did, so that each has a thread.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.sparse.pattern_kernels import _sort

int32: Any = SCALARS["int32"]
int64: Any = SCALARS["int64"]
uint32: Any = SCALARS["uint32"]
least: Any = INTRINSICS["min"]
greatest: Any = INTRINSICS["max"]
tid: Any = INTRINSICS["tid"]
transpose: Any = INTRINSICS["transpose"]
_MOST: Final = 2147483647
_RANKED: Final = 128
"""The longest row of a product that is sorted by counting the columns before each."""
_integral = functools.partial(Kernel, enable_backward=False, lanes=False)


# -- sums --------------------------------------------------------------------------------------------------------------


@func
def _column(columns: Any, k: Any, end: Any) -> Any:
    """The column of a block, and behind the last of a row one that is greater than all others."""
    c = _MOST
    if k < end:
        c = columns[k]
    return c


@_integral
def merge_rows(  # type: ignore[no-untyped-def]
    starts, ends, columns, starts2, ends2, columns2, nrow: uint32, alone: uint32,
    offsets, new_columns, left, right
):  # fmt: skip
    """Write the blocks of two matrices' sum: its columns, and the number of the block in either, or `alone`."""
    n = uint32(0)
    ascending = 1
    offsets[0] = 0
    for i in range(nrow):
        k = starts[i]
        m = starts2[i]
        before = -1
        while k < ends[i] or m < ends2[i]:
            c = _column(columns, k, ends[i])
            d = _column(columns2, m, ends2[i])
            of_first = alone
            of_second = alone
            if k < ends[i] and c <= d:
                of_first = k
                k += uint32(1)
            if m < ends2[i] and d <= c:
                of_second = m
                m += uint32(1)
            column = least(c, d)
            if column <= before:
                ascending = 0
            before = column
            new_columns[n] = column
            left[n] = of_first
            right[n] = of_second
            n += uint32(1)
        offsets[i + uint32(1)] = int32(n)
    if ascending == 0:
        offsets[nrow] = -1


@_integral
def add_rows(  # type: ignore[no-untyped-def]
    starts, ends, columns, starts2, ends2, columns2, nrow: uint32, y, beta, x, alpha, offsets, new_columns, out
):
    """Write the sum of two matrices, each times a factor, with its pattern."""
    n = uint32(0)
    ascending = 1
    offsets[0] = 0
    for i in range(nrow):
        k = starts[i]
        m = starts2[i]
        before = -1
        while k < ends[i] or m < ends2[i]:
            c = _column(columns, k, ends[i])
            d = _column(columns2, m, ends2[i])
            s = out.dtype(0)
            if k < ends[i] and c <= d:
                s += beta * y[k]
                k += uint32(1)
            if m < ends2[i] and d <= c:
                s += alpha * x[m]
                m += uint32(1)
            column = least(c, d)
            if column <= before:
                ascending = 0
            before = column
            new_columns[n] = column
            out[n] = s
            n += uint32(1)
        offsets[i + uint32(1)] = int32(n)
    if ascending == 0:
        offsets[nrow] = -1


@func
def _is_ascending(columns: Any, begin: Any, end: Any, before: Any) -> Any:
    """Return True for columns that are strictly ascending, from greater ones than the one before on."""
    ascending = True
    for k in range(begin, end):
        column = columns[k]
        if column <= before:
            ascending = False
        before = column
    return ascending


@_integral
def count_merged(starts, ends, columns, starts2, ends2, columns2, counts, unordered):  # type: ignore[no-untyped-def]
    """Count the blocks of each row of two matrices' sum, and note whether a row is not strictly ascending."""
    i = uint32(tid())
    k = starts[i]
    m = starts2[i]
    end = ends[i]
    end2 = ends2[i]
    n = 0
    before = -1
    ascending = 1
    # Both ends of a row are looked at first: they come from memory at a time.
    if k < end and columns[k] > columns[end - uint32(1)]:
        ascending = 0
    while k < end and m < end2:
        c = columns[k]
        d = columns2[m]
        column = least(c, d)
        if column <= before:
            ascending = 0
        before = column
        if c <= d:
            k += uint32(1)
        if d <= c:
            m += uint32(1)
        n += 1
    # One of the two is at its end.
    counts[i] = n + int32(end - k) + int32(end2 - m)
    if not (_is_ascending(columns, k, end, before) and _is_ascending(columns2, m, end2, before)):
        ascending = 0
    if ascending == 0:
        unordered[0] = 1


@func
def _column_before(columns: Any, k: Any, begin: Any) -> Any:
    """The column of the block before a place, and before the first of a row one that is less than all others."""
    c = -1
    if k > begin:
        c = columns[k - uint32(1)]
    return c


@_integral
def add_into_rows(  # type: ignore[no-untyped-def]
    starts, ends, columns, held, starts2, ends2, columns2, beta, x, alpha, counts, lengths, y, status
):
    """Write the sum of two matrices, each times a factor, over the first, whose rows have room.

    What has no room is left out. `ends` is where the blocks of each row end that are summed, and `held` where its
    blocks ended before.
    """
    i = uint32(tid())
    begin = starts[i]
    n = uint32(counts[i])
    room = starts[i + uint32(1)] - begin
    begin2 = starts2[i]
    k = ends[i]
    m = ends2[i]
    # From the last block on, as the place of a block of the sum is never before that of the block that it is made of.
    w = begin + n
    while w > begin:
        w -= uint32(1)
        c = _column_before(columns, k, begin)
        d = _column_before(columns2, m, begin2)
        s = y.dtype(0)
        if c >= d:
            k -= uint32(1)
            s += beta * y[k]
        if d >= c:
            m -= uint32(1)
            s += alpha * x[m]
        if w < begin + room:
            columns[w] = greatest(c, d)
            y[w] = s
    if n > room:
        status[0] = 1
        n = room
    lengths[i] = int32(n)
    for q in range(begin + n, held[i]):
        y[q] = y.dtype(0)


# -- transposed matrices -----------------------------------------------------------------------------------------------


@func
def _count_columns(starts: Any, ends: Any, columns: Any, nrow: Any, ncol: Any, offsets: Any) -> Any:
    """Write where each row of the transposed matrix ends; a column that does not exist is left out.

    Returns whether each row is strictly ascending, so that no place can have two blocks.
    """
    for c in range(ncol + uint32(1)):
        offsets[c] = 0
    ascending = True
    for i in range(nrow):
        before = uint32(0)
        for k in range(starts[i], ends[i]):
            column = uint32(columns[k])  # a negative one is too large
            if column < ncol:
                ascending = ascending and column >= before
                before = column + uint32(1)
                offsets[column] += 1
    n = 0
    for c in range(ncol):
        n += offsets[c]
        offsets[c] = n
    offsets[ncol] = n
    return ascending


@func
def _check_transposed(offsets: Any, new_columns: Any, ncol: Any) -> Any:
    """Write -1 to the last offset if a place has two blocks."""
    n = offsets[ncol]
    for c in range(ncol):
        for b in range(uint32(offsets[c]) + uint32(1), uint32(offsets[c + uint32(1)])):
            if new_columns[b] == new_columns[b - uint32(1)]:
                n = -1
    offsets[ncol] = n


@_integral
def exchange_rows(  # type: ignore[no-untyped-def]
    starts, ends, columns, nrow: uint32, ncol: uint32, offsets, new_columns, order
):
    """Write the pattern of the transposed matrix, and the number that each of its blocks has in the given one."""
    ascending = _count_columns(starts, ends, columns, nrow, ncol, offsets)
    # Placed from the last row on, the ends of rows become their beginnings.
    for back in range(nrow):
        i = nrow - uint32(1) - back
        for k in range(starts[i], ends[i]):
            c = uint32(columns[k])
            if c < ncol:
                b = uint32(offsets[c]) - uint32(1)
                offsets[c] = int32(b)
                new_columns[b] = int32(i)
                order[b] = k
    if not ascending:
        _check_transposed(offsets, new_columns, ncol)


@_integral
def exchange_numbers(  # type: ignore[no-untyped-def]
    starts, ends, columns, nrow: uint32, ncol: uint32, values, offsets, new_columns, out
):
    """Write the transposed of a matrix of numbers."""
    ascending = _count_columns(starts, ends, columns, nrow, ncol, offsets)
    for back in range(nrow):
        i = nrow - uint32(1) - back
        for k in range(starts[i], ends[i]):
            c = uint32(columns[k])
            if c < ncol:
                b = uint32(offsets[c]) - uint32(1)
                offsets[c] = int32(b)
                new_columns[b] = int32(i)
                out[b] = values[k]
    if not ascending:
        _check_transposed(offsets, new_columns, ncol)


# -- products with vectors ---------------------------------------------------------------------------------------------


@_integral
def add_transposed_alone(starts, ends, columns, values, x, alpha, nrow: uint32, y):  # type: ignore[no-untyped-def]
    """Add the product of the transposed matrix and a vector in the order of rows."""
    for i in range(nrow):
        f = alpha * x[i]
        for k in range(starts[i], ends[i]):
            c = columns[k]
            y[c] = y[c] + values[k] * f


@_integral
def add_transposed_blocks_alone(  # type: ignore[no-untyped-def]
    starts, ends, columns, values, x, alpha, nrow: uint32, y
):
    """Add the product of the transposed matrix of blocks and vectors in the order of rows."""
    for i in range(nrow):
        f = alpha * x[i]
        for k in range(starts[i], ends[i]):
            c = columns[k]
            y[c] = y[c] + transpose(values[k]) @ f


# -- products of matrices ----------------------------------------------------------------------------------------------


@func
def _rank(columns: Any, lo: Any, hi: Any, column: Any) -> Any:
    """The number of columns in columns[lo:hi] before one: a loop without branches, which vector units count."""
    n = int32(0)
    for q in range(lo, hi):
        n += int32(columns[q] < column)
    return uint32(n)


@func
def _sort_columns(columns: Any, spare: Any, lo: Any, hi: Any) -> Any:
    """Sort columns[lo:hi], which are distinct, in place; `spare` has as many elements."""
    if hi - lo > uint32(_RANKED):
        _sort(columns, int32(lo), int32(hi))
    else:
        for b in range(lo, hi):
            column = columns[b]
            spare[lo + _rank(columns, lo, hi, column)] = uint32(column)
        for b in range(lo, hi):
            columns[b] = int32(spare[b])


@_integral
def count_all_products(  # type: ignore[no-untyped-def]
    starts, ends, columns, starts2, ends2, columns2, nrow: uint32, nrow2: uint32, ncol2: uint32, found
):
    """Count the products of blocks in a product of matrices; -1 if a column does not exist, or there are too many."""
    n = int64(0)
    exist = 1
    for i in range(nrow):
        for k in range(starts[i], ends[i]):
            j = uint32(columns[k])
            if j < nrow2:
                n += int64(ends2[j] - starts2[j])
            else:
                exist = 0
    for i in range(nrow2):
        for k in range(starts2[i], ends2[i]):
            if uint32(columns2[k]) >= ncol2:
                exist = 0
    found[0] = int32(least(n, int64(_MOST)))
    if exist == 0 or n > int64(_MOST):
        found[0] = -1


@_integral
def multiply_rows(  # type: ignore[no-untyped-def]
    starts, ends, columns, starts2, ends2, columns2, nrow: uint32,
    block_of, offsets, new_columns, first, last, left, right
):  # fmt: skip
    """Write the pattern of a product of matrices, and the numbers of the factors of each product of blocks.

    ``block_of`` has an element for each column, which is 0 at first: a block's number, counted from 1.
    """
    n = uint32(0)
    p = uint32(0)
    offsets[0] = 0
    for i in range(nrow):
        begin = n
        for k in range(starts[i], ends[i]):
            j = uint32(columns[k])
            for m in range(starts2[j], ends2[j]):
                c = columns2[m]
                if block_of[uint32(c)] <= begin:
                    new_columns[n] = c
                    last[n] = uint32(0)
                    n += uint32(1)
                    block_of[uint32(c)] = n
        _sort_columns(new_columns, first, begin, n)
        for b in range(begin, n):
            block_of[uint32(new_columns[b])] = b + uint32(1)
        for k in range(starts[i], ends[i]):
            j = uint32(columns[k])
            for m in range(starts2[j], ends2[j]):
                last[block_of[uint32(columns2[m])] - uint32(1)] += uint32(1)
        for b in range(begin, n):
            first[b] = p
            p += last[b]
            last[b] = first[b]
        for k in range(starts[i], ends[i]):
            j = uint32(columns[k])
            for m in range(starts2[j], ends2[j]):
                b = block_of[uint32(columns2[m])] - uint32(1)
                q = last[b]
                left[q] = k
                right[q] = m
                last[b] = q + uint32(1)
        offsets[i + uint32(1)] = int32(n)


@_integral
def multiply_rows_at_once(  # type: ignore[no-untyped-def]
    starts, ends, columns, starts2, ends2, columns2, nrow: uint32, x, y, alpha,
    block_of, found, sums, offsets, new_columns, out
):  # fmt: skip
    """Write a product of matrices of numbers with its pattern.

    ``block_of`` has an element for each column, which is 0 at first: a block's number, counted from 1, in the order
    in which columns are found. ``found`` and ``sums`` hold the columns and the sums of one row in that order.
    """
    n = uint32(0)
    offsets[0] = 0
    for i in range(nrow):
        length = uint32(0)
        for k in range(starts[i], ends[i]):
            j = uint32(columns[k])
            f = x[k]
            for m in range(starts2[j], ends2[j]):
                c = uint32(columns2[m])
                b = block_of[c]
                if b > n:
                    sums[b - n - uint32(1)] = sums[b - n - uint32(1)] + f * y[m]
                else:
                    s = out.dtype(0)
                    sums[length] = s + f * y[m]
                    found[length] = int32(c)
                    length += uint32(1)
                    block_of[c] = n + length
        if length > uint32(_RANKED):
            for b in range(length):
                new_columns[n + b] = found[b]
            _sort(new_columns, int32(n), int32(n + length))
            for b in range(n, n + length):
                out[b] = alpha * sums[block_of[uint32(new_columns[b])] - n - uint32(1)]
        else:
            for b in range(length):
                column = found[b]
                place = n + _rank(found, uint32(0), length, column)
                new_columns[place] = column
                out[place] = alpha * sums[b]
        n += length
        offsets[i + uint32(1)] = int32(n)
