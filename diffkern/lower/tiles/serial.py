"""Lowers tiles for a target that runs a block as one thread: they become buffers, their operations loops."""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import Tile
from diffkern.lower.tiles import arrays as tile_arrays
from diffkern.lower.tiles import fft as tile_fft
from diffkern.lower.tiles import linear as tile_linear
from diffkern.lower.tiles import serial_scans as tile_order
from diffkern.lower.tiles import shapes as tile_shapes
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.uses import uses

__all__ = ["OPS", "has_tiles", "lower_tiles", "read_first"]

OPS = {**tile_shapes.OPS, **tile_arrays.OPS, **tile_order.OPS, **tile_linear.OPS, **tile_fft.OPS}
"""The lowering of each operation on tiles."""


def has_tiles(fn: Function) -> bool:
    """Return whether a function has tile operations."""
    return any(op.name.startswith("tile_") for op in walk(fn.body))


def _works_on_tiles(fn: Function) -> bool:
    """Return whether a thread works on all elements of a block's tiles, which the lowered ops do not show.

    Arrays of a thread do not count, nor do tiles with one element for each thread of a block, which is one here.
    """
    return any(of_block(op) and _elements(op) > 1 for op in walk(fn.body))


def _elements(op: Op) -> int:
    """Return the number of elements of the largest tile that an op takes or makes."""
    return max((v.type.size for v in (*op.operands, *op.results) if isinstance(v.type, Tile)), default=1)


def lower_tiles(fn: Function) -> Function:
    """Turn a function's tiles into buffers, in place; return the function."""
    if not has_tiles(fn):
        return fn
    # Asked before the lowering, which removes the ops that tell.
    fn.tiled = _works_on_tiles(fn)
    low = Lowering(uses(read_first(fn)), OPS)
    region = Region()
    with low.b.into(region):
        low.region_ops(fn.body)
    region.ops[:0] = [*low.tables.values(), *low.allocations.ops]
    fn.body = region
    return fn


# -- order of reads and replacements -----------------------------------------------------------------------------------
# Moves reads of a thread's array in front of replacements of its elements; in place.
#
# Values of the IR do not change: replacing an element makes another array, which takes the memory of the first if that
# is not read any more. Adjoints read an element where it is used, often after it was replaced, and the array would be
# copied as a whole.


def read_first(fn: Function) -> Function:
    """Move reads of elements of threads' arrays in front of the first change of the array."""
    if any(lookup(op.name).element for op in walk(fn.body)):
        _region(fn.body)
    return fn


def _region(region: Region) -> None:
    ordered: list[Op] = []
    changes: dict[Value, Op] = {}
    for op in region.ops:
        for sub in op.regions:
            _region(sub)
        array = op.operands[0] if op.operands else None
        change = changes.get(array) if array is not None and op.name == "tile_extract" else None
        place = len(ordered) if change is None else ordered.index(change)
        # The index may be computed behind the change; then the read cannot move.
        if any(v in later.results for later in ordered[place:] for v in op.operands):
            place = len(ordered)
        ordered.insert(place, op)
        if lookup(op.name).element and array is not None and isinstance(array.type, Tile) and array.type.own:
            changes.setdefault(array, op)
    region.ops[:] = ordered
