"""Which steps have to come before which, by the bytes that they read and write.

In: for each step the arrays it reads and those it writes. Out: for each step the earlier ones that it has to wait for:
those that wrote what it reads or writes, and those that read what it writes. What follows from other waits is left out,
so the result is what the edges of a graph should be; or all of them are named, for who asks about one pair of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from diffkern.runtime.memory import overlaps

if TYPE_CHECKING:
    from diffkern.runtime.array import array

__all__ = ["Access", "waits"]

# Beyond so many steps what follows from other waits may be named as well.
_MOST_REDUCED = 4096


class Access(NamedTuple):
    """What one step does to one array."""

    step: int
    low: int
    high: int
    of: array

    def meets(self, other: Access) -> bool:
        """Whether both touch one byte."""
        if self.high <= other.low or other.high <= self.low:
            return False
        if self.is_whole and other.is_whole:
            return True
        return overlaps(self.of._data, other.of._data)

    @property
    def is_whole(self) -> bool:
        """Whether it touches every byte between the first and the last."""
        return self.of._type.layout == "C"


class _Accesses:
    """Accesses that later ones may still have to wait for, by where they begin."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._held: list[Access] = []
        self._longest = 0

    def add(self, access: Access) -> None:
        place = bisect_left(self._starts, access.low)
        self._starts.insert(place, access.low)
        self._held.insert(place, access)
        self._longest = max(self._longest, access.high - access.low)

    def meeting(self, access: Access) -> list[Access]:
        """Return those that touch a byte of an access."""
        first = bisect_left(self._starts, access.low - self._longest)
        last = bisect_left(self._starts, access.high)
        return [held for held in self._held[first:last] if held.meets(access)]

    def forget_within(self, access: Access) -> None:
        """Drop those that lie in the bytes of an access, which stands for them from now on."""
        first, last = bisect_left(self._starts, access.low), bisect_left(self._starts, access.high)
        left = [held for held in self._held[first:last] if held.high > access.high]
        if len(left) < last - first:
            self._held[first:last] = left
            self._starts[first:last] = [held.low for held in left]


def waits(steps: Sequence[tuple[Iterable[array], Iterable[array]]], every: bool = False) -> list[set[int]]:
    """Return for each step the earlier ones that it has to wait for, less those that one of these waits for.

    Parameters
    ----------
    steps : sequence of (arrays, arrays)
        What each step reads and writes.
    every : bool, optional
        Whether all are wanted that touch a byte which one of the two writes, also those that follow from others.
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


def _accesses(step: int, arrays: Iterable[array]) -> list[Access]:
    return [Access(step, *a._range, a) for a in arrays if a._range[0] < a._range[1]]


def _reduced(found: list[set[int]]) -> list[set[int]]:
    """Leave out what follows from other waits."""
    before: list[int] = []  # for each step, as bits, all that come before it
    for needed in found:
        behind = 0
        for other in sorted(needed, reverse=True):
            if behind >> other & 1:
                needed.discard(other)
            else:
                behind |= before[other] | 1 << other
        before.append(behind)
    return found
