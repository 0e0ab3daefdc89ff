"""Loads of components that a thread finds at run time, from elements that other threads write to as well.

``v[i // 3][i % 3]`` is a load of the element and the choice of a component. Where the kernel also sets components of
that array, the neighbours belong to other threads, which may write to them meanwhile. Here the choice becomes one among
loads with the attribute ``only``, of a component each, of which one is executed.
"""

from __future__ import annotations

from diffkern.analysis.components import Components
from diffkern.ir.builder import Builder
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS, ELEMENT_STORES
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.ir.views import Access
from diffkern.lower.component_stores import is_component
from diffkern.opt.dce import has_effect

__all__ = ["load_components"]


def load_components(fn: Function) -> Function:
    """Load components alone, in place, and return the function."""
    stores = [op for op in walk(fn.body) if op.name in ELEMENT_STORES and not isinstance(Access(op).value.type, Scalar)]
    if not stores:
        return fn
    components = Components(fn)
    shared = {Access(store).array for store in stores if components.stored(store) is not None}
    loads = [op for op in walk(fn.body) if op.name in ELEMENT_LOADS and Access(op).array in shared]
    # A load that is used as a whole is needed anyway.
    chosen = {load.result: load for load in loads if components.loaded(load) is not None}
    if chosen:
        for region in [fn.body, *(sub for op in walk(fn.body) for sub in op.regions)]:
            _in_region(fn, region, chosen)
    return fn


def _in_region(fn: Function, region: Region, chosen: dict[Value, Op]) -> None:
    """Exchange the choices of components that follow their loads in a region, with nothing written in between."""
    made: list[Op] = []
    ready = set[Op]()
    replaced: dict[Value, Value] = {}
    for op in region.ops:
        load = chosen.get(op.operands[0]) if op.name == "extract_dyn" else None
        if load is not None and load in ready:
            ops, replaced[op.result] = _choice(op, load)
            made += ops
            continue
        made.append(op)
        if op.name in ELEMENT_LOADS:
            ready.add(op)
        elif op.regions or has_effect(op):
            ready.clear()
    region.ops = made
    if replaced:
        substitute(fn.body, replaced)


def _choice(op: Op, load: Op) -> tuple[list[Op], Value]:
    """Return ops that load one component, as the choice of an element says, and what they load."""
    b, region, element = Builder(), Region(), load.result.type
    b.loc = op.loc
    assert isinstance(element, (Vec, Mat))

    def part(k: int) -> Region:
        own = Region()
        with b.into(own):
            whole = b.one("load", *load.operands, **{**load.attrs, "only": (k,)})
            own.yields = (b.extract(whole, k),)
        return own

    # An index that names no component takes the first one, as the choice among registers does.
    others = part(0)
    with b.into(region):
        hits = [is_component(b, op.operands[1], k, element.size) for k in range(element.size)]
        for k in range(1, element.size):
            outer = region if k == element.size - 1 else Region()
            with b.into(outer):
                found = b.if_(hits[k], part(k), others, names=(op.result.name,))
            if outer is not region:
                outer.yields, others = found, outer
    return region.ops, found[0]
