"""Arguments and cotangents of a launch that share memory: which are one, and which would make its adjoint wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from diffkern.errors import LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import overlaps

__all__ = ["check_aliases", "near_pairs"]

_Held: TypeAlias = "tuple[int, bool, array]"
"""A leaf of a launch, whether it is its cotangent that is meant, and the array."""


def check_aliases(kernel: KernelProtocol, launch: PackedLaunch, cotangents: Mapping[int, array]) -> bool:
    """Return whether cotangents share memory with each other.

    Raises
    ------
    LaunchError
        If a written array or a cotangent shares memory with another argument, so that the adjoint would be wrong.
    """
    # Without structs the ranges of bytes decide the usual case, that all are disjoint, in one sorted pass. Only if two
    # ranges meet are the strides looked at, which tell interleaved views from views that overlap.
    if len(launch.arrays) == len(launch.keys):
        ranges = [held._range for held in launch.arrays if held is not None]
        ranges += [ct._range for ct in cotangents.values()]
    else:
        ranges = _whole_ranges(launch, cotangents)
    ranges.sort()
    end = 0
    for low, high in ranges:
        if low < end and high > low:
            return _explain_overlaps(kernel, launch, cotangents)
        if high > end:
            end = high
    return False


def _whole_ranges(launch: PackedLaunch, cotangents: Mapping[int, array]) -> list[tuple[int, int]]:
    """Return the byte ranges of arguments and cotangents, with one range for a whole array of structs.

    The fields of an array of structs are interleaved, so that their ranges always overlap.
    """
    found: dict[tuple[int, bool, int], tuple[int, int]] = {}
    for index, leaf in enumerate(launch.leaves):
        for a, is_cotangent in ((launch.arrays[index], False), (cotangents.get(index), True)):
            if a is not None:
                found[leaf.argument, is_cotangent, id(a._whole)] = a._whole._range
    return list(found.values())


def _explain_overlaps(kernel: KernelProtocol, launch: PackedLaunch, cotangents: Mapping[int, array]) -> bool:
    names = [leaf.name for leaf in launch.leaves]
    writes = launch.executable.writes
    # Of a struct come all fields, also those that the kernel does not touch.
    used = {i for i, leaf in enumerate(launch.leaves) if not leaf.path} | {*writes, *launch.executable.reads}
    held = [(i, False, a) for i, a in enumerate(launch.arrays) if a is not None and i in used]
    every = held + [(i, True, ct) for i, ct in cotangents.items() if i in used]
    shared, merged = False, launch.merged
    # Two cotangents may share memory if neither array is written: both are only added to, and the sum of contributions
    # is the gradient of what they share.
    for (i, i_is_ct, a), (j, j_is_ct, b) in near_pairs(every):
        if not (i_is_ct or j_is_ct) and merged.get(i, i) == merged.get(j, j):
            continue  # one array, which the adjoint takes as such
        if a._whole is b._whole is not a and a._packed != b._packed:
            continue  # two fields of one array of structs
        if not overlaps(a._data, b._data):
            continue
        written = i in writes or j in writes
        if i_is_ct and j_is_ct and not written:
            shared = True
        elif i_is_ct or j_is_ct or written:
            first = f"the gradient of {names[i]!r}" if i_is_ct else repr(names[i])
            second = f"the gradient of {names[j]!r}" if j_is_ct else repr(names[j])
            raise LaunchError(
                f"kernel {kernel.name!r}: {first} and {second} share memory, and one of them is written; such a "
                "launch cannot be differentiated",
                remedy="pass arrays that do not overlap, for example dk.clone() of one of them",
            )
    return shared


def near_pairs(every: list[_Held]) -> Iterator[tuple[_Held, _Held]]:
    """Yield the pairs of arrays whose ranges of addresses overlap, each pair in the order of the parameters."""
    # A sweep over the ranges by their lower end. `still` holds those that have not ended, so that only candidates are
    # compared instead of all pairs.
    ordered = sorted(enumerate(every), key=lambda entry: entry[1][2]._range)
    still: list[tuple[int, _Held]] = []
    for position, held in ordered:
        low, _ = held[2]._range
        still = [entry for entry in still if entry[1][2]._range[1] > low]
        for other, earlier in still:
            yield (earlier, held) if other < position else (held, earlier)
        still.append((position, held))
