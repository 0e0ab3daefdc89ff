"""Refusals of functions for which a derivative, a batch, or a call from outside of a launch would be wrong.

Each function takes one that is to be transformed or called, changes nothing, and raises an error with the line of the
first operation that does not allow it.
"""

from __future__ import annotations

from diffkern.errors import AutodiffError, KernelTypeError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.memory import ACCESSES, THREAD_INDICES
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import Array, is_differentiable

__all__ = ["check_no_deposits", "check_no_warps", "check_not_pointed", "check_thread_free"]


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


def check_thread_free(fn: Function) -> Function:
    """Return a function unchanged.

    Raises
    ------
    KernelTypeError
        If it works with threads of a launch, or reports something.
    """
    for op in walk(fn.body):
        if lookup(op.name).family == "report":
            raise KernelTypeError(
                f"{fn.name} prints or asserts, and is called from a program that is no kernel",
                loc=op.loc,
                remedy="print and assert in the kernel",
            )
        if op.name in THREAD_INDICES or lookup(op.name).family in ("block", "warp", "tile"):
            raise KernelTypeError(
                f"{fn.name} works with the threads of a launch, and is called from a program that is no kernel",
                loc=op.loc,
                remedy="pass indices as arguments; what needs blocks or tiles belongs into a kernel",
            )
    return fn


def check_no_deposits(fn: Function) -> None:
    """Raise for an adjoint that adds to the cotangents of arrays which the kernel knows by an id.

    Raises
    ------
    AutodiffError
        With the line of the first one.
    """
    for op in walk(fn.body):
        if op.name == "deposit":
            raise AutodiffError(
                "the gradient with respect to points of a Mesh, values of a volume or texels of a texture is added up "
                "in the order of threads, which is not deterministic",
                loc=op.loc,
                remedy="leave out deterministic, or pass these as a parameter and compute from its elements",
            )


def check_not_pointed(fn: Function) -> None:
    """Raise for an access to an array that an element holds.

    Raises
    ------
    AutodiffError
        With the line of the access.
    """
    for op in walk(fn.body):
        t = op.operands[0].type if op.name in ACCESSES else None
        if isinstance(t, Array) and t.outer and is_differentiable(t):
            raise AutodiffError(
                "an array in an element of an array is used, and no tangent goes that way",
                loc=op.loc,
                remedy="pass the array as a parameter of its own, or take the gradient on a dk.Tape",
            )
