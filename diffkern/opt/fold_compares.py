"""Comparisons of integers whose outcome is known at compile time; in place.

Accesses to a thread's own array test the index against the array's length. LLVM proves that indices which count up stay
inside. Those of reversed loops count down from a number that an outer loop counts down as well, whose bound it does not
know.
"""

from __future__ import annotations

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.buffer import NEW_BUFFERS
from diffkern.ir.ops.scalar import LESS, ORDERS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Kind, Scalar
from diffkern.opt.fold import fold
from diffkern.opt.ranges import Facts, Ranges

__all__ = ["decide"]


def decide(fn: Function) -> Function:
    """Replace comparisons between integers that always or never hold by constants, where a thread has arrays."""
    if any(op.name in NEW_BUFFERS for op in walk(fn.body)):
        _Decided().region(fn.body, Facts())
        fold(fn)
    return fn


class _Decided(Ranges):
    def op(self, op: Op, facts: Facts) -> int | None:
        found = super().op(op, facts)
        if op.name in ORDERS and all(isinstance(v.type, Scalar) and v.type.kind is Kind.INT for v in op.operands):
            holds = self.outcome(op.name, op.operands[0], op.operands[1], facts)
            if holds is not None:
                op.name, op.attrs, op.operands = "const", {"value": holds, "type": op.result.type}, ()
        return found

    def outcome(self, name: str, x: Value, y: Value, facts: Facts) -> bool | None:
        """Return whether a comparison holds; None if that is not certain."""
        if name in ORDERS - LESS:
            return self.outcome(lookup(name).mirrored, y, x, facts)
        by = name == "lt"
        (low_x, low_y) = (self.low(v, facts) for v in (x, y))
        if low_y is not None and self.high(x, facts) + by <= low_y:
            return True
        if low_x is not None and low_x + by > self.high(y, facts):
            return False
        return None
