"""What reverse mode refuses of a kernel's accesses to memory, and the sweep through an atomic minimum or maximum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from diffkern.ad.activity import Activity, HiddenPaths
from diffkern.ad.blocks import BlockMemory
from diffkern.ad.cotangents import ct_name
from diffkern.ad.replay import plain_form, reading
from diffkern.analysis.dependence import LoadFact, Source
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Scalar, is_differentiable, is_shared
from diffkern.ir.views import Access
from diffkern.ops.memory import ATOMICS, LOADS, STORES

__all__ = ["check_extremum", "check_memory", "reverse_extremum"]


def check_memory(
    fn: Function,
    roots: Sequence[Value],
    with_cotangents: Collection[Value],
    activity: Activity,
    facts: Mapping[Op, LoadFact],
) -> None:
    """Refuse what the sweep through memory cannot get right, whatever the values are.

    Parameters
    ----------
    fn : Function
        The primal.
    roots : sequence of Value
        The active parameters and shared arrays.
    with_cotangents : collection of Value
        Those, and parameters by value, that have cotangents.
    activity : Activity
        Of its values.
    facts : mapping
        What is known of its loads from arrays that it writes to.

    Raises
    ------
    AutodiffError
        With the line of what is refused.
    """
    _check_atomics(fn, with_cotangents)
    hidden = HiddenPaths(fn, roots)
    for op in walk(fn.body):
        if op.name not in LOADS | ATOMICS or not is_differentiable(op.result.type):
            continue
        array, fact = Access(op).array, facts.get(op)
        if fact is not None and fact.source is Source.RACING and op.result in activity.useful:
            line = f" (line {fact.store.loc.line})" if fact.store is not None and fact.store.loc else ""
            raise AutodiffError(
                f"{reading(op, fact)}, which another thread of the same launch may write{line}",
                loc=op.loc,
                remedy="read from a copy of the array, or split the kernel in two launches" + plain_form(fact.store),
            )
        sees_stores = fact is None or fact.source is not Source.ENTRY
        if array not in with_cotangents and sees_stores and hidden.through(op):
            raise AutodiffError(
                f"{array.name} carries active values inside the kernel but has no gradient",
                loc=op.loc,
                remedy=f"make {array.name} an array with requires_grad=True",
            )


def _check_atomics(fn: Function, with_cotangents: Collection[Value]) -> None:
    """Refuse arrays updated in ways whose order decides about the result."""
    updates: dict[Value, set[str]] = {}
    for op in walk(fn.body):
        if op.name in STORES | ATOMICS and Access(op).array in with_cotangents:
            kind = op.attrs.get("kind", "store")
            updates.setdefault(Access(op).array, set()).add("add" if kind == "sub" else kind)
    for op in walk(fn.body):
        if op.name not in ATOMICS or is_shared(Access(op).array.type):
            continue  # barriers keep those of a shared array in order
        array = Access(op).array
        if len(updates.get(array, ())) > 1:
            name, stored = array.name, "store" in updates[array]
            mixed = "stored to and updated atomically" if stored else "updated by atomics of different kinds"
            raise AutodiffError(
                f"{name} is {mixed} in one kernel",
                loc=op.loc,
                remedy="do the two in separate launches" + plain_form(op),
            )


def check_extremum(op: Op) -> None:
    """Refuse atomic extrema without a derivative."""
    array, t = Access(op).array, Access(op).value.type
    if is_shared(array.type):
        raise AutodiffError(
            f"atomic_{op.attrs['kind']} on a shared array has no derivative", loc=op.loc,
            remedy="compare the elements one with another, as in a reduction by halves, or use a global array",
        )  # fmt: skip
    if t != array.type.dtype:  # type: ignore[union-attr]
        raise AutodiffError(
            f"atomic_{op.attrs['kind']} of {array.type.dtype} has no derivative: the element is rounded, "  # type: ignore[union-attr]
            "so that it is not known which thread's value it is",
            loc=op.loc, remedy=f"make {array.name} an array of float32",
        )  # fmt: skip
    if not isinstance(t, Scalar):
        raise AutodiffError(
            f"atomic_{op.attrs['kind']} of {t} has no derivative", loc=op.loc,
            remedy="use one array of scalars per component",
        )  # fmt: skip


def check_one_writer(store: Op, memory: BlockMemory | None) -> None:
    """Refuse a store of all threads of a block to one element: each would take the cotangent."""
    if memory is not None and memory.plan.by_all_threads(store):
        raise AutodiffError(
            f"all threads of a block store to the same element of {Access(store).array.name}",
            loc=store.loc,
            remedy="let one thread store it: if dk.thread_index() == 0",
        )


def stores_to(op: Op, arrays: Collection[Value]) -> bool:
    """Whether a control-flow op stores to one of some arrays."""
    return any(
        inner.name in STORES | ATOMICS and Access(inner).array in arrays for sub in op.regions for inner in walk(sub)
    )


def reverse_extremum(
    b: Builder, op: Op, value: Value, array: Value, entry_array: Value, buffer: Value, index: Sequence[Value]
) -> Value:
    """The winner takes the element's cotangent, the old content first in a tie, and leaves zero for the rest."""
    wrap = Access(op).wrap
    final = b.one("load", array, *index, wrap=wrap)
    entry = b.one("load", entry_array, *index, wrap=wrap)
    wins = b.one("and", b.one("eq", value, final), b.one("ne", entry, final))
    taken, left = Region(), Region()
    with b.into(taken):
        zero = b.zero(value.type)
        taken.yields = (b.one("atomic", buffer, *index, zero, kind="exch", wrap=wrap),)
    with b.into(left):
        left.yields = (b.zero(value.type),)
    (ct,) = b.if_(wins, taken, left, (ct_name(Access(op).value),))
    return ct
