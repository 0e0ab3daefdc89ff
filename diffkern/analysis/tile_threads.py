"""Kernels in which the threads of a block hold numbers of their own beside the tiles they share.

:func:`threads_of` returns how many threads a block has, if ``dk.tile(x)`` takes a number of each or ``dk.untile`` gives
each one. :func:`check_threads` checks that the threads do the same to tiles: whole blocks execute every operation on
tiles, with the same numbers. Indices along all axes but the last are the same in a block that lies in one row of
threads; launches are required to have that property where it matters.
"""

from __future__ import annotations

from typing import Final

from diffkern.analysis.scopes import ThreadScope, uniformity
from diffkern.errors import KernelTypeError
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops import tile, warps
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import Stack, Tile
from diffkern.ir.views import deciding, is_branch

__all__ = ["asks_for_threads", "check_threads", "needs_rows", "threads_of"]


_OF_TILES: Final = frozenset(row.name for row in tile.ROWS if "threads" in row.optional)
_BESIDE_TILES: Final = frozenset({"barrier", *(row.name for row in warps.ROWS)})


def asks_for_threads(fn: Function) -> bool:
    """Return whether a kernel, as it is written, has numbers of each thread of a block, of which there may be one."""
    ops = list(walk(fn.body))
    names = _OF_TILES | _BESIDE_TILES if any(map(of_block, ops)) else _OF_TILES
    return any(op.name in names and "threads" in op.attrs for op in ops)


def threads_of(fn: Function) -> int:
    """Return the threads of a block that hold numbers of their own; 0 if a block is one thread to the kernel.

    ``Function.threads`` has the number if passes may have removed the ops that show it.
    """
    ops = list(walk(fn.body))
    names = _OF_TILES | _BESIDE_TILES if any(map(of_block, ops)) else _OF_TILES
    found = max((int(op.attrs.get("threads", 1)) for op in ops if op.name in names), default=1)
    return fn.threads or (found if found > 1 else 0)


def check_threads(fn: Function) -> frozenset[Op]:
    """Check that operations on tiles are convergent within a block.

    Returns
    -------
    frozenset of Op
        Branches and loops in which threads go ways of their own, and read elements of tiles made before.

    Raises
    ------
    KernelTypeError
        With the line of an operation that is not convergent.
    """
    scope = ThreadScope.ROWS if fn.tid_arity > 1 else ThreadScope.TILES
    branches: set[Op] = set()
    _region(fn.body, uniformity(fn, scope).varying, None, branches)
    return frozenset(branches)


def needs_rows(fn: Function) -> bool:
    """Return whether operations on tiles are convergent only if each block lies in one row of threads."""
    if fn.tid_arity < 2 or not threads_of(fn):
        return False
    try:
        _region(fn.body, uniformity(fn, ThreadScope.TILES).varying, None, set())
    except KernelTypeError:
        return True
    return False


def _region(region: Region, varying: set[Value], divergent: Op | None, branches: set[Op]) -> None:
    for op in region.ops:
        if of_block(op) and divergent is not None and _only_reads(op, divergent):
            branches.add(divergent)
        elif of_block(op):
            _check(op, varying, divergent)
        for sub in op.regions:
            _region(sub, varying, divergent or (None if varying.isdisjoint(deciding(op)) else op), branches)


def _only_reads(op: Op, divergent: Op) -> bool:
    """Return whether an op reads an element of a tile that is complete before the threads diverge."""
    return op.name == "tile_extract" and not any(isinstance(r.type, (Tile, Stack)) for r in divergent.results)


def _check(op: Op, varying: set[Value], divergent: Op | None) -> None:
    if divergent is not None:
        where = f" in line {divergent.loc.line}" if divergent.loc is not None else ""
        what = "the condition" if is_branch(divergent) else "the loop"
        raise KernelTypeError(
            f"some threads of a block may miss this work on a tile: {what}{where} depends on the thread",
            loc=op.loc,
            remedy="let all threads reach it",
        )
    # Operations that take or give a number of each thread may have operands that differ between them.
    own = lookup(op.name).per_thread or op.attrs.get("threads")
    if not own and any(v in varying and not isinstance(v.type, Tile) for v in op.operands):
        raise KernelTypeError(
            f"the threads of a block work on a tile together here, with numbers that differ between them ({op.name})",
            loc=op.loc,
            remedy="make a tile of the numbers with dk.tile(x), or numbers that do not depend on the last of dk.tid()",
        )
