"""Updates of array elements that go to one address for all threads of a launch, and can be summed before.

:func:`uniform_sums` returns the ops that are *uniform sums*, and :func:`needed_for` the ops by which the addresses of
these sums are computed once more after the threads have ended. The CPU adds up one partial sum per chunk, CUDA one per
block.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ACCUMULATES, ELEMENT_ATOMICS
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.types import BOOL, scalar_of
from diffkern.ir.views import Access

__all__ = ["needed_for", "uniform_sums", "used_values"]


def used_values(fn: Function) -> set[Value]:
    """Return all values that an op or a yield reads."""
    used: set[Value] = set(fn.body.yields)
    for op in walk(fn.body):
        used.update(op.operands)
        for region in op.regions:
            used.update(region.yields)
    return used


def needed_for(op: Op, invariant: dict[Value, Op | None]) -> list[Op]:
    """Return the ops that compute the indices of a uniform sum, definitions before uses."""
    wanted = set(Access(op).index)
    needed: list[Op] = []
    # From the last definition to the first, each adding the operands it needs itself.
    for value, definition in reversed(invariant.items()):
        if value in wanted and definition is not None:
            needed.append(definition)
            wanted.update(definition.operands)
    return needed[::-1]


def uniform_sums(fn: Function, invariant: dict[Value, Op | None], used: set[Value]) -> list[Op]:
    """Return the ``atomic`` and ``accumulate`` ops whose address is the same for all threads, in program order."""
    ops = list(walk(fn.body))
    return [op for op in ops if _is_sum(op, invariant, used, ops)]


def _is_sum(op: Op, invariant: dict[Value, Op | None], used: set[Value], ops: Iterable[Op]) -> bool:
    if op.name in ELEMENT_ACCUMULATES:
        if op.attrs["mode"] != "reduce":
            return False
    elif op.name not in ELEMENT_ATOMICS or op.attrs["kind"] not in SUMS or op.results[0] in used:
        return False
    elif not all(_only_accumulates(other, used) for other in ops if Access(op).array in other.operands):
        return False  # the thread may look at what it added
    # The array may be one of several that a branch chose, and sums of booleans are not sums.
    if Access(op).array not in invariant or scalar_of(Access(op).array.type) == BOOL:
        return False
    return all(v in invariant for v in Access(op).index)


def _only_accumulates(op: Op, used: set[Value]) -> bool:
    if op.name in ELEMENT_ATOMICS:
        return op.attrs["kind"] in SUMS and op.results[0] not in used
    return op.name in ELEMENT_ACCUMULATES | ARRAY_EXTENTS
