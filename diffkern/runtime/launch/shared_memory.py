"""Detection of arrays of a launch that share memory, where the kernel writes to one of them.

A :class:`LaunchError` names two arrays that share elements without being the same array. The result of such a launch
would depend on the order of its threads, and on how many of them run side by side. The same array for several
parameters is one array with several names, and the rules for threads hold for it as for an array with one; in forward
mode it has one tangent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diffkern.contracts.options import JvpLayer, VmapLayer
from diffkern.errors import LaunchError
from diffkern.ir.structs import Leaf
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import overlaps

__all__ = ["check_shared", "check_tangents"]


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


def check_tangents(
    kernel: str,
    layers: Sequence[JvpLayer | VmapLayer],
    leaves: Sequence[Leaf],
    parts: Sequence[bytes],
    merged: Mapping[int, int],
) -> None:
    """Raise if a launch in forward mode gives an array that it writes different tangents under different names.

    Parameters
    ----------
    kernel : str
        The kernel's name.
    layers : sequence of JvpLayer or VmapLayer
        The transformations of the kernel, from the inside out.
    leaves, parts : sequence
        The leaves of the launch, and their bytes.
    merged : mapping of int to int
        Leaves that are given the array of another one, each with that one.

    Raises
    ------
    LaunchError
        Naming both parameters.
    """
    groups: list[list[int]] = [[] for _ in range(leaves[-1].argument + 1)]
    for k, leaf in enumerate(leaves):
        groups[leaf.argument].append(k)
    for layer in reversed(layers):
        if isinstance(layer, VmapLayer):
            continue
        groups, tangents = layer.parted(groups)
        along = {
            k: parts[t]
            for argument, of_one in zip(layer.arguments, tangents, strict=True)
            for k, t in zip(groups[argument], of_one, strict=True)
        }
        for k, of in merged.items():
            if along.get(k) != along.get(of):
                one, other = leaves[of].name, leaves[k].name
                raise LaunchError(
                    f"kernel {kernel!r}: {one!r} and {other!r} are one array, which the kernel writes, and have "
                    "different tangents",
                    remedy="pass one array for the tangents of both",
                )
