"""A thread that reads an element and overwrites it does so only after the element has been used; in place.

An adjoint takes a cotangent out of its element and leaves a zero there. On a GPU a store to an element that is still
being loaded waits for the load, and holds up all memory accesses of the multiprocessor behind it; a store behind the
first use of the loaded value finds the load complete. The new value does not depend on the old one, so nothing else
would order the two.

This is for programs whose written arrays do not overlap others. A store moves over pure operations and over accesses of
other arrays, in its block of the program and not over a loop; nor over an atomic update, which may let other threads
in.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_ACCUMULATES, ELEMENT_LOADS, ELEMENT_STORES
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array
from diffkern.ir.views import Access, is_branch

__all__ = ["overwrite_late"]

_WRITES = ELEMENT_STORES | ELEMENT_ACCUMULATES
_ELEMENTS = ELEMENT_LOADS | _WRITES
_HARMLESS = frozenset({Effect.PURE, Effect.STACK_READ, Effect.STACK_WRITE})


def overwrite_late(fn: Function) -> Function:
    """Move stores behind the use of the element's old contents.

    Parameters
    ----------
    fn : Function
        A program whose written arrays overlap no others.
    """
    # Elements of nested arrays may share memory, so they are never known to be distinct.
    apart = {p for p in fn.params if isinstance(p.type, Array) and not p.type.outer}
    for region in (fn.body, *(sub for op in walk(fn.body) for sub in op.regions)):
        _region(region, apart)
    return fn


def _region(region: Region, apart: set[Value]) -> None:
    loads: dict[tuple[Value, ...], Op] = {}
    for op in list(region.ops):
        if op.name in ELEMENT_LOADS:
            # Only the latest load of an element can be outstanding; an earlier store of the same place has taken it.
            loads[op.operands] = op
        elif op.name in ELEMENT_STORES and Access(op).array in apart:
            place = (Access(op).array, *Access(op).index)
            load = loads.pop(place, None)
            if load is not None:
                _move(region.ops, op, load, apart)


def _move(ops: list[Op], store: Op, load: Op, apart: set[Value]) -> None:
    """Move a store behind the first write that depends on a load, unless something is in the way."""
    first, at = ops.index(load), ops.index(store)
    needing = set(load.results)
    for op in ops[first + 1 : at]:
        _follow(op, needing)
    if Access(store).value in needing:
        return  # it waits for the load as it is
    end = at + 1
    while end < len(ops) and _may_pass(ops[end], Access(store).array, apart):
        needs = _follow(ops[end], needing)
        end += 1
        # Behind the first write that needs the load, the load is complete, and moving on would only lengthen lives.
        if needs and any(inner.name in _WRITES for inner in _with_inner(ops[end - 1])):
            break
    ops.insert(end, store)
    del ops[at]


def _follow(op: Op, needing: set[Value]) -> bool:
    """Return whether an op uses one of some values; if so, add its results to them."""
    needs = any(v in needing for inner in _with_inner(op) for v in (*inner.operands, *_yielded(inner)))
    if needs:
        needing.update(op.results)
        needing.update(result for inner in _with_inner(op) for result in inner.results)
    return needs


def _may_pass(op: Op, array: Value, apart: set[Value]) -> bool:
    """Return whether a store to an array may come after an op instead of before it."""
    if op.regions:
        return is_branch(op) and all(_may_pass(inner, array, apart) for sub in op.regions for inner in sub.ops)
    if op.name in _ELEMENTS:
        return Access(op).array in apart and Access(op).array is not array
    return lookup(op.name).effect in _HARMLESS


def _with_inner(op: Op) -> Iterable[Op]:
    yield op
    for sub in op.regions:
        yield from walk(sub)


def _yielded(op: Op) -> Iterable[Value]:
    return (v for sub in op.regions for v in sub.yields)
