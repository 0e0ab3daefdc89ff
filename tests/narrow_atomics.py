"""A kernel with all atomic updates, for elements of any type."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffkern as dk

ELEMENTS = (dk.int8, dk.uint16, dk.float16, dk.bfloat16, dk.float32, dk.float64)
"""Those of less than 32 bits, and those whose extrema numba-cuda does not make as they should be."""

SIZE = 7


def update(x: Any, sums: Any, differences: Any, least: Any, most: Any, last: Any, seen: Any) -> None:
    """Update elements of which two threads share one each."""
    i = dk.tid()
    dk.atomic_add(sums, i // 2, x[i])
    dk.atomic_sub(differences, i // 2, x[i])
    dk.atomic_min(least, i // 2, x[i])
    seen[i] = dk.atomic_max(most, i, x[i])
    dk.atomic_exch(last, i, x[i])


def types(element: Any) -> tuple[Any, ...]:
    """The types of its arguments."""
    return (dk.array(dtype=element),) * 7


def arguments(element: Any) -> list[Any]:
    """Arguments, bfloat16 as its bits."""
    random = np.random.default_rng(5)
    integer = str(element).find("int") >= 0
    numbers = [random.integers(1, 9, SIZE).astype(np.float64) / (1 if integer else 4) for _ in range(7)]
    if element is dk.bfloat16:
        return [(np.asarray(a, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16) for a in numbers]
    name = str(getattr(element, "name", element))
    return [a.astype(name) for a in numbers]
