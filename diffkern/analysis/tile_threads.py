"""Kernels in which the threads of a block hold numbers of their own beside the tiles they share.

In: a function with tiles. Out: how many threads a block has, if ``dk.tile(x)`` takes a number of each or ``dk.untile``
gives each one; and a check that the threads do the same to tiles: whole blocks come to every operation on tiles, with
the same numbers.
"""

from __future__ import annotations

from diffkern.analysis.uniformity import is_per_thread, varying_values
from diffkern.errors import KernelTypeError
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Tile
from diffkern.ir.views import control
from diffkern.ops.row import Effect
from diffkern.ops.table import lookup

__all__ = ["check_threads", "threads_of"]

_OF_THREADS = frozenset({"threads", "first", "share"})
"""The attributes of what threads take of a tile each for itself."""


def threads_of(fn: Function) -> int:
    """The threads of a block that hold numbers of their own; 0 where a block is one thread to the kernel.

    ``Function.threads`` says it, where passes may have left out the ops that do.
    """
    ops = (op for op in walk(fn.body) if op.name in ("tile_fill", "tile_extract"))
    found = max((int(op.attrs.get("threads", 1)) for op in ops), default=1)
    return fn.threads or (found if found > 1 else 0)


def check_threads(fn: Function) -> None:
    """Check that operations on tiles are convergent within a block.

    Raises
    ------
    KernelTypeError
        With the line of one that is not.
    """
    _region(fn.body, _varying(fn), None)


def _region(region: Region, varying: set[Value], divergent: Op | None) -> None:
    for op in region.ops:
        if lookup(op.name).family == "tile":
            _check(op, varying, divergent)
        for sub in op.regions:
            _region(sub, varying, divergent or (None if varying.isdisjoint(control(op).deciding) else op))


def _check(op: Op, varying: set[Value], divergent: Op | None) -> None:
    if divergent is not None:
        where = f" in line {divergent.loc.line}" if divergent.loc is not None else ""
        what = "the condition" if divergent.name == "if" else "the loop"
        raise KernelTypeError(
            f"some threads of a block may miss this work on a tile: {what}{where} depends on the thread",
            loc=op.loc,
            remedy="let all threads reach it",
        )
    own = (op.name == "tile_fill" and op.attrs.get("threads")) or op.name in ("tile_extract", "tile_add_at")
    if not own and any(v in varying and not isinstance(v.type, Tile) for v in op.operands):
        raise KernelTypeError(
            f"the threads of a block work on a tile together here, with numbers that differ between them ({op.name})",
            loc=op.loc,
            remedy="make a tile of the numbers with dk.tile(x), or take numbers that do not depend on dk.tid()",
        )


def _varying(fn: Function) -> set[Value]:
    """Numbers that may differ between the threads of a block (least fixpoint)."""

    def differs(op: Op) -> bool:
        own = is_per_thread(op) or lookup(op.name).effect is Effect.ATOMIC
        return own or (op.name in ("tile_extract", "tile_reduce") and not _OF_THREADS.isdisjoint(op.attrs))

    return varying_values(fn, differs, counts=lambda t: not isinstance(t, Tile))
