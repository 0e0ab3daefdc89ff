"""Programs whose threads run in lanes wherever they can, or nowhere, whatever the estimate of their work says.

Launches of tests have few threads, often fewer than a vector register has elements. So there are two lanes, and two
registers side by side where there may be several; threads that do not fill a register run as they would in more lanes.
Wide lanes are as many as fit into a register, for programs whose launches have the threads for them.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from diffkern.targets.cpu import kernel

__all__ = ["VARIABLE", "WAYS", "force", "narrow"]

VARIABLE = "DIFFKERN_TEST_LANES"
"""The variable of the environment that says one of :data:`WAYS` to processes of a run."""
WAYS = ("on", "wide", "off")
_usual = kernel.choice.chosen


def narrow(fn: Any, settings: Any, isa: Any) -> Any:
    """The choice of how threads run, with two lanes instead of as many as fit."""
    lanes = kernel.choice.lane_count(fn, isa.vector_bytes)
    found = _usual(fn, settings, dataclasses.replace(isa, vector_bytes=2 * isa.vector_bytes // lanes))
    full = _usual(fn, settings, isa)
    if found.lanes == 1 or full.lanes == 1:
        return found
    registers = min(found.registers, full.registers, 2)
    forms = {name: getattr(full, name) for name in ("masked", "always", "by_itself")}
    return dataclasses.replace(found, registers=registers, **forms)


def force() -> None:
    """Do what the variable says, if it is set, in this process."""
    said = os.environ.get(VARIABLE)
    if said not in WAYS:
        return

    def chosen(fn: Any, settings: Any, isa: Any) -> Any:
        if settings.lanes is not None:
            return _usual(fn, settings, isa)
        forced = dataclasses.replace(settings, lanes=said != "off")
        return narrow(fn, forced, isa) if said == "on" else _usual(fn, forced, isa)

    kernel.choice.chosen = chosen
