"""What an adjoint stores, copies and synchronises, in words: for people who want to know what a gradient costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.cost import usual_ways
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.types import Stack
from diffkern.manifest import Conflict, Gather, Log, SortedSum

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
    """A report of several lines, ending in a newline.

    Parameters
    ----------
    primal, adjoint, conflicts
        The kernel, its adjoint, and how threads race in the gradients.
    log
        What a launch on a tape keeps.
    gather
        When threads gather instead.
    sums
        Which gradients can be added up by sorted destinations in the place of atomics, or why not.
    """
    names = primal.param_names
    lines = [f"adjoint of {primal.name}"]
    lines += [f"  gradient of {names[k]}: {_SYNCHRONISATION[c.kind]}" for k, c in zip(
        adjoint.cotangents, conflicts, strict=True)]  # fmt: skip
    if gather is not None:
        (k, axis), *_ = gather.count.of or ((0, None),)
        extent = names[k] if axis == -1 else f"{names[k]}.shape[{axis}]" if axis is not None else gather.count.factor
        lines.append(f"  launches of {extent} threads gather: each computes what the others would add to its elements")
    if isinstance(sums, Unsorted):
        line = f" (line {sums.loc.line})" if sums.loc is not None else ""
        lines.append(
            f"  no sums by sorted destinations in the place of atomics: {names[sums.cotangent]}: {sums.why}{line}"
        )
    elif sums:
        sorted_by = ", ".join(names[one.cotangent] for one in sums)
        lines.append(f"  large launches add up by sorted destinations in the place of atomics: {sorted_by}")
    if adjoint.saved:
        kept = ", ".join(names[k] for k in adjoint.saved)
        lines.append(f"  contents kept from before the launch: {kept}")
    if log is not None:
        size = "counted before each launch" if log.calls is None else f"{log.calls} for each thread"
        line = f" (line {log.loc.line})" if log.loc is not None else ""
        lines.append(f"  logged by launches on tapes: {log.what}{line}, in all {size}, of type {log.type}")
    every = _keep_every_state(adjoint.fn)
    stacks = [op for op in walk(adjoint.fn.body) if op.name == "stack_new" and op not in every]
    lines += [_loop(op) for op in stacks] or ["  no loop needs its state stored"]
    return "\n".join(lines) + "\n"


def _keep_every_state(fn: Function) -> set[Op]:
    """What stands in the branches of loops whose states fit; the other branch has snapshots for as many trips."""
    found: set[Op] = set()
    for op in walk(fn.body):
        ways = usual_ways(op)
        if len(ways) < len(op.regions):
            found.update(*map(walk, ways))
    return found


def _loop(op: Op) -> str:
    stack = op.result.type
    assert isinstance(stack, Stack)
    size = sum(f.itemsize for f in stack.fields)
    where = f"line {op.loc.line}" if op.loc is not None else "generated"
    return (
        f"  loop at {where}: {stack.slots} snapshots of {size} bytes; every trip is stored up to {stack.slots} trips, "
        f"up to {math.comb(stack.slots + 2, 3)} the loop runs three times at most, beyond that more often"
    )
