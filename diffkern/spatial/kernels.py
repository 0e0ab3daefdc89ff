"""The kernels that build a hash grid: a sort of points by cell, and the first place of each cell.

On a GPU points are counted in their cells; a prefix sum over the counts gives the first place of each cell; each point
is put into its cell; and the points of each cell are sorted by their indices, so that the result does not depend on the
order in which threads ran.

On the CPU the points are sorted by the two halves of their cells' numbers, the lower one first. Each thread has a
block of the points, and a place for each digit: the sort is stable, so that the points of a cell are in the order of
their indices. The first place of each cell is then written from the sorted cells alone, once. Of few points the cells
are kept after these places, so that the next build writes only those that differ.

Groups are sorted last, cell by cell.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.hash_grids import cell_of
from diffkern.library.language import int32, int64

__all__ = [
    "begin_cells", "begin_counted", "build_alone", "chunk_starts", "chunk_sums", "count", "first_digits",
    "group_of_places", "in_order", "in_order_of_groups", "place", "place_first", "place_second", "second_digits",
    "sums_before", "update_cells",
]  # fmt: skip

tid: Any = INTRINSICS["tid"]
least: Any = INTRINSICS["min"]
most: Any = INTRINSICS["max"]
atomic_add: Any = INTRINSICS["atomic_add"]
_SPARSE = 64  # cells for each point in a chunk from which on cells between two points are filled together
_integral = functools.partial(Kernel, enable_backward=False)
_alone = functools.partial(Kernel, enable_backward=False, lanes=False)  # of few threads, each with a loop of its own


@_integral
def count(points, inverse, dim_x: int, dim_y: int, dim_z: int, cells, ranks, starts):  # type: ignore[no-untyped-def]
    """Find the cell of each point, and count the points of each cell."""
    i = tid()
    cell = cell_of(points[i], inverse, dim_x, dim_y, dim_z)
    cells[i] = cell
    ranks[i] = atomic_add(starts, cell, 1)


@func
def end_of(array, begin, size):  # type: ignore[no-untyped-def]
    """Return the end of a part of an array, the last of which may be shorter; no intermediate number exceeds it."""
    # `begin + size` could be beyond the greatest int32.
    return begin + least(size, array.shape[0] - begin)


@_integral
def chunk_sums(starts, sums, chunk: int):  # type: ignore[no-untyped-def]
    """Add up the counts of each chunk of cells."""
    k = tid()
    s = 0
    for c in range(k * chunk, end_of(starts, k * chunk, chunk)):
        s += starts[c]
    sums[k] = s


@_integral
def sums_before(sums):  # type: ignore[no-untyped-def]
    """Replace the sum of each chunk by that of all chunks before it; run by one thread."""
    s = 0
    for k in range(sums.shape[0]):
        own = sums[k]
        sums[k] = s
        s += own


@_integral
def chunk_starts(starts, sums, chunk: int):  # type: ignore[no-untyped-def]
    """Replace the count of each cell by the number of points in all cells before it."""
    k = tid()
    s = sums[k]
    for c in range(k * chunk, end_of(starts, k * chunk, chunk)):
        own = starts[c]
        starts[c] = s
        s += own


@_integral
def place(cells, ranks, starts, ids):  # type: ignore[no-untyped-def]
    """Put each point into its cell."""
    i = tid()
    # `starts` holds the number of points in all cells before, and the rank is the place within the cell.
    ids[starts[cells[i]] + ranks[i]] = i


@_integral
def begin_counted(cells, ids, starts):  # type: ignore[no-untyped-def]
    """Write the first place of a cell, the number of points in all cells before it, once they are in order."""
    c = tid()
    low, high = 0, ids.shape[0]
    while low < high:
        middle = low + (high - low) // 2
        if cells[ids[middle]] < c:
            low = middle + 1
        else:
            high = middle
    starts[c] = low


@func
def is_before(groups, grouped, a, b):  # type: ignore[no-untyped-def]
    """Return whether a point comes before another."""
    if grouped != 0 and groups[a] != groups[b]:
        return groups[a] < groups[b]
    return a < b


@func
def sort_cell(begin, n, ids, groups, grouped):  # type: ignore[no-untyped-def]
    """Sort the points of a cell in place, by heapsort."""
    # A heap needs no memory beside the cell and has no bad case: all points may be in one cell. While `top` > 0 the
    # heap is being made; afterwards the greatest point moves behind the heap, which shrinks by one.
    top, last = n // 2, n
    while last > 1:
        if top > 0:
            top -= 1
            moved = ids[begin + top]
        else:
            last -= 1
            moved = ids[begin + last]
            ids[begin + last] = ids[begin]
        if last > 1 or top > 0:
            at, child = top, 2 * top + 1
            while child < last:
                if child + 1 < last and is_before(groups, grouped, ids[begin + child], ids[begin + child + 1]):
                    child += 1
                if is_before(groups, grouped, moved, ids[begin + child]):
                    ids[begin + at] = ids[begin + child]
                    at, child = child, 2 * child + 1
                else:
                    child = last
            ids[begin + at] = moved
        else:
            ids[begin] = moved


@_integral
def in_order(cells, ranks, starts, ids, groups, grouped: int):  # type: ignore[no-untyped-def]
    """Sort the points of each cell; done by the thread of the point that was counted first."""
    i = tid()
    begin = starts[cells[i]]
    n = starts[cells[i] + 1] - begin
    if ranks[i] == 0 and n > 1:
        sort_cell(begin, n, ids, groups, grouped)


@_integral
def in_order_of_groups(sorted_cells, starts, ids, groups):  # type: ignore[no-untyped-def]
    """Sort the points of each cell by their groups; done by the thread of its first place."""
    k = tid()
    cell = sorted_cells[k]
    begin = starts[cell]
    if k == begin and starts[cell + 1] - begin > 1:
        sort_cell(begin, starts[cell + 1] - begin, ids, groups, 1)


@_integral
def group_of_places(groups, ids, sorted_groups):  # type: ignore[no-untyped-def]
    """Write the group of each point, in the order of the sorted indices."""
    k = tid()
    sorted_groups[k] = groups[ids[k]]


# -- on a processor ----------------------------------------------------------------------------------------------------


@func
def clear(places, blocks, b, digits):  # type: ignore[no-untyped-def]
    """Set a block's counts to zero."""
    for d in range(digits):
        # Digit-major: a prefix sum over the whole array then puts, for each digit, the blocks one after the other.
        places[d * blocks + b] = 0


@func
def count_first(points, inverse, dim_x, dim_y, dim_z, mask, cells, places, blocks, b, begin, end):  # type: ignore[no-untyped-def]
    """Find the cells of a block's points, and count the lower digits."""
    clear(places, blocks, b, mask + 1)
    for i in range(begin, end):
        cell = cell_of(points[i], inverse, dim_x, dim_y, dim_z)
        cells[i] = cell
        places[(cell & mask) * blocks + b] += 1


@func
def put_first(cells, mask, pairs, places, blocks, b, begin, end):  # type: ignore[no-untyped-def]
    """Put a block's points, each as its cell and its index, into the order of the lower digits."""
    for i in range(begin, end):
        cell = cells[i]
        k = (cell & mask) * blocks + b
        to = places[k]
        places[k] = to + 1
        # The cell and the index travel in one number: the second pass reads both with one load, in the order of the
        # first.
        pairs[to] = (int64(cell) << int64(32)) | int64(i)


@func
def cell_of_pair(pair):  # type: ignore[no-untyped-def]
    """Return the cell of a point."""
    return int32(pair >> int64(32))


@func
def count_second(pairs, shift, mask, places, blocks, b, begin, end):  # type: ignore[no-untyped-def]
    """Count the upper digits of a block."""
    clear(places, blocks, b, mask + 1)
    for i in range(begin, end):
        places[(cell_of_pair(pairs[i]) >> shift) * blocks + b] += 1


@func
def put_second(pairs, shift, ids, cells, places, blocks, b, begin, end):  # type: ignore[no-untyped-def]
    """Put a block of points that are in the order of the lower digits into the order of the upper ones."""
    for i in range(begin, end):
        pair = pairs[i]
        cell = cell_of_pair(pair)
        k = (cell >> shift) * blocks + b
        to = places[k]
        places[k] = to + 1
        ids[to] = int32(pair)
        cells[to] = cell


@func
def sum_up(places):  # type: ignore[no-untyped-def]
    """Replace each count by the sum of all before it."""
    s = 0
    for k in range(places.shape[0]):
        own = places[k]
        places[k] = s
        s += own


@func
def sort_all(points, inverse, dim_x, dim_y, dim_z, shift, cells, places, pairs, ids):  # type: ignore[no-untyped-def]
    """Sort all points by one thread; their cells are left in the order of the result."""
    n, mask = points.shape[0], (1 << shift) - 1
    count_first(points, inverse, dim_x, dim_y, dim_z, mask, cells, places, 1, 0, 0, n)
    sum_up(places)
    put_first(cells, mask, pairs, places, 1, 0, 0, n)
    count_second(pairs, shift, mask, places, 1, 0, 0, n)
    sum_up(places)
    put_second(pairs, shift, ids, cells, places, 1, 0, 0, n)


@_alone
def first_digits(  # type: ignore[no-untyped-def]
    points, inverse, dim_x: int, dim_y: int, dim_z: int, shift: int, size: int, blocks: int, cells, places
):
    """Find the cells of a block of points, and count the lower digits."""
    b = tid()
    mask, end = (1 << shift) - 1, end_of(points, b * size, size)
    count_first(points, inverse, dim_x, dim_y, dim_z, mask, cells, places, blocks, b, b * size, end)


@_alone
def place_first(cells, shift: int, size: int, blocks: int, places, pairs):  # type: ignore[no-untyped-def]
    """Put a block of points into the order of the lower digits."""
    b = tid()
    end = end_of(cells, b * size, size)
    put_first(cells, (1 << shift) - 1, pairs, places, blocks, b, b * size, end)


@_alone
def second_digits(pairs, shift: int, size: int, blocks: int, places):  # type: ignore[no-untyped-def]
    """Count the upper digits of a block."""
    b = tid()
    end = end_of(pairs, b * size, size)
    count_second(pairs, shift, (1 << shift) - 1, places, blocks, b, b * size, end)


@_alone
def place_second(pairs, shift: int, size: int, blocks: int, places, ids, cells):  # type: ignore[no-untyped-def]
    """Put a block into the order of the upper digits, and so of the cells."""
    b = tid()
    end = end_of(pairs, b * size, size)
    put_second(pairs, shift, ids, cells, places, blocks, b, b * size, end)


@func
def first_not_below(sorted_cells, cell):  # type: ignore[no-untyped-def]
    """Return the number of points in all cells before this one."""
    low, high = 0, sorted_cells.shape[0]
    while low < high:
        middle = low + (high - low) // 2
        if sorted_cells[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low


@func
def write_begins(sorted_cells, starts, first, end):  # type: ignore[no-untyped-def]
    """Write the first place of each cell: the number of points in all cells before it."""
    # The points of a chunk's cells are a stretch of the sorted points, found by bisection: chunks are independent.
    p, last = first_not_below(sorted_cells, first), first_not_below(sorted_cells, end)
    # With few points the cells between two points are filled together. With many, each cell is counted, and a prefix
    # sum follows, which has no branches that depend on the points.
    if last - p < (end - first) // _SPARSE:
        c = first
        while c < end:
            after = least(sorted_cells[p] + 1, end) if p < last else end
            for k in range(most(c, 0), after):
                starts[k] = p
            c = after
            while p < last and sorted_cells[p] < c:
                p += 1
    else:
        for k in range(first, end):
            starts[k] = 0
        for q in range(p, last):
            starts[sorted_cells[q]] += 1
        for k in range(first, end):
            own = starts[k]
            starts[k] = p
            p += own


@_alone
def begin_cells(sorted_cells, table, number: int, chunk: int):  # type: ignore[no-untyped-def]
    """Write the first place of each cell of a chunk."""
    first = most(tid() * chunk, 0)  # which tells that no index is negative
    write_begins(sorted_cells, table, first, first + least(chunk, number - first))
    if first == 0 and table.shape[0] > number:
        table[number] = -1  # no points are kept after it


@func
def update_begins(sorted_cells, table, number):  # type: ignore[no-untyped-def]
    """Change the first places of the cells from those of the points before to those of other points, and note these."""
    # The first place of the cells behind that of point p - 1, up to that of point p, is p. Points seldom change their
    # cells from one build to the next, and only cells that have another first place are written.
    n, noted = sorted_cells.shape[0], table[number]
    before, noted_before = -1, -1 if noted >= 0 else number - 1
    for p in range(n + 1):
        cell = sorted_cells[p] if p < n else number - 1
        of_noted = table[number + 1 + p] if p < noted else number - 1
        if cell != of_noted or before != noted_before:
            for c in range(most(before + 1, 0), least(cell, noted_before) + 1):
                table[c] = p
            for c in range(most(most(of_noted, before) + 1, 0), cell + 1):
                table[c] = p
        if p < n:
            table[number + 1 + p] = cell
        before, noted_before = cell, of_noted
    table[number] = n


@_alone
def update_cells(sorted_cells, table, number: int):  # type: ignore[no-untyped-def]
    """Write the first places of all cells, of few points, by one thread."""
    update_begins(sorted_cells, table, number)


@_alone
def build_alone(  # type: ignore[no-untyped-def]
    points, inverse, dim_x: int, dim_y: int, dim_z: int, shift: int, cells, places, pairs, ids, table, number: int
):
    """Sort few points into cells, by one thread."""
    sort_all(points, inverse, dim_x, dim_y, dim_z, shift, cells, places, pairs, ids)
    update_begins(cells, table, number)
