"""Programs whose threads run in lanes wherever they can, or nowhere, whatever the estimate of their work says."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from diffkern.targets.cpu import kernel

__all__ = ["VARIABLE", "force"]

VARIABLE = "DIFFKERN_TEST_LANES"
"""The variable of the environment that says ``on`` or ``off`` to processes of a run."""


def force() -> None:
    """Do what the variable says, if it is set, in this process."""
    said = os.environ.get(VARIABLE)
    if said not in ("on", "off"):
        return
    usual = kernel.choice.chosen

    def chosen(fn: Any, settings: Any, vector_bytes: int) -> Any:
        lanes = said == "on" if settings.lanes is None else settings.lanes
        return usual(fn, dataclasses.replace(settings, lanes=lanes), vector_bytes)

    kernel.choice.chosen = chosen
