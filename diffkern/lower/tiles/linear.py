"""Matrix products, factorisations and triangular solves of tiles, as products of buffers and loops.

Each function takes the lowering (:mod:`lowering`) and an op, and emits ops in the current region, and memory that holds
the result. A product passes its first factor as stored, transposed or not; a transposed second factor is copied first,
so that its rows are read along memory. Products of float16 and bfloat16 are summed in float32. A product that a library
computes passes both factors as they are stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from diffkern.analysis.tile_products import product_of
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, STORAGE_ONLY, Element, Tile, value_type
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.source import Computed, Source, Stored

__all__ = ["OPS", "copied", "matrix_shape", "solved_in"]

_HELD: Final = {
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
    "tf32": FLOAT32,
    "float32": FLOAT32,
    "float64": FLOAT64,
}
"""In what a factor lies in memory, by the type it is multiplied in."""


def matrix_shape(v: Value) -> tuple[int, int]:
    """Return the rows and columns of a tile."""
    assert isinstance(v.type, Tile)
    rows, columns = v.type.shape
    return rows, columns


def _matmul(low: Lowering, op: Op) -> None:
    a, b = op.operands[:2]
    trans_a, trans_b, dtype = op.attrs["trans_a"], op.attrs["trans_b"], op.attrs["dtype"]
    wide = value_type(dtype)
    product = product_of(op)
    # Asked in any case: who insists on the library is told of a sum that it does not have.
    call = low.library_for(dataclasses.replace(product, c=str(wide)))
    by_library = None if _HELD[product.c] != wide else call
    if by_library is not None:
        left, borrowed_left, trans_a = _as_it_lies(low, a, _HELD[product.a], trans_a)
        right, borrowed_right, trans_b = _as_it_lies(low, b, _HELD[product.b], trans_b)
        product = dataclasses.replace(product, columns_a=trans_a, columns_b=trans_b)
    else:
        left, borrowed_left = _factor(low, a, wide, False)
        right, borrowed_right = _factor(low, b, wide, trans_b)
    adds = len(op.operands) == 3
    direct = dtype not in STORAGE_ONLY
    # The factors may not be overwritten while they are read, so the result takes over the third operand alone.
    read = (left.buffer, right.buffer)
    sum_ = op.operands[2] if adds and low.owned.get(op.operands[2]) not in read else None
    target = (low.reuse(op.result, [sum_]) if sum_ is not None and direct else None) or low.fresh(op.result)
    m, n, k = product.m, product.n, product.k
    work = target if direct else Stored(low.allocate(wide, m * n), (m, n), wide)
    if adds:
        # An accumulating product starts from its third operand.
        low.copy(work, op.operands[2])
    if by_library:
        by_library(work.buffer, *read, product, adds)
    else:
        low.multiply(work.buffer, *read, {"m": m, "n": n, "k": k, "trans_a": trans_a, "add": adds})
    # The sum was made in a wider type than the tile is kept in, so it is converted at the end.
    if work is not target:
        low.fill(target, work)
        low.release(work.buffer)
    low.give_back(borrowed_left)
    low.give_back(borrowed_right)


def _factor(low: Lowering, v: Value, dtype: Element, transposed: bool) -> tuple[Stored, Value | None]:
    """Return a factor in memory, in the type of the sum, and the buffer to release after use."""
    source = low.sources[v]
    if isinstance(source, Stored) and source.dtype == dtype and not transposed:
        return source, None
    rows, columns = matrix_shape(v)
    shape = (columns, rows) if transposed else (rows, columns)
    buffer = low.allocate(dtype, rows * columns)
    out = Stored(buffer, shape, dtype)
    b, m = low.b, low.m

    def at(index: Sequence[Value]) -> Value:
        return b.cast(source.element(m, index[::-1] if transposed else index), value_type(dtype))

    low.fill(out, Computed(shape, dtype, at))
    return out, buffer


def _as_it_lies(low: Lowering, v: Value, dtype: Element, columns: bool) -> tuple[Stored, Value | None, bool]:
    """Return a factor in memory, the buffer to release after use, and whether it is stored column by column."""
    source = low.sources[v]
    transposed = None if isinstance(source, Stored) else source.transposed
    # A transpose of a stored matrix costs nothing: the library reads the original column by column.
    if transposed is not None and transposed.dtype == dtype:
        return transposed, None, not columns
    if source.dtype == dtype:
        return (*low.stored(v), columns)
    return (*_factor(low, v, dtype, False), columns)


def copied(low: Lowering, op: Op, v: Value) -> Stored:
    """Return memory for the result that holds an operand, in its place if it ends here."""
    target = low.reuse(op.result, [v]) or low.fresh(op.result)
    low.copy(target, v)
    return target


def _cholesky(low: Lowering, op: Op) -> None:
    """Emit the factorisation column by column; each column updates the remaining matrix, along memory."""
    n = matrix_shape(op.result)[0]
    target, m, b = copied(low, op, op.operands[0]), low.m, low.b
    dtype = target.dtype
    column = low.allocate(dtype, n)

    def get(i: Value, k: Value) -> Value:
        return b.one("buffer_get", target.buffer, m.flat((i, k), (n, n)))

    def put(i: Value, k: Value, value: Value) -> None:
        b.op("buffer_set", target.buffer, m.flat((i, k), (n, n)), value)

    def step(j: Value, _: list[Value]) -> Sequence[Value]:
        diagonal = b.one("sqrt", get(j, j))
        put(j, j, diagonal)
        after = b.add(j, m.i64(1))

        def scale(i: Value, _: list[Value]) -> Sequence[Value]:
            value = b.div(get(i, j), diagonal)
            put(i, j, value)
            # The column is copied to contiguous memory, as the update reads it once per row.
            b.op("buffer_set", column, i, value)
            return ()

        def update(i: Value, _: list[Value]) -> Sequence[Value]:
            factor = b.one("buffer_get", column, i)

            def one(k: Value, _: list[Value]) -> Sequence[Value]:
                put(i, k, b.sub(get(i, k), b.mul(factor, b.one("buffer_get", column, k))))
                return ()

            m.loop(after, b.add(i, m.i64(1)), one)
            return ()

        def clear(k: Value, _: list[Value]) -> Sequence[Value]:
            put(j, k, b.zero(value_type(dtype)))
            return ()

        # The order matters: the column is finished before it updates the rest, and the upper triangle is cleared last.
        m.loop(after, n, scale)
        m.loop(after, n, update)
        m.loop(after, n, clear)
        return ()

    m.alone(lambda: low.void(m.loop(0, n, step, in_turn=True)))
    low.release(column)


def _triangular_solve(low: Lowering, op: Op) -> None:
    matrix: Source
    matrix, borrowed = low.stored(op.operands[0])
    n, columns = matrix_shape(op.result)
    target, m, b = solved_in(low, op), low.m, low.b
    lower, trans = op.attrs["lower"], op.attrs["trans"]
    # Row i depends on the rows before it for a lower triangle, on those behind it for an upper one.
    forwards = lower != trans

    def coefficient(i: Value, k: Value) -> Value:
        return matrix.element(m, (k, i) if trans else (i, k))

    def row(i: Value, update: Callable[[Value, Value], Value]) -> None:
        def one(c: Value, _: list[Value]) -> Sequence[Value]:
            place = m.flat((i, c), (n, columns))
            b.op("buffer_set", target.buffer, place, update(b.one("buffer_get", target.buffer, place), c))
            return ()

        m.loop(0, columns, one)

    def step(i: Value, _: list[Value]) -> Sequence[Value]:
        def subtract(k: Value, _: list[Value]) -> Sequence[Value]:
            factor = coefficient(i, k)

            def one(x: Value, c: Value) -> Value:
                return b.sub(x, b.mul(factor, b.one("buffer_get", target.buffer, m.flat((k, c), (n, columns)))))

            row(i, one)
            return ()

        if forwards:
            m.loop(0, i, subtract)
        else:
            m.loop(b.add(i, m.i64(1)), n, subtract)
        diagonal = coefficient(i, i)
        row(i, lambda x, c: b.div(x, diagonal))
        return ()

    m.alone(lambda: low.void(m.loop(0, n, step, down=not forwards, in_turn=True)))
    low.give_back(borrowed)


def solved_in(low: Lowering, op: Op) -> Stored:
    """Return memory for the solution, holding the right side: its own, unless the matrix is stored there too."""
    matrix, right = low.sources[op.operands[0]], op.operands[1]
    mine = low.owned.get(right)
    if mine is not None and any(leaf.buffer is mine for leaf in matrix.leaves()):
        target = low.fresh(op.result)
        low.copy(target, right)
        return target
    return copied(low, op, right)


OPS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = {
    "tile_matmul": _matmul,
    "tile_cholesky": _cholesky,
    "tile_triangular_solve": _triangular_solve,
}
