"""Digests of memory that others may write to, by which a tape detects changes behind its back.

They tell whether the contents of an array are what the tape left there. Nothing is computed for memory that was never
given away; memory that was lent and came back is looked at once more, then forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import can_look, will_replay
from diffkern.runtime.memory.stream import drain

__all__ = ["Exposures", "Place", "place_of"]

Place = tuple[bytes, int]
"""The position of an array within its memory."""


def place_of(held: array) -> Place:
    """Return a key of the elements that an array has within its memory."""
    return held._packed, held._data.nbytes


class Exposures:
    """The digests of one tape.

    Attributes
    ----------
    seen : dict
        For each block with digests: the arrays that were looked at, and their digests.
    """

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[Memory, dict[Place, tuple[array, bytes]]] = {}

    def inspect(self, held: array) -> set[Place]:
        """Return the places overlapping an array that changed since they were last looked at, and store their new
        digests.

        While a sequence is recorded nothing is looked at: its replays are meant for other contents.
        """
        if held._memory not in self.seen or will_replay():
            return set()
        # Queued launches may still write to the memory; their results are the tape's own doing.
        drain()
        seen = self.seen[held._memory]
        return self._verify(held._memory, [place for place, _ in _within(seen, *held._range)])

    def note(self, held: array) -> None:
        """Store the digest of an array if others may write to its memory and none is stored yet."""
        if held._memory.is_open:
            self.note_now(held)

    def note_now(self, held: array) -> None:
        """Store the digest of an array if none is stored yet, and it can be looked at."""
        seen = self.seen.setdefault(held._memory, {})
        place = place_of(held)
        if place not in seen and can_look(held._memory.device):
            drain()
            seen[place] = held, digest(held)

    def written(self, held: array) -> None:
        """Store new digests after a write by the tape itself."""
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
                # An open block may change again: compare with the present contents from now on, so that a change is
                # reported once.
                seen[place] = held, now
            else:
                del seen[place]  # it can no longer change
        if not seen:
            del self.seen[memory]
        return changed


def _within(seen: dict[Place, tuple[array, bytes]], low: int, high: int) -> list[tuple[Place, array]]:
    items = [(place, held) for place, (held, _) in list(seen.items())]
    return [(place, held) for place, held in items if held._range[0] < high and low < held._range[1]]
