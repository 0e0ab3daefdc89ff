"""The kernels of marching cubes on a dense grid: counts for each column of nodes, the triangles, and the vertices.

A thread has a column of nodes along the first axis: neighbouring threads read neighbouring elements. Vertices are
numbered by the axis of their edge, then by column, then along the column. The edges of a cube belong to at most four
columns, and a thread counts on in each of these while it goes along; so no number is kept for a node.

Which edges are cut and which triangles there are is data. Only :func:`place` has derivatives.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.language import int32, vec4i
from diffkern.runtime.arrays.create import zeros

__all__ = ["between", "case_of", "count_columns", "fill_columns", "place"]

tid: Any = INTRINSICS["tid"]
least: Any = INTRINSICS["min"]
_integral = functools.partial(Kernel, enable_backward=False)
_alone = functools.partial(Kernel, enable_backward=False, lanes=False)


@func
def between(a, b, threshold):  # type: ignore[no-untyped-def]
    """Return the part of the way from one end of a cut edge to the other at which the field is the threshold."""
    # The quotient of the lesser distance by the greater neither overflows nor is 0 / 0 for numbers, and is 0 where the
    # other end is infinite. A first end at the threshold is outside, so 0 belongs to the negative distances: as the
    # divisor it would have no derivative.
    low, high = threshold - a, b - threshold
    if (low <= 0.0 and -low <= -high) or (low > 0.0 and low <= high):
        r = low / high
        t = r / (1.0 + r)
    else:
        t = 1.0 / (1.0 + high / low)
    return t


@func
def slab(a, b, c, d):  # type: ignore[no-untyped-def]
    """Return the corners at (0, 0), (1, 0), (0, 1), (1, 1) of a cube's lower side along the first axis as bits."""
    return int32(a) + 8 * int32(b) + 16 * int32(c) + 128 * int32(d)


@func
def case_of(low, high):  # type: ignore[no-untyped-def]
    """Return the case of a cube from the bits of its lower side and of its upper side, as :func:`slab` has them."""
    return low + ((high & 17) << 1) + ((high & 136) >> 1)


@_integral
def count_columns(field, threshold, begins, counts):  # type: ignore[no-untyped-def]
    """Count the cut edges of each column along the three axes, and the corners of its cubes' triangles."""
    j, k = tid()
    nx, ny, nz = field.shape[0], field.shape[1], field.shape[2]
    t = threshold[0]
    # At the end of an axis a node is its own neighbour, so that no edge is cut there.
    jn, kn = least(j + 1, ny - 1), least(k + 1, nz - 1)
    is_cube = int32(j + 1 < ny) * int32(k + 1 < nz)
    x, y, z, corners = 0, 0, 0, 0
    before = -1
    for i in range(nx):
        bits = slab(field[i, j, k] < t, field[i, jn, k] < t, field[i, j, kn] < t, field[i, jn, kn] < t)
        y += (bits ^ (bits >> 3)) & 1
        z += (bits ^ (bits >> 4)) & 1
        if before >= 0:
            x += (bits ^ before) & 1
            case = case_of(before, bits)
            corners += begins[case + 1] - begins[case]
        before = bits
    column, columns = j * nz + k, ny * nz
    counts[column] = x
    counts[columns + column] = y
    counts[2 * columns + column] = z
    counts[3 * columns + column] = corners * is_cube


@_alone
def fill_columns(field, threshold, begins, table, starts, edges, indices):  # type: ignore[no-untyped-def]
    """Write the edge of each vertex, as its lower node and its axis, and the vertices of the triangles."""
    j, k = tid()
    nx, ny, nz = field.shape[0], field.shape[1], field.shape[2]
    t = threshold[0]
    jn, kn = least(j + 1, ny - 1), least(k + 1, nz - 1)
    is_cube = j + 1 < ny and k + 1 < nz
    columns = ny * nz
    c00, c10, c01, c11 = j * nz + k, jn * nz + k, j * nz + kn, jn * nz + kn
    # The next vertex on each column's edges along x, y and z.
    x00, x10, x01, x11 = starts[c00], starts[c10], starts[c01], starts[c11]
    y0, y1 = starts[columns + c00], starts[columns + c01]
    z0, z1 = starts[2 * columns + c00], starts[2 * columns + c10]
    corner = starts[3 * columns + c00] - edges.shape[0]
    vertices = zeros(shape=12, dtype=int32)
    before = slab(field[0, j, k] < t, field[0, jn, k] < t, field[0, j, kn] < t, field[0, jn, kn] < t)
    for i in range(nx):
        inside = before & 1
        has_y, has_z = (before >> 3 & 1) != inside, (before >> 4 & 1) != inside
        if has_y:
            edges[y0] = vec4i(i, j, k, 1)
        if has_z:
            edges[z0] = vec4i(i, j, k, 2)
        y0_next, z0_next = y0 + int32(has_y), z0 + int32(has_z)
        y1_next = y1 + ((before >> 4 ^ before >> 7) & 1)
        z1_next = z1 + ((before >> 3 ^ before >> 7) & 1)
        if i + 1 < nx:
            m = i + 1
            bits = slab(field[m, j, k] < t, field[m, jn, k] < t, field[m, j, kn] < t, field[m, jn, kn] < t)
            cut = bits ^ before
            if cut & 1:
                edges[x00] = vec4i(i, j, k, 0)
            case = case_of(before, bits)
            if is_cube and case != 0 and case != 255:
                vertices[0], vertices[1], vertices[2], vertices[3] = x00, y0_next, x10, y0
                vertices[4], vertices[5], vertices[6], vertices[7] = x01, y1_next, x11, y1
                vertices[8], vertices[9], vertices[10], vertices[11] = z0, z0_next, z1_next, z1
                for n in range(begins[case], begins[case + 1]):
                    indices[corner] = vertices[table[n]]
                    corner += 1
            x00 += cut & 1
            x10 += cut >> 3 & 1
            x01 += cut >> 4 & 1
            x11 += cut >> 7 & 1
            before = bits
        y0, y1, z0, z1 = y0_next, y1_next, z0_next, z1_next


@Kernel
def place(field, threshold, edges, lower, spacing, points):  # type: ignore[no-untyped-def]
    """Write the place of each vertex on its edge."""
    v = tid()
    edge = edges[v]
    i, j, k, axis = edge[0], edge[1], edge[2], edge[3]
    dx, dy, dz = int32(axis == 0), int32(axis == 1), int32(axis == 2)
    t = between(field[i, j, k], field[i + dx, j + dy, k + dz], threshold[0])
    number = field.dtype
    points[v] = points.dtype(
        lower[0] + spacing[0] * (number(i) + t * number(dx)),
        lower[1] + spacing[1] * (number(j) + t * number(dy)),
        lower[2] + spacing[2] * (number(k) + t * number(dz)),
    )
