"""Hoist computations that both branches of an ``if`` contain in front of it; in place.

The reverse sweep brings them about: computations after a condition in the forward sweep are often undone in both of its
branches. LLVM would find them too, but much later and at a higher price. Only pure operations move, and loads where
neither branch writes; each would have been executed on either path.
"""

from __future__ import annotations

from collections.abc import Hashable

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import If, is_branch
from diffkern.opt.cse import freeze
from diffkern.opt.dce import has_effect


def hoist_common(fn: Function) -> Function:
    """Move the computations that both branches of each ``if`` share in front of it."""
    _visit(fn.body)
    return fn


def _visit(region: Region) -> None:
    out: list[Op] = []
    for op in region.ops:
        for sub in op.regions:
            _visit(sub)  # inner branches first: what they share may be shared further out
        if is_branch(op):
            out += _shared(op)
        out.append(op)
    region.ops[:] = out


def _shared(op: Op) -> list[Op]:
    """Remove shared ops from the branches of an ``if`` and return them."""
    then, other = If(op).then, If(op).orelse
    if not (then.ops and other.ops):
        return []
    writes = has_effect(op)
    known: dict[Hashable, Op] = {}
    for inner in then.ops:
        if _movable(inner, writes):
            known.setdefault(_key(inner, {}), inner)
    mapping: dict[Value, Value] = {}
    shared: set[Op] = set()
    kept = []
    for inner in other.ops:
        # An operation on a value of this branch is none of the other branch's, unless that value is shared.
        twin = known.get(_key(inner, mapping)) if _movable(inner, writes) else None
        if twin is None:
            kept.append(inner)
        else:
            shared.add(twin)
            mapping.update(zip(inner.results, twin.results, strict=True))
    if not shared:
        return []
    # In the order of the first branch, which respects their dependences.
    moved = [inner for inner in then.ops if inner in shared]
    then.ops[:] = [inner for inner in then.ops if inner not in shared]
    other.ops[:] = kept
    substitute(other, mapping)
    return moved


def _movable(op: Op, writes: bool) -> bool:
    if op.regions or not all(isinstance(r.type, (Scalar, Vec, Mat)) for r in op.results):
        return False  # each branch keeps memory of its own
    effect = lookup(op.name).effect
    return effect in (Effect.PURE, Effect.CONSTANT) or (effect is Effect.READ and not writes)


def _key(op: Op, mapping: dict[Value, Value]) -> Hashable:
    attrs = tuple(sorted((name, freeze(value)) for name, value in op.attrs.items()))
    operands = tuple(mapping.get(v, v) for v in op.operands)
    return op.name, operands, attrs, tuple(r.type for r in op.results)
