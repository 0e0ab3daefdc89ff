"""Removes rules from a program that is not differentiated: the results of a call are those of the func itself."""

from __future__ import annotations

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.views import Ruled

__all__ = ["remove_rules"]


def remove_rules(fn: Function) -> Function:
    """Remove the derivatives and replays that funcs have of their own, in place."""
    mapping: dict[Value, Value] = {}
    bodies: list[Region] = []
    _region(fn.body, mapping, bodies)
    for region in (fn.body, *bodies):
        substitute(region, mapping)
    return fn


def _region(region: Region, mapping: dict[Value, Value], bodies: list[Region]) -> None:
    kept: list[Op] = []
    for op in region.ops:
        if op.name == "ruled":
            mapping.update(zip(op.results, Ruled(op).returned, strict=True))
            continue
        body = op.attrs.get("body")
        if isinstance(body, Region):
            _region(body, mapping, bodies)
            bodies.append(body)
        for sub in op.regions:
            _region(sub, mapping, bodies)
        kept.append(op)
    region.ops[:] = kept
