"""Common subexpression elimination over pure ops, scoped by regions; in place.

With ``loads=True`` loads from arrays that the function never writes count as pure. That is valid only where parameters
are known not to overlap (differentiated launches), so the forward pipeline leaves loads alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import WRITES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.views import Access


def written_arrays(region: Region) -> set[Value]:
    """Return the array values that a region stores to, updates or accumulates into."""
    return {Access(op).array for op in walk(region) if op.name in WRITES}


def freeze(value: Any) -> Hashable:
    """Return an attribute as part of a key, in which ``0.0`` and ``-0.0``, and ``1`` and ``True``, differ."""
    return (type(value).__name__, repr(value)) if isinstance(value, (bool, int, float)) else value


def eliminate_common(fn: Function, *, loads: bool = False) -> Function:
    """Replace equal pure computations by one value."""
    written = written_arrays(fn.body) if loads else set()
    mapping: dict[Value, Value] = {}

    def key(op: Op) -> Hashable | None:
        # An op with regions is not compared, as that would mean comparing whole regions.
        if op.regions:
            return None
        row = lookup(op.name)
        if row.effect is Effect.READ:
            if not loads or Access(op).array in written:
                return None
        elif row.effect not in (Effect.PURE, Effect.CONSTANT):
            return None
        operands = op.operands
        # Operands are renamed first, so that chains of equal computations collapse in one pass.
        if not mapping.keys().isdisjoint(operands):
            operands = tuple(mapping.get(v, v) for v in operands)
        if row.commutative:
            operands = tuple(sorted(operands, key=id))  # only the grouping matters, not the order
        attrs = tuple(sorted((k, freeze(v)) for k, v in op.attrs.items())) if op.attrs else ()
        return (op.name, operands, attrs, tuple(r.type for r in op.results))

    def visit(region: Region, outer: dict[Hashable, tuple[Value, ...]]) -> None:
        # What an outer region computes is known inside, but not the other way round: it may not be executed.
        known = dict(outer)
        kept: list[Op] = []
        for op in region.ops:
            k = key(op)
            if k is not None and k in known:
                mapping.update(zip(op.results, known[k], strict=True))
                continue
            if k is not None:
                known[k] = op.results
            if not mapping.keys().isdisjoint(op.operands):
                op.operands = tuple(mapping.get(v, v) for v in op.operands)
            for sub in op.regions:
                visit(sub, known)
            kept.append(op)
        region.ops[:] = kept

    visit(fn.body, {})
    substitute(fn.body, mapping)
    return fn
