"""Guards against products of an exact zero cotangent and a number that is not finite.

:class:`Guards` tells for each operation of the primal whether its contributions have to be exactly zero where its
cotangent is. Operations qualify if their partial derivatives are unbounded where the value is defined or at the border
of that domain, unless the operand that decides is bounded away from the singularity for all inputs: a literal, ``x * x
+ 1``, ``max(x, 0.1)`` and expressions of such. The guard is a comparison and a selection beside a division. Operations
marked ``guarded`` (:mod:`diffkern.opt.sink`) are guarded as well.

The derivative of ``rsqrt`` and ``1 / y`` is guarded as well where it can overflow: it is a product of equal factors,
which LLVM may multiply first where it adds to a sum.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Final

from diffkern.ad.steep import Squares, Steep
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import QUOTIENTS
from diffkern.ir.ops.scalar import LITERALS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import FLOAT64, Scalar, Tile, is_differentiable
from diffkern.opt.fold import rounded

__all__ = ["Guards", "kept_zero"]

_DEPTH: Final = 8
_LARGEST: Final = 2.0**100
"""Derivatives of at most this are finite in every type, in whatever way their factors were rounded."""


class Guards:
    """The operations of a function that need a guard; with ``each``, one by one inside guarded loops and branches."""

    def __init__(self, fn: Function, *, each: bool = False) -> None:
        whole = (op for op in walk(fn.body) if each and op.regions and op.attrs.get("guarded"))
        inside = (inner for op in whole for inner in walk(Region(ops=[op])))
        # Linear operations multiply by nothing, so they cannot turn an exact zero into NaN.
        self._inside = {op for op in inside if not op.regions and not lookup(op.name).linear}
        self._producers = {r: op for op in walk(fn.body) for r in op.results}
        self._squares = Squares(fn)
        self._steep = Steep(fn, (op for op in walk(fn.body) if self._is_steep(op)))

    def is_norm(self, op: Op) -> bool:
        """Return whether an operation is the root of a sum of squares that may be 0; its derivative there is 0."""
        return self._squares.is_norm(op) and not self._least(op.operands[0], _DEPTH)

    def steep_tangents(self, op: Op) -> bool:
        """Return whether tangents of operands may be infinite although the operands are not."""
        return not self._steep.ahead.isdisjoint(op.operands)

    def steep_cotangent(self, op: Op) -> bool:
        """Return whether the result's cotangent may be infinite although values computed from the result are not."""
        return not self._steep.behind.isdisjoint(op.results)

    def _is_steep(self, op: Op) -> bool:
        singular = lookup(op.name).singular
        if singular is None or not singular.steep or not self.needed(op):
            return False
        exponent = self._literal(op.operands[1]) if op.name == "pow" else None
        return not self.is_norm(op) and (exponent is None or exponent < 1)

    def needed(self, op: Op) -> bool:
        """Return whether a contribution of the op may not be finite while its cotangent is zero."""
        if op.attrs.get("guarded") or op in self._inside:
            return True
        singular = lookup(op.name).singular
        if singular is None or not singular.guarded or self.is_norm(op):
            return False
        # A bound decides more precisely than the operation's row: 1 / (x*x + 1) needs no guard, 1 / y does.
        bound = self._bound(op)
        if bound is not None or singular.operand is None:
            return bound is None or bound > _LARGEST
        v = op.operands[singular.operand]
        return not (self._least(v, _DEPTH) or (singular.nonzero and self._literal(v)))

    def finite(self, op: Op) -> bool:
        """Return whether the op has one derivative, which is finite for all inputs."""
        bound = self._bound(op)
        return bound is not None and bound <= _LARGEST

    def divides_safely(self, op: Op) -> bool:
        """Return whether the op's tangent is divided by a number whose inverse is finite for all inputs."""
        if op.name in QUOTIENTS:
            divisor = op.operands[1]
        elif op.name == "sqrt":
            divisor = op.result
        else:
            return False
        return self._least(divisor, _DEPTH) >= 1.0 / _LARGEST

    def _bound(self, op: Op) -> float | None:
        """Return an upper bound of the derivative of ``rsqrt`` or of a quotient of a literal; None for others."""
        numerator = self._literal(op.operands[0]) if op.name == "div" else 0.5 if op.name == "rsqrt" else None
        if numerator is None:
            return None
        # The derivative of c / y is at most |c| / y^2, that of 1 / sqrt(y) at most 0.5 / y^1.5, at the least y.
        y = self._least(op.operands[-1], _DEPTH)
        return abs(numerator) / y / (y if op.name == "div" else math.sqrt(y)) if y else math.inf

    def _literal(self, v: Value) -> float | None:
        """Return the number that a literal is in its register; None for other values."""
        op = self._producers.get(v)
        if op is None or op.name not in LITERALS or not isinstance(v.type, Scalar):
            return None
        return rounded(op.attrs["value"], v.type)

    def _least(self, v: Value, depth: int) -> float:
        """Return a positive lower bound of a value, however it was rounded; 0 if none is known."""
        op = self._producers.get(v)
        if op is None or depth == 0:
            return 0.0
        least = functools.partial(self._least, depth=depth - 1)
        match op.name:
            case "const":
                value = self._literal(v)
                # A literal below the smallest normal number may be flushed to zero by a target.
                return value if value is not None and value >= _normal(v) else 0.0
            case "add":
                a, b = op.operands
                # A sum is at least one of its terms if the other is not negative.
                return max(
                    least(a) if self._not_negative(b, depth) else 0.0, least(b) if self._not_negative(a, depth) else 0.0
                )
            case "max":
                return max(map(least, op.operands))
            case "mul":
                # The factor leaves room for the rounding of the product in a narrow type.
                product = 0.99 * math.prod(map(least, op.operands))
                return product if product >= _normal(v) else 0.0
            case "sqrt":
                return 0.99 * math.sqrt(least(op.operands[0]))
            case name:
                return 0.99 * max(lookup(name).least or 0.0, 0.0)

    def _not_negative(self, v: Value, depth: int) -> bool:
        op = self._producers.get(v)
        if op is None or depth == 0:
            return False
        if op.name in LITERALS:
            return bool(op.attrs["value"] >= 0)
        if lookup(op.name).definite and op.operands[0] is op.operands[1]:
            return True
        tests = (self._not_negative(x, depth - 1) for x in op.operands)
        match op.name:
            # A cast and products of numbers that are not negative are not negative either.
            case "add" | "mul" | "div" | "cast":
                return all(tests)
            case "max":
                return any(tests)
        return is_differentiable(v.type) and lookup(op.name).least is not None


def _normal(v: Value) -> float:
    """Return the least number of a value's type that no target flushes to zero."""
    return sys.float_info.min if v.type == FLOAT64 else 2.0**-126


def kept_zero(b: Builder, op: Op, ct: Value, contribution: Value, *, again: bool = False) -> Value:
    """Return a contribution, exactly zero where its cotangent is: by component if the op works by component.

    Parameters
    ----------
    b : Builder
        The builder that the operations are appended to.
    op : Op
        The operation of the primal.
    ct, contribution : Value
        Its cotangent, or a tangent, and the contribution computed from it.
    again : bool, optional
        Whether the program is differentiated itself. A contribution that is a number then stays as it is: it is zero as
        well, but its derivative is not.
    """
    # A tile's map is guarded inside of its function, element by element.
    if isinstance(ct.type, Tile) or isinstance(contribution.type, Tile):
        return contribution
    if isinstance(ct.type, Scalar) or ct.type != contribution.type or not lookup(op.name).by_component:
        tests = [b.one("eq", c, b.zero(c.type)) for c in b.components(ct)]
        zero = functools.reduce(lambda x, y: b.one("and", x, y), tests)
        if not again:
            return b.select(zero, b.zero(contribution.type), contribution)
        kept = [_number(b, zero, v) for v in b.components(contribution)]
        return b.construct(contribution.type, kept)
    pairs = zip(b.components(ct), b.components(contribution), strict=True)
    if again:
        return b.construct(contribution.type, [_number(b, b.one("eq", c, b.zero(c.type)), v) for c, v in pairs])
    kept = [b.select(b.one("eq", c, b.zero(c.type)), b.zero(c.type), v) for c, v in pairs]
    return b.construct(ct.type, kept)


def _number(b: Builder, zero: Value, v: Value) -> Value:
    """Return the contribution of a zero cotangent, which is zero or NaN, as a zero that keeps its derivative."""
    return b.select(b.one("and", zero, b.one("isnan", v)), b.zero(v.type), v)
