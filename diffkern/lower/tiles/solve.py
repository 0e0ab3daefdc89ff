"""Cholesky factors and triangular solves of tiles by the threads of a block.

Each function takes the lowering for blocks (:mod:`block_lowering`) and an op, and emits shared work in the current
region, and memory that holds the result. Both go on column by column: the update of the rest of the matrix by a column
is shared by all threads, each for some of the elements, and the threads synchronize before the next column. Each
element gets the same terms in the same order as on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import value_type
from diffkern.lower.tiles.block_lowering import BlockLowering
from diffkern.lower.tiles.linear import copied, matrix_shape, solved_in

__all__ = ["OPS"]


def _cholesky(low: BlockLowering, op: Op) -> None:
    """Emit the factorisation; finished columns are copied, so no thread reads elements that another one writes."""
    n = matrix_shape(op.result)[0]
    target, m, b = copied(low, op, op.operands[0]), low.m, low.b
    column = low.allocate(target.dtype, n)
    zero = b.zero(value_type(target.dtype))

    def get(i: Value, k: Value) -> Value:
        return b.one("buffer_get", target.buffer, m.flat((i, k), (n, n)))

    def factor(i: Value) -> Value:
        return b.one("buffer_get", column, i)

    def step(j: Value) -> None:
        left = b.sub(m.i64(n), j)

        def scale(p: Value) -> None:
            i = b.add(j, p)
            diagonal = b.one("sqrt", get(j, j))
            on = b.one("eq", p, m.i64(0))
            b.op("buffer_set", column, i, b.select(on, diagonal, b.div(get(i, j), diagonal)))

        def update(p: Value) -> None:
            row, k = m.split(p, (n, n))
            i = b.add(j, row)
            first_row, first_column = b.one("eq", row, m.i64(0)), b.one("eq", k, j)

            def put() -> None:
                rest = b.sub(get(i, k), b.mul(factor(i), factor(k)))
                value = b.select(first_column, factor(i), b.select(first_row, zero, rest))
                b.op("buffer_set", target.buffer, m.flat((i, k), (n, n)), value)

            # Of the first row what lies right of the diagonal is cleared, of the others what is below it is updated.
            below = b.one("or", first_row, b.one("le", k, i))
            m.when(b.one("and", b.one("ge", k, j), below), put)

        m.cells(left, scale)
        m.cells(b.mul(left, m.i64(n)), update)

    m.rounds(0, n, step)
    low.release(column)


def _triangular_solve(low: BlockLowering, op: Op) -> None:
    """Eliminate an unknown from the remaining rows; the divisions by the diagonal come last, all at once."""
    matrix, borrowed = low.stored(op.operands[0])
    n, columns = matrix_shape(op.result)
    target, m, b = solved_in(low, op), low.m, low.b
    lower, trans = op.attrs["lower"], op.attrs["trans"]
    forwards = lower != trans

    def coefficient(i: Value, k: Value) -> Value:
        return matrix.element(m, (k, i) if trans else (i, k))

    def get(i: Value, c: Value) -> Value:
        return b.one("buffer_get", target.buffer, m.flat((i, c), (n, columns)))

    def put(i: Value, c: Value, value: Value) -> None:
        b.op("buffer_set", target.buffer, m.flat((i, c), (n, columns)), value)

    def step(s: Value) -> None:
        known = s if forwards else b.sub(m.i64(n - 1), s)
        left = b.sub(m.i64(n - 1), s)

        def take_out(p: Value) -> None:
            row, c = m.split(p, (n, columns))
            i = b.add(b.add(known, row), m.i64(1)) if forwards else row
            # Each thread divides by the diagonal itself: storing the unknown first would take one more barrier per
            # column.
            unknown = b.div(get(known, c), coefficient(known, known))
            put(i, c, b.sub(get(i, c), b.mul(coefficient(i, known), unknown)))

        m.cells(b.mul(left, m.i64(columns)), take_out)

    def divide(index: list[Value]) -> None:
        i, c = index
        put(i, c, b.div(get(i, c), coefficient(i, i)))

    if n > 1:
        m.rounds(0, n - 1, step)
    m.grid((n, columns), divide)
    low.give_back(borrowed)


OPS: Final[Mapping[str, Callable[[BlockLowering, Op], None]]] = {
    "tile_cholesky": _cholesky,
    "tile_triangular_solve": _triangular_solve,
}
