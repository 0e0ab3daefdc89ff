"""Hoist integer computations out of branches and loops, as far as their operands allow; in place.

Index expressions that do not change in a loop, and constants, are then one value wherever they occur (with common
subexpression elimination afterwards), which the memory analyses compare. Pure integer ops cannot trap, so executing
them where the program would not have is harmless.
"""

from __future__ import annotations

from collections.abc import Hashable

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ARRAY_EXTENTS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import If, is_branch
from diffkern.opt.cse import freeze
from diffkern.opt.dce import has_effect


def hoist_integers(fn: Function) -> Function:
    """Hoist pure integer ops in a function."""
    depth: dict[Value, int] = dict.fromkeys(fn.params, 0)
    _Hoister(depth).region(fn.body, 0, [])
    return fn


class _Hoister:
    def __init__(self, depth: dict[Value, int]) -> None:
        self.depth = depth  # nesting depth of the region in which a value is defined

    def region(self, region: Region, level: int, outer: list[list[Op]]) -> None:
        kept: list[Op] = []
        lists = [*outer, kept]
        self.depth.update(dict.fromkeys(region.params, level))
        for op in region.ops:
            # Inner regions first, as they append to the lists of outer ones before the op that contains them.
            for sub in op.regions:
                self.region(sub, level + 1, lists)
            target = level
            if self.movable(op):
                target = max((self.depth[v] for v in op.operands), default=0)
            self.depth.update(dict.fromkeys(op.results, target))
            lists[target].append(op)
        region.ops[:] = kept

    def movable(self, op: Op) -> bool:
        if op.regions or lookup(op.name).effect is not Effect.PURE or len(op.results) != 1:
            return False
        types = [v.type for v in (*op.operands, *op.results)]
        return all(isinstance(t, Scalar) and t.is_integer or op.name in ARRAY_EXTENTS for t in types)


# -- computations that both branches have ------------------------------------------------------------------------------
# Hoist computations that both branches of an ``if`` contain in front of it; in place.
#
# The reverse sweep brings them about: computations after a condition in the forward sweep are often undone in both of
# its branches. LLVM would find them too, but much later and at a higher price. Only pure operations move, and loads
# where neither branch writes; each would have been executed on either path.


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
