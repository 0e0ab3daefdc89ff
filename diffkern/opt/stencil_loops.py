"""Loops over the neighbours of an element, whose contributions are added up.

:func:`adds_up_neighbours` tells, for a loop of constant trips, whether the adjoint can keep it as a loop. Such a loop
has no state to store: its carried values are sums, which no trip reads. Nor would unrolling give an analysis any
information: the loop index only selects integers, and the elements these lead to are known when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.scalar import DIFFERENCES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Mat, Scalar, Type, Vec, is_differentiable, scalar_of
from diffkern.ir.views import Access, For, is_branch

__all__ = ["adds_up_neighbours"]


def adds_up_neighbours(loop: For, unwritten: Collection[Value]) -> bool:
    """Return whether a loop adds up values of elements that it finds through arrays of integers.

    Parameters
    ----------
    loop : For
        The loop.
    unwritten : collection of Value
        The arrays to which the function writes nothing.
    """
    if not all(_is_summable(v.type) for v in loop.carried):
        return False
    if not all(_only_computes(op, unwritten) for op in walk(loop.body)) or not _selects_integers(loop):
        return False
    sums = {v: k for k, v in enumerate(loop.carried)}
    return _follow(loop.body, sums) and all(sums.get(v) == k for k, v in enumerate(loop.yields))


def _is_summable(t: Type) -> bool:
    return isinstance(t, (Scalar, Vec, Mat)) and is_differentiable(t)


def _only_computes(op: Op, unwritten: Collection[Value]) -> bool:
    """Return whether an op computes single values from others or from elements that do not change."""
    if not all(isinstance(v.type, (Scalar, Vec, Mat)) for v in op.results):
        return False
    if op.name in ELEMENT_LOADS:
        return Access(op).array in unwritten
    return is_branch(op) or (not op.regions and lookup(op.name).effect is Effect.PURE)


def _selects_integers(loop: For) -> bool:
    """Return whether the loop index is used only in indices of integers."""
    indices = {loop.index}
    for op in walk(loop.body):
        used = indices.intersection(op.operands)
        if not used:
            continue
        if op.name in ELEMENT_LOADS:
            # A float at an index of the loop differs from trip to trip, and the constant index would be worth knowing.
            if scalar_of(op.result.type).is_float:
                return False
        elif op.regions or not all(isinstance(v.type, Scalar) and not v.type.is_float for v in op.results):
            return False
        else:
            indices.update(op.results)
    regions = [loop.body, *(region for op in walk(loop.body) for region in op.regions)]
    return all(indices.isdisjoint(region.yields) for region in regions)


def _follow(region: Region, sums: dict[Value, int]) -> bool:
    """Note which values are partial sums, and of which sum; return whether the sums have no other use."""
    for op in region.ops:
        used = [k for k, v in enumerate(op.operands) if v in sums]
        if is_branch(op):
            if used or not all(_follow(sub, sums) for sub in op.regions):
                return False
            for result, *ways in zip(op.results, *(sub.yields for sub in op.regions), strict=True):
                found = {sums.get(v) for v in ways}
                if found != {None}:
                    # The branches return partial sums of different accumulators.
                    if len(found) > 1:
                        return False
                    sums[result] = sums[ways[0]]
        elif used:
            # Two partial sums in one op, or one that is scaled, would not be plain accumulation.
            if len(used) > 1 or not (op.name == "add" or (op.name in DIFFERENCES and used == [0])):
                return False
            sums[op.result] = sums[op.operands[used[0]]]
    return True
