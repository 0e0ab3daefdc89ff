"""Refuses thread operations in a func that no kernel calls: there are no threads of a launch around it."""

from __future__ import annotations

from diffkern.errors import KernelTypeError
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import THREAD_INDICES
from diffkern.ir.ops.table import lookup

__all__ = ["check_thread_free"]


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
