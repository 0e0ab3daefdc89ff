"""The values by which a function decides, and the numbers from which it computes something discrete.

:func:`steering` returns the parameters from whose elements a branch, a number of trips, an index, a divisor of integers
or a report to the host may be computed: whatever the other arrays hold, the same elements are accessed.
:func:`compared` returns all values from which something discrete is computed: if these are rounded as before, every
decision stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCESSES, ARRAY_EXTENTS, ATOMICS, LOADS, STACK_WRITES, WRITES
from diffkern.ir.ops.row import Diff, Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, Array, Scalar, is_differentiable
from diffkern.ir.views import Access, If, StackSlot, deciding, is_branch, is_loop, loop

__all__ = ["compared", "made_integral", "steering"]


def steering(fn: Function) -> set[Value]:
    """Return the array parameters from which control flow or addresses are computed."""
    ops = list(walk(fn.body))
    found = _made_from({v for op in ops for v in _decides(op)}, ops)
    return {p for p in fn.params if isinstance(p.type, Array) and p in found}


def compared(fn: Function) -> set[Value]:
    """Return the values from which operands of discontinuous operations are computed, and these operands.

    A comparison, a conversion to an integer, ``floor`` and a remainder are discontinuous: a unit in the last place of
    an operand can lead to another branch, another element, or another winner of an extremum.
    """
    ops = list(walk(fn.body))
    return _made_from({v for op in ops if _jumps(op) for v in op.operands if is_differentiable(v.type)}, ops)


def made_integral(fn: Function) -> set[Value]:
    """Return the values from which integers and rounded numbers are computed, except those that are only compared."""
    ops = list(walk(fn.body))
    found = {v for op in ops if _jumps(op) for v in op.operands if is_differentiable(v.type)
             if not any(r.type == BOOL for r in op.results)}  # fmt: skip
    return _made_from(found, ops)


def _jumps(op: Op) -> bool:
    """Return whether an op is discontinuous: between jumps its results are constant, or grow as the operands do."""
    row = lookup(op.name)
    # The extents of an array do not depend on its elements.
    if row.effect is not Effect.PURE or op.name in ARRAY_EXTENTS:
        return False
    return row.diff is Diff.ZERO or row.divides or not any(is_differentiable(r.type) for r in op.results)


def _made_from(found: set[Value], ops: Sequence[Op]) -> set[Value]:
    """Add to a set of values those they are computed from, through memory too."""
    makers: dict[Value, list[Op]] = {}
    for op in ops:
        for value in _made(op):
            makers.setdefault(value, []).append(op)
    left = list(found)
    while left:
        for op in makers.get(left.pop(), ()):
            new = [v for v in _sources(op, found) if v not in found]
            found.update(new)
            left += new
    return found


def _made(op: Op) -> set[Value]:
    """Return the values that an op may influence: each of its sources counts because of one of these."""
    made = set(op.results)
    if op.name in WRITES:
        # Memory is tracked per array: a store to any element makes the stored value a source of every load from it.
        made.add(Access(op).array)
    elif is_loop(op):
        made.update(v for chain in loop(op).chains for v in chain)
    elif op.name in STACK_WRITES:
        made.add(StackSlot(op).stack)
    return made


def _decides(op: Op) -> Iterable[Value]:
    """Return the operands of an op that steer."""
    row = lookup(op.name)
    if op.name in ACCESSES:
        return Access(op).places
    if (body := op.attrs.get("body")) is not None:
        alone = all(lookup(inner.name).effect is Effect.PURE for inner in walk(body))
        return () if alone else op.operands
    if op.regions:
        return deciding(op)
    if row.effect is Effect.PURE:
        parts = [v for v in op.operands if isinstance(v.type, Scalar) and v.type.is_integer]
        # Of tile operations the integer operands are offsets; integer division traps on zero, so all its operands
        # count.
        return op.operands if row.divides else parts if row.family == "tile" else ()
    if row.effect in (Effect.STACK_READ, Effect.STACK_WRITE):
        return op.operands[:2]
    return op.operands


def _sources(op: Op, found: set[Value]) -> Iterable[Value]:
    """Return the values that steering results of an op are computed from."""
    is_found = not found.isdisjoint(op.results)
    if op.name in LOADS:
        return (Access(op).array,) if is_found else ()
    if op.name in WRITES:
        written = Access(op)
        if op.name in ATOMICS and is_found:
            return written.array, written.value
        return (written.value,) if written.array in found else ()
    if is_branch(op):
        return [v for result, *either in If(op).choices if result in found for v in either]
    if is_loop(op):
        return [v for chain in loop(op).chains if not found.isdisjoint(chain) for v in chain]
    if op.name in STACK_WRITES:
        return StackSlot(op).values if StackSlot(op).stack in found else ()
    if not is_found:
        return ()
    return [v for v in op.operands if not isinstance(v.type, Array)]
