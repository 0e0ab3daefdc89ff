"""Lowers augmented assignments to elements of arrays: atomic, unless no two threads of a launch update one element.

The frontend notes ``a[i] += v`` and the like. In place, an update becomes the plain load, operation and store that it
was lowered to where the element is proved to be one thread's own, and one atomic update elsewhere. It is proved if,
among all updates and atomics of an array, no other thread accesses the element, by the indices as affine forms of the
thread index; or if the thread also stores plainly at the very same index, which by the precondition of plain stores
makes the element its own. For memory that a block shares the proof is that no other thread of the block accesses the
element between two barriers.

A kernel that never asks for its index is the same for all threads of a launch. Its updates are atomic if the array has
no other accesses; otherwise they are plain, and ``alone`` tells the launch that there may be one thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from diffkern.analysis.affine import AffineForms, enclosing_loops
from diffkern.analysis.blocks import blockwise_op
from diffkern.analysis.dependence import Positions, begins
from diffkern.analysis.shared_updates import races_in_blocks
from diffkern.analysis.threads import Never, relate
from diffkern.analysis.tile_access import shadow
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Region, Update, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ATOMICS, ELEMENT_STORES, LOADS
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.types import is_shared
from diffkern.ir.views import Access

__all__ = ["finalize_element_updates"]

Sites = Mapping[Op, int]
"""The numbers of the updates, by their stores."""


def finalize_element_updates(fn: Function, simplify: Callable[[Function], Function]) -> Function:
    """Make the augmented assignments of a function atomic where threads may race, in place; return it.

    Parameters
    ----------
    fn : Function
        The function.
    simplify : callable
        Merges equal indices into one value, in place: a copy of the function is analysed after it.
    """
    updates, fn.updates = fn.updates, ()
    if not updates:
        return fn
    # A copy is simplified for the analysis, as the function itself has to keep the order of the user's loads.
    seen, sites = _copied(fn, updates)
    simplify(seen)
    alone = fn.tid_arity == 0 and blockwise_op(fn) is None
    if alone:
        atomic = _only_updated(seen, sites)
        for number, update in enumerate(updates):
            if number not in atomic:
                update.store.attrs = {**update.store.attrs, "alone": True}
    else:
        atomic = _racing(seen, sites)
    # Other threads add to cotangents too, whatever the kernel's own accesses prove.
    cotangents = {op.result for op in walk(fn.body) if op.name in COTANGENT_ARRAYS}
    atomic |= {number for number, update in enumerate(updates) if Access(update.store).array in cotangents}
    _replace(fn.body, {update.store: update for number, update in enumerate(updates) if number in atomic})
    return fn


def _copied(fn: Function, updates: Sequence[Update]) -> tuple[Function, Sites]:
    """Return a copy, and its updates."""
    copy = clone_function(fn)
    number = {update.store: k for k, update in enumerate(updates)}
    return copy, {twin: number[op] for op, twin in zip(walk(fn.body), walk(copy.body), strict=True) if op in number}


def _replace(region: Region, chosen: dict[Op, Update]) -> None:
    """Replace stores by atomic updates; the loads made for them are left to dead code elimination."""
    ops: list[Op] = []
    for op in region.ops:
        for sub in op.regions:
            _replace(sub, chosen)
        update = chosen.get(op)
        if update is None:
            ops.append(op)
            continue
        attrs = {"wrap": op.attrs["wrap"], "kind": update.kind, "augmented": True}
        if op.attrs.get("opaque"):
            attrs["opaque"] = True
        old = Value(update.operand.type)
        # The prelude computes the operand; it was noted apart, since the plain form may load the element first.
        ops += update.prelude.ops
        ops.append(Op("atomic", (*op.operands[:-1], update.operand), (old,), attrs, (), op.loc))
    region.ops[:] = ops


def _by_array(fn: Function, sites: Sites) -> dict[Value, list[Op]]:
    """Return the updates and atomics of each array that is updated."""
    found: dict[Value, list[Op]] = {}
    for op in walk(fn.body):
        if op in sites or op.name in ELEMENT_ATOMICS:
            found.setdefault(Access(op).array, []).append(op)
    return {array: ops for array, ops in found.items() if any(op in sites for op in ops)}


def _racing(fn: Function, sites: Sites) -> set[int]:
    """Return the updates in which two threads may race."""
    seen = shadow(fn).fn
    updated = _by_array(seen, sites)
    racing = races_in_blocks(fn, [ops for array, ops in updated.items() if is_shared(array.type)])
    forms, owners = AffineForms(seen), _Owners(seen, sites)
    for array, ops in updated.items():
        if not is_shared(array.type):
            for k, a in enumerate(ops):
                for b in ops[k:]:
                    if not _race_free(forms, owners, a, b, fn.tid_arity):
                        racing |= {a, b}
    return {sites[op] for op in racing if op in sites}


def _race_free(forms: AffineForms, owners: _Owners, a: Op, b: Op, arity: int) -> bool:
    """Return whether no two threads access one element by these accesses."""
    if Access(a).index == Access(b).index and owners.owns(a) and owners.owns(b):
        return True
    relation = relate(forms, a, b)
    return isinstance(relation, Never) or relation.same_thread(arity)


class _Owners:
    """The plain stores, by which a thread makes an element its own."""

    def __init__(self, fn: Function, sites: Sites) -> None:
        self.loops = enclosing_loops(fn)
        self.order = Positions()
        self.order.visit(fn.body)
        self.stores: dict[Value, list[Op]] = {}
        for op in walk(fn.body):
            if op.name in ELEMENT_STORES and op not in sites:
                self.stores.setdefault(Access(op).array, []).append(op)

    def owns(self, update: Op) -> bool:
        """Return whether a thread that executes an update also stores to the element."""
        return any(
            Access(store).index == Access(update).index
            and Access(store).wrap == Access(update).wrap
            and self.order.implies(update, store)
            and begins(self.loops[store], self.loops[update])
            for store in self.stores.get(Access(update).array, ())
        )


def _only_updated(fn: Function, sites: Sites) -> set[int]:
    """Return the updates of arrays without other accesses: each update has a load, and nothing else."""
    atomic: set[int] = set()
    for array, ops in _by_array(fn, sites).items():
        numbers = [sites[op] for op in ops if op in sites]
        accesses = [op for op in walk(fn.body) if op.operands[:1] == (array,) and op.name not in ARRAY_EXTENTS]
        loads = sum(op.name in LOADS for op in accesses)
        # Each update has one load of its own; any further access could see intermediate contents.
        if loads == len(numbers) and len(accesses) == loads + len(ops):
            atomic.update(numbers)
    return atomic
