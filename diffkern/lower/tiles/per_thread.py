"""Tiles from numbers that the threads of a block hold, and elements that threads take from tiles.

Each function takes the lowering for blocks (:mod:`block_lowering`) and an op, and emits ops in the current region that
each thread executes for itself. Ops without per-thread numbers are left to the lowering for one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT64
from diffkern.ir.views import Part
from diffkern.lower.tiles import reductions as tile_fold
from diffkern.lower.tiles import shapes as tile_shapes
from diffkern.lower.tiles.block_lowering import BlockLowering

__all__ = ["OPS"]


def _fill(low: BlockLowering, op: Op) -> None:
    if not low.of_threads or "threads" not in op.attrs:
        tile_shapes.OPS["tile_fill"](low, op)
        return
    m, target, value = low.m, low.fresh(op.result), low.value(op.operands[0])
    # Each thread accesses only the element with its own number, so no barrier is needed between such steps.
    m.own[m.thread] = 1
    m.step(lambda: low.void(low.b.op("buffer_set", target.buffer, m.thread, value)))


def _extract(low: BlockLowering, op: Op) -> None:
    m, b, source = low.m, low.b, low.sources[op.operands[0]]
    if low.of_threads and "threads" in op.attrs:
        m.own[m.thread] = 1

        def mine() -> None:
            low.env[op.result] = tile_fold.reader(low, source)(m.thread)

        m.step(mine)
        return
    tile_shapes.OPS["tile_extract"](low, op)
    # The threads' cotangents of one number are added up, so only the first one keeps it.
    if op.attrs.get("first"):
        first, found = b.one("eq", m.thread, b.const(0, INT64)), low.env[op.result]
        low.env[op.result] = b.select(first, found, b.zero(found.type))


def _change_at(low: BlockLowering, op: Op) -> None:
    """Let every thread change the element that it names by its own value."""
    if not (op.attrs.get("each") or (low.of_threads and "threads" in op.attrs)):
        tile_shapes.OPS[op.name](low, op)
        return
    target, value = tile_shapes.changed(low, op), low.value(Part(op).value)
    index, condition = tile_shapes.checked(low, Part(op).index, target.shape)

    def change() -> None:
        place = low.m.flat(index, target.shape)
        if op.name == "tile_replace":
            low.b.op("buffer_set", target.buffer, place, value)
        else:
            kind = op.attrs.get("kind", "add")
            low.b.op("buffer_add", target.buffer, place, value, **({} if kind == "add" else {"kind": kind}))

    low.m.step(change if condition is None else lambda: low.m.when(condition, change))


def _add_along(low: BlockLowering, op: Op) -> None:
    """Add along an axis; several threads may add to one element."""

    def add(buffer: Value, place: Value, item: Value) -> None:
        low.b.op("buffer_add", buffer, place, item)

    tile_shapes.add_along(low, op, add)


OPS: Final[Mapping[str, Callable[[BlockLowering, Op], None]]] = {
    "tile_fill": _fill,
    "tile_extract": _extract,
    "tile_add_at": _change_at,
    "tile_replace": _change_at,
    "tile_add_along": _add_along,
}
