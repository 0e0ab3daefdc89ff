"""Refuses numbers in arrays that elements of arrays hold: forward mode does not follow them."""

from __future__ import annotations

from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import ACCESSES
from diffkern.ir.types import Array, is_differentiable

__all__ = ["check_not_pointed"]


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
