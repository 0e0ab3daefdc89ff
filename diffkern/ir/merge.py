"""Merging of array parameters that receive the same array.

:func:`with_merged` takes a function and the pairs of parameters that are given one array, and returns a copy that
accesses that array through one parameter only. Analyses of one array then see every access to it: which elements are
overwritten, and by which thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk

__all__ = ["with_merged"]


def with_merged(fn: Function, merged: Sequence[tuple[int, int]]) -> Function:
    """Return a copy that uses one parameter instead of each merged one; the merged ones stay, but are unused.

    Parameters
    ----------
    fn : Function
        The function, which yields nothing.
    merged : sequence of (int, int)
        Each merged parameter with the one that replaces it, by position.
    """
    out = clone_function(fn)
    instead = {out.params[k]: out.params[of] for k, of in merged}
    for op in walk(out.body):
        op.operands = tuple(instead.get(v, v) for v in op.operands)
    return out
