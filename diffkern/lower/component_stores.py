"""Stores that set some components of a vector or matrix, so that only these components are written.

``v[k][0] = x`` is a load of the element, an insertion and a store of the whole. Threads may share a vector as long as
no two of them set the same component, and a store of the other components, with what this thread has loaded, would undo
what another thread has written meanwhile. Here such a store gets the attribute ``only`` with the numbers of its
components, which every target respects. A component that is known at run time is found by a branch for each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial

from diffkern.analysis.components import Components
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_STORES
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import Access

__all__ = ["is_component", "store_components"]


def store_components(fn: Function) -> Function:
    """Mark stores of components in place, and return the function."""
    stores = [op for op in walk(fn.body) if op.name in ELEMENT_STORES and not isinstance(Access(op).value.type, Scalar)]
    if not stores:
        return fn
    components = Components(fn)
    parts = {store: found for store in stores if (found := components.stored(store)) is not None}
    if parts:
        for region in [fn.body, *(sub for op in walk(fn.body) for sub in op.regions)]:
            region.ops = [new for op in region.ops for new in (_split(op, parts[op]) if op in parts else [op])]
    return fn


def is_component(b: Builder, index: Value, k: int, size: int) -> Value:
    """Return whether a run-time index names component ``k``, counted from the front or, negative, from the end."""
    t = index.type
    assert isinstance(t, Scalar)
    hit = b.one("eq", index, b.const(k, t))
    if t.kind.value == "int":
        hit = b.one("or", hit, b.one("eq", index, b.const(k - size, t)))
    return hit


def _split(store: Op, changed: Mapping[int | Value, Value]) -> list[Op]:
    """Return ops that store components alone: those known now in one store, the others in a branch for each.

    `changed` has the components with what they are set to, the last one first.
    """
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
            hits = [is_component(b, place, k, element.size) for place in places]
            hit = functools.reduce(partial(b.one, "or"), hits)
            then = Region()
            with b.into(then):
                # Not the component of the stored value, which would be the old one where nothing hits.
                value = changed[places[-1]]
                for place, found in zip(reversed(places[:-1]), reversed(hits[:-1]), strict=True):
                    value = b.select(found, changed[place], value)
                whole = b.one("insert", Access(store).value, value, index=k)
                b.op("store", *store.operands[:-1], whole, **{**store.attrs, "only": (k,)})
            b.if_(hit, then, Region())
    return region.ops
