"""Rejection of functions whose threads cooperate in warps, where a derivative or a batch is asked for.

:func:`check_no_warps` takes a function that is to be differentiated, or to run for several examples. It raises an error
with the line of the first operation that can be neither differentiated nor batched.
"""

from __future__ import annotations

from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block

__all__ = ["check_no_warps"]


def check_no_warps(fn: Function) -> None:
    """Raise for an operation of a warp, and for a barrier that stands next to tiles or whose uniformity is unproved.

    Raises
    ------
    AutodiffError
        With the line of the operation.
    """
    beside_tiles = any(map(of_block, walk(fn.body)))
    for op in walk(fn.body):
        alone = op.name in BARRIERS and (op.attrs.get("unproved") or beside_tiles)
        if lookup(op.name).family == "warp" or alone:
            what = "a barrier" if op.name in BARRIERS else "work of a warp"
            raise AutodiffError(
                f"{what} in a text in C++ for GPUs, through which no derivative or batch goes",
                loc=op.loc,
                remedy="write it in Python, with tiles: wp.tile_sum(wp.tile(x)) adds up over a block",
            )
