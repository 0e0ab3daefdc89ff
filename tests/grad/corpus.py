"""All cases, by name."""

from __future__ import annotations

from . import (
    kernels_branches,
    kernels_composites,
    kernels_device,
    kernels_functions,
    kernels_loops,
    kernels_memory,
    kernels_own_arrays,
    kernels_tiles,
)
from .cases import CASES

MODULES = (
    kernels_branches,
    kernels_composites,
    kernels_device,
    kernels_functions,
    kernels_loops,
    kernels_memory,
    kernels_own_arrays,
    kernels_tiles,
)

__all__ = ["CASES", "MODULES"]
