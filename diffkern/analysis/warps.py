"""Whether threads of a warp work together in a function, which no derivative and no batch follows.

In: a function that is to be differentiated, or to run for several examples. Out: nothing, or an error with the line.
"""

from __future__ import annotations

from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, walk
from diffkern.ops.table import lookup
from diffkern.ops.tile import of_block

__all__ = ["check_no_warps"]


def check_no_warps(fn: Function) -> None:
    """Raise for an operation of a warp, and for a barrier beside tiles or of which only its text says who reaches it.

    Raises
    ------
    AutodiffError
        With its line.
    """
    beside_tiles = any(map(of_block, walk(fn.body)))
    for op in walk(fn.body):
        alone = op.name == "barrier" and (op.attrs.get("unproved") or beside_tiles)
        if lookup(op.name).family == "warp" or alone:
            what = "a barrier" if op.name == "barrier" else "work of a warp"
            raise AutodiffError(
                f"{what} in a text in C++ for GPUs, through which no derivative or batch goes",
                loc=op.loc,
                remedy="write it in Python, with tiles: wp.tile_sum(wp.tile(x)) adds up over a block",
            )
