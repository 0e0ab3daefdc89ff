"""Arrays to whose elements threads only add floats, which a deterministic program for a GPU adds up exactly.

Their sums go to memory of their own, where integers are added in any order, and reach the array after the launch
(:mod:`diffkern.contracts.exact_sums`). So nothing in the launch may look at such an array or write to it otherwise.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.analysis.sums import used_values
from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ACCUMULATES, ELEMENT_ATOMICS, ELEMENTS
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.types import Array, scalar_of
from diffkern.ir.views import Access

__all__ = ["exact_sums"]


def exact_sums(fn: Function) -> dict[Value, tuple[Op, ...]]:
    """Return the updates of each parameter to which threads add floats and may meet, in the order of parameters.

    Parameters
    ----------
    fn : Function
        The function as it is compiled.

    Raises
    ------
    CompileError
        With the line where the launch reads or writes such an array in another way.
    """
    used, ops = used_values(fn), list(walk(fn.body))
    racing = {Access(op).array for op in ops if _adds(op, used) and op.attrs.get("mode") != "plain"}
    found: dict[Value, list[Op]] = {p: [] for p in fn.params if p in racing and _has_rows(p)}
    for op in ops:
        for array in found.keys() & set(op.operands):
            if _adds(op, used) and Access(op).array is array:
                found[array].append(op)
            elif op.name in ELEMENTS - ELEMENT_ATOMICS:
                raise CompileError(
                    f"kernel {fn.name!r} is deterministic, and reads or writes here an array to whose elements threads "
                    "add: on a GPU these sums are in the array when the launch has ended",
                    loc=op.loc,
                    remedy="add to another array, run it on the CPU, or leave deterministic out",
                )
    # Another kind of update, or a use that is no access, is left as it is: the order of threads decides there.
    others = {v for op in ops for v in op.operands if op.name not in ELEMENTS | ARRAY_EXTENTS}
    others |= {v for op in ops for region in op.regions for v in region.yields}
    others |= {Access(op).array for op in ops if op.name in ELEMENT_ATOMICS and not _adds(op, used)}
    return {array: tuple(adds) for array, adds in found.items() if array not in others}


def _has_rows(p: Value) -> bool:
    return isinstance(p.type, Array) and p.type.layout in ("C", "A") and not p.type.outer


def _adds(op: Op, used: Collection[Value]) -> bool:
    """Return whether an op adds floats to an element, and nothing asks for the old one."""
    if op.name not in ELEMENT_ACCUMULATES | ELEMENT_ATOMICS or "along" in op.attrs:
        return False
    if not scalar_of(Access(op).array.type.dtype).is_float:  # type: ignore[union-attr]  # an access is of an array
        return False
    return op.name in ELEMENT_ACCUMULATES or (op.attrs["kind"] in SUMS and op.result not in used)
