"""All faults that are found by tests named beside them: those of each module of this package."""

from __future__ import annotations

import importlib
import pkgutil

import mutation

from .edits import Fault

__all__ = ["TARGETED"]

_OTHERS = {"catalogue", "edits", "faults", "plugin", "test_faults"}
_AREAS = [
    vars(importlib.import_module(f"mutation.{module.name}"))
    for module in pkgutil.iter_modules(mutation.__path__)
    if module.name not in _OTHERS
]
_BY_NAME = {
    value.name: value
    for area in _AREAS
    for values in area.values()
    if isinstance(values, list)
    for value in values
    if isinstance(value, Fault)
}

TARGETED = list(_BY_NAME.values())
