"""Removes reports from programs: a release program checks no assertions, and an adjoint reports nothing.

In place. Computations for reports alone are dead code afterwards.
"""

from __future__ import annotations

from collections.abc import Collection

from diffkern.ir.nodes import Function, Region
from diffkern.ir.ops.output import REPORTS

__all__ = ["without_assertions", "without_breakpoints", "without_reports"]


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
