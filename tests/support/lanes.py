"""Programs whose threads run in lanes wherever they can, or nowhere, whatever the estimate of their work says.

Launches of tests have few threads, often fewer than a vector register has elements. So there are two lanes, and two
registers side by side where there may be several; threads that do not fill a register run as they would in more lanes.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from diffkern.targets.cpu import kernel

__all__ = ["VARIABLE", "force", "narrow"]

VARIABLE = "DIFFKERN_TEST_LANES"
"""The variable of the environment that says ``on`` or ``off`` to processes of a run."""
_usual = kernel.choice.chosen


def narrow(fn: Any, settings: Any, isa: Any) -> Any:
    """The choice of how threads run, with two lanes instead of as many as fit."""
    lanes = kernel.choice.lane_count(fn, isa.vector_bytes)
    found = _usual(fn, settings, dataclasses.replace(isa, vector_bytes=2 * isa.vector_bytes // lanes))
    full = _usual(fn, settings, isa)
    if found.lanes == 1 or full.lanes == 1:
        return found
    registers = min(found.registers, full.registers, 2)
    return dataclasses.replace(found, registers=registers, masked=full.masked, always=full.always)


def force() -> None:
    """Do what the variable says, if it is set, in this process."""
    said = os.environ.get(VARIABLE)
    if said not in ("on", "off"):
        return

    def chosen(fn: Any, settings: Any, isa: Any) -> Any:
        if settings.lanes is not None:
            return _usual(fn, settings, isa)
        if said == "off":
            return _usual(fn, dataclasses.replace(settings, lanes=False), isa)
        return narrow(fn, dataclasses.replace(settings, lanes=True), isa)

    kernel.choice.chosen = chosen
