"""Hoist integer computations out of branches and loops, as far as their operands allow; in place.

Index expressions that do not change in a loop, and constants, are then one value wherever they occur (with common
subexpression elimination afterwards), which the memory analyses compare. Pure integer ops cannot trap, so executing
them where the program would not have is harmless.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import ARRAY_EXTENTS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar


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
