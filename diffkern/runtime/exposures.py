"""What a tape relies on in memory that others may write to: digests, compared whenever it matters.

In: arrays as a tape uses them. Out: whether their contents are what the tape left there. Nothing is computed for
memory that was never given away; memory that was lent and came back is looked at once more, then forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.runtime.array import array
from diffkern.runtime.digest import digest
from diffkern.runtime.memory import Memory
from diffkern.runtime.state import current
from diffkern.runtime.stream import settle

__all__ = ["Exposures", "Place", "place_of"]

Place = tuple[bytes, int]
"""Which elements an array has within its memory."""


def place_of(held: array) -> Place:
    """Return which elements of its memory an array has."""
    return held._packed, held._data.nbytes


def _is_open(memory: Memory) -> bool:
    """Whether others may write to it unseen; of other libraries' memory on a GPU nothing is known."""
    return memory.is_exposed and not memory.is_counted and (memory.device is None or not memory.foreign)


class Exposures:
    """The digests of one tape."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[Memory, dict[Place, tuple[array, bytes]]] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def concern(self, memory: Memory) -> bool:
        """Whether the contents have to be looked at when the tape uses this memory."""
        return (memory in self._seen or _is_open(memory)) and current.recorder is None

    def inspect(self, held: array) -> set[Place]:
        """Return what overlaps an array and changed since it was last looked at; from now on that is as it is."""
        settle()
        memory = held._memory
        changed = self._verify(memory, *held._range)
        if _is_open(memory):
            self.note(held)
        return changed

    def note(self, held: array) -> None:
        """Take the present contents of an array as the tape's, if nothing is known about them."""
        seen = self._seen.setdefault(held._memory, {})
        place = place_of(held)
        if place not in seen:
            seen[place] = held, digest(held)

    def written(self, held: array) -> None:
        """Take what the tape wrote as its own doing."""
        seen = self._seen.get(held._memory)
        if seen is None:
            return
        settle()
        for place, (other, _) in _within(seen, *held._range):
            seen[place] = other, digest(other)

    def verify(self) -> Iterable[tuple[Memory, set[Place]]]:
        """Return what changed, and forget the memory that nobody else has any more."""
        return [(memory, changed) for memory in list(self._seen) if (changed := self._verify(memory))]

    def _verify(self, memory: Memory, low: int = 0, high: int = 1 << 64) -> set[Place]:
        changed: set[Place] = set()
        seen = self._seen.get(memory)
        if seen is None:
            return changed
        stays_open = _is_open(memory)
        for place, (held, before) in _within(seen, low, high):
            now = digest(held)
            if now != before:
                changed.add(place)
            if stays_open:
                seen[place] = held, now
            else:
                del seen[place]
        if not seen:
            del self._seen[memory]
        return changed


def _within(seen: dict[Place, tuple[array, bytes]], low: int, high: int) -> list[tuple[Place, tuple[array, bytes]]]:
    return [item for item in seen.items() if item[1][0]._range[0] < high and low < item[1][0]._range[1]]
