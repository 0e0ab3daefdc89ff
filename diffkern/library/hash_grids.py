"""Queries of hash grids: points sorted into cells of space, of which those near a place are visited.

A grid has a finite number of cells along each axis, and space is folded onto them: the cell of a coordinate is
``floor(x / radius) % dim``. The points of a cell, and of cells that are neighbours along x, are adjacent in an array of
indices; another array holds where each cell begins. So a query visits one range of the indices for each row of cells
along x, or two where the row crosses the border of the grid. A query for one group visits each cell by itself, because
the points within a cell are in the order of their groups.
"""

from __future__ import annotations

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import HASH_GRID, HashGridQuery
from diffkern.library.descriptors import descriptor_of
from diffkern.library.language import (
    Float,
    Int32,
    floor,
    int32,
    int64,
    max,  # noqa: A004
    min,  # noqa: A004
    peek_float64,
    peek_int32,
    peek_uint64,
    uint64,
    vec3,
)

__all__: list[str] = []

ID, STARTS, IDS, GROUPS, DIM_X, DIM_Y, DIM_Z, COUNT, INVERSE, WORDS = range(10)
"""The words of a descriptor: its id; where arrays begin; numbers of cells and points; 1 / radius, a float64."""


@func
def cell_along(x, inverse):  # type: ignore[no-untyped-def]
    """Return the cell of a coordinate before folding; what no int32 holds is in the last one, NaN in cell 0."""
    return int32(floor(x * inverse))


@func
def folded(x, dim):  # type: ignore[no-untyped-def]
    """Return the cell of the grid that a cell of space is folded onto along an axis, without a division if possible."""
    # For a power of two the mask gives the remainder, of negative cells as well.
    return x & (dim - 1) if dim & (dim - 1) == 0 else x % dim


@func
def cell_of(point, inverse, dim_x, dim_y, dim_z):  # type: ignore[no-untyped-def]
    """Return the cell of a point, counted along x first, then y, then z."""
    x = folded(cell_along(point[0], inverse), dim_x)
    y = folded(cell_along(point[1], inverse), dim_y)
    z = folded(cell_along(point[2], inverse), dim_z)
    return (z * dim_y + y) * dim_x + x


@func
def descriptor(grid):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the id is not that of one."""
    place = descriptor_of(grid, HASH_GRID)
    assert place != uint64(0), "the id is that of no HashGrid, or of one that is gone"
    return place


@func
def cells_between(low, high, dim):  # type: ignore[no-untyped-def]
    """Return the number of cells from one to another along an axis, each counted once."""
    # In int64, since the difference of two int32 may not fit. More cells than the grid has would be visited twice.
    return int32(max(min(int64(high) - int64(low) + int64(1), int64(dim)), int64(0)))


@func
def opened(grid, point, max_dist, by_group, group):  # type: ignore[no-untyped-def]
    """Return a query at its beginning."""
    query = HashGridQuery()
    place = descriptor(grid)
    if place != uint64(0):
        inverse = type(max_dist)(peek_float64(place, INVERSE))
        dim_x, dim_y = int32(peek_uint64(place, DIM_X)), int32(peek_uint64(place, DIM_Y))
        dim_z = int32(peek_uint64(place, DIM_Z))
        x, y = cell_along(point[0] - max_dist, inverse), cell_along(point[1] - max_dist, inverse)
        z = cell_along(point[2] - max_dist, inverse)
        query.across = cells_between(x, cell_along(point[0] + max_dist, inverse), dim_x)
        query.deep = cells_between(y, cell_along(point[1] + max_dist, inverse), dim_y)
        query.high = cells_between(z, cell_along(point[2] + max_dist, inverse), dim_z)
        query.x, query.y, query.z = x % dim_x, y % dim_y, z % dim_z
        query.dim_x, query.dim_y, query.dim_z = dim_x, dim_y, dim_z
        query.starts, query.ids = peek_uint64(place, STARTS), peek_uint64(place, IDS)
        # A row that crosses the border of the grid continues at its other end.
        query.parts = 2 if query.x + query.across > dim_x else 1
        if by_group:
            query.groups, query.group = peek_uint64(place, GROUPS), group
            query.by_group = int32(query.groups != uint64(0))
            # Groups are in order within a cell only, so that each cell is a range of its own.
            query.parts = query.across if query.by_group == 1 else query.parts
        # Without arrays there are no points: the query stays empty.
        if query.starts != uint64(0):
            query.total = query.parts * query.deep * query.high
    return query


@func
def segments(query):  # type: ignore[no-untyped-def]
    """Return the number of ranges of the indices in which the results of a query lie."""
    return query.total


@func
def first_of_group(groups, begin, end, group):  # type: ignore[no-untyped-def]
    """Return the first place from begin up to end whose group is not below the given one."""
    low, high = begin, end
    while low < high:
        middle = low + (high - low) // 2
        if peek_int32(groups, middle) < group:
            low = middle + 1
        else:
            high = middle
    return low


@func
def segment(query, k):  # type: ignore[no-untyped-def]
    """Return where a range of the indices begins and ends."""
    # Ranges are numbered by their part of a row, then by row, then by layer.
    row = k // query.parts
    part = k - row * query.parts
    layer = row // query.deep
    y, z = query.y + row - layer * query.deep, query.z + layer
    # A query has no more rows than the grid, so one subtraction is enough.
    y = y - query.dim_y if y >= query.dim_y else y
    z = z - query.dim_z if z >= query.dim_z else z
    cells = (z * query.dim_y + y) * query.dim_x
    if query.by_group == 1:
        x = query.x + part
        cells += x - query.dim_x if x >= query.dim_x else x
        begin, end = peek_int32(query.starts, cells), peek_int32(query.starts, cells + 1)
        begin = first_of_group(query.groups, begin, end, query.group)
        # Beyond the largest int32 there is no further group, and group + 1 would wrap.
        if query.group < 2147483647:
            end = first_of_group(query.groups, begin, end, query.group + 1)
    else:
        # The second part of a row begins where the first one left the grid: at its other end.
        x = 0 if part == 1 else query.x
        over = query.x + query.across - query.dim_x
        last = over if part == 1 else min(query.x + query.across, query.dim_x)
        begin, end = peek_int32(query.starts, cells + x), peek_int32(query.starts, cells + last)
    return begin, end


@func
def item(query, at):  # type: ignore[no-untyped-def]
    """Return the index of the point at a place of the indices."""
    return peek_int32(query.ids, at)


@built_in()
def hash_grid_query(id: uint64, point: vec3, max_dist: Float) -> HashGridQuery:
    """A query of a HashGrid for the points near one: ``for j in query`` goes through their indices, in no set order.

    These are all points of the cells that meet the box from point - max_dist to point + max_dist: no distance is
    checked, and as space is folded onto the cells, some may be far away. With a group as one more argument, only points
    of that group are found, if the grid was built with groups.

    Derivative: none, the results are integers; values read at these indices are differentiated as usual. The adjoint
    goes through the same query again.

    Example: for j in dk.hash_grid_query(grid, u, 0.5):
        q[j] = 1
    """
    return opened(id, point, max_dist, False, 0)  # type: ignore[no-any-return]


@built_in("hash_grid_query")
def _query_of_group(id: uint64, point: vec3, max_dist: Float, group: Int32) -> HashGridQuery:
    return opened(id, point, max_dist, True, group)  # type: ignore[no-any-return]


@built_in(sets="query index")
def hash_grid_query_next(query: HashGridQuery, index: Int32) -> tuple[HashGridQuery, int32, bool]:
    """True if there is another point; the second argument is then set to its index: for ``while`` instead of ``for``.

    Derivative: none, it is an integer.

    Example: s, j = dk.hash_grid_query(grid, u, 0.5), 0
    while dk.hash_grid_query_next(s, j):
        q[j] = 1
    """
    # Ranges may be empty, several in a row.
    while query.at >= query.end and query.segment < query.total:
        query.at, query.end = segment(query, query.segment)
        query.segment += 1
    found = query.at < query.end
    if found:
        index = peek_int32(query.ids, query.at)
        query.at += 1
    return query, index, found


@built_in()
def hash_grid_point_id(id: uint64, index: Int32) -> int32:
    """The index of a point by its place in the order of the cells, in which neighbouring threads find the same points;
    -1 where the grid has none.

    Derivative: none, it is an integer.

    Example: q[i] = dk.hash_grid_point_id(grid, i)
    """
    place = descriptor(id)
    found = -1
    if place != uint64(0):
        inside = index >= 0 and index < int32(peek_uint64(place, COUNT))
        assert inside, "the HashGrid has no point of that number"
        if inside:
            found = peek_int32(peek_uint64(place, IDS), index)
    return found
