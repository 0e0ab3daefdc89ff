"""Marks on a whole kernel, made before it is optimised or differentiated, as its operations may be gone afterwards.

All of them change a kernel as the frontend leaves it, in place.
"""

from __future__ import annotations

from typing import Final

from diffkern.analysis.control_dependence import made_integral
from diffkern.analysis.tile_threads import threads_of
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.block import BLOCK_EXTENTS, SHARED_ARRAYS
from diffkern.ir.ops.memory import ELEMENT_ATOMICS, EXTREMA
from diffkern.ir.ops.table import all_ops
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import INT32

__all__ = ["blocks_of_one", "mark_as_written", "mark_threads", "mark_unfused", "poison_shared"]


_ROUNDED: Final = frozenset(name for name, row in all_ops().items() if "as_written" in row.optional)
"""Ops that may round differently under fast math."""


def mark_threads(fn: Function) -> Function:
    """Note the threads per block of a kernel whose threads hold numbers of their own, in place."""
    fn.threads = threads_of(fn)
    return fn


def mark_unfused(fn: Function) -> Function:
    """Forbid fusing a product and a sum in a kernel with an atomic minimum or maximum, in place.

    The adjoint finds the winner by comparing a replayed value with the stored extremum.
    """
    fn.unfused = any(op.name in ELEMENT_ATOMICS and op.attrs["kind"] in EXTREMA for op in walk(fn.body))
    return fn


def mark_as_written(fn: Function) -> Function:
    """Forbid fusing a product and a sum from which an integer or a rounded number is computed, in place.

    Which products are fused depends on their other uses. A kernel and its adjoint, which recomputes the number, would
    choose two different elements if one rounding is an integer and the other is not.
    """
    found = made_integral(fn)
    for op in walk(fn.body) if found else ():
        if op.name in _ROUNDED and not found.isdisjoint(op.results):
            op.attrs = {**op.attrs, "as_written": True}  # copies of an operation share their attributes
    return fn


def poison_shared(fn: Function) -> Function:
    """Mark the arrays that the threads of a block share, in place, so that what nobody wrote shows where it is read."""
    for op in walk(fn.body):
        if op.name in SHARED_ARRAYS:
            op.attrs = {**op.attrs, "poisoned": True}  # copies of an operation share their attributes
    return fn


def blocks_of_one(fn: Function) -> Function:
    """Set ``block_dim`` to 1 in kernels with tiles, whose block is one thread, in place."""
    ops = list(walk(fn.body))
    if any(map(of_block, ops)):
        for op in ops:
            if op.name in BLOCK_EXTENTS:
                op.name, op.attrs = "const", {"value": 1, "type": INT32}
    return fn
