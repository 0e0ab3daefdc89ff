"""Constant folding and exact algebraic simplification; in place.

Only identities that hold for every IEEE value are used on floats (``x * 1``, ``x / 1``, ``-(-x)``); ``x + 0`` and ``x *
0`` are not among them. Integers fold with the wrap-around of their width. Conditionals on constants become straight
code, loops that make no trip become their initial values, and those expected to make one trip their bodies.
"""

from __future__ import annotations

import ctypes

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.buffer import NEW_BUFFERS
from diffkern.ir.ops.composite import AT_RUN_TIME, CONSTRUCTS
from diffkern.ir.ops.scalar import CASTS, LESS, LITERALS, NEGATIVES, ORDERS, SELECTIONS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Kind, Scalar, wrap_integer
from diffkern.ir.views import For, If, is_branch
from diffkern.opt.ranges import Facts, Ranges

Number = bool | int | float


def rounded(value: float, t: Scalar) -> float:
    """Return the value that a float has in a register of type ``t``."""
    return ctypes.c_float(value).value if t.bits < 64 else float(value)


class _Folder:
    def __init__(self) -> None:
        self.constants: dict[Value, Number] = {}
        self.producers: dict[Value, Op] = {}
        self.mapping: dict[Value, Value] = {}

    def resolve(self, v: Value) -> Value:
        while v in self.mapping:
            v = self.mapping[v]
        return v

    def region(self, region: Region) -> None:
        kept: list[Op] = []
        for op in region.ops:
            if not self.mapping.keys().isdisjoint(op.operands):
                op.operands = tuple(map(self.resolve, op.operands))
            kept.extend(self.op(op))
        region.ops[:] = kept
        region.yields = tuple(self.resolve(v) for v in region.yields)

    def op(self, op: Op) -> list[Op]:
        if is_branch(op):
            taken = self.constants.get(If(op).condition)
            if taken is not None:
                branch = If(op).then if taken else If(op).orelse
                # The branch is folded before it is spliced in, as its ops are visited only here.
                self.region(branch)
                self.mapping.update(zip(op.results, branch.yields, strict=True))
                return branch.ops
        if op.name == "for":
            trips = For(op).trips(self.constants.get)
            # A loop without trips leaves its initial values, and its body may not even be valid there.
            if trips is not None and not trips:
                self.mapping.update(zip(op.results, For(op).init, strict=True))
                return []
            if trips is not None and len(trips) == 1 and op.attrs.get("once"):
                return self.only_trip(op)
        for sub in op.regions:
            self.region(sub)
        if is_branch(op) and not op.results and not any(sub.ops for sub in op.regions):
            return []
        if len(op.results) != 1 or op.regions:
            return [op]
        if op.name in AT_RUN_TIME:
            self.place(op)
        replacement = self.simplify(op)
        if isinstance(replacement, Value):
            self.mapping[op.result] = replacement
            return []
        if replacement is not None:
            op.name, op.operands, op.attrs = "const", (), {"value": replacement, "type": op.result.type}
        if op.name in LITERALS:
            value, t = op.attrs["value"], op.result.type
            # The constant has the precision of its register, or folding would compute what no target would.
            self.constants[op.result] = rounded(value, t) if isinstance(t, Scalar) and t.is_float else value
        self.producers[op.result] = op
        return [op]

    def place(self, op: Op) -> None:
        """Make an access of a component whose index is a constant one that states it."""
        index, size = self.constants.get(op.operands[-1]), op.operands[0].type.size  # type: ignore[union-attr]
        # An index outside is left to the target, which knows what it means.
        if index is not None and -size <= index < size:
            op.name, op.attrs, op.operands = AT_RUN_TIME[op.name], {"index": int(index) % size}, op.operands[:-1]

    def only_trip(self, op: Op) -> list[Op]:
        """Return the body of a loop in its place."""
        loop = For(op)
        self.mapping.update(zip(loop.body.params, (loop.start, *loop.init), strict=True))
        self.region(loop.body)
        self.mapping.update(zip(op.results, loop.body.yields, strict=True))
        return loop.body.ops

    def simplify(self, op: Op) -> Value | Number | None:
        """Return a value to use instead, a constant, or None."""
        values = [self.constants.get(v) for v in op.operands]
        t = op.results[0].type
        if op.name == "extract":
            source = self.producers.get(op.operands[0])
            # Components of a vector that was just constructed are the operands themselves, without a detour through
            # memory.
            if source is not None and source.name in CONSTRUCTS:
                component: Value = source.operands[op.attrs["index"]]
                return component
            return None
        if op.name in NEGATIVES:
            source = self.producers.get(op.operands[0])
            if source is not None and source.name in NEGATIVES:
                return source.operands[0]
        if op.name in SELECTIONS:
            if values[0] is not None:
                return op.operands[1 if values[0] else 2]
            # Both choices are one value, whatever the condition.
            return op.operands[1] if op.operands[1] is op.operands[2] else None
        if op.name in CASTS and op.operands[0].type == t:
            return op.operands[0]
        if not isinstance(t, Scalar):
            return self.composite(op, values)
        if values and all(v is not None for v in values):
            return _constant(op.name, [v for v in values if v is not None], t)
        if len(values) == 2:
            return self.identity(op, values[0], values[1])
        return None

    def composite(self, op: Op, values: list[Number | None]) -> Value | None:
        neutral = lookup(op.name).neutral
        return op.operands[0] if neutral is not None and values[1] == neutral else None

    def identity(self, op: Op, a: Number | None, b: Number | None) -> Value | None:
        x, y = op.operands
        t = op.results[0].type
        row = lookup(op.name)
        # A float plus 0 is another one where it is -0.
        if row.neutral is not None and (row.neutral == 1 or isinstance(t, Scalar) and not t.is_float):
            if b == row.neutral:
                return x
            if a == row.neutral and row.commutative:
                return y
        if t.kind is Kind.BOOL if isinstance(t, Scalar) else False:
            for known, other in ((a, y), (b, x)):
                # True and x is x; False and x is False, which is the known operand itself.
                if known is not None and op.name == "and":
                    return other if known else (x if known is a else y)
                if known is not None and op.name == "or":
                    return (x if known is a else y) if known else other
        return None


def _constant(name: str, values: list[Number], t: Scalar) -> Number | None:
    """Return the value of an operation on constants, None if it is not known at compile time."""
    if name == "cast":
        return _cast(values[0], t)
    row = lookup(name)
    # Division by a constant is left to the target: it would have to be rounded as the target rounds it.
    if row.fold is None or (row.divides and t.is_float):
        return None
    if t.kind is Kind.BOOL:
        return bool(row.fold(*values))
    # The sign and payload of a NaN differ between targets.
    if any(isinstance(v, float) and v != v for v in values):
        return None
    try:
        value: Number = row.fold(*values)
    except ZeroDivisionError:
        return None
    return rounded(value, t) if t.is_float else wrap_integer(int(value), t)


def _cast(value: Number, t: Scalar) -> Number | None:
    if t.kind is Kind.BOOL:
        return bool(value)
    if t.is_float:
        return rounded(value, t)
    if isinstance(value, float):
        return None  # saturation is the target's business
    return wrap_integer(int(value), t)


def fold(fn: Function) -> Function:
    """Fold constants throughout a function, in place."""
    f = _Folder()
    f.region(fn.body)
    substitute(fn.body, f.mapping)
    return fn


# -- comparisons of integers -------------------------------------------------------------------------------------------
# Comparisons of integers whose outcome is known at compile time; in place.
#
# Accesses to a thread's own array test the index against the array's length. LLVM proves that indices which count up
# stay inside. Those of reversed loops count down from a number that an outer loop counts down as well, whose bound it
# does not know.


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
