"""The kernels of surface nets on a dense grid: counts for each cube, the faces, and the vertices.

A cube has a vertex for each loop of cut edges, in the middle of the places where the surface cuts them. Around each cut
edge within the grid is a quadrilateral of the vertices of its four cubes. Loops with edges on the border of the grid
alone have no part in any, and no vertex. Which loops there are is data; only :func:`place_in_middle` has derivatives.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.language import int32, vec4i
from diffkern.spatial.surface_kernels import between, case_of, slab

__all__ = ["count_cubes", "fill_cubes", "place_in_middle"]

tid: Any = INTRINSICS["tid"]
where: Any = INTRINSICS["where"]
_integral = functools.partial(Kernel, enable_backward=False)
_alone = functools.partial(Kernel, enable_backward=False, lanes=False)

_ALL = (1 << 12) - 1


@func
def side(field, t, i, j, k):  # type: ignore[no-untyped-def]
    """Return the corners of a cube's lower side along the first axis as bits."""
    return slab(field[i, j, k] < t, field[i, j + 1, k] < t, field[i, j, k + 1] < t, field[i, j + 1, k + 1] < t)


@func
def case_at(field, t, i, j, k):  # type: ignore[no-untyped-def]
    """Return the case of a cube."""
    return case_of(side(field, t, i, j, k), side(field, t, i + 1, j, k))


@func
def variant_at(field, t, i, j, k, split_faces):  # type: ignore[no-untyped-def]
    """Return twice the case of a cube, and one more where the corners of an ambiguous face are separated."""
    nx, ny, nz = field.shape[0], field.shape[1], field.shape[2]
    case = case_at(field, t, i, j, k)
    variant = 2 * case
    face = split_faces[case]
    if face >= 0:
        step = where((face & 1) == 1, 1, -1)
        ni, nj, nk = i + where(face >> 1 == 0, step, 0), j + where(face >> 1 == 1, step, 0), k
        nk = k + where(face >> 1 == 2, step, 0)
        if ni >= 0 and nj >= 0 and nk >= 0 and ni + 1 < nx and nj + 1 < ny and nk + 1 < nz:
            # Faces are numbered in pairs, so the same face has the other number of its pair in the neighbour.
            variant += int32(split_faces[case_at(field, t, ni, nj, nk)] == (face ^ 1))
    return variant


@func
def within(field, i, j, k, edges_of_faces):  # type: ignore[no-untyped-def]
    """Return the edges of a cube that do not lie on the border of the grid, as bits."""
    border = 0
    border |= where(i == 0, edges_of_faces[0], 0) | where(i + 2 == field.shape[0], edges_of_faces[1], 0)
    border |= where(j == 0, edges_of_faces[2], 0) | where(j + 2 == field.shape[1], edges_of_faces[3], 0)
    border |= where(k == 0, edges_of_faces[4], 0) | where(k + 2 == field.shape[2], edges_of_faces[5], 0)
    return _ALL & ~border


@_integral
def count_cubes(field, threshold, split_faces, loops, edges_of_faces, variants, counts):  # type: ignore[no-untyped-def]
    """Find the loops of each cube, and count its vertices and the quadrilaterals around the edges of its first node."""
    i, j, k = tid()
    nx, ny, nz = field.shape[0], field.shape[1], field.shape[2]
    t = threshold[0]
    node = (i * ny + j) * nz + k
    vertices, faces = 0, 0
    if i + 1 < nx and j + 1 < ny and k + 1 < nz:
        variant = variant_at(field, t, i, j, k, split_faces)
        inner = within(field, i, j, k, edges_of_faces)
        for g in range(4):
            vertices += int32((loops[4 * variant + g] & inner) != 0)
        variants[node] = variant
    is_inside = field[i, j, k] < t
    if i + 1 < nx and j > 0 and k > 0 and j + 1 < ny and k + 1 < nz:
        faces += int32((field[i + 1, j, k] < t) != is_inside)
    if j + 1 < ny and i > 0 and k > 0 and i + 1 < nx and k + 1 < nz:
        faces += int32((field[i, j + 1, k] < t) != is_inside)
    if k + 1 < nz and i > 0 and j > 0 and i + 1 < nx and j + 1 < ny:
        faces += int32((field[i, j, k + 1] < t) != is_inside)
    counts[node] = vertices
    counts[nx * ny * nz + node] = faces


@func
def vertex_at(field, i, j, k, edge, edges_of_faces, loops, variants, starts):  # type: ignore[no-untyped-def]
    """Return the vertex of the loop that an edge of a cube belongs to."""
    node = (i * field.shape[1] + j) * field.shape[2] + k
    inner = within(field, i, j, k, edges_of_faces)
    vertex = starts[node]
    first = 4 * variants[node]
    g = 0
    while (loops[first + g] >> edge & 1) == 0:
        vertex += int32((loops[first + g] & inner) != 0)
        g += 1
    return vertex


@func
def write_face(indices, at, a, b, c, d, is_turned, has_triangles):  # type: ignore[no-untyped-def]
    """Write a quadrilateral, or two triangles."""
    p, q, r, s = a, b, c, d
    if is_turned:
        p, q, r, s = d, c, b, a
    if has_triangles:
        indices[6 * at], indices[6 * at + 1], indices[6 * at + 2] = p, q, r
        indices[6 * at + 3], indices[6 * at + 4], indices[6 * at + 5] = p, r, s
    else:
        indices[4 * at], indices[4 * at + 1], indices[4 * at + 2], indices[4 * at + 3] = p, q, r, s


@_alone
def fill_cubes(  # type: ignore[no-untyped-def]
    field, threshold, edges_of_faces, loops, variants, starts, has_triangles: int, cubes, indices
):
    """Write the cube and the edges of each vertex, and the vertices of the faces."""
    i, j, k = tid()
    nx, ny, nz = field.shape[0], field.shape[1], field.shape[2]
    t = threshold[0]
    node = (i * ny + j) * nz + k
    if i + 1 < nx and j + 1 < ny and k + 1 < nz:
        vertex = starts[node]
        if starts[node + 1] > vertex:
            inner = within(field, i, j, k, edges_of_faces)
            for g in range(4):
                loop = loops[4 * variants[node] + g]
                if (loop & inner) != 0:
                    cubes[vertex] = vec4i(i, j, k, loop)
                    vertex += 1
        at = starts[nx * ny * nz + node] - cubes.shape[0]
        if starts[nx * ny * nz + node + 1] - cubes.shape[0] > at:
            is_inside = field[i, j, k] < t
            if j > 0 and k > 0 and (field[i + 1, j, k] < t) != is_inside:
                a = vertex_at(field, i, j, k, 0, edges_of_faces, loops, variants, starts)
                b = vertex_at(field, i, j - 1, k, 2, edges_of_faces, loops, variants, starts)
                c = vertex_at(field, i, j - 1, k - 1, 6, edges_of_faces, loops, variants, starts)
                d = vertex_at(field, i, j, k - 1, 4, edges_of_faces, loops, variants, starts)
                write_face(indices, at, a, b, c, d, not is_inside, has_triangles != 0)
                at += 1
            if i > 0 and k > 0 and (field[i, j + 1, k] < t) != is_inside:
                a = vertex_at(field, i, j, k, 3, edges_of_faces, loops, variants, starts)
                b = vertex_at(field, i, j, k - 1, 7, edges_of_faces, loops, variants, starts)
                c = vertex_at(field, i - 1, j, k - 1, 5, edges_of_faces, loops, variants, starts)
                d = vertex_at(field, i - 1, j, k, 1, edges_of_faces, loops, variants, starts)
                write_face(indices, at, a, b, c, d, not is_inside, has_triangles != 0)
                at += 1
            if i > 0 and j > 0 and (field[i, j, k + 1] < t) != is_inside:
                a = vertex_at(field, i, j, k, 8, edges_of_faces, loops, variants, starts)
                b = vertex_at(field, i, j - 1, k, 11, edges_of_faces, loops, variants, starts)
                c = vertex_at(field, i - 1, j - 1, k, 10, edges_of_faces, loops, variants, starts)
                d = vertex_at(field, i - 1, j, k, 9, edges_of_faces, loops, variants, starts)
                write_face(indices, at, a, b, c, d, is_inside, has_triangles != 0)


@Kernel
def place_in_middle(field, threshold, cubes, nodes, lower, spacing, points):  # type: ignore[no-untyped-def]
    """Write the mean of the places where the surface cuts the edges of each vertex's loop."""
    v = tid()
    cube = cubes[v]
    i, j, k, loop = cube[0], cube[1], cube[2], cube[3]
    number = field.dtype
    x, y, z, n = number(0.0), number(0.0), number(0.0), number(0.0)
    for e in range(12):
        if (loop >> e & 1) == 1:
            edge = nodes[e]
            a, b, c, axis = i + edge[0], j + edge[1], k + edge[2], edge[3]
            dx, dy, dz = int32(axis == 0), int32(axis == 1), int32(axis == 2)
            t = between(field[a, b, c], field[a + dx, b + dy, c + dz], threshold[0])
            x += number(edge[0]) + t * number(dx)
            y += number(edge[1]) + t * number(dy)
            z += number(edge[2]) + t * number(dz)
            n += number(1.0)
    points[v] = points.dtype(
        lower[0] + spacing[0] * (number(i) + x / n),
        lower[1] + spacing[1] * (number(j) + y / n),
        lower[2] + spacing[2] * (number(k) + z / n),
    )
