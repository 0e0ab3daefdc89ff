"""Replace several divisions of an adjoint by one square root by products with its reciprocal, in place.

The rules of derivatives divide by the same length again and again, and a quotient takes as long as four products or
more. The reciprocal of a root neither overflows nor loses digits, which is not true of other numbers. Values change by
a unit in the last place, so this is for adjoints: the kernel's own computations are rounded as written. Quotients that
an adjoint recomputes for its control flow stay quotients: it must decide as its kernel has.
"""

from __future__ import annotations

from collections import defaultdict

from diffkern.analysis.control_dependence import compared
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import QUOTIENTS
from diffkern.ir.ops.scalar import SELECTIONS
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import literal

__all__ = ["share_reciprocals"]

_ROOTS = ("sqrt", "length")


def share_reciprocals(fn: Function) -> Function:
    """Divide once by each square root."""
    source = {r: op for op in walk(fn.body) for r in op.results}
    quotients: dict[Value, list[Op]] = defaultdict(list)
    for op in walk(fn.body):
        root = _divided_by(op, source)
        if root is not None and isinstance(root.type, Scalar) and root.type.bits >= 32:
            quotients[root].append(op)
    decisive = compared(fn) if quotients else set()
    quotients = {r: [op for op in ops if op.result not in decisive] for r, ops in quotients.items()}
    # One division gains nothing from a reciprocal; a vector counts as one division per component.
    shared = {r: Value(r.type, "inverse") for r, ops in quotients.items() if sum(map(_divisions, ops)) > 1}
    if shared:
        products = {op: shared[r] for r, ops in quotients.items() if r in shared for op in ops}
        _region(fn.body, shared, products, source)
    return fn


def _divided_by(op: Op, source: dict[Value, Op]) -> Value | None:
    """Return the root that an op divides by; None for other ops."""
    return _root(op.operands[1], source) if op.name in QUOTIENTS else None


def _divisions(op: Op) -> int:
    t = op.result.type
    return t.size if isinstance(t, (Vec, Mat)) else 1


def _root(divisor: Value, source: dict[Value, Op]) -> Value | None:
    """Return the root that a divisor is, possibly through a selection of 1 where it is zero; else None."""
    op = source.get(divisor)
    if op is not None and op.name in SELECTIONS and _is_one(op.operands[1], source):
        test, root = source.get(op.operands[0]), op.operands[2]
        if test is not None and test.name == "eq" and test.operands[0] is root:
            op = source.get(root)
    return op.result if op is not None and op.name in _ROOTS else None


def _is_one(v: Value, source: dict[Value, Op]) -> bool:
    op = source.get(v)
    return literal(op) == 1.0


def _region(region: Region, shared: dict[Value, Value], products: dict[Op, Value], source: dict[Value, Op]) -> None:
    """Compute the reciprocals of the roots in ``shared``, and multiply by them in the quotients ``products``."""
    b = Builder()
    for op in region.ops:
        for sub in op.regions:
            _region(sub, shared, products, source)
        with b.at(op.loc):
            if op in products:
                divisor, inverse = op.operands[1], products[op]
                # The selection that protects from a division by zero is repeated for the reciprocal.
                if source[divisor].name in SELECTIONS:
                    test, one, _ = source[divisor].operands
                    inverse = b.select(test, one, inverse)
                op.name, op.operands = "mul" if op.name == "div" else "scale", (op.operands[0], inverse)
            b.region.ops.append(op)
            # The reciprocal is computed right behind its root, which dominates all quotients.
            if op.results and op.results[0] in shared:
                t = op.result.type
                assert isinstance(t, Scalar)
                b.div(b.const(1.0, t), op.result)
                b.region.ops[-1].results = (shared[op.result],)
    region.ops[:] = b.region.ops
