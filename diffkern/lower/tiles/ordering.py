"""Moves reads of a thread's array in front of replacements of its elements; in place.

Values of the IR do not change: replacing an element makes another array, which takes the memory of the first if that is
not read any more. Adjoints read an element where it is used, often after it was replaced, and the array would be copied
as a whole.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Tile

__all__ = ["read_first"]


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
