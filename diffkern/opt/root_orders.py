"""Compare what is under a square root in the place of the root with a constant, in place.

``length(d) < 6`` waits for a root, which takes as long as five products, and which nothing else may need. A correctly
rounded root grows with its operand, so there is a number from which on it is at least 6, and comparing the operand with
that decides the same. It is searched for here, as the square of the constant is rounded.

An operand must not be negative: its root is NaN, less than nothing, where the operand is less than any square. Sums of
squares are not.
"""

from __future__ import annotations

import math
from typing import Final

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.scalar import AFFINE_PAIRS, DIFFERENCES, LESS, ORDERS, ROOTS, STRICT, SUMS
from diffkern.ir.types import Scalar
from diffkern.ir.views import literals
from diffkern.opt.fold import rounded

__all__ = ["compare_operands_of_roots"]

_PRODUCTS: Final = AFFINE_PAIRS - SUMS
_RANGE: Final = {32: (1e-15, 1e15), 64: (1e-140, 1e140)}
"""Constants by the bits of their type whose squares are neither subnormal nor infinite."""


def compare_operands_of_roots(fn: Function) -> Function:
    """Compare the operands of roots that are compared with constants."""
    producers = {op.result: op for op in walk(fn.body) if len(op.results) == 1}
    roots = {
        r: op.operands[0] for r, op in producers.items() if op.name in ROOTS and _is_square(op.operands[0], producers)
    }
    if roots:
        _Orders(roots, literals(fn.body)).region(fn.body)
    return fn


def _is_square(v: Value, producers: dict[Value, Op]) -> bool:
    """Return whether a number is a sum of squares, at least 0 or NaN."""
    op = producers.get(v)
    if op is None or not isinstance(v.type, Scalar) or v.type.bits not in _RANGE:
        return False
    if op.name in _PRODUCTS:
        return op.operands[0] is op.operands[1]
    return op.name in SUMS - DIFFERENCES and all(_is_square(part, producers) for part in op.operands)


class _Orders:
    def __init__(self, roots: dict[Value, Value], constants: dict[Value, bool | int | float]) -> None:
        self.roots, self.constants = roots, constants
        self.b = Builder()

    def region(self, region: Region) -> None:
        ops, region.ops = region.ops, []
        with self.b.into(region):
            for op in ops:
                for sub in op.regions:
                    self.region(sub)
                if op.name in ORDERS:
                    with self.b.at(op.loc):
                        self.order(op)
                region.ops.append(op)

    def order(self, op: Op) -> None:
        """Change an order of a root and a constant, either of which may be first."""
        for root, other in (op.operands, op.operands[::-1]):
            under, constant = self.roots.get(root), self.constants.get(other)
            if under is None or constant is None or not isinstance(root.type, Scalar):
                continue
            least, most = _RANGE[root.type.bits]
            if not least < constant < most:
                continue
            is_upper = (op.name in LESS) == (other is op.operands[1])
            # Less than the constant, or at most: less than the number after it.
            excluded = (op.name in STRICT) == is_upper
            limit = rounded(constant, root.type) if excluded else _next(rounded(constant, root.type), root.type, 1)
            square = self.b.const(_least_with_root(limit, root.type), root.type)
            op.name, op.operands = "lt" if is_upper else "ge", (under, square)
            return


def _next(x: float, t: Scalar, sign: int) -> float:
    """Return the neighbour of a positive number in a direction."""
    if t.bits == 64:
        return math.nextafter(x, sign * math.inf)
    exponent = math.frexp(x)[1] - (x == math.ldexp(0.5, math.frexp(x)[1]) and sign < 0)
    return x + sign * math.ldexp(1.0, exponent - 24)


def _least_with_root(limit: float, t: Scalar) -> float:
    """Return the least number whose rounded root is at least a limit."""
    found = rounded(limit * limit, t)
    # The root of a float32 in float64 rounds to the same float32 as the exact one.
    while rounded(math.sqrt(found), t) >= limit:
        found = _next(found, t, -1)
    while rounded(math.sqrt(found), t) < limit:
        found = _next(found, t, 1)
    return found
