"""The form in which a program for CUDA is compiled, and in which its readable source is printed: one and the same.

In: a function as differentiation or the optimiser leaves it; the modes of an adjoint's accumulations are settled. Out:
a function whose tiles are shared arrays and whose composites are scalars. Nothing in it is dead: a component that
nobody reads would make an atomic operation return its old value, and keep a sum from being added up in the block.
"""

from __future__ import annotations

from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.analysis.tile_products import TileProduct
from diffkern.ir.nodes import Function
from diffkern.lower.composites import expand_composites
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.lower.tiles.block_lowering import HasLibrary
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.siblings import hoist_common

__all__ = ["cuda_form"]


def _loops(_: TileProduct) -> bool:
    """No product is a library's."""
    return False


def cuda_form(
    fn: Function,
    limit: int = SHARED_BYTES,
    library: HasLibrary = _loops,
    *,
    may_alias: bool = False,
    checked: bool = False,
) -> Function:
    """Return the function in the form for CUDA; the argument is not changed.

    Parameters
    ----------
    fn : Function
        A verified function.
    limit : int, optional
        Bytes of shared memory that a block may have.
    library : callable, optional
        Says which products of tiles are a library's; none by default.
    may_alias : bool, optional
        Whether array parameters may overlap.
    checked : bool, optional
        Whether the program checks its accesses: each then stays where the source has it.

    Raises
    ------
    CompileError
        If its tiles do not fit into the shared memory of a block.
    """
    out = eliminate(expand_composites(lower_tiles_for_blocks(fn, limit, library, may_alias=may_alias)))
    return out if checked else eliminate_common(hoist_common(out))
