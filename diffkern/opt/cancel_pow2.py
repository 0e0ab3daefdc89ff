"""Cancel multiplications by powers of two with their inverses, in place.

The derivative of a square multiplies by 2, that of a square root by a half, and there is a product in between. Powers
of two are exact, so the result is the same to the last bit, unless a number in between is too small for all of its
digits, or twice it is too large; then the result is more accurate. This is for adjoints: a kernel computes as written,
and so does an adjoint where its control flow depends on the value.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import frexp

from diffkern.analysis.control_dependence import compared
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.scalar import NEGATIVES, SELECTIONS
from diffkern.ir.views import literal

__all__ = ["cancel_halves"]


def cancel_halves(fn: Function) -> Function:
    """Remove multiplications by a power of two inside of a product that is multiplied by the inverse power."""
    found = _Halves(fn)
    for op in walk(fn.body):
        found.cancel(op)
    if found.dropped:
        _drop(fn.body, found.dropped)
        substitute(fn.body, found.mapping)
    return fn


class _Halves:
    """The pairs of multiplications that cancel each other."""

    def __init__(self, fn: Function) -> None:
        self.source = {r: op for op in walk(fn.body) for r in op.results}
        self.uses: Counter[Value] = Counter()
        for op in walk(fn.body):
            self.uses.update(op.operands)
            for region in op.regions:
                self.uses.update(region.yields)
        self.fn = fn
        self.mapping: dict[Value, Value] = {}
        self.dropped: set[Op] = set()

    @cached_property
    def decisive(self) -> set[Value]:
        """The values that control flow or indices depend on."""
        return compared(self.fn)

    def cancel(self, op: Op) -> None:
        """Remove a multiplication, with the one inside of its product that it cancels."""
        outer = self.parted(op)
        inner = None if outer is None else self.inverse_of(*outer)
        if inner is not None:
            self.leave_out(inner)
            self.leave_out(op)

    def parted(self, op: Op) -> tuple[float, Value] | None:
        """Return the power of two by which an op multiplies, and the value it multiplies; None for other ops."""
        if op.name != "mul":
            return None
        for k, v in enumerate(op.operands):
            number = literal(self.source.get(v))
            # A comparison or index has to be computed exactly as in the kernel, or the adjoint could take another
            # branch.
            if number is None or op.result in self.decisive:
                continue
            if _is_power(number):
                return number, op.operands[1 - k]
        return None

    def inverse_of(self, power: float, product: Value) -> Op | None:
        """Return the multiplication by the inverse power that gives a factor of a product, or the product itself.

        No deeper one: without it a product in between might be too large, though the whole is not.
        """
        own = self.made_for_one(product)
        factors = own.operands if own is not None and own.name == "mul" else ()
        # The product itself may be the multiplication by the inverse, or one of its two factors.
        for op in (own, *map(self.made_for_one, factors)):
            parts = None if op is None else self.parted(op)
            if parts is not None and parts[0] == 1.0 / power:
                return op
        return None

    def made_for_one(self, v: Value) -> Op | None:
        """Return the producer of a value with a single use, looking through negations and selections of zero."""
        while True:
            v = self.resolved(v)
            op = self.source.get(v)
            # A value that is used elsewhere is still needed with its factor.
            if op is None or self.uses[v] != 1:
                return None
            # The guard of a derivative: zero stays zero whatever power of two it is multiplied by.
            if op.name in SELECTIONS and self.is_zero(op.operands[1]):
                v = op.operands[2]
            elif op.name in NEGATIVES:
                v = op.operands[0]
            else:
                return op

    def is_zero(self, v: Value) -> bool:
        op = self.source.get(self.resolved(v))
        return literal(op) == 0

    def leave_out(self, op: Op) -> None:
        """Replace the product by the value that is multiplied."""
        parts = self.parted(op)
        assert parts is not None
        factor = self.resolved(parts[1])
        # The factor takes over the uses of the product, which was one of its own.
        self.uses[factor] += self.uses[op.result] - 1
        self.mapping[op.result] = factor
        self.dropped.add(op)

    def resolved(self, v: Value) -> Value:
        while v in self.mapping:
            v = self.mapping[v]
        return v


def _is_power(number: float) -> bool:
    """Return whether a number is a power of two other than 1, or minus one."""
    return isinstance(number, float) and abs(frexp(number)[0]) == 0.5 and abs(number) != 1.0


def _drop(region: Region, dropped: set[Op]) -> None:
    region.ops[:] = [op for op in region.ops if op not in dropped]
    for op in region.ops:
        for sub in op.regions:
            _drop(sub, dropped)
