"""Stores that set some components of a vector or matrix, so that only these components are written.

``v[k][0] = x`` is a load of the element, an insertion and a store of the whole. Threads may share a vector as long as
no two of them set the same component, and a store of the other components, with what this thread has loaded, would undo
what another thread has written meanwhile. Here such a store gets the attribute ``only`` with the numbers of its
components, which every target respects. A component that is known at run time is found by a branch for each.
"""

from __future__ import annotations

from diffkern.analysis.components import Components
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import Access
from diffkern.ops.memory import ACCESSES

__all__ = ["is_component", "store_components"]


def store_components(fn: Function) -> Function:
    """Mark stores of components in place, and return the function."""
    for region in _regions(fn):
        region.ops = _taken_at_once(region.ops)
    stores = [op for op in walk(fn.body) if op.name == "store" and not isinstance(Access(op).value.type, Scalar)]
    if not stores:
        return fn
    components = Components(fn)
    parts = {store: found for store in stores if (found := components.stored(store)) is not None}
    if parts:
        for region in _regions(fn):
            region.ops = [new for op in region.ops for new in (_split(op, list(parts[op])) if op in parts else [op])]
    return fn


def is_component(b: Builder, index: Value, k: int, size: int) -> Value:
    """Return whether a run-time index names component ``k``, counted from the front or, negative, from the end."""
    t = index.type
    assert isinstance(t, Scalar)
    hit = b.one("eq", index, b.const(k, t))
    if t.kind.value == "int":
        hit = b.one("or", hit, b.one("eq", index, b.const(k - size, t)))
    return hit


def _regions(fn: Function) -> list[Region]:
    return [fn.body, *(sub for op in walk(fn.body) for sub in op.regions)]


def _taken_at_once(ops: list[Op]) -> list[Op]:
    """Return a region's ops in which zeros stored to an element, and the rest added back, are one store."""
    made = {result: op for op in ops for result in op.results}
    place = {op: k for k, op in enumerate(ops)}
    changed: dict[Op, list[Op]] = {}
    for op in ops:
        if op.name != "accumulate" or op.attrs["mode"] == "reduce":
            continue
        load = _source(Access(op).value, made)
        if load is None or load.operands != op.operands[:-1]:
            continue
        between = [one for one in ops[place[load] + 1 : place[op]] if _touches(one, Access(op).array)]
        # Anything else that reads or writes the array in between has to find the zeros, or would be overwritten.
        if len(between) == 1 and between[0].operands[:-1] == load.operands and _is_zero(between[0], made):
            changed[between[0]] = []
            changed[op] = [Op("store", op.operands, (), dict(between[0].attrs), (), op.loc)]
    return [new for op in ops for new in changed.get(op, [op])]


def _touches(op: Op, array: Value) -> bool:
    inside = (inner for sub in op.regions for inner in walk(sub))
    return any(one.name in ACCESSES and one.operands[0] is array for one in (op, *inside))


def _source(value: Value, made: dict[Value, Op]) -> Op | None:
    """Return the load of an element of whose components some have been set to zero, if a value is that."""
    is_changed = False
    while (op := made.get(value)) is not None and op.name in ("insert", "insert_dyn"):
        zero = made.get(op.operands[1])
        if zero is None or zero.name != "const" or zero.attrs["value"] != 0:
            return None
        value, is_changed = op.operands[0], True
    return op if is_changed and op is not None and op.name == "load" else None


def _is_zero(store: Op, made: dict[Value, Op]) -> bool:
    if store.name != "store":
        return False
    value = made.get(Access(store).value)
    if value is None or value.name != "construct":
        return False
    parts = [made.get(v) for v in value.operands]
    return all(part is not None and part.name == "const" and part.attrs["value"] == 0 for part in parts)


def _split(store: Op, changed: list[int | Value]) -> list[Op]:
    """Return ops that store components alone: those known now in one store, the others in a branch for each."""
    known = tuple(sorted(k for k in changed if isinstance(k, int)))
    places = [k for k in changed if not isinstance(k, int)]
    b, region = Builder(), Region()
    b.loc = store.loc
    element = Access(store).value.type
    assert isinstance(element, (Vec, Mat))
    with b.into(region):
        if known:
            b.op("store", *store.operands, **{**store.attrs, "only": known})
        for k in range(element.size):
            if k in known or not places:
                continue
            hit = is_component(b, places[0], k, element.size)
            for place in places[1:]:
                hit = b.one("or", hit, is_component(b, place, k, element.size))
            then = Region()
            with b.into(then):
                b.op("store", *store.operands, **{**store.attrs, "only": (k,)})
            b.if_(hit, then, Region())
    return region.ops
