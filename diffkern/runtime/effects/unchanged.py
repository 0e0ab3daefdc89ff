"""Arrays that must stay as they are while a function of the user's runs, or until a later one does."""

from __future__ import annotations

from collections.abc import Iterable

from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.arrays.external_writes import Exposures
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

    __slots__ = ("__weakref__", "_arrays", "_exposures", "_versions")

    def __init__(self, arrays: Iterable[array]) -> None:
        self._arrays = [*arrays]
        self._versions = {held._memory: held._memory.now for held in self._arrays}
        self._exposures = Exposures()
        for held in self._arrays:
            self._exposures.note(held)
        watch(self)

    def before_exposure(self, memory: Memory) -> None:
        """Store digests of arrays in memory that is about to be given away."""
        if self._versions.get(memory) == memory.now:
            for held in self._arrays:
                if held._memory is memory:
                    self._exposures.note_now(held)

    def changed(self) -> array | None:
        """Return an array that was written to, None if all are as they were."""
        for held in self._arrays:
            if held._memory.now != self._versions[held._memory] or self._exposures.inspect(held):
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
