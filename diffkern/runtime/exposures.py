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
from diffkern.runtime.stream import drain

__all__ = ["Exposures", "Place", "place_of"]

Place = tuple[bytes, int]
"""Which elements an array has within its memory."""


def place_of(held: array) -> Place:
    """Return which elements of its memory an array has."""
    return held._packed, held._data.nbytes


class Exposures:
    """The digests of one tape.

    Attributes
    ----------
    seen : dict
        For each block of which something is known: the arrays that were looked at, and their digests.
    """

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[Memory, dict[Place, tuple[array, bytes]]] = {}

    def inspect(self, held: array) -> set[Place]:
        """Return what overlaps an array and changed since it was last looked at; from now on that is as it is.

        While a sequence is recorded nothing is looked at: its replays are meant for other contents.
        """
        if current.recorder is not None or held._memory not in self.seen:
            return set()
        drain()
        seen = self.seen[held._memory]
        return self._verify(held._memory, [place for place, _ in _within(seen, *held._range)])

    def note(self, held: array) -> None:
        """Take the present contents of an array as the tape's, if others may write to it and nothing is known yet."""
        if held._memory.is_open and current.recorder is None:
            self.note_now(held)

    def note_now(self, held: array) -> None:
        """Take the present contents of an array as the tape's, if nothing is known about them."""
        seen = self.seen.setdefault(held._memory, {})
        place = place_of(held)
        if place not in seen:
            drain()
            seen[place] = held, digest(held)

    def written(self, held: array) -> None:
        """Take what the tape wrote as its own doing."""
        seen = self.seen.get(held._memory)
        if seen is None:
            return
        drain()
        for place, other in _within(seen, *held._range):
            seen[place] = other, digest(other)

    def verify(self, memory: Memory, places: Iterable[Place]) -> set[Place]:
        """Return which of some places of a block changed."""
        seen = self.seen.get(memory, {})
        return self._verify(memory, [place for place in places if place in seen])

    def _verify(self, memory: Memory, places: Iterable[Place]) -> set[Place]:
        changed: set[Place] = set()
        seen, stays_open = self.seen[memory], memory.is_open
        for place in places:
            held, before = seen[place]
            now = digest(held)
            if now != before:
                changed.add(place)
            if stays_open:
                seen[place] = held, now
            else:
                del seen[place]  # it can no longer change
        if not seen:
            del self.seen[memory]
        return changed


def _within(seen: dict[Place, tuple[array, bytes]], low: int, high: int) -> list[tuple[Place, array]]:
    items = [(place, held) for place, (held, _) in list(seen.items())]
    return [(place, held) for place, held in items if held._range[0] < high and low < held._range[1]]
