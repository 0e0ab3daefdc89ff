"""The dependences between steps, by the bytes that they read and write.

A step has to wait for the earlier ones that wrote what it reads or writes, and for those that read what it writes.
Transitive dependences are left out, so that the result is the edges of a graph; or all of them are listed, for callers
that ask about one pair of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from diffkern.runtime.memory.memory import overlaps

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["BytesAccess", "waits"]

# Beyond so many steps what follows from other waits may be named as well.
_MOST_REDUCED = 4096


class BytesAccess(NamedTuple):
    """The bytes of one array that one step reads or writes."""

    step: int
    low: int
    high: int
    of: array

    def meets(self, other: BytesAccess) -> bool:
        """Return whether both touch a common byte."""
        if self.high <= other.low or other.high <= self.low:
            return False
        if self.is_whole and other.is_whole:
            return True
        return overlaps(self.of._data, other.of._data)

    @property
    def is_whole(self) -> bool:
        """True if every byte between the first and the last is touched."""
        return self.of._type.layout == "C"


class _Accesses:
    """Accesses that later ones may still have to wait for, ordered by their first byte."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._held: list[BytesAccess] = []
        self._longest = 0

    def add(self, access: BytesAccess) -> None:
        place = bisect_left(self._starts, access.low)
        self._starts.insert(place, access.low)
        self._held.insert(place, access)
        self._longest = max(self._longest, access.high - access.low)

    def meeting(self, access: BytesAccess) -> list[BytesAccess]:
        """Return the accesses that touch a byte of another one."""
        # An access that begins earlier than the longest one is long cannot reach to here.
        first = bisect_left(self._starts, access.low - self._longest)
        last = bisect_left(self._starts, access.high)
        return [held for held in self._held[first:last] if held.meets(access)]

    def forget_within(self, access: BytesAccess) -> None:
        """Drop the accesses within the bytes of another one, which stands for them from now on."""
        first, last = bisect_left(self._starts, access.low), bisect_left(self._starts, access.high)
        left = [held for held in self._held[first:last] if held.high > access.high]
        if len(left) < last - first:
            self._held[first:last] = left
            self._starts[first:last] = [held.low for held in left]


def waits(steps: Sequence[tuple[Iterable[array], Iterable[array]]], every: bool = False) -> list[set[int]]:
    """Return for each step the earlier ones that it has to wait for, without transitive ones.

    Parameters
    ----------
    steps : sequence of (arrays, arrays)
        The arrays that each step reads and writes.
    every : bool, optional
        Whether to include transitive dependences: all steps that touch a byte which one of the two writes.
    """
    reads, writes = _Accesses(), _Accesses()
    found: list[set[int]] = []
    for step, (read, written) in enumerate(steps):
        reading, writing = _accesses(step, read), _accesses(step, written)
        needed = {held.step for access in (*reading, *writing) for held in writes.meeting(access)}
        needed |= {held.step for access in writing for held in reads.meeting(access)}
        for access in writing:
            if access.is_whole and not every:
                # Whoever would wait for what was there before waits for this step, which waits for that.
                reads.forget_within(access)
                writes.forget_within(access)
        for access in reading:
            reads.add(access)
        for access in writing:
            writes.add(access)
        found.append(needed)
    return found if every or len(found) > _MOST_REDUCED else _reduced(found)


def _accesses(step: int, arrays: Iterable[array]) -> list[BytesAccess]:
    return [BytesAccess(step, *a._range, a) for a in arrays if a._range[0] < a._range[1]]


def _reduced(found: list[set[int]]) -> list[set[int]]:
    """Remove transitive dependences."""
    before: list[int] = []  # for each step, as bits, all that come before it
    # Bit sets as integers: the union over all predecessors is one operation, however many there are.
    for needed in found:
        behind = 0
        # From the latest to the earliest: a predecessor that an already kept one waits for is redundant.
        for other in sorted(needed, reverse=True):
            if behind >> other & 1:
                needed.discard(other)
            else:
                behind |= before[other] | 1 << other
        before.append(behind)
    return found
