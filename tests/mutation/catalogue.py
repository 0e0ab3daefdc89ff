"""All faults that are found by tests named beside them: those of each module of this package."""

from __future__ import annotations

import importlib
import pkgutil

import mutation

from .edits import Fault

__all__ = ["TARGETED"]

_OTHERS = {"catalogue", "edits", "faults", "plugin", "test_faults"}
_AREAS = [
    importlib.import_module(f"mutation.{m.name}")
    for m in pkgutil.iter_modules(mutation.__path__)
    if m.name not in _OTHERS
]

TARGETED: list[Fault] = [
    fault
    for area in _AREAS
    for value in vars(area).values()
    if isinstance(value, list)
    for fault in value
    if isinstance(fault, Fault)
]
