"""Kernels that compute the values of sparse matrices, and products with vectors; all have derivatives.

Those that end in ``_parts`` take blocks as arrays of numbers with an axis for rows and one for columns; the others take
numbers or matrices as elements. Integers that say where things lie are unsigned, which saves the compiler the test for
indices that count from the end.
"""

from __future__ import annotations

from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.intrinsics import INTRINSICS

tid: Any = INTRINSICS["tid"]
transpose: Any = INTRINSICS["transpose"]
atomic_add: Any = INTRINSICS["atomic_add"]
uint32: Any = SCALARS["uint32"]


# -- sums of contributions ---------------------------------------------------------------------------------------------


@Kernel
def gather(first, last, order, source, out):  # type: ignore[no-untyped-def]
    b = tid()
    s = out.dtype(0)
    if first[b] < last[b]:
        s = source[order[first[b]]]  # not added to 0, which would turn -0 into 0
    for a in range(first[b] + uint32(1), last[b]):
        s += source[order[a]]
    out[b] = s


@Kernel
def gather_converted(first, last, order, source, scale, out):  # type: ignore[no-untyped-def]
    """Sum blocks of one shape in another precision, times a factor."""
    b, r, c = tid()
    s = out.dtype(0)
    for a in range(first[b], last[b]):
        s += out.dtype(scale * source[order[a], r, c])
    out[b, r, c] = s


@Kernel
def gather_scaled(first, last, order, source, scale, out):  # type: ignore[no-untyped-def]
    b = tid()
    s = out.dtype(0)
    if first[b] < last[b]:
        s = source[order[first[b]]]
    for a in range(first[b] + uint32(1), last[b]):
        s += source[order[a]]
    out[b] = scale * s


@Kernel
def gather_transposed(first, last, order, source, out):  # type: ignore[no-untyped-def]
    b = tid()
    s = out.dtype(0)
    if first[b] < last[b]:
        s = transpose(source[order[first[b]]])
    for a in range(first[b] + uint32(1), last[b]):
        s += transpose(source[order[a]])
    out[b] = s


@Kernel
def gather_joined(  # type: ignore[no-untyped-def]
    first, last, order, places, source, scale,
    split_rows: uint32, split_columns: uint32, joined_columns: uint32, height: uint32, width: uint32, out
):  # fmt: skip
    """Put blocks of another shape together from parts of blocks, each of some height and width."""
    i, j, k = tid()
    b, r, c = uint32(i), uint32(j), uint32(k)
    s = out.dtype(0)
    for a in range(first[b], last[b]):
        part = order[a]
        place = places[part]
        if place // joined_columns == r // height and place % joined_columns == c // width:
            block = part // (split_rows * split_columns)
            row = (part // split_columns % split_rows) * height + r % height
            column = (part % split_columns) * width + c % width
            s += out.dtype(scale * source[block, row, column])
    out[b, r, c] = s


@Kernel
def combine(first, last, order, base: uint32, y, beta, x, alpha, out):  # type: ignore[no-untyped-def]
    """Add up the blocks of two matrices, each times a factor; those of `x` are numbered from a base."""
    b = tid()
    s = out.dtype(0)
    for a in range(first[b], last[b]):
        k = order[a]
        if k < base:
            s += beta * y[k]
        else:
            s += alpha * x[k - base]
    out[b] = s


@Kernel
def combine_merged(left, right, alone, y, beta, x, alpha, out):  # type: ignore[no-untyped-def]
    """Add the blocks of two matrices, each times a factor, by their numbers in either; `alone` if it has none."""
    b = tid()
    s = out.dtype(0)
    if left[b] != alone:
        s += beta * y[left[b]]
    if right[b] != alone:
        s += alpha * x[right[b]]
    out[b] = s


@Kernel
def permute(order, source, out):  # type: ignore[no-untyped-def]
    b = tid()
    out[b] = source[order[b]]


@Kernel
def permute_transposed(order, source, out):  # type: ignore[no-untyped-def]
    b = tid()
    out[b] = transpose(source[order[b]])


@Kernel
def multiply(first, last, left, right, alone, x, y, alpha, out):  # type: ignore[no-untyped-def]
    b = tid()
    s = out.dtype(0)
    for p in range(first[b], last[b]):
        s += x[left[p]] * y[right[p]]
    out[b] = alpha * s


@Kernel
def multiply_blocks(first, last, left, right, alone, x, y, alpha, out):  # type: ignore[no-untyped-def]
    b = tid()
    s = out.dtype(0)
    for p in range(first[b], last[b]):
        s += x[left[p]] @ y[right[p]]
    out[b] = alpha * s


@Kernel
def multiply_parts(first, last, left, right, alone, x, y, alpha, z, beta, out):  # type: ignore[no-untyped-def]
    """Add up products of blocks of any shape, and blocks of a third matrix times a factor."""
    b, r, c = tid()
    s = out.dtype(0)
    added = out.dtype(0)
    for p in range(first[b], last[b]):
        if right[p] == alone:
            added += z[left[p], r, c]
        else:
            for k in range(x.shape[2]):
                s += x[left[p], r, k] * y[right[p], k, c]
    out[b, r, c] = alpha * s + beta * added


@Kernel
def scale_values(values, alpha, out):  # type: ignore[no-untyped-def]
    b = tid()
    out[b] = alpha * values[b]


@Kernel
def scatter_add(blocks, source, out):  # type: ignore[no-untyped-def]
    """Add each number to the block that it belongs to."""
    t = tid()
    if blocks[t] >= 0:
        out[uint32(blocks[t])] += source[t]


@Kernel
def diagonal(starts, ends, columns, values, alpha, out):  # type: ignore[no-untyped-def]
    i = tid()
    s = out.dtype(0)
    for k in range(starts[i], ends[i]):
        if columns[k] == uint32(i):
            s += alpha * values[k]
    out[i] = s


@Kernel
def diagonal_parts(starts, ends, columns, values, alpha, out):  # type: ignore[no-untyped-def]
    i, r, c = tid()
    s = out.dtype(0)
    for k in range(starts[i], ends[i]):
        if columns[k] == uint32(i):
            s += alpha * values[k, r, c]
    out[i, r, c] = s


# -- products with vectors ---------------------------------------------------------------------------------------------


@Kernel
def multiply_vector(starts, ends, columns, values, x, alpha, y):  # type: ignore[no-untyped-def]
    i = tid()
    s = y.dtype(0)
    for k in range(starts[i], ends[i]):
        s += values[k] * x[columns[k]]
    y[i] = alpha * s


@Kernel
def add_product(starts, ends, columns, values, x, alpha, beta, y, z):  # type: ignore[no-untyped-def]
    i = tid()
    s = z.dtype(0)
    for k in range(starts[i], ends[i]):
        s += values[k] * x[columns[k]]
    z[i] = alpha * s + beta * y[i]


@Kernel
def multiply_vector_blocks(starts, ends, columns, values, x, alpha, y):  # type: ignore[no-untyped-def]
    i = tid()
    s = y.dtype(0)
    for k in range(starts[i], ends[i]):
        s += values[k] @ x[columns[k]]
    y[i] = alpha * s


@Kernel
def add_product_blocks(starts, ends, columns, values, x, alpha, beta, y, z):  # type: ignore[no-untyped-def]
    i = tid()
    s = z.dtype(0)
    for k in range(starts[i], ends[i]):
        s += values[k] @ x[columns[k]]
    z[i] = alpha * s + beta * y[i]


@Kernel
def add_transposed(starts, ends, columns, values, x, alpha, y):  # type: ignore[no-untyped-def]
    i = tid()
    f = alpha * x[i]
    for k in range(starts[i], ends[i]):
        y[columns[k]] += values[k] * f


@Kernel
def add_transposed_blocks(starts, ends, columns, values, x, alpha, y):  # type: ignore[no-untyped-def]
    i = tid()
    f = alpha * x[i]
    for k in range(starts[i], ends[i]):
        y[columns[k]] += transpose(values[k]) @ f


@Kernel
def multiply_vector_parts(starts, ends, columns, values, x, alpha, y, z, beta):  # type: ignore[no-untyped-def]
    """Multiply blocks and vectors given as numbers, and add a vector times a factor."""
    i, r = tid()
    s = z.dtype(0)
    for k in range(starts[i], ends[i]):
        for c in range(values.shape[2]):
            s += values[k, r, c] * x[columns[k], c]
    s = alpha * s
    # What y holds must not matter where it is multiplied by 0.
    if beta != 0.0:
        s += beta * y[i, r]
    z[i, r] = s


@Kernel
def add_transposed_parts(starts, ends, columns, values, x, alpha, z):  # type: ignore[no-untyped-def]
    """Add products of transposed blocks and vectors given as numbers."""
    i, c = tid()
    for k in range(starts[i], ends[i]):
        s = z.dtype(0)
        for r in range(values.shape[1]):
            s += values[k, r, c] * x[i, r]
        atomic_add(z, columns[k], c, alpha * s)
