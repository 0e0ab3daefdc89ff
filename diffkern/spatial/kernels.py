"""The kernels by which a hash grid is built: a sort of points by cell.

Points are counted in their cells; a sum over the counts gives where each cell begins; each point is put into its cell;
and the points of each cell are put into the order of their groups and indices, so that the result does not depend on
the order in which threads ran.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.hash_grids import cell_of

__all__ = ["chunk_starts", "chunk_sums", "count", "group_of_places", "in_order", "place", "sums_before"]

tid: Any = INTRINSICS["tid"]
least: Any = INTRINSICS["min"]
atomic_add: Any = INTRINSICS["atomic_add"]
_integral = functools.partial(Kernel, enable_backward=False)


@_integral
def count(points, inverse, dim_x: int, dim_y: int, dim_z: int, cells, ranks, starts):  # type: ignore[no-untyped-def]
    """Find the cell of each point, and count the points of each cell."""
    i = tid()
    cell = cell_of(points[i], inverse, dim_x, dim_y, dim_z)
    cells[i] = cell
    ranks[i] = atomic_add(starts, cell, 1)


@_integral
def chunk_sums(starts, sums, chunk: int):  # type: ignore[no-untyped-def]
    """Add up the counts of each chunk of cells."""
    k = tid()
    s = 0
    for c in range(k * chunk, least((k + 1) * chunk, starts.shape[0])):
        s += starts[c]
    sums[k] = s


@_integral
def sums_before(sums):  # type: ignore[no-untyped-def]
    """Replace the sum of each chunk by that of all chunks before it; by one thread."""
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
    for c in range(k * chunk, least((k + 1) * chunk, starts.shape[0])):
        own = starts[c]
        starts[c] = s
        s += own


@_integral
def place(cells, ranks, starts, ids):  # type: ignore[no-untyped-def]
    """Put each point into its cell."""
    i = tid()
    ids[starts[cells[i]] + ranks[i]] = i


@func
def is_before(groups, grouped, a, b):  # type: ignore[no-untyped-def]
    """Whether a point stands before another."""
    if grouped != 0 and groups[a] != groups[b]:
        return groups[a] < groups[b]
    return a < b


@_integral
def in_order(cells, ranks, starts, ids, groups, grouped: int):  # type: ignore[no-untyped-def]
    """Sort the points of each cell in place, by a heap; by the thread of the point that was counted first."""
    i = tid()
    begin = starts[cells[i]]
    n = starts[cells[i] + 1] - begin
    if ranks[i] == 0 and n > 1:
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
def group_of_places(groups, ids, sorted_groups):  # type: ignore[no-untyped-def]
    """The group of each point, in the order of the indices."""
    k = tid()
    sorted_groups[k] = groups[ids[k]]
