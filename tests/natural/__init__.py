"""Kernels as users write them, by field, each with what it is launched on; :mod:`.check` tells if they are right."""

from __future__ import annotations

from . import (  # noqa: F401  they fill the table
    dynamic_programming,
    finance,
    fluids,
    graphics,
    in_place,
    learning,
    linear_algebra,
    mechanics,
    statistics,
    waves,
)
from .check import NATURAL as KERNELS

__all__ = ["KERNELS"]
