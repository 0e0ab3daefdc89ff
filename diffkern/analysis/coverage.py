"""Which arrays does a launch over their own shape overwrite as a whole, without having looked at them?

In: a function. Out: for such parameters the number of axes. A launch whose first axes have exactly the array's shape
then leaves no element as it was, so that uninitialized memory may be passed. The same for cotangents: to which of them
does such a launch add once at each element? Where they begin at zero, the sums may be stores. Of which does it read
each element once, and then set it to zero? It may read them in another place, and leave these to a fill.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Set

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.types import Array
from diffkern.ir.views import Access
from diffkern.ops.memory import ACCUMULATES, ATOMICS, LOADS, STORES


def overwritten_whole(fn: Function) -> dict[int, int]:
    """The parameters that every thread stores to at its own index, whatever happens, and that nothing else touches."""
    others = {Access(op).array for op in walk(fn.body) if op.name in LOADS | ATOMICS | ACCUMULATES}
    stored = {Access(op).array for op in _at_own_index(fn, "store")}
    return _axes(fn, stored - others)


def added_once(fn: Function) -> dict[int, int]:
    """The parameters to which every thread adds once, at its own index, and that nothing else touches."""
    touched = Counter(Access(op).array for op in walk(fn.body) if op.name in LOADS | STORES | ATOMICS | ACCUMULATES)
    added = {Access(op).array for op in _at_own_index(fn, "accumulate")}
    return _axes(fn, {array for array in added if touched[array] == 1})


def store_sums(fn: Function) -> None:
    """Make stores, in place, of the accumulations that :func:`added_once` finds."""
    chosen = {fn.params[k] for k in added_once(fn)}
    for op in _at_own_index(fn, "accumulate"):
        if Access(op).array in chosen:
            op.name, op.attrs = "store", {name: value for name, value in op.attrs.items() if name != "mode"}


def taken_once(fn: Function) -> dict[int, int]:
    """The parameters of which every thread reads the element at its own index, then sets it to zero.

    Nothing else touches them.
    """
    return _axes(fn, set(_takes(fn)))


def keep_taken(fn: Function) -> None:
    """Leave alone, in place, what the parameters hold that :func:`taken_once` finds."""
    stores = set(_takes(fn).values())
    fn.body.ops[:] = [op for op in fn.body.ops if op not in stores]


def _takes(fn: Function) -> dict[Value, Op]:
    """The parameters that are taken once, with the stores of zero."""
    place = {op: k for k, op in enumerate(fn.body.ops)}
    zeros: set[Value] = set()
    for op in fn.body.ops:
        is_zero = op.name == "const" and op.attrs["value"] == 0
        if is_zero or (op.name == "construct" and zeros.issuperset(op.operands)):
            zeros.add(op.result)
    touched: dict[Value, list[Op]] = defaultdict(list)
    for op in walk(fn.body):
        if op.name in LOADS | STORES | ATOMICS | ACCUMULATES:
            touched[Access(op).array].append(op)
    own = {*_at_own_index(fn, "load"), *_at_own_index(fn, "store")}
    found = {}
    for array, ops in touched.items():
        if [op.name for op in ops] != ["load", "store"] or not own.issuperset(ops):
            continue
        load, store = ops
        if place[load] < place[store] and store.operands[-1] in zeros:
            found[array] = store
    return found


def _axes(fn: Function, arrays: Set[Value]) -> dict[int, int]:
    found = enumerate(fn.params)
    return {k: p.type.ndim for k, p in found if p in arrays and isinstance(p.type, Array) and not p.type.outer}


def _at_own_index(fn: Function, name: str) -> list[Op]:
    """The accesses that every thread makes, whatever happens, at its own index."""
    axis = {op.result: op.attrs["axis"] for op in walk(fn.body) if op.name == "tid"}
    return [op for op in fn.body.ops if op.name == name and _own_index(op, axis, fn.tid_arity)]


def _own_index(op: Op, axis: dict[Value, int], arity: int) -> bool:
    index = Access(op).index
    return len(index) == arity and [axis.get(i) for i in index] == list(range(arity))
