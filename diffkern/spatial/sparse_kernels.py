"""The kernels of marching cubes on given cubes, and of the search for the cubes that a surface passes through.

Cubes share edges, whose keys are their lower node and their axis. Keys are sorted along with the places that they come
from; each run of equal keys is a vertex, with the field of the first cube that has it. Only :func:`place_of_ends` has
derivatives.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.language import float32, int32, int64, vec2i, vec3f, vec3i, vec4i
from diffkern.spatial.surface_kernels import between

__all__ = [
    "bounds_of_cells", "centres", "corner_keys", "corner_places", "count_cells", "count_children", "edge_keys",
    "fill_children", "in_order", "number_runs", "place_of_ends", "run_begins", "triangles_of_cells", "vertex_of_edges",
]  # fmt: skip

tid: Any = INTRINSICS["tid"]
least: Any = INTRINSICS["min"]
magnitude: Any = INTRINSICS["abs"]
atomic_add: Any = INTRINSICS["atomic_add"]
atomic_min: Any = INTRINSICS["atomic_min"]
atomic_max: Any = INTRINSICS["atomic_max"]
_integral = functools.partial(Kernel, enable_backward=False)


# -- cubes -------------------------------------------------------------------------------------------------------------


@_integral
def bounds_of_cells(cells, chunk: int, bounds):  # type: ignore[no-untyped-def]
    """Find the least and the greatest index of cells along each axis, by chunks of them."""
    c = tid()
    begin = c * chunk
    low, high = cells[begin], cells[begin]
    for n in range(begin + 1, least(begin + chunk, cells.shape[0])):
        cell = cells[n]
        for axis in range(3):
            if cell[axis] < low[axis]:
                low[axis] = cell[axis]
            if cell[axis] > high[axis]:
                high[axis] = cell[axis]
    for axis in range(3):
        atomic_min(bounds, axis, low[axis])
        atomic_max(bounds, 3 + axis, high[axis])


@func
def case_of_cell(values, corners, c, t):  # type: ignore[no-untyped-def]
    """Return the case of a cell."""
    case = 0
    for k in range(8):
        case |= int32(values[corners[8 * c + k]] < t) << k
    return case


@func
def cut_edges(case, nodes):  # type: ignore[no-untyped-def]
    """Return the cut edges of a case as bits."""
    found = 0
    for e in range(12):
        found |= int32((case >> nodes[e][0] & 1) != (case >> nodes[e][1] & 1)) << e
    return found


@_integral
def count_cells(values, threshold, corners, ends, begins, cases, counts):  # type: ignore[no-untyped-def]
    """Find the case of each cell, and count its cut edges and the corners of its triangles."""
    c = tid()
    case = case_of_cell(values, corners, c, threshold[0])
    cut, n = cut_edges(case, ends), 0
    for e in range(12):
        n += cut >> e & 1
    cases[c] = case
    counts[c] = n
    counts[cases.shape[0] + c] = begins[case + 1] - begins[case]


@func
def key_of(x, y, z, spans):  # type: ignore[no-untyped-def]
    """Return the number of a node, from its indices relative to the first ones."""
    return (int64(x) * int64(spans[1]) + int64(y)) * int64(spans[2]) + int64(z)


@_integral
def edge_keys(cells, cases, first, spans, ends, nodes, starts, keys, places):  # type: ignore[no-untyped-def]
    """Write the key of each cut edge of each cell, and its place: twelve times the cell, and the edge."""
    c = tid()
    cell, at, cut = cells[c], starts[c], cut_edges(cases[c], ends)
    for e in range(12):
        if (cut >> e & 1) == 1:
            edge = nodes[e]
            x, y, z = cell[0] - first[0] + edge[0], cell[1] - first[1] + edge[1], cell[2] - first[2] + edge[2]
            keys[at] = int64(3) * key_of(x, y, z, spans) + int64(edge[3])
            places[at] = 12 * c + e
            at += 1


@_integral
def corner_keys(cells, offsets, spans, keys, places):  # type: ignore[no-untyped-def]
    """Write the key of each corner of each cell, and its place: eight times the cell, and the corner."""
    c, k = tid()
    cell, offset = cells[c], offsets[k]
    keys[8 * c + k] = key_of(cell[0] + offset[0], cell[1] + offset[1], cell[2] + offset[2], spans)
    places[8 * c + k] = 8 * c + k


@_integral
def run_begins(keys, begins):  # type: ignore[no-untyped-def]
    """Write 1 for each sorted key that is not the one before it."""
    p = tid()
    begins[p] = int32(p == 0 or keys[p] != keys[p - (1 if p > 0 else 0)])


@_integral
def number_runs(places, begins, numbers):  # type: ignore[no-untyped-def]
    """Write, for the place of each sorted key, the number of its run, from how many runs begin before each key."""
    p = tid()
    # The run of a key has begun with it or before it.
    numbers[places[p]] = begins[p + 1] - 1


@_integral
def vertex_of_edges(cells, first, corners, ends, nodes, places, begins, pairs, lower_nodes):  # type: ignore[no-untyped-def]
    """Write, for each run of keys, the two places in the field and the lower node and axis of its first edge."""
    p = tid()
    if begins[p + 1] > begins[p]:
        c, e = places[p] // 12, places[p] % 12
        cell, edge = cells[c], nodes[e]
        pairs[begins[p]] = vec2i(corners[8 * c + ends[e][0]], corners[8 * c + ends[e][1]])
        x, y, z = cell[0] - first[0] + edge[0], cell[1] - first[1] + edge[1], cell[2] - first[2] + edge[2]
        lower_nodes[begins[p]] = vec4i(x, y, z, edge[3])


@_integral
def triangles_of_cells(cases, begins, table, starts, starts_at: int, numbers, indices):  # type: ignore[no-untyped-def]
    """Write the vertices of the triangles of each cell."""
    c = tid()
    case = cases[c]
    at = starts[cases.shape[0] + c] - starts_at
    for n in range(begins[case], begins[case + 1]):
        indices[at] = numbers[12 * c + table[n]]
        at += 1


@Kernel
def place_of_ends(values, threshold, pairs, lower_nodes, lower, spacing, points):  # type: ignore[no-untyped-def]
    """Write the place of each vertex on its edge."""
    v = tid()
    pair, edge = pairs[v], lower_nodes[v]
    t = between(values[pair[0]], values[pair[1]], threshold[0])
    axis = edge[3]
    number = values.dtype
    points[v] = points.dtype(
        lower[0] + spacing[0] * (number(edge[0]) + t * number(int32(axis == 0))),
        lower[1] + spacing[1] * (number(edge[1]) + t * number(int32(axis == 1))),
        lower[2] + spacing[2] * (number(edge[2]) + t * number(int32(axis == 2))),
    )


# -- octrees -----------------------------------------------------------------------------------------------------------


@func
def place_of(low, width, x):  # type: ignore[no-untyped-def]
    """Return the coordinates of indices."""
    return vec3f(low[0] + width[0] * x[0], low[1] + width[1] * x[1], low[2] + width[2] * x[2])


@_integral
def centres(cells, lower, width, points):  # type: ignore[no-untyped-def]
    """Write the centre of each cell."""
    c = tid()
    cell = cells[c]
    x = vec3f(float32(cell[0]) + 0.5, float32(cell[1]) + 0.5, float32(cell[2]) + 0.5)
    points[c] = place_of(lower, width, x)


@_integral
def corner_places(places, begins, cells, offsets, lower, width, points):  # type: ignore[no-untyped-def]
    """Write the place of each run of corners."""
    p = tid()
    if begins[p + 1] > begins[p]:
        cell, offset = cells[places[p] // 8], offsets[places[p] % 8]
        x = vec3f(float32(cell[0] + offset[0]), float32(cell[1] + offset[1]), float32(cell[2] + offset[2]))
        points[begins[p]] = place_of(lower, width, x)


@func
def is_in_grid(cell, offset, extent, size):  # type: ignore[no-untyped-def]
    """Return whether a child of a cell has a part in the grid."""
    x, y, z = 2 * cell[0] + offset[0], 2 * cell[1] + offset[1], 2 * cell[2] + offset[2]
    return x * size < extent[0] and y * size < extent[1] and z * size < extent[2]


@_integral
def count_children(values, threshold, reach, cells, offsets, extent, size: int, counts, culled):  # type: ignore[no-untyped-def]
    """Count the children of each cell that the surface may pass through; of cells of the last level the cells."""
    c = tid()
    n = 0
    # The other way round a NaN, of which nothing is known, would end the search.
    if not magnitude(values[c] - threshold) > reach:
        n = 1
        if size > 0:
            n = 0
            for k in range(8):
                n += int32(is_in_grid(cells[c], offsets[k], extent, size))
            atomic_add(culled, 0, 8 - n)
    counts[c] = n


@_integral
def fill_children(cells, offsets, extent, size: int, starts, children):  # type: ignore[no-untyped-def]
    """Write the children of each cell, or the cells of the last level."""
    c = tid()
    at = starts[c]
    if starts[c + 1] > at:
        cell = cells[c]
        if size == 0:
            children[at] = cell
        else:
            for k in range(8):
                offset = offsets[k]
                if is_in_grid(cell, offset, extent, size):
                    children[at] = vec3i(2 * cell[0] + offset[0], 2 * cell[1] + offset[1], 2 * cell[2] + offset[2])
                    at += 1


@_integral
def in_order(places):  # type: ignore[no-untyped-def]
    """Write the index of each element."""
    p = tid()
    places[p] = p
