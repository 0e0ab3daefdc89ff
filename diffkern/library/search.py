"""Searching sorted arrays."""

from __future__ import annotations

from typing import Any

from diffkern.lang.library import built_in
from diffkern.library.language import array1d, int32

__all__: list[str] = []


@built_in()
def lower_bound(arr: array1d, value: Any) -> int32:
    """The first index of an ascending array whose element is at least the value; the last index if there is none.

    Called as lower_bound(arr, begin, end, value) it searches from begin to end - 1.

    Derivative: none, no floats come back.

    Example: q[i] = dk.lower_bound(p, 2)
    """
    return lower_bound(arr, 0, arr.shape[0], value)


@built_in("lower_bound")
def _lower_bound_between(arr: array1d, begin: int, end: int, value: Any) -> int32:
    # The last index is the result where no element is large enough, so it is never compared.
    low, high = int32(begin), int32(end) - 1
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
