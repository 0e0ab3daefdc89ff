"""How often LLVM's loop vectoriser asks whether a value is the same in all lanes.

In: a function. Out: an estimate. LLVM 22 decides it for an operation by asking for each of its operands, and for
theirs, without remembering an answer: a value that is reached on many ways is asked for on each. Where values differ
between threads, the first operand that does ends the question. What is computed from an element that all threads read,
such as ``s[0]``, has none: four times ``a = sin(a) * cos(a) + exp(a)`` are enough for hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ops.scalar import BINARY_MATH, UNARY_MATH
from diffkern.passes.sums import index_operands

__all__ = ["ENDLESS", "uniform_questions"]

ENDLESS = 20_000.0
"""From here on the vectoriser may not come back: at 8000 it took 0.8 s, at 700 000 more than 20 s."""

_FUNCTIONS = frozenset((*BINARY_MATH, *UNARY_MATH))
_FUNCTION_WAYS = 30.0
"""Ways through the code of one elementary function."""

_MOST_TRIPS = 64.0


def uniform_questions(fn: Function) -> float:
    """Return the number of ways from the most entangled value that all threads share to what it is computed from."""
    search = _Search(max(fn.tid_arity - 1, 0))
    search.region(fn.body, inside=False)
    return search.most


class _Search:
    """Goes through a function once. Values that differ between threads have no entry in `ways`, constants have 0."""

    def __init__(self, last_axis: int) -> None:
        self.last_axis = last_axis
        self.ways: dict[Value, float] = {}
        self.varying: set[Value] = set()
        self.constants: dict[Value, int] = {}
        self.most = 0.0

    def of(self, values: Iterable[Value]) -> float:
        return sum(self.ways.get(v, 0.0) for v in values)

    def region(self, region: Region, inside: bool) -> None:
        for op in region.ops:
            if op.name in ("for", "while"):
                self.loop(op)
                continue
            varies = any(v in self.varying for v in op.operands)
            ways = self.of(op.operands) * (_FUNCTION_WAYS if op.name in _FUNCTIONS else 1.0)
            if op.name == "tid":
                varies = op.attrs["axis"] == self.last_axis
            elif op.name == "const" and isinstance(op.attrs["value"], int):
                self.constants[op.result] = op.attrs["value"]
            elif op.name == "load":
                # In a loop the address may be the same for all trips whatever it depends on outside.
                varies = not inside and any(v in self.varying for v in index_operands(op))
                ways = 1.0
            for sub in op.regions:
                self.region(sub, inside)
                varies = varies or any(v in self.varying for v in sub.yields)
                ways += self.of(sub.yields)
            self.define(op.results, varies, ways)

    def define(self, values: Iterable[Value], varies: bool, ways: float) -> None:
        for v in values:
            if varies:
                self.varying.add(v)
            elif ways:
                self.ways[v] = ways
                self.most = max(self.most, ways)

    def loop(self, op: Op) -> None:
        """What is carried around may be one chain when the loop is unrolled: each trip multiplies the ways."""
        carried = op.operands[3:] if op.name == "for" else op.operands
        for sub in op.regions:
            own = sub.params[1:] if op.name == "for" else sub.params
            for param, start in zip(own, carried, strict=True):
                self.define((param,), start in self.varying, 1.0)
            self.region(sub, True)
        yields = op.regions[-1].yields
        factor = max((self.ways.get(v, 0.0) for v in yields), default=0.0)
        ways = self.of(carried) + 1.0
        if factor > 1.0:
            ways = math.exp(min(math.log(ways) + self.trips(op) * math.log(factor), 200.0))
        for result, start, end in zip(op.results, carried, yields, strict=True):
            self.define((result,), start in self.varying or end in self.varying, ways)

    def trips(self, op: Op) -> float:
        bounds = [self.constants.get(v) for v in op.operands[:3]] if op.name == "for" else []
        if len(bounds) < 3 or None in bounds:
            return 1.0  # not unrolled, or by a small factor
        lo, hi, step = (bound or 0 for bound in bounds)
        return min(_MOST_TRIPS, float(len(range(lo, hi, step)))) if step else 0.0
