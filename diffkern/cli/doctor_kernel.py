"""The kernel that ``diffkern doctor`` compiles and checks."""

from __future__ import annotations

import diffkern as dk

__all__ = ["energy"]


@dk.kernel
def energy(x: dk.array[dk.float64], total: dk.array[dk.float64]) -> None:
    i = dk.tid()
    dk.atomic_add(total, 0, dk.sin(x[i]))
