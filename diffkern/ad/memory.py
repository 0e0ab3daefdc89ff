"""The kernels' memory accesses that reverse mode refuses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from diffkern.ad.activity import Activity, HiddenPaths
from diffkern.ad.blocks import BlockMemory
from diffkern.ad.replay import plain_form, reading
from diffkern.analysis.dependence import LoadFact, LoadSource
from diffkern.analysis.exclusive import Exclusive
from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ATOMICS, ELEMENT_STORES, LOADS, NEW_STACKS, PLACE_WRITES, STORES
from diffkern.ir.types import is_differentiable, is_shared
from diffkern.ir.views import Access, Ruled

Pair: TypeAlias = "tuple[Op, Op]"

__all__ = ["check_atomics", "check_memory", "check_one_writer", "check_stacks", "stores_to", "touches_cotangents"]


def check_memory(
    fn: Function,
    roots: Sequence[Value],
    with_cotangents: Collection[Value],
    activity: Activity,
    facts: Mapping[Op, LoadFact],
    *,
    stamped: bool = False,
) -> list[Pair]:
    """Refuse accesses to memory that the sweep cannot get right, whatever the values are.

    Parameters
    ----------
    fn : Function
        The primal.
    roots : sequence of Value
        The active parameters and shared arrays.
    with_cotangents : collection of Value
        Those, and parameters by value, that have cotangents.
    activity : Activity
        The activity of its values.
    facts : mapping
        The facts about its loads from arrays that it writes to.
    stamped : bool, optional
        Whether stamps of the launch have shown that no two threads race.

    Returns
    -------
    list of pairs of Op
        Updates and stores, for which the stamps have to show that no two threads touch one element with them.

    Raises
    ------
    AutodiffError
        With the source line of the refused access.
    """
    disjoint = check_atomics(fn, with_cotangents, stamped=stamped)
    hidden = HiddenPaths(fn, roots)
    for op in walk(fn.body):
        if op.name not in LOADS | ATOMICS or op.attrs.get("opaque") or not is_differentiable(op.result.type):
            continue
        array, fact = Access(op).array, facts.get(op)
        # A racing load is an error only if its value matters for a derivative.
        if fact is not None and fact.source is LoadSource.RACING and op.result in activity.useful:
            line = f" (line {fact.store.loc.line})" if fact.store is not None and fact.store.loc else ""
            error = AutodiffError(
                f"{reading(op, fact)}, which another thread of the same launch may write{line}",
                loc=op.loc,
                remedy="read from a copy of the array, or split the kernel in two launches" + plain_form(fact.store),
            )
            error.is_race = True
            raise error
        # A load that sees the entry contents only cannot see an active value stored by this kernel.
        sees_stores = fact is None or fact.source is not LoadSource.ENTRY
        if array not in with_cotangents and sees_stores and hidden.through(op):
            raise AutodiffError(
                f"{array.name} carries active values inside the kernel but has no gradient",
                loc=op.loc,
                remedy=f"make {array.name} an array with requires_grad=True",
            )
    return disjoint


def check_atomics(fn: Function, with_cotangents: Collection[Value], *, stamped: bool = False) -> list[Pair]:
    """Refuse arrays whose result depends on the order of the updates.

    For a stamped launch, return the updates and stores of an array that do not touch one element from two threads: a
    single thread adds and stores in program order.
    """
    updates: dict[Value, list[tuple[Op, str]]] = {}
    for op in walk(fn.body):
        kind = op.attrs.get("kind", "store")
        if kind == "take" or op.attrs.get("opaque"):  # which leaves what there is
            continue
        if op.name in STORES | ATOMICS and Access(op).array in with_cotangents:
            # Adding and subtracting commute, so the two kinds may be mixed.
            updates.setdefault(Access(op).array, []).append((op, "add" if kind == "sub" else kind))
    mixed = [array for array, ops in updates.items() if len({kind for _, kind in ops}) > 1]
    if all(is_shared(array.type) for array in mixed):
        return []  # barriers keep those of a shared array in order
    exclusive, disjoint = Exclusive(fn), list[Pair]()
    for array in (array for array in mixed if not is_shared(array.type)):
        for op, kind in updates[array]:
            # Pairs that are proved never to meet in one element do not have to commute.
            others = [(other, k) for other, k in updates[array] if k != kind and not exclusive(op, other)]
            if op.name not in ATOMICS or not others:
                continue
            by_one_thread = kind == "add" and all(other.name in ELEMENT_STORES for other, _ in others)
            # Whether one thread only stores and adds to the element is not known here; the launch's stamps decide that.
            if stamped and by_one_thread:
                disjoint += [(op, other) for other, _ in others]
                continue
            stored = any(k == "store" for _, k in others)
            how = "stored to and updated atomically" if stored else "updated by atomics of different kinds"
            error = AutodiffError(
                f"{array.name} is {how} in one kernel",
                loc=op.loc,
                remedy="do the two in separate launches, or let a parameter that is no array choose one of them"
                + plain_form(op),
            )
            error.is_race = by_one_thread
            raise error
    return disjoint


def check_one_writer(store: Op, memory: BlockMemory | None) -> None:
    """Refuse a store of all threads of a block to one element: each would take the cotangent."""
    if memory is not None and memory.plan.by_all_threads(store):
        raise AutodiffError(
            f"all threads of a block store to the same element of {Access(store).array.name}",
            loc=store.loc,
            remedy="let one thread store it: if dk.thread_index() == 0",
        )


def check_stacks(fn: Function) -> None:
    """Refuse a derivative that keeps the states of a loop: it cannot be differentiated once more."""
    for op in walk(fn.body):
        if op.name in NEW_STACKS:
            raise AutodiffError(
                "the derivative of a loop that is called here is differentiated once more",
                loc=op.loc,
                remedy="let the loop have a constant and small number of trips, so that it is unrolled, or write the "
                "derivative of the func by hand, with @dk.func_grad",
            )


def stores_to(op: Op, arrays: Collection[Value]) -> bool:
    """Return whether a control-flow op stores to one of some arrays, or a derivative in it accesses its cotangents."""
    inside = [inner for sub in op.regions for inner in walk(sub)]
    return any(
        inner.name in PLACE_WRITES
        or (inner.name in STORES | ATOMICS and Access(inner).array in arrays and not inner.attrs.get("opaque"))
        or (inner.name == "ruled" and touches_cotangents(Ruled(inner), arrays))
        for inner in inside
    )


def touches_cotangents(call: Ruled, arrays: Collection[Value]) -> bool:
    """Return whether a derivative written by the user accesses the cotangents of one of some arrays."""
    return any(array in arrays for array in call.arrays)
