"""Which updates of array elements go to one address for all threads of a launch, and can be summed before that.

In: a function. Out: the ops that are *uniform sums*, and the values that are the same for every thread, of which the
addresses of these sums are computed once more where the threads have ended. The CPU adds up one partial sum per chunk,
CUDA one per block.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.types import BOOL, scalar_of
from diffkern.ops.row import Effect
from diffkern.ops.table import lookup

__all__ = ["index_operands", "invariant_values", "needed_for", "uniform_sums", "used_values"]


def index_operands(op: Op) -> tuple[Value, ...]:
    """The index operands of an op that accesses an array."""
    return op.operands[1:] if op.name == "load" else op.operands[1:-1]


def used_values(fn: Function) -> set[Value]:
    """All values that an op or a yield reads."""
    used: set[Value] = set(fn.body.yields)
    for op in walk(fn.body):
        used.update(op.operands)
        for region in op.regions:
            used.update(region.yields)
    return used


def invariant_values(fn: Function) -> dict[Value, Op | None]:
    """Values that are the same for every thread, computed from parameters, shapes and literals alone, and by which op.

    In the order of the program, so that definitions stand before uses. A parameter has no op.
    """
    out: dict[Value, Op | None] = dict.fromkeys(fn.params)
    for op in walk(fn.body):
        if (
            op.name == "tid"
            or op.regions
            or lookup(op.name).family == "block"
            or lookup(op.name).effect is not Effect.PURE
        ):
            continue
        if all(v in out for v in op.operands):
            out.update(dict.fromkeys(op.results, op))
    return out


def needed_for(op: Op, invariant: dict[Value, Op | None]) -> list[Op]:
    """The ops that the indices of a uniform sum are computed by, definitions before uses."""
    wanted = set(index_operands(op))
    needed: list[Op] = []
    for value, definition in reversed(invariant.items()):
        if value in wanted and definition is not None:
            needed.append(definition)
            wanted.update(definition.operands)
    return needed[::-1]


def uniform_sums(fn: Function, invariant: dict[Value, Op | None], used: set[Value]) -> list[Op]:
    """The ``atomic`` and ``accumulate`` ops whose address is the same for all threads, in the order of the program."""
    ops = list(walk(fn.body))
    return [op for op in ops if _is_sum(op, invariant, used, ops)]


def _is_sum(op: Op, invariant: dict[Value, Op | None], used: set[Value], ops: Iterable[Op]) -> bool:
    if op.name == "accumulate":
        if op.attrs["mode"] != "reduce":
            return False
    elif op.name != "atomic" or op.attrs["kind"] not in ("add", "sub") or op.results[0] in used:
        return False
    elif not all(_only_accumulates(other, used) for other in ops if op.operands[0] in other.operands):
        return False  # the thread may look at what it added
    if op.operands[0] not in invariant or scalar_of(op.operands[0].type) == BOOL:
        return False
    return all(v in invariant for v in index_operands(op))


def _only_accumulates(op: Op, used: set[Value]) -> bool:
    if op.name == "atomic":
        return op.attrs["kind"] in ("add", "sub") and op.results[0] not in used
    return op.name in ("accumulate", "shape")
