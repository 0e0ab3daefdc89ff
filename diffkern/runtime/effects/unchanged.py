"""Arrays that must stay as they are while a function of the user's runs, or until a later one does."""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.memory.memory import Memory, watch
from diffkern.runtime.memory.stream import drain

__all__ = ["DigestOfArray", "Unchanged"]


class Unchanged:
    """Tells whether arrays are written to while a function runs, by diffkern or through NumPy.

    Parameters
    ----------
    arrays : iterable of array
        The arrays.
    """

    __slots__ = ("__weakref__", "_arrays", "_digests", "_versions")

    def __init__(self, arrays: Iterable[array]) -> None:
        self._arrays = {id(held): held for held in arrays}
        self._versions = {held._memory: held._memory.now for held in self._arrays.values()}
        self._digests: dict[int, bytes] = {}
        for memory in self._versions:
            if memory.is_open:
                self.before_exposure(memory)
        watch(self)

    def before_exposure(self, memory: Memory) -> None:
        """Store digests of arrays in memory that is about to be given away."""
        if self._versions.get(memory) == memory.now:
            for key, held in self._arrays.items():
                if held._memory is memory and key not in self._digests:
                    self._digests[key] = digest(held)

    def changed(self) -> array | None:
        """Return an array that was written to, None if all are as they were."""
        for key, held in self._arrays.items():
            if held._memory.now != self._versions[held._memory]:
                return held
            if key in self._digests and digest(held) != self._digests[key]:
                return held
        return None


class DigestOfArray:
    """The digest of what an array held at one time.

    Parameters
    ----------
    held : array
        The array.
    """

    __slots__ = ("_digest", "held")

    def __init__(self, held: array) -> None:
        drain()
        self.held, self._digest = held, digest(held)

    def is_same(self) -> bool:
        """Return whether the array holds the same."""
        drain()
        return digest(self.held) == self._digest
