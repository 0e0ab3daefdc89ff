"""Which arrays does a launch over their own shape overwrite as a whole, without having looked at them?

In: a function. Out: for such parameters the number of axes. A launch whose first axes have exactly the array's shape
then leaves no element as it was, so that uninitialized memory may be passed.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.types import Array
from diffkern.ir.views import Access
from diffkern.ops.memory import ACCUMULATES, ATOMICS, LOADS


def overwritten_whole(fn: Function) -> dict[int, int]:
    """The parameters that every thread stores to at its own index, whatever happens, and that nothing else touches."""
    axis = {op.result: op.attrs["axis"] for op in walk(fn.body) if op.name == "tid"}
    others = {Access(op).array for op in walk(fn.body) if op.name in LOADS | ATOMICS | ACCUMULATES}
    stored = {Access(op).array for op in fn.body.ops if op.name == "store" and _own_index(op, axis, fn.tid_arity)}
    return {
        k: p.type.ndim
        for k, p in enumerate(fn.params)
        if isinstance(p.type, Array) and not p.type.outer and p in stored and p not in others
    }


def _own_index(op: Op, axis: dict[Value, int], arity: int) -> bool:
    index = Access(op).index
    return len(index) == arity and [axis.get(i) for i in index] == list(range(arity))
