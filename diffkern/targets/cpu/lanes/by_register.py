"""The order of work on lanes that fill several registers: where they divide, two registers at a time.

For a region, the ops that are executed for all lanes at once, and those that are executed for two registers after two
others. A processor looks ahead some hundred instructions. If all registers are divided, and then all are gone on with,
the divider has work for one part of a trip and arithmetic for the other. The divisions of the next registers are made
while the last ones are gone on with, and fewer values have to be kept. Each lane's numbers are the same as without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.composite import PARTS
from diffkern.ir.ops.memory import ELEMENT_ACCUMULATES, ELEMENT_LOADS
from diffkern.ir.ops.scalar import UNPIPELINED
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, Scalar
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes.scalars import is_by_lane

__all__ = ["RegisterOrder", "stretches"]

_FOLLOWING = 8
"""Operations on the lanes after a slow one, from which on there is enough to do meanwhile."""


@dataclass(slots=True)
class RegisterOrder:
    """Ops of a region one after the other, in the order in which they are executed.

    Attributes
    ----------
    before, after
        Ops that are executed for all registers at once, before and after the others.
    slow
        Ops of which the results of slow operations are made, registers one after the other.
    rest
        Ops that follow on them, registers one after the other.
    found
        Results of these that other ops need.
    """

    before: list[Op] = field(default_factory=list)
    slow: list[Op] = field(default_factory=list)
    rest: list[Op] = field(default_factory=list)
    after: list[Op] = field(default_factory=list)
    found: list[Value] = field(default_factory=list)


def stretches(region: Region, varying: set[Value]) -> list[RegisterOrder]:
    """Return the ops of a region in the order in which lanes of several registers execute them.

    Parameters
    ----------
    region : Region
        The region.
    varying : set of Value
        The values that differ between lanes.
    """
    found = [_stretch(ops, varying) for ops in _straight(region)]
    # A value is needed outside where all lanes use it at once, and where another stretch does, with its own registers.
    needed = set(region.yields)
    for one in found:
        each = [*one.slow, *one.rest]
        own = {op.result for op in each}
        needed.update(v for op in (*one.before, *one.after) for v in _used(op))
        needed.update(v for op in each for v in op.operands if v not in own)
    for one in found:
        one.found = [op.result for op in (*one.slow, *one.rest) if op.result in needed]
    return found


def _straight(region: Region) -> Iterator[list[Op]]:
    """Iterate over ops of which a load may come before what precedes it; other ops come by themselves."""
    ops: list[Op] = []
    added = False
    for op in region.ops:
        is_load, adds = op.name in ELEMENT_LOADS, op.name in ELEMENT_ACCUMULATES
        alone = not (is_load or adds or op.name in PARTS or lookup(op.name).family == "scalar")
        if alone or (is_load and added):
            yield ops
            ops, added = [], False
        if alone:
            yield [op]
            continue
        ops.append(op)
        added = added or adds
    yield ops


def _stretch(ops: Sequence[Op], varying: set[Value]) -> RegisterOrder:
    """Return the order of ops, of which those that need nothing from others may come first."""
    found, each = RegisterOrder(), list[Op]()
    late, own = set[Value](), set[Value]()
    for op in ops:
        if late.isdisjoint(op.operands) and _is_of_lane(op, varying):
            each.append(op)
            own.update(op.results)
        elif own.isdisjoint(op.operands) and late.isdisjoint(op.operands) and op.name not in ELEMENT_ACCUMULATES:
            found.before.append(op)
        else:
            found.after.append(op)
            late.update(op.results)
    needed = set[Value]()
    for op in reversed(each):
        if op.name in UNPIPELINED or op.result in needed:
            needed.update((op.result, *op.operands))
    found.slow = [op for op in each if op.result in needed]
    found.rest = [op for op in each if op.result not in needed]
    return found if found.slow and len(found.rest) >= _FOLLOWING else RegisterOrder(before=list(ops))


def _is_of_lane(op: Op, varying: set[Value]) -> bool:
    """Return whether an op is arithmetic on the floats of each lane."""
    row = lookup(op.name)
    if row.family != "scalar" or varying.isdisjoint(op.results) or is_by_lane(op):
        return False
    if row.elementary and op.name not in UNPIPELINED:
        return False  # a function for all lanes, which is long enough as it is
    types = [v.type for v in (*op.operands, *op.results)]
    return all(isinstance(t, Scalar) and (t.is_float or t == BOOL) for t in types)


def _used(op: Op) -> Iterator[Value]:
    """Iterate over the values that an op or its regions use."""
    yield from op.operands
    for sub in op.regions:
        yield from sub.yields
        for inner in sub.ops:
            yield from _used(inner)
