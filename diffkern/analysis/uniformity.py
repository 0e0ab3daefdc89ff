"""Purity and uniformity of single operations, and the values that can be computed ahead of all threads.

The functions tell whether operations are pure, a thread's own, or computed from parameters, shapes and literals alone.
The values that the threads of a scope share are found by :mod:`~diffkern.analysis.scopes`.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.row import Effect, Uniformity
from diffkern.ir.ops.table import lookup

__all__ = ["is_per_thread", "is_pure", "launch_values", "recomputable"]


def is_per_thread(op: Op) -> bool:
    """Return whether the results of an op differ between the threads of a block whatever its operands are."""
    return lookup(op.name).uniformity is Uniformity.THREAD


def is_pure(op: Op) -> bool:
    """Return whether the results of an op follow from its operands, and from the thread's position in the launch."""
    return not op.regions and lookup(op.name).effect is Effect.PURE


def recomputable(op: Op) -> bool:
    """Return whether an op gives the same results on the same operands wherever it is executed."""
    row = lookup(op.name)
    return is_pure(op) and row.family != "block" and row.uniformity is Uniformity.LAUNCH


def launch_values(fn: Function) -> dict[Value, Op | None]:
    """Return the values computed from parameters, shapes and literals alone, each with its op.

    They are the same for every thread. They come in program order, so that definitions precede uses. A parameter has no
    op.
    """
    out: dict[Value, Op | None] = dict.fromkeys(fn.params)
    for op in walk(fn.body):
        if recomputable(op) and all(v in out for v in op.operands):
            out.update(dict.fromkeys(op.results, op))
    return out
