"""Refuses adjoints whose threads add to memory that is not a parameter, in an order that is not deterministic."""

from __future__ import annotations

from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, walk

__all__ = ["check_no_deposits"]


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
                "the gradient with respect to points of a Mesh or texels of a texture is added up in the order of "
                "threads, which is not deterministic",
                loc=op.loc,
                remedy="leave out deterministic, or pass these as a parameter and compute from its elements",
            )
