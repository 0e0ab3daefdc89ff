"""Points where derivatives are infinite although values are not, and the tangents and cotangents that they reach.

The root of 0 has an infinite derivative, as have the cube root, powers below 1, and inverse sines and cosines at the
ends of their domains. By the chain rule it is multiplied by other partial derivatives; where one of them is exactly
zero the product is taken to be zero, in forward mode (``sqrt(a) * 0.0``) and in reverse mode (``sqrt(1 - cos(a))``). So
an operation whose tangent may come from such a point, or whose cotangent may come back from one, compares its partial
derivative with zero.

A sum of squares has no derivative where it is 0, and its root is the norm of a vector, which has the zero vector for a
gradient there. No infinity arises from it: neither its squares nor the uses of its root are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, is_differentiable
from diffkern.ir.views import For, If, While, is_branch, is_loop, literal

__all__ = ["Squares", "Steep"]


class Squares:
    """The values of a function that are sums of squares."""

    def __init__(self, fn: Function) -> None:
        self._producers = {r: op for op in walk(fn.body) for r in op.results}
        self._carried = {p: chain for op in walk(fn.body) for chain in _chains(op) for p in chain[1:-2]}
        self._known: dict[Value, bool] = {}

    def is_norm(self, op: Op) -> bool:
        """Return whether an operation is the root of a sum of squares."""
        return op.name == "sqrt" and self.of(op.operands[0])

    def of(self, v: Value) -> bool:
        """Return whether a value is a sum of squares, possibly an empty one: a literal that is not negative."""
        known = self._known.get(v)
        if known is None:
            self._known[v] = True  # a carried sum is one if each trip makes one of it
            known = self._known[v] = self._is_sum(v)
        return known

    def _is_sum(self, v: Value) -> bool:
        if v in self._carried:
            # chain is (initial, carried..., yielded, result): the sum at the start and at the end of each trip.
            chain = self._carried[v]
            return self.of(chain[0]) and self.of(chain[-2])
        op = self._producers.get(v)
        if op is None or not isinstance(v.type, Scalar) or not is_differentiable(v.type):
            return False
        first, *others = op.operands or (None,)
        match op.name:
            case "const":
                return bool(op.attrs["value"] >= 0)
            case "mul" | "dot" if first is others[0]:
                return True
            case "length_sq":
                return True
            # These operations on sums of squares keep the property that the derivative vanishes wherever the value is
            # 0.
            case "add" | "mul" | "div" | "min" | "max" | "cast" | "round_float16" | "round_bfloat16":
                return all(map(self.of, op.operands))
            case "select":
                return all(map(self.of, others))
            case "pow":
                return self._is_even(others[0])
            case "if" | "for" | "while":
                ways = If(op).choices if is_branch(op) else _chains(op)
                k = op.results.index(v)
                chain = ways[k]
                return all(map(self.of, chain[1:] if is_branch(op) else (chain[0], chain[-2])))
        return False

    def _is_even(self, exponent: Value) -> bool:
        op = self._producers.get(exponent)
        return literal(op) in (2, 4, 6, 8)


class Steep:
    """The values that are reached from where a derivative may be infinite.

    Attributes
    ----------
    ahead
        Those whose tangents may come from such a point.
    behind
        Those whose cotangents may.
    """

    def __init__(self, fn: Function, sources: Iterable[Op]) -> None:
        sources = list(sources)
        self.ahead: set[Value] = set()
        self.behind: set[Value] = set()
        # Most functions have no such operation; the flow of the whole function is not built for them.
        if sources:
            after, before = _flow(fn)
            self.ahead = _reached((op.result for op in sources), after)
            self.behind = _reached((v for op in sources for v in op.operands), before)


def _flow(fn: Function) -> tuple[Mapping[Value, list[Value]], Mapping[Value, list[Value]]]:
    """Return the values computed from each value, and those each one is computed from; memory aside."""
    after: dict[Value, list[Value]] = defaultdict(list)
    before: dict[Value, list[Value]] = defaultdict(list)
    for op in walk(fn.body):
        for source, target in _edges(op):
            if is_differentiable(source.type) and is_differentiable(target.type):
                after[source].append(target)
                before[target].append(source)
    return after, before


def _edges(op: Op) -> list[tuple[Value, Value]]:
    if is_branch(op):
        return [(v, result) for result, *ways in If(op).choices for v in ways]
    if is_loop(op):
        # before the first trip or after one: into the next, and out
        return [(v, w) for first, *inside, end, out in _chains(op) for v in (first, end) for w in (*inside, out)]
    if op.regions or lookup(op.name).effect is not Effect.PURE:
        return []
    return [(v, r) for v in op.operands for r in op.results]


def _chains(op: Op) -> list[tuple[Value, ...]]:
    """Return the carried values of a loop; none for another operation."""
    return For(op).chains if op.name == "for" else While(op).chains if op.name == "while" else []


def _reached(starts: Iterable[Value], edges: Mapping[Value, list[Value]]) -> set[Value]:
    found: set[Value] = set()
    left = list(starts)
    while left:
        v = left.pop()
        if v not in found:
            found.add(v)
            left += edges.get(v, ())
    return found
