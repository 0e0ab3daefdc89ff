"""Detection of arrays of a launch that share memory, where the kernel writes to one of them.

A :class:`LaunchError` names two arrays that share elements without being the same array. The result of such a launch
would depend on the order of its threads, and on how many of them run side by side. The same array for several
parameters is one array with several names, and the rules for threads hold for it as for an array with one.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.errors import LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import overlaps

__all__ = ["check_shared"]


def check_shared(kernel: str, executable: Executable, arrays: Sequence[array | None]) -> None:
    """Raise if arrays share elements, unless they are the same array or the kernel only reads them.

    Raises
    ------
    LaunchError
        If there are two such arrays.
    """
    if not executable.may_share:
        return
    for held in arrays:
        if held is not None and held._alone is None:
            break
    else:
        return  # of arrays that are no views two are the same, or apart
    # Sorted by their lower ends: unless an array begins before an earlier one ends, all are disjoint.
    ranges = [held._range for held in arrays if held is not None]
    ranges.sort()
    end = 0
    for low, high in ranges:
        if low < end and low < high:
            _check_pairs(kernel, executable, arrays)
            return
        if high > end:
            end = high


def _check_pairs(kernel: str, executable: Executable, arrays: Sequence[array | None]) -> None:
    for index in executable.writes:
        held = arrays[index]
        for k in executable.uses:
            other = arrays[k]
            if k != index and held is not None and other is not None and _are_shared(held, other):
                raise _refused(kernel, *(executable.name_of(place) for place in (min(k, index), max(k, index), index)))


def _are_shared(a: array, b: array) -> bool:
    """Return whether two arrays share elements and are not the same array."""
    (low, high), (first, behind) = a._range, b._range
    if low >= behind or first >= high or (a._packed == b._packed and a._element == b._element):
        return False
    if a._whole is b._whole is not a:
        return a._packed == b._packed  # else two fields of one array of structs
    return overlaps(a._data, b._data)


def _refused(kernel: str, first: str, second: str, written: str) -> LaunchError:
    return LaunchError(
        f"kernel {kernel!r}: {first!r} and {second!r} share memory and are not the same array, and the kernel writes "
        f"to {written!r}: the result would depend on the order of the threads",
        remedy="pass arrays that do not overlap, for example dk.clone() of the one that is read, or the same array for "
        "both, and index that in the kernel",
    )
