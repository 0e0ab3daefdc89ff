"""What an adjoint stores, copies and synchronises, in words: for people who want to know what a gradient costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from diffkern.ad.adjoint import Adjoint
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.types import Stack
from diffkern.manifest import Conflict

_SYNCHRONISATION = {
    "none": "plain additions, no two threads meet",
    "bounded": "plain additions, neighbouring chunks one after the other",
    "reduce": "one partial sum per chunk",
    "general": "a private copy per group of chunks, or atomics",
}


def describe(primal: Function, adjoint: Adjoint, conflicts: Sequence[Conflict]) -> str:
    """A report of several lines, ending in a newline."""
    names = primal.param_names
    lines = [f"adjoint of {primal.name}"]
    lines += [f"  gradient of {names[k]}: {_SYNCHRONISATION[c.kind]}" for k, c in zip(
        adjoint.cotangents, conflicts, strict=True)]  # fmt: skip
    if adjoint.saved:
        kept = ", ".join(names[k] for k in adjoint.saved)
        lines.append(f"  contents kept from before the launch: {kept}")
    stacks = [op for op in walk(adjoint.fn.body) if op.name == "stack_new"]
    lines += [_loop(op) for op in stacks] or ["  no loop needs its state stored"]
    return "\n".join(lines) + "\n"


def _loop(op: Op) -> str:
    stack = op.result.type
    assert isinstance(stack, Stack)
    size = sum(f.itemsize for f in stack.fields)
    where = f"line {op.loc.line}" if op.loc is not None else "generated"
    return (
        f"  loop at {where}: {stack.slots} snapshots of {size} bytes; every trip is stored up to {stack.slots} trips, "
        f"up to {math.comb(stack.slots + 2, 3)} the loop runs three times at most, beyond that more often"
    )
