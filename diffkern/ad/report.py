"""A report on the arrays an adjoint stores, copies and synchronises, for people who want to know a gradient's cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.contracts.manifest import Conflict, Gather, Log, Monomial, SortedSum
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import NEW_STACKS, STACK_READS
from diffkern.ir.types import Stack
from diffkern.ir.views import StackSlot

_SYNCHRONISATION = {
    "none": "plain additions, no two threads race",
    "bounded": "plain additions, neighbouring chunks one after the other",
    "reduce": "one partial sum per chunk",
    "general": "a private copy per group of chunks, or atomics",
}


def describe(
    primal: Function,
    adjoint: Adjoint,
    conflicts: Sequence[Conflict],
    log: Log | None = None,
    gather: Gather | None = None,
    sums: Sequence[SortedSum] | Unsorted = (),
) -> str:
    """Return a report of several lines, ending in a newline.

    Parameters
    ----------
    primal, adjoint, conflicts
        The kernel, its adjoint, and how threads race in the gradients.
    log
        The log that a launch on a tape keeps.
    gather
        When threads gather instead.
    sums
        The gradients that can be added up by sorted destinations in the place of atomics, or why none can.
    """
    names = primal.param_names
    lines = [f"adjoint of {primal.name}"]
    lines += [f"  gradient of {names[k]}: {_SYNCHRONISATION[c.kind]}" for k, c in zip(
        adjoint.cotangents, conflicts, strict=True)]  # fmt: skip
    if gather is not None:
        extents = " by ".join(_extent(names, counts[0]) for counts in gather.dims)
        lines.append(f"  launches of {extents} threads gather: each computes what the others would add to its elements")
    if sums:
        lines.append(_sorted_sums(names, sums))
    if adjoint.saved:
        kept = ", ".join(names[k] for k in adjoint.saved)
        lines.append(f"  contents kept from before the launch: {kept}")
    if log is not None:
        size = "counted before each launch" if log.calls is None else f"{log.calls} for each thread"
        line = f" (line {log.loc.line})" if log.loc is not None else ""
        lines.append(f"  logged by launches on tapes: {log.what}{line}, in all {size}, of type {log.type}")
    starts = _starts(adjoint.fn)
    stacks = [op for op in walk(adjoint.fn.body) if op.name in NEW_STACKS and op.result not in starts.values()]
    lines += [_loop(op, starts.get(op.result)) for op in stacks] or ["  no loop needs its state stored"]
    return "\n".join(lines) + "\n"


def _sorted_sums(names: Sequence[str], sums: Sequence[SortedSum] | Unsorted) -> str:
    """Return the line about gradients that are added up by sorted destinations, or why none are."""
    if isinstance(sums, Unsorted):
        line = f" (line {sums.loc.line})" if sums.loc is not None else ""
        return f"  no sums by sorted destinations in the place of atomics: {names[sums.cotangent]}: {sums.why}{line}"
    sorted_by = ", ".join(names[one.cotangent] for one in sums)
    return f"  large launches add up by sorted destinations in the place of atomics: {sorted_by}"


def _starts(fn: Function) -> dict[Value, Value]:
    """Return, for each stack of states of a segment, the stack of the starts of segments."""
    found: dict[Value, Value] = {}
    for op in walk(fn.body):
        if op.attrs.get("once"):
            inner = [one for sub in op.regions for one in walk(sub)]
            # The segment loop of _in_segments has two stacks: the inner one is created in it, the other one outside.
            (kept,) = (one.result for one in inner if one.name in NEW_STACKS)
            used = {StackSlot(one).stack for one in inner if one.name in STACK_READS}
            found.update((kept, other) for other in used - {kept})
    return found


def _loop(op: Op, starts: Value | None) -> str:
    stack = op.result.type
    assert isinstance(stack, Stack)
    size = sum(f.itemsize for f in stack.fields)
    where = f"line {op.loc.line}" if op.loc is not None else "generated"
    # With s snapshots and at most three executions of each iteration the binomial schedule reaches C(s + 2, 3) trips.
    thrice = math.comb(stack.slots + 2, 3)
    if starts is not None:
        assert isinstance(starts.type, Stack)
        thrice = stack.slots * math.comb(starts.type.slots + 1, 2)
    return (
        f"  loop at {where}: {stack.slots} snapshots of {size} bytes; every trip is stored up to {stack.slots} trips, "
        f"up to {thrice} the loop runs three times at most, beyond that more often"
    )


def _extent(names: Sequence[str], count: Monomial) -> str:
    """Return an extent of a launch that gathers in words."""
    ((k, axis),) = count.of or ((0, None),)
    if axis is None:
        return str(count.factor)
    return names[k] if axis == -1 else f"{names[k]}.shape[{axis}]"
