"""The share of a function's longest loop that LLVM's vectoriser looks at.

For a function whose tiles have become buffers. The vectoriser takes loops that contain no other loop, and its time
grows with the square of such a loop. Without tiles that is the loop over the threads, with the whole kernel in it. A
kernel of tiles is many loops one after the other, most of them short.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import For, is_loop

__all__ = ["longest_loop"]

_MATH_OPS = 20.0
_UNROLLED = 4.0
"""Copies of its body that a loop of a few constant trips becomes."""


def longest_loop(fn: Function) -> float:
    """Return the share of the operations that are in the longest innermost loop, between 0 and 1."""
    search = _UnrollSearch()
    size, loops = search.region(fn.body)
    return 1.0 if not loops else min(1.0, search.longest / max(size, 1.0))


class _UnrollSearch:
    def __init__(self) -> None:
        self.longest = 0.0
        self.constants: set[Value] = set()

    def region(self, region: Region) -> tuple[float, bool]:
        """Return the operations of a region, and whether there are loops in it."""
        size, loops = 0.0, False
        for op in region.ops:
            if op.name in LITERALS:
                self.constants.add(op.result)
            # Elementary functions are inlined, so they count with their length.
            size += _MATH_OPS if lookup(op.name).elementary else 1.0
            found = [self.region(sub) for sub in op.regions]
            inside = sum(count for count, _ in found)
            held = any(has for _, has in found)
            if is_loop(op) and not held:
                # A loop with literal bounds is unrolled and is then part of the code around it.
                if self.unrolled(op):
                    inside *= _UNROLLED
                else:
                    self.longest = max(self.longest, inside)
                    held = True
            size += inside
            loops = loops or held
        return size, loops

    def unrolled(self, op: Op) -> bool:
        return op.name == "for" and not op.attrs.get("rolled") and self.constants.issuperset(For(op).bounds)
