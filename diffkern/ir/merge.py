"""A function in which parameters stand for one array.

In: a function, and parameters that are given the array of another one. Out: a copy that accesses these arrays by that
parameter alone, so that what is true of one array is seen to be: which elements are overwritten, and by which thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk

__all__ = ["with_merged"]


def with_merged(fn: Function, merged: Sequence[tuple[int, int]]) -> Function:
    """Return a copy that uses parameters in the place of others, which are not used any more.

    Parameters
    ----------
    fn : Function
        The function, which yields nothing.
    merged : sequence of (int, int)
        Each parameter with the one in its place.
    """
    out = clone_function(fn)
    instead = {out.params[k]: out.params[of] for k, of in merged}
    for op in walk(out.body):
        op.operands = tuple(instead.get(v, v) for v in op.operands)
    return out
