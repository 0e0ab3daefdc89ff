"""Removes what a program does not use: reports from release programs and adjoints, and from a program that is not
differentiated the rules of its funcs, since the results of a call are those of the func itself.

In place. Computations for reports alone are dead code afterwards.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.output import REPORTS
from diffkern.ir.views import Ruled

__all__ = ["remove_rules", "without_assertions", "without_breakpoints", "without_reports"]


def without_assertions(fn: Function) -> Function:
    """Remove the assertions of a function."""
    _remove(fn.body, ("assertion",))
    return fn


def without_breakpoints(fn: Function) -> Function:
    """Remove the breakpoints of a function."""
    _remove(fn.body, ("breakpoint",))
    return fn


def without_reports(fn: Function) -> Function:
    """Remove the prints and assertions of a function."""
    _remove(fn.body, REPORTS)
    return fn


def _remove(region: Region, names: Collection[str]) -> None:
    region.ops[:] = [op for op in region.ops if op.name not in names]
    for op in region.ops:
        for sub in op.regions:
            _remove(sub, names)


def remove_rules(fn: Function) -> Function:
    """Remove the derivatives and replays that funcs have of their own, in place."""
    mapping: dict[Value, Value] = {}
    bodies: list[Region] = []
    _without_rules(fn.body, mapping, bodies)
    for region in (fn.body, *bodies):
        substitute(region, mapping)
    return fn


def _without_rules(region: Region, mapping: dict[Value, Value], bodies: list[Region]) -> None:
    kept: list[Op] = []
    for op in region.ops:
        if op.name == "ruled":
            mapping.update(zip(op.results, Ruled(op).returned, strict=True))
            continue
        body = op.attrs.get("body")
        if isinstance(body, Region):
            _without_rules(body, mapping, bodies)
            bodies.append(body)
        for sub in op.regions:
            _without_rules(sub, mapping, bodies)
        kept.append(op)
    region.ops[:] = kept
