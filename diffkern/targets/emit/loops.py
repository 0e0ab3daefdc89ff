"""Counted loops in LLVM's terms: how many trips they make, and what LLVM is told about their code.

In: the bounds and the step of a range as LLVM values, or the branch back to the head of a loop. Out: the number of
trips; or metadata of the branch.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir.values import MDValue

from diffkern.ir.types import INT64, Kind, Scalar
from diffkern.targets.emit.types import I1, I64, Builder, constant, i64, wrapped

__all__ = ["left_alone", "not_unrolled", "trip_count"]


def not_unrolled(module: Any, branch: Any) -> None:
    """Keep LLVM from unrolling the loop that a branch goes back to the head of."""
    _of_loop(module, branch, module.add_metadata(["llvm.loop.unroll.disable"]))


def left_alone(module: Any, branch: Any) -> None:
    """Keep LLVM from making vectors of the loop that a branch goes back to the head of, and from unrolling it."""
    vectors = module.add_metadata(["llvm.loop.vectorize.enable", ir.Constant(I1, 0)])
    _of_loop(module, branch, vectors, module.add_metadata(["llvm.loop.unroll.disable"]))


def _of_loop(module: Any, branch: Any, *said: Any) -> None:
    loop = MDValue(module, said, name=str(len(module.metadata)))
    loop.operands = (loop, *said)  # the first operand of a loop's node is the node itself
    branch.set_metadata("llvm.loop", loop)


def trip_count(b: Builder, t: Scalar, lo: Any, hi: Any, step: Any) -> Any:
    """``max(0, ceil((hi - lo) / step))`` as an unsigned 64-bit number, without overflow; 0 for a zero step."""
    signed = t.kind is Kind.INT
    known = step.constant if isinstance(step, ir.Constant) and signed else 0
    if known and isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant):
        return i64(wrapped(INT64, max(0, -((lo.constant - hi.constant) // known))))
    compare = b.icmp_signed if signed else b.icmp_unsigned

    def wide(x: Any) -> Any:
        if isinstance(x, ir.Constant):
            return i64(x.constant)
        if t.bits == 64:
            return x
        return b.sext(x, I64) if signed else b.zext(x, I64)

    def whole(distance: Any) -> Any:
        """The trips to what lies so far ahead, with a step that is known."""
        size = abs(known)
        return distance if size == 1 else b.add(b.udiv(b.sub(distance, i64(1)), i64(size)), i64(1))

    if known < 0:
        return b.select(compare(">", lo, hi), whole(b.sub(wide(lo), wide(hi))), i64(0))
    up = compare("<", lo, hi)
    ahead = b.sub(wide(hi), wide(lo))
    if known > 0 or (isinstance(step, ir.Constant) and step.constant == 1):
        return b.select(up, whole(ahead), i64(0))
    forward = compare(">", step, constant(t, 0))
    stride = b.select(forward, wide(step), i64(1))
    upward = b.add(b.udiv(b.sub(ahead, i64(1)), stride), i64(1))
    trips = b.select(b.and_(forward, up), upward, i64(0))
    if not signed:
        return trips
    backward = compare("<", step, constant(t, 0))
    down = compare(">", lo, hi)
    stride = b.select(backward, b.sub(i64(0), wide(step)), i64(1))
    downward = b.add(b.udiv(b.sub(b.sub(wide(lo), wide(hi)), i64(1)), stride), i64(1))
    return b.select(b.and_(backward, down), downward, trips)
