"""Dependence of a program's result on the order in which its threads update memory.

:func:`ordered_update` returns the first op whose result, or the contents of memory after it, depends on that order to
the last bit. Sums of floats do, unless they go to one address and are added up in the order of the chunks; so does the
value an atomic update returns, and which of two zeros is the smaller. Sums of integers and bits do not.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.analysis.sums import uniform_sums, used_values
from diffkern.analysis.uniformity import launch_values
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCUMULATES, ATOMICS
from diffkern.ir.types import scalar_of
from diffkern.ir.views import Access

__all__ = ["ordered_update", "used_update"]


def ordered_update(fn: Function, *, sums_in_order: bool) -> Op | None:
    """Return the first op whose outcome depends on the order of threads, None if there is none.

    Parameters
    ----------
    fn : Function
        The function as it is compiled.
    sums_in_order : bool
        Whether sums into one address for all threads are added up in a fixed order.
    """
    used = used_values(fn)
    in_order = set(map(id, uniform_sums(fn, launch_values(fn), used))) if sums_in_order else set()
    return next((op for op in walk(fn.body) if id(op) not in in_order and _is_ordered(op, used)), None)


def used_update(fn: Function) -> Op | None:
    """Return the first update by many threads whose result a function uses: that depends on their order.

    Those by which the winner of an extremum leaves its tangent, which have a ``pair``, give the same in any order.
    """
    used = used_values(fn)
    updates = (op for op in walk(fn.body) if _updates(op) and "pair" not in op.attrs and op.attrs.get("kind") != "take")
    return next((op for op in updates if any(result in used for result in op.results)), None)


def _updates(op: Op) -> bool:
    return op.name in ATOMICS or op.name in ACCUMULATES


def _is_ordered(op: Op, used: Collection[Value]) -> bool:
    if not _updates(op):
        return False
    if op.name in ACCUMULATES and op.attrs["mode"] == "plain":
        return False
    if any(result in used for result in op.results) or op.attrs.get("kind") in ("exch", "cas"):
        return True
    t = Access(op).array.type
    return scalar_of(t.dtype).is_float  # type: ignore[union-attr]  # an access is of an array
