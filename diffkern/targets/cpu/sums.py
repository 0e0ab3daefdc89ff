"""Arrays that threads only add to: chunks can have copies of them, and need no atomic updates.

For a function as it is emitted, and the ops that are summed for each chunk by itself, :func:`added_to` returns the
positions of such parameters.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.analysis.sums import used_values
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.ops.memory import ARRAY_EXTENTS, ELEMENT_ATOMICS, UPDATES
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.types import BOOL, STORAGE_ONLY, Array, scalar_of
from diffkern.ir.views import Access

__all__ = ["added_to", "updates_atomically"]


def _updates(fn: Function, summed: Collection[Op]) -> list[Op]:
    apart = set(summed)
    found = (op for op in walk(fn.body) if op.name in UPDATES and op not in apart)
    return [op for op in found if op.attrs.get("mode") != "plain"]


def updates_atomically(fn: Function, summed: Collection[Op]) -> bool:
    """Return whether threads update elements atomically, besides the ops that are summed for each chunk."""
    return bool(_updates(fn, summed))


def added_to(fn: Function, summed: Collection[Op]) -> tuple[int, ...]:
    """Return the parameters that threads only add to, if they update nothing else."""
    updates, used = _updates(fn, summed), used_values(fn)
    # A copy per chunk starts at zero and is added at the end, which is right for sums alone.
    if not all(op.name in ELEMENT_ATOMICS and op.attrs["kind"] in SUMS for op in updates):
        return ()
    if any(op.result in used or not _is_summable(op) for op in updates):
        return ()
    arrays = {Access(op).array for op in updates}
    others = (op for op in walk(fn.body) if op.name not in ELEMENT_ATOMICS | ARRAY_EXTENTS)
    if any(not arrays.isdisjoint(op.operands) for op in others):
        return ()
    return tuple(k for k, p in enumerate(fn.params) if p in arrays)


def _is_summable(op: Op) -> bool:
    t = Access(op).array.type
    assert isinstance(t, Array)
    s = scalar_of(t.dtype)
    return t.layout == "C" and s not in STORAGE_ONLY and s != BOOL and s.bits in (32, 64)
