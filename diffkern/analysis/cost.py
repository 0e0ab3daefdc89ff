"""A rough count of the work of one thread, in simple operations, by which chunk sizes are chosen."""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ir.nodes import Function, Op, Region
from diffkern.ir.ops.row import TileWork
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Tile
from diffkern.ir.views import is_loop

UNKNOWN_TRIPS = 16.0


def thread_cost(fn: Function) -> float:
    """Return the estimated operations per thread; loops of unknown length count as 16 trips."""
    return max(1.0, _region(fn.body))


def usual_ways(op: Op) -> Sequence[Region]:
    """Return the regions of a branch, without one that hardly any thread enters."""
    return op.regions[1:] if op.attrs.get("rarely") else op.regions


def usual_trips(op: Op) -> float:
    """Return the number of trips to assume for a loop of unknown length."""
    return 1.0 if op.attrs.get("once") else UNKNOWN_TRIPS


def _tile(op: Op) -> float:
    """Return the work of an operation on tiles, most of which is vectorised."""
    sizes = [v.type.size for v in (*op.operands, *op.results) if isinstance(v.type, Tile)]
    largest = float(max(sizes, default=1))
    work = lookup(op.name).work
    if work is TileWork.BODIES:
        return largest * (1.0 + _region(op.attrs["body"])) / 4.0
    if work is TileWork.PRODUCTS:
        first = op.operands[0].type
        inner = first.shape[-1] if isinstance(first, Tile) else 1
        return largest * inner / 8.0
    return 1.0 if work is TileWork.NONE else largest / 2.0


def _region(region: Region) -> float:
    total = 0.0
    for op in region.ops:
        if is_loop(op):
            total += usual_trips(op) * sum(map(_region, op.regions))
        elif op.regions:
            total += sum(map(_region, usual_ways(op)))
        elif op.name.startswith("tile_"):
            total += _tile(op)
        else:
            total += lookup(op.name).cost
    return total
