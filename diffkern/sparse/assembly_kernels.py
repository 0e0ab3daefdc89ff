"""Kernels in which one thread of a CPU makes a matrix of numbers from triplets: pattern and values together.

Numbers are moved with their columns to where their row is, so that none is read at a random place of memory in the
end. Many triplets come there by way of groups of rows that are as long as a cache holds.

A row's ``keys`` have the column in the upper and the number of a place in the lower 32 bits. Places are in the order of
triplets, which is the order in which numbers at one place of the matrix are added up.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["group_triplets", "sum_groups", "sum_triplets"]

int32: Any = SCALARS["int32"]
int64: Any = SCALARS["int64"]
uint32: Any = SCALARS["uint32"]
least: Any = INTRINSICS["min"]
greatest: Any = INTRINSICS["max"]
_SHORT: Final = 16
"""The most keys that are sorted by exchanges."""
_integral = functools.partial(Kernel, enable_backward=False, lanes=False)


# -- rows --------------------------------------------------------------------------------------------------------------


@func
def _exchange(keys: Any, lo: Any, hi: Any) -> Any:
    """Sort keys[lo:hi]: each key in turn moves the greater ones before it along, without a branch."""
    for a in range(lo + uint32(1), hi):
        key = keys[a]
        for q in range(lo, a):
            other = keys[q]
            keys[q] = least(other, key)
            key = greatest(other, key)
        keys[a] = key


@func
def _merge(keys: Any, spare: Any, lo: Any, middle: Any, hi: Any) -> Any:
    """Write the keys of two sorted lists, keys[lo:middle] and keys[middle:hi], to spare[lo:hi] in order."""
    p = lo
    q = middle
    for a in range(lo, hi):
        one = keys[least(p, middle - uint32(1))]
        other = keys[least(q, hi - uint32(1))]
        is_first = q >= hi or (p < middle and one < other)
        spare[a] = one if is_first else other
        p += uint32(is_first)
        q += uint32(not is_first)


@func
def _sort_keys(keys: Any, spare: Any, lo: Any, hi: Any) -> Any:
    """Sort keys[lo:hi] in place; `spare` has as many elements."""
    ordered = hi - lo > uint32(_SHORT)
    if ordered:
        for a in range(lo + uint32(1), hi):
            if keys[a] < keys[a - uint32(1)]:
                ordered = False
    if not ordered:
        begin = lo
        while begin < hi:
            _exchange(keys, begin, least(begin + uint32(_SHORT), hi))
            begin += uint32(_SHORT)
        width = uint32(_SHORT)
        while width < hi - lo:
            begin = lo
            while begin < hi:
                middle = least(begin + width, hi)
                end = least(middle + width, hi)
                _merge(keys, spare, begin, middle, end)
                begin = end
            for a in range(lo, hi):
                keys[a] = spare[a]
            width *= uint32(2)


@func
def _combine(keys: Any, numbers: Any, lo: Any, hi: Any, b: Any, block_of: Any) -> Any:
    """Add the numbers of a row with the same column up, in their places; return where the row then ends.

    ``block_of`` has an element for each column: the number of a block, counted from 1; those before number b are of
    other rows.
    """
    end = lo
    for a in range(lo, hi):
        number = numbers[a]
        column = keys[a] >> int64(32)
        block = block_of[uint32(column)]
        if block > b:
            a2 = lo + (block - b - uint32(1))
            numbers[a2] = numbers[a2] + number
        else:
            numbers[end] = number
            keys[end] = (column << int64(32)) | int64(end)
            end += uint32(1)
            block_of[uint32(column)] = b + (end - lo)
    return end


@func
def _sum_row(keys: Any, numbers: Any, lo: Any, hi: Any, b: Any, columns: Any, out: Any) -> Any:
    """Write the blocks of a row, from number b on, of sorted keys; return the number of the block after them."""
    a = lo
    while a < hi:
        key = keys[a]
        column = int32(key >> int64(32))
        s = out.dtype(0)
        s = numbers[uint32(key)]  # not added to 0, which would turn -0 into 0
        a += uint32(1)
        going = a < hi
        while going:
            key = keys[a]
            going = int32(key >> int64(32)) == column
            if going:
                s += numbers[uint32(key)]
                a += uint32(1)
                going = a < hi
        columns[b] = column
        out[b] = s
        b += uint32(1)
    return b


@func
def _sum_rows(
    starts: Any, nrow: Any, keys: Any, spare: Any, numbers: Any, block_of: Any, b: Any, before: Any,
    offsets: Any, columns: Any, out: Any
) -> Any:  # fmt: skip
    """Write some rows of the matrix, before which there are b blocks in `before` rows; return b after them."""
    for i in range(nrow):
        lo = uint32(starts[i])
        hi = uint32(starts[i + uint32(1)])
        if hi - lo > uint32(_SHORT):
            hi = _combine(keys, numbers, lo, hi, b, block_of)
        _sort_keys(keys, spare, lo, hi)
        offsets[before + i] = int32(b)
        b = _sum_row(keys, numbers, lo, hi, b, columns, out)
    return b


@func
def _end(b: Any, n: Any, nrow: Any, offsets: Any, out: Any) -> Any:
    """Write the number of all blocks, and zeros for as many as there might have been of n triplets."""
    offsets[nrow] = int32(b)
    for k in range(b, uint32(n)):
        out[k] = out.dtype(0)


@func
def _add_up(starts: Any, nrow: Any) -> Any:
    """Turn the lengths of rows into their ends."""
    s = 0
    for i in range(nrow):
        s += starts[i]
        starts[i] = s
    starts[nrow] = s


# -- triplets ----------------------------------------------------------------------------------------------------------


@func
def _length(rows: Any, count: Any, limited: int) -> Any:
    """The number of triplets."""
    n = uint32(rows.shape[0])
    if limited != 0:
        n = least(n, uint32(greatest(count[0], 0)))
    return n


@func
def _is_in(rows: Any, columns: Any, given: Any, nrow: Any, ncol: Any, pruned: int, t: Any) -> Any:
    """Return True for a triplet in the matrix, unless it is zero and those are left out."""
    kept = uint32(rows[t]) < nrow and uint32(columns[t]) < ncol  # what is negative is too large
    if pruned != 0 and given[t] == 0:
        kept = False
    return kept


@_integral
def sum_triplets(  # type: ignore[no-untyped-def]
    rows, triplet_columns, given, count, nrow: uint32, ncol: uint32, limited: int, pruned: int,
    starts, keys, spare, numbers, block_of, offsets, columns, out
):  # fmt: skip
    """Write a matrix; `starts`, `keys`, `spare` and `numbers` are room for as many rows and triplets."""
    n = _length(rows, count, limited)
    for i in range(nrow + uint32(1)):
        starts[i] = 0
    for t in range(n):
        if _is_in(rows, triplet_columns, given, nrow, ncol, pruned, t):
            i = uint32(rows[t])
            starts[i] = starts[i] + 1
    _add_up(starts, nrow)
    # Placed from the last triplet on, the ends of rows become their beginnings.
    for back in range(n):
        t = n - uint32(1) - back
        if _is_in(rows, triplet_columns, given, nrow, ncol, pruned, t):
            i = uint32(rows[t])
            a = starts[i] - 1
            starts[i] = a
            keys[uint32(a)] = (int64(triplet_columns[t]) << int64(32)) | int64(a)
            numbers[uint32(a)] = given[t]
    b = _sum_rows(starts, nrow, keys, spare, numbers, block_of, uint32(0), uint32(0), offsets, columns, out)
    _end(b, rows.shape[0], nrow, offsets, out)


@_integral
def group_triplets(  # type: ignore[no-untyped-def]
    rows, triplet_columns, given, count, nrow: uint32, ncol: uint32, limited: int, pruned: int,
    shift: uint32, ends, places, numbers
):  # fmt: skip
    """Move triplets to groups of 2**shift rows: row and column in one integer, and the number.

    ``ends`` has zeros at first, one for each group and another; it gets the ends of groups, and the greatest length.
    """
    n = _length(rows, count, limited)
    for t in range(n):
        if _is_in(rows, triplet_columns, given, nrow, ncol, pruned, t):
            g = uint32(rows[t]) >> shift
            ends[g] = ends[g] + uint32(1)
    groups = uint32(ends.shape[0]) - uint32(1)
    most = uint32(0)
    s = uint32(0)
    for g in range(groups):
        here = ends[g]
        most = greatest(most, here)
        ends[g] = s
        s += here
    ends[groups] = most
    for t in range(n):
        if _is_in(rows, triplet_columns, given, nrow, ncol, pruned, t):
            g = uint32(rows[t]) >> shift
            a = ends[g]
            ends[g] = a + uint32(1)
            places[a] = (int64(rows[t]) << int64(32)) | int64(triplet_columns[t])
            numbers[a] = given[t]


@_integral
def sum_groups(  # type: ignore[no-untyped-def]
    ends, places, given, nrow: uint32, shift: uint32, starts, keys, spare, numbers, block_of, offsets, columns, out
):
    """Write a matrix of grouped triplets; the others are room for as many rows and triplets as a group has."""
    b = uint32(0)
    lo = uint32(0)
    for g in range(uint32(ends.shape[0]) - uint32(1)):
        hi = ends[g]
        first = g << shift
        height = least(uint32(1) << shift, nrow - first)
        for i in range(height + uint32(1)):
            starts[i] = 0
        for t in range(lo, hi):
            i = uint32(places[t] >> int64(32)) - first
            starts[i] = starts[i] + 1
        _add_up(starts, height)
        for back in range(hi - lo):
            t = hi - uint32(1) - back
            place = places[t]
            i = uint32(place >> int64(32)) - first
            a = starts[i] - 1
            starts[i] = a
            keys[uint32(a)] = (place << int64(32)) | int64(a)
            numbers[uint32(a)] = given[t]
        b = _sum_rows(starts, height, keys, spare, numbers, block_of, b, first, offsets, columns, out)
        lo = hi
    _end(b, places.shape[0], nrow, offsets, out)
