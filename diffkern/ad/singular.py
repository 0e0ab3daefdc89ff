"""Which operations may multiply a cotangent by something that is not finite, so that an exact zero has to be kept zero.

In: the primal. Out: :class:`Guards`, which says of an operation whether its contributions are to be exactly zero where
its cotangent is. That is asked of operations whose partial derivatives are unbounded where the value is defined or at
the border of where it is, unless the operand that decides is bounded away from the singularity for all inputs: a
literal, ``x * x + 1``, ``max(x, 0.1)`` and what is made of such. The test is a comparison and a selection beside a
division. Operations marked ``guarded`` (:mod:`diffkern.opt.sink`) are guarded as well.
"""

from __future__ import annotations

import functools
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.types import Scalar, Tile, is_differentiable
from diffkern.ops.table import lookup

__all__ = ["Guards", "kept_zero"]

_DEPTH: Final = 8


class Guards:
    """The operations of a function that need a guard."""

    def __init__(self, fn: Function) -> None:
        self._producers = {r: op for op in walk(fn.body) for r in op.results}

    def needed(self, op: Op) -> bool:
        """Whether a contribution of the op may not be finite while its cotangent is zero."""
        if op.attrs.get("guarded"):
            return True
        singular = lookup(op.name).singular
        if singular is None or not singular.guarded:
            return False
        if singular.operand is None:
            return True
        v = op.operands[singular.operand]
        return not (self._positive(v, _DEPTH) or (singular.nonzero and self._is_literal(v)))

    def _is_literal(self, v: Value) -> bool:
        op = self._producers.get(v)
        return op is not None and op.name == "const" and op.attrs["value"] != 0

    def _positive(self, v: Value, depth: int) -> bool:
        """Whether a value is never below some positive number, in whatever way it was rounded."""
        op = self._producers.get(v)
        if op is None or depth == 0:
            return False
        positive = functools.partial(self._positive, depth=depth - 1)
        match op.name:
            case "const":
                return bool(op.attrs["value"] > 0)
            case "add":
                a, b = op.operands
                return positive(a) and self._not_negative(b, depth) or positive(b) and self._not_negative(a, depth)
            case "max":
                return self._above(op.operands[0], depth) or self._above(op.operands[1], depth)
            case "sqrt":
                return positive(op.operands[0])
            case name:
                return (lookup(name).least or 0) > 0

    def _above(self, v: Value, depth: int) -> bool:
        return self._positive(v, depth) and self._not_negative(v, depth)

    def _not_negative(self, v: Value, depth: int) -> bool:
        op = self._producers.get(v)
        if op is None or depth == 0:
            return False
        if op.name == "const":
            return bool(op.attrs["value"] >= 0)
        if op.name in ("mul", "dot") and op.operands[0] is op.operands[1]:
            return True
        if op.name in ("add", "mul", "div", "max", "cast"):
            tests = [self._not_negative(x, depth - 1) for x in op.operands]
            return any(tests) if op.name == "max" else all(tests)
        return is_differentiable(v.type) and lookup(op.name).least is not None


def kept_zero(b: Builder, op: Op, ct: Value, contribution: Value) -> Value:
    """A contribution of an op, exactly zero where its cotangent is: by component if the op works by component."""
    if isinstance(ct.type, Tile) or isinstance(contribution.type, Tile):
        return contribution
    if isinstance(ct.type, Scalar) or ct.type != contribution.type or not lookup(op.name).by_component:
        tests = [b.one("eq", c, b.zero(c.type)) for c in b.components(ct)]
        zero = functools.reduce(lambda x, y: b.one("and", x, y), tests)
        return b.select(zero, b.zero(contribution.type), contribution)
    pairs = zip(b.components(ct), b.components(contribution), strict=True)
    kept = [b.select(b.one("eq", c, b.zero(c.type)), b.zero(c.type), v) for c, v in pairs]
    return b.construct(ct.type, kept)
