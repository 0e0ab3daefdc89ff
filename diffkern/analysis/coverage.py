"""Arrays that a launch over their own shape overwrites completely, without reading them first.

For such parameters the functions return the number of axes. A launch whose first axes have exactly the array's shape
then leaves no element unchanged, so uninitialized memory may be passed. The same for cotangents: if such a launch adds
once to each element of one that starts at zero, the sums may be stores; if it reads each element once and then sets it
to zero, it may read them from another array, and leave clearing these to a fill.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Set

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.memory import ACCUMULATES, ATOMICS, ELEMENT_LOADS, ELEMENT_STORES, LOADS, STORES, THREAD_INDICES
from diffkern.ir.types import Array
from diffkern.ir.views import Access, literal


def overwritten_whole(fn: Function) -> dict[int, int]:
    """Return the parameters that every thread stores to at its own index, unconditionally, without other accesses."""
    # A load would read uninitialized memory, and an update would add to it.
    others = {Access(op).array for op in walk(fn.body) if op.name in LOADS | ATOMICS | ACCUMULATES}
    stored = {Access(op).array for op in _at_own_index(fn, "store")}
    return _axes(fn, stored - others)


def added_once(fn: Function) -> dict[int, int]:
    """Return the parameters to which every thread adds once, at its own index, without other accesses."""
    touched = Counter(Access(op).array for op in walk(fn.body) if op.name in LOADS | STORES | ATOMICS | ACCUMULATES)
    added = {Access(op).array for op in _at_own_index(fn, "accumulate")}
    return _axes(fn, {array for array in added if touched[array] == 1})


def store_sums(fn: Function) -> None:
    """Turn the accumulations that :func:`added_once` finds into stores, in place."""
    chosen = {fn.params[k] for k in added_once(fn)}
    for op in _at_own_index(fn, "accumulate"):
        if Access(op).array in chosen:
            op.name, op.attrs = "store", {name: value for name, value in op.attrs.items() if name != "mode"}


def taken_once(fn: Function) -> dict[int, int]:
    """Return the parameters of which every thread reads the element at its own index, then sets it to zero.

    There are no other accesses to them.
    """
    return _axes(fn, set(_takes(fn)))


def keep_taken(fn: Function) -> None:
    """Remove the stores of zero to the parameters that :func:`taken_once` finds, in place."""
    stores = set(_takes(fn).values())
    fn.body.ops[:] = [op for op in fn.body.ops if op not in stores]


def _takes(fn: Function) -> dict[Value, Op]:
    """Return the parameters that are taken once, with the stores of zero."""
    place = {op: k for k, op in enumerate(fn.body.ops)}
    zeros: set[Value] = set()
    for op in fn.body.ops:
        # A zero vector is constructed from zero constants.
        is_zero = literal(op) == 0
        if is_zero or (op.name in CONSTRUCTS and zeros.issuperset(op.operands)):
            zeros.add(op.result)
    touched: dict[Value, list[Op]] = defaultdict(list)
    for op in walk(fn.body):
        if op.name in LOADS | STORES | ATOMICS | ACCUMULATES:
            touched[Access(op).array].append(op)
    own = {*_at_own_index(fn, "load"), *_at_own_index(fn, "store")}
    found = {}
    for array, ops in touched.items():
        if len(ops) != 2 or not own.issuperset(ops):
            continue
        load, store = ops
        if load.name not in ELEMENT_LOADS or store.name not in ELEMENT_STORES:
            continue
        # In the other order the thread would read its own zero.
        if place[load] < place[store] and store.operands[-1] in zeros:
            found[array] = store
    return found


def _axes(fn: Function, arrays: Set[Value]) -> dict[int, int]:
    found = enumerate(fn.params)
    return {k: p.type.ndim for k, p in found if p in arrays and isinstance(p.type, Array) and not p.type.outer}


def _at_own_index(fn: Function, name: str) -> list[Op]:
    """Return the accesses that every thread makes, unconditionally, at its own index."""
    axis = {op.result: op.attrs["axis"] for op in walk(fn.body) if op.name in THREAD_INDICES}
    # Only ops at the top level of the body are executed by every thread exactly once.
    return [op for op in fn.body.ops if op.name == name and _own_index(op, axis, fn.tid_arity)]


def _own_index(op: Op, axis: dict[Value, int], arity: int) -> bool:
    index = Access(op).index
    return len(index) == arity and [axis.get(i) for i in index] == list(range(arity))
