"""Counted loops in LLVM: the number of their trips, and metadata about their code.

:func:`trip_count` takes the bounds and the step of a range as LLVM values; the other functions attach metadata to the
branch back to the head of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir
from llvmlite.ir.values import MDValue

from diffkern.ir import trip_count as trips
from diffkern.ir.nodes import Region, walk
from diffkern.ir.ops.buffer import PLACES
from diffkern.ir.ops.memory import PLAIN_ELEMENTS
from diffkern.ir.types import INT64, Kind, Mat, Scalar, Vec
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.types import I1, I64, Builder, TargetModule, constant, i64, wrapped

__all__ = ["left_alone", "moves_components", "not_unrolled", "rolled_if_long", "trip_count"]


def not_unrolled(module: Any, branch: Any) -> None:
    """Keep LLVM from unrolling the loop to whose head a branch goes back."""
    _of_loop(module, branch, module.add_metadata(["llvm.loop.unroll.disable"]))


def left_alone(module: Any, branch: Any) -> None:
    """Keep LLVM from vectorising and from unrolling the loop to whose head a branch goes back."""
    vectors = module.add_metadata(["llvm.loop.vectorize.enable", ir.Constant(I1, 0)])
    _of_loop(module, branch, vectors, module.add_metadata(["llvm.loop.unroll.disable"]))


_MOVES: Final = PLAIN_ELEMENTS | PLACES
_FEWEST_MOVED: Final = 3
"""Components of a vector or matrix whose elements are not moved as one number of the processor's."""


def moves_components(body: Region) -> bool:
    """Return whether a loop moves vectors or matrices from place to place, and computes nothing but where.

    The components of an element are next to one another, and LLVM moves them as vectors where it looks at one trip.
    Several trips at once it would gather and scatter, component by component, which takes many times as long.
    """
    found = False
    for op in walk(body):
        if op.name in _MOVES:
            held = (*op.results, *op.operands[1:])
            found = found or any(isinstance(v.type, (Vec, Mat)) and v.type.size >= _FEWEST_MOVED for v in held)
        elif any(not isinstance(v.type, Scalar) or v.type.is_float for v in op.results):
            return False
    return found


_CHOICES: Final = 4
"""The fewest comparisons with constants that tell that a loop chooses components of a value by its index."""
_LONGEST_IN_A_ROW: Final = 32_768
"""The most instructions of all trips of such a loop, of which few are left when the index is known."""


def rolled_if_long(module: TargetModule, head: Any, branch: Any, trips: Any = None) -> None:
    """Keep LLVM from putting several trips of a loop in a row, if its body is long and their number is not constant.

    The loop is the last one of its function so far; `head` is its first block, `branch` goes back to that, and `trips`
    is their number. A long body gains nothing by it, and the copies take longer to compile than it. All trips are put
    in a row if their number is constant and they choose among components of vectors: each choice is known then, and
    the components are in registers. LLVM counts the choices as code that stays.
    """
    longest = module.isa.longest_unrolled
    if longest is None:
        return
    blocks = branch.parent.function.blocks
    body = blocks[blocks.index(head) :]
    size = sum(len(block.instructions) for block in body)
    if isinstance(trips, ir.Constant) and trips.constant * size <= _LONGEST_IN_A_ROW and _choices(body) >= _CHOICES:
        _of_loop(module, branch, module.add_metadata(["llvm.loop.unroll.full"]))
    elif size > longest:
        _of_loop(module, branch, module.add_metadata(["llvm.loop.unroll.runtime.disable"]))


def _choices(body: Sequence[Any]) -> int:
    """Return how often numbers are compared with constants for equality."""
    instructions = (instruction for block in body for instruction in block.instructions)
    return sum(
        isinstance(one, ir.ICMPInstr) and one.op == "eq" and isinstance(one.operands[1], ir.Constant)
        for one in instructions
    )


def _of_loop(module: Any, branch: Any, *said: Any) -> None:
    loop = MDValue(module, said, name=str(len(module.metadata)))
    loop.operands = (loop, *said)  # the first operand of a loop's node is the node itself
    branch.set_metadata("llvm.loop", loop)


def trip_count(b: Builder, t: Scalar, lo: Any, hi: Any, step: Any) -> Any:
    """Return the number of trips as an unsigned 64-bit number; 0 for a zero step."""
    # Literal bounds are counted here, so that LLVM sees the number of trips as a constant.
    known = step.constant if isinstance(step, ir.Constant) else None
    if known is not None and isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant):
        return i64(wrapped(INT64, trips.trip_count(trips.PYTHON, lo.constant, hi.constant, known, known)))
    return trips.trip_count(_CountType(b, t, t.kind is Kind.INT), lo, hi, step, known)


@dataclass(frozen=True, slots=True)
class _CountType:
    """Values of a type, and counts of 64 bits: for narrower types, no difference of two of its values wraps."""

    b: Builder
    t: Scalar
    signed: bool

    def less(self, a: Any, b: Any) -> Any:
        return (self.b.icmp_signed if self.signed else self.b.icmp_unsigned)("<", a, b)

    def is_zero(self, step: Any) -> Any:
        return self.b.icmp_unsigned("==", step, self.bound(0))

    def distance(self, low: Any, high: Any) -> Any:
        return self.b.sub(self.wide(high), self.wide(low))

    def ahead(self, low: Any, high: Any) -> Any:
        runs = self.less(low, high)
        return self.b.select(runs, self.distance(low, high), i64(0))

    def whole(self, distance: Any, size: Any) -> Any:
        return self.b.add(self.b.udiv(self.b.sub(distance, i64(1)), size), i64(1))

    def number(self, value: int) -> Any:
        return i64(wrapped(INT64, value))

    def bound(self, value: int) -> Any:
        return constant(self.t, value)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return self.b.select(condition, a, b)

    def only_if(self, a: Any, unless: Any) -> Any:
        return self.b.and_(a, self.b.xor(unless, ir.Constant(I1, 1)))

    def wide(self, x: Any) -> Any:
        if isinstance(x, ir.Constant):
            return i64(x.constant)
        if self.t.bits == 64:
            return x
        return self.b.sext(x, I64) if self.signed else self.b.zext(x, I64)
