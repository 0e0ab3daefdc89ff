"""Lowers arrays of single threads for a target on which the threads of a block share tiles.

A thread's own arrays, which are values, become buffers in place, written in place where the old value is not needed any
more. Tiles of blocks are left as they are.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, walk
from diffkern.ir.types import Tile, Type
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.serial import OPS
from diffkern.lower.tiles.uses import uses

__all__ = ["lower_arrays_of_threads"]


class _Lowering(Lowering):
    """The lowering for one thread, of its own arrays alone."""

    def takes(self, t: Type) -> bool:
        return isinstance(t, Tile) and t.own

    def is_tile_op(self, op: Op) -> bool:
        return _works_on_own(op)


def _works_on_own(op: Op) -> bool:
    return op.name.startswith("tile_") and any(
        isinstance(v.type, Tile) and v.type.own for v in (*op.operands, *op.results)
    )


def lower_arrays_of_threads(fn: Function) -> Function:
    """Turn the arrays of threads into buffers, in place; return the function."""
    if not any(map(_works_on_own, walk(fn.body))):
        return fn
    low = _Lowering(uses(fn), OPS)
    region = Region()
    with low.b.into(region):
        low.region_ops(fn.body)
    region.ops[:0] = low.allocations.ops
    fn.body = region
    return fn
