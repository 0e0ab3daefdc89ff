"""A kernel with all atomic updates, for elements of any type."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffkern as dk
import diffkern.warp as wp

ELEMENTS = (dk.int8, dk.uint16, dk.float16, dk.bfloat16, dk.float32, dk.float64)
"""Those of less than 32 bits, and those whose extrema numba-cuda does not make as they should be."""

SIZE = 7


@wp.func
def least_number(a: Any, i: int, value: Any) -> None:
    wp.atomic_min(a, i, value)


def update(x: Any, sums: Any, differences: Any, least: Any, most: Any, last: Any, seen: Any, numbers: Any) -> None:
    """Update elements of which two threads share one each."""
    i = dk.tid()
    dk.atomic_add(sums, i // 2, x[i])
    dk.atomic_sub(differences, i // 2, x[i])
    dk.atomic_min(least, i // 2, x[i])
    old = dk.atomic_max(most, i, x[i])
    seen[i] = old
    dk.atomic_exch(last, i, dk.atomic_cas(seen, i, old, x[i]))
    dk.atomic_cas(most, i, x[i], old)
    least_number(numbers, i // 2, x[i])


def types(element: Any) -> tuple[Any, ...]:
    """The types of its arguments."""
    return (dk.array(dtype=element),) * 8


def arguments(element: Any) -> list[Any]:
    """Arguments, bfloat16 as its bits."""
    random = np.random.default_rng(5)
    integer = str(element).find("int") >= 0
    numbers = [random.integers(1, 9, SIZE).astype(np.float64) / (1 if integer else 4) for _ in range(8)]
    if not integer and element is not dk.bfloat16:  # whose NaN have several patterns
        numbers[0][3], numbers[7][2] = np.nan, np.nan
    if element is dk.bfloat16:
        return [(np.asarray(a, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16) for a in numbers]
    name = str(getattr(element, "name", element))
    return [a.astype(name) for a in numbers]
