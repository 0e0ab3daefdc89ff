"""Removes accesses of null arrays: arrays for which a launch passed None.

A function as the frontend wrote it is changed in place: loads give zero, and stores are dropped. The frontend refuses
unguarded accesses; the others are those that no thread should reach, but that no constant condition rules out. A debug
build keeps them, and its bounds checks find the thread that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import LOADS, WRITES
from diffkern.ir.types import Array, Tile, value_type

__all__ = ["has_nulls", "remove_null_accesses"]


def has_nulls(fn: Function) -> bool:
    """Return whether an array of a function is null."""
    return any(isinstance(p.type, Array) and p.type.is_null for p in fn.params)


def remove_null_accesses(fn: Function) -> Function:
    """Replace loads from null arrays by zeros, and drop stores to them, in place."""
    _remove(fn.body)
    fn.updates = tuple(u for u in fn.updates if not _accesses_null(u.store))
    for update in fn.updates:
        _remove(update.prelude)
    return fn


def _accesses_null(op: Op) -> bool:
    array = op.operands[0].type if op.name in LOADS | WRITES else None
    return isinstance(array, Array) and array.is_null


def _remove(region: Region) -> None:
    ops: list[Op] = []
    for op in region.ops:
        for sub in op.regions:
            _remove(sub)
        if not _accesses_null(op):
            ops.append(op)
        elif op.results:
            ops += _zero(op.result, op)
    region.ops[:] = ops


def _zero(result: Value, op: Op) -> list[Op]:
    """Return the ops that define a value as zero."""
    b = Builder(loc=op.loc)
    t = result.type
    if isinstance(t, Tile):
        b.one("tile_fill", b.zero(value_type(t.dtype)), type=t)
    else:
        b.zero(t)
    last = b.region.ops[-1]
    attrs: Mapping[str, Any] = last.attrs
    b.region.ops[-1] = Op(last.name, last.operands, (result,), attrs, (), op.loc)
    return b.region.ops
