"""The passes from a program to the form in which it is compiled for CUDA, and in which its readable source is printed.

Tiles become shared arrays and composites scalars. Nothing is dead after them: a component that nobody reads would make
an atomic operation return its old value, and keep a sum from being added up in the block.
"""

from __future__ import annotations

from functools import partial

from diffkern.analysis.tile_products import TileProduct
from diffkern.ir.passes import Pass
from diffkern.ir.stages import BLOCKS, CUDA, PROGRAM
from diffkern.lower.composites import expand_composites
from diffkern.lower.tiles.block import SHARED_BYTES, HasLibrary, lower_tiles_for_blocks
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.siblings import hoist_common

__all__ = ["lowering"]


def _loops(_: TileProduct) -> bool:
    """No product is a library's."""
    return False


def lowering(
    limit: int = SHARED_BYTES,
    library: HasLibrary = _loops,
    *,
    may_alias: bool = False,
    checked: bool = False,
) -> tuple[Pass, ...]:
    """Return the passes.

    Parameters
    ----------
    limit : int, optional
        Bytes of shared memory that a block may have: a :class:`CompileError` if tiles do not fit.
    library : callable, optional
        Says which products of tiles are a library's; none by default.
    may_alias : bool, optional
        Whether array parameters may overlap.
    checked : bool, optional
        Whether the program checks its accesses: each then stays where the source has it.
    """
    tiles = partial(lower_tiles_for_blocks, limit=limit, library=library, may_alias=may_alias)
    passes = (
        Pass("tiles", PROGRAM, BLOCKS, tiles),
        Pass("composites", BLOCKS, CUDA, expand_composites),
        Pass("dce", CUDA, CUDA, eliminate),
    )
    if checked:
        return passes
    return (*passes, Pass("siblings", CUDA, CUDA, hoist_common), Pass("cse", CUDA, CUDA, eliminate_common))
