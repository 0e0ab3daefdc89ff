"""Warp-level functions of CUDA, and atomic updates of bits, for translated C++ snippets.

The lane that a thread reads from is computed as CUDA defines it, within a segment of the warp that has ``width`` lanes,
a power of 2 of at most 32.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern import warp as wp
from diffkern.lang.intrinsics import INTERNAL, INTRINSICS

__all__ = [
    "active",
    "atomic_max_of_bits",
    "atomic_min_of_bits",
    "ballot",
    "block_wait",
    "fence",
    "shared_array",
    "shuffle",
    "shuffle_down",
    "shuffle_up",
    "shuffle_xor",
    "thread",
    "wait",
]

# Internal built-ins have no public name: only translated snippets may call them, as they suit no other target.
active: Final = INTERNAL["warp_active"]
block_wait: Final = INTERNAL["block_barrier"]
ballot: Final = INTERNAL["warp_ballot"]
fence: Final = INTERNAL["warp_fence"]
shared_array: Final = INTRINSICS["shared_array"]
thread: Final = INTERNAL["warp_thread"]
wait: Final = INTERNAL["warp_barrier"]
_exchange: Final = INTERNAL["warp_shuffle"]


@wp.func
def shuffle(mask: wp.uint32, value: Any, lane: wp.int32, width: wp.int32) -> Any:
    """Return what a lane of the part of the warp has as the value."""
    own = thread() & 31
    return _exchange(mask, value, (own & ~(width - 1)) | (lane & (width - 1)))


@wp.func
def shuffle_up(mask: wp.uint32, value: Any, distance: wp.int32, width: wp.int32) -> Any:
    """Return what the lane so far before has as the value; the own one where the part of the warp begins."""
    own = thread() & 31
    other = own - (distance & 31)
    return _exchange(mask, value, wp.where(other >= (own & ~(width - 1)), other, own))


@wp.func
def shuffle_down(mask: wp.uint32, value: Any, distance: wp.int32, width: wp.int32) -> Any:
    """Return what the lane so far behind has as the value; the own one where the part of the warp ends."""
    own = thread() & 31
    other = own + (distance & 31)
    return _exchange(mask, value, wp.where(other <= (own | (width - 1)), other, own))


@wp.func
def shuffle_xor(mask: wp.uint32, value: Any, bits: wp.int32, width: wp.int32) -> Any:
    """Return what the lane has whose number differs in these bits; the own value if it is in a later part."""
    own = thread() & 31
    other = own ^ (bits & 31)
    return _exchange(mask, value, wp.where(other <= (own | (width - 1)), other, own))


@wp.func
def atomic_max_of_bits(a: wp.array[wp.float32], i: wp.int32, bits: wp.int32) -> None:
    """Make an element the larger one of it and a number, both compared by their bits as integers."""
    given = bits
    old = wp.cast(a[i], wp.int32)
    while old < given:
        old, given = _tried(a, i, old, given)


@wp.func
def atomic_min_of_bits(a: wp.array[wp.float32], i: wp.int32, bits: wp.int32) -> None:
    """Make an element the smaller one of it and a number, both compared by their bits as integers."""
    given = bits
    old = wp.cast(a[i], wp.int32)
    while old > given:
        old, given = _tried(a, i, old, given)


@wp.func
def _tried(a: wp.array[wp.float32], i: wp.int32, old: wp.int32, given: wp.int32) -> Any:
    """Replace an element if it has these bits; return what the memory holds then, and what is still to be put there."""
    if wp.isnan(wp.cast(old, wp.float32)):  # which equals nothing
        found = wp.cast(wp.atomic_exch(a, i, wp.cast(given, wp.float32)), wp.int32)
        return given, found
    found = wp.cast(wp.atomic_cas(a, i, wp.cast(old, wp.float32), wp.cast(given, wp.float32)), wp.int32)
    return wp.where(found == old, given, found), given


# Errors and line information point at the snippet's line that calls them, not at this file.
for _function in (shuffle, shuffle_up, shuffle_down, shuffle_xor, atomic_max_of_bits, atomic_min_of_bits, _tried):
    _function.at_caller = True  # type: ignore[union-attr]
