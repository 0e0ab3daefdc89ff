"""Tiles for a target that runs a block as one thread: they become buffers, their operations loops."""

from __future__ import annotations

from diffkern.ir.nodes import Function, Region, walk
from diffkern.lower.tiles import arrays as tile_arrays
from diffkern.lower.tiles import fft as tile_fft
from diffkern.lower.tiles import linear as tile_linear
from diffkern.lower.tiles import order as tile_order
from diffkern.lower.tiles import shapes as tile_shapes
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.ordering import read_first
from diffkern.lower.tiles.uses import uses

__all__ = ["OPS", "has_tiles", "lower_tiles"]

OPS = {**tile_shapes.OPS, **tile_arrays.OPS, **tile_order.OPS, **tile_linear.OPS, **tile_fft.OPS}
"""How each operation on tiles is lowered."""


def has_tiles(fn: Function) -> bool:
    """Whether a function has tile operations."""
    return any(op.name.startswith("tile_") for op in walk(fn.body))


def lower_tiles(fn: Function) -> Function:
    """Make buffers of a function's tiles, in place; return the function."""
    if not has_tiles(fn):
        return fn
    low = Lowering(uses(read_first(fn)), OPS)
    region = Region()
    with low.b.into(region):
        low.region_ops(fn.body)
    region.ops[:0] = low.allocations.ops
    fn.body = region
    return fn
