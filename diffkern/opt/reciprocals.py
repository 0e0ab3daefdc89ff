"""Several divisions of an adjoint by one square root become products with its reciprocal, in place.

The rules of derivatives divide by the same length again and again, and a quotient takes as long as four products and
more. Of a root the reciprocal neither overflows nor loses digits, which of other numbers it may. Values change by a
unit in the last place, so this is for adjoints: what a kernel computes itself is rounded as it is written. Quotients
that an adjoint computes again to decide by them stay quotients: it must decide as its kernel has.
"""

from __future__ import annotations

from collections import defaultdict

from diffkern.analysis.steering import compared
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Mat, Scalar, Vec

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
    shared = {r: Value(r.type, "inverse") for r, ops in quotients.items() if sum(map(_divisions, ops)) > 1}
    if shared:
        products = {op: shared[r] for r, ops in quotients.items() if r in shared for op in ops}
        _region(fn.body, shared, products, source)
    return fn


def _divided_by(op: Op, source: dict[Value, Op]) -> Value | None:
    """The root that an op divides by; None of other ops."""
    return _root(op.operands[1], source) if op.name in ("div", "unscale") else None


def _divisions(op: Op) -> int:
    t = op.result.type
    return t.size if isinstance(t, (Vec, Mat)) else 1


def _root(divisor: Value, source: dict[Value, Op]) -> Value | None:
    """The root that a number to divide by is, except where it is zero and a one stands for it."""
    op = source.get(divisor)
    if op is not None and op.name == "select" and _is_one(op.operands[1], source):
        test, root = source.get(op.operands[0]), op.operands[2]
        if test is not None and test.name == "eq" and test.operands[0] is root:
            op = source.get(root)
    return op.result if op is not None and op.name in _ROOTS else None


def _is_one(v: Value, source: dict[Value, Op]) -> bool:
    op = source.get(v)
    return op is not None and op.name == "const" and op.attrs["value"] == 1.0


def _region(region: Region, shared: dict[Value, Value], products: dict[Op, Value], source: dict[Value, Op]) -> None:
    """Take the reciprocals of the roots that are in ``shared``, and multiply by them in the quotients ``products``."""
    b = Builder()
    for op in region.ops:
        for sub in op.regions:
            _region(sub, shared, products, source)
        with b.at(op.loc):
            if op in products:
                divisor, inverse = op.operands[1], products[op]
                if source[divisor].name == "select":
                    test, one, _ = source[divisor].operands
                    inverse = b.select(test, one, inverse)
                op.name, op.operands = "mul" if op.name == "div" else "scale", (op.operands[0], inverse)
            b.region.ops.append(op)
            if op.results and op.results[0] in shared:
                t = op.result.type
                assert isinstance(t, Scalar)
                b.div(b.const(1.0, t), op.result)
                b.region.ops[-1].results = (shared[op.result],)
    region.ops[:] = b.region.ops
