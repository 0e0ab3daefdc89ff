"""Snapshots of a roll-out: contents that overwrites have destroyed since a state was kept, in memory or in files.

A state is a copy, taken at the first change, of every array that has changed since it was kept and before the next
state was; so states share what does not change between them.
"""

from __future__ import annotations

import random
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Assign, Copy, submit
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.stream import drain

__all__ = ["Randomness", "Spare", "State"]

Key = tuple[Memory, bytes]


class Randomness:
    """The states of Python's and of NumPy's global generators of random numbers."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - it is the user's

    @property
    def is_present(self) -> bool:
        """True if nobody has drawn a number since."""
        name, keys, *rest = np.random.get_state()  # noqa: NPY002
        known, before, *others = self._numpy
        same = name == known and rest == others and bool(np.array_equal(keys, before))
        return same and random.getstate() == self._python

    def restore(self) -> None:
        """Make both generators continue from here."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002


class Spare:
    """Arrays of discarded states, reused for the copies of later ones: new memory would have to be mapped first."""

    def __init__(self) -> None:
        self._free: dict[tuple[Any, ...], list[array]] = {}

    def copied(self, held: array) -> array:
        """Return a copy of an array."""
        free = self._free.get(_like(held))
        if not free:
            return copied(held)
        copy = free.pop()
        submit(Copy(copy, held))
        return copy

    def give(self, copies: Iterable[array]) -> None:
        """Take back copies that nobody needs."""
        for copy in copies:
            self._free.setdefault(_like(copy), []).append(copy)

    def clear(self) -> None:
        """Release all of them."""
        self._free.clear()


def _like(held: array) -> tuple[Any, ...]:
    """Return the key that two arrays share if one can hold a copy of the other."""
    return held.shape, held._element, held._memory.device


class State:
    """The contents of arrays before a step.

    Parameters
    ----------
    step : int
        The number of the step.
    spare : Spare
        The provider of arrays for the copies.
    folder : path, optional
        The directory of files; without it the copies lie in memory.
    randomness : Randomness, optional
        The states of the generators, which are restored too.
    """

    def __init__(
        self, step: int, spare: Spare, folder: Path | None = None, randomness: Randomness | None = None
    ) -> None:
        self.step = step
        self.randomness = randomness
        self._spare = spare
        self._folder = folder
        self._kept: dict[Key, tuple[array, array | _Filed]] = {}

    def __contains__(self, held: array) -> bool:
        return (held._memory, held._packed) in self._kept

    @property
    def arrays(self) -> list[array]:
        """The arrays of which there is a copy."""
        return [held for held, _ in self._kept.values()]

    @property
    def nbytes(self) -> int:
        """The bytes of the copies in memory."""
        return sum(copy._data.nbytes for _, copy in self._kept.values() if isinstance(copy, array))

    def keep(self, held: array) -> None:
        """Copy an array that is about to change, unless it has changed since the state was kept."""
        if held not in self:
            copy = self._spare.copied(held) if self._folder is None else _Filed(held, self._folder)
            self._kept[held._memory, held._packed] = held, copy

    def give_back(self) -> None:
        """Give the arrays of this state, which is not needed any more, to later ones."""
        self._spare.give(copy for _, copy in self._kept.values() if isinstance(copy, array))
        self._kept.clear()

    def restore(self) -> None:
        """Restore the arrays."""
        # Arrays may overlap, so the last change is taken back first.
        for held, copy in reversed(self._kept.values()):
            submit(Copy(held, copy) if isinstance(copy, array) else Assign(held, copy.values()))
        if self.randomness is not None:
            self.randomness.restore()


def copied(held: array) -> array:
    """Return a copy of an array."""
    copy = new(held.shape, held._element, False, held._memory.device)
    submit(Copy(copy, held))
    return copy


class _Filed:
    """A copy in a file, which is removed with it."""

    def __init__(self, held: array, folder: Path) -> None:
        # Pending work may still write to the array that is copied.
        drain()
        data = held._memory.contents(held._data)
        self._dtype, self._shape = data.dtype, data.shape
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it is closed, and gone, with this object
        weakref.finalize(self, self._file.close)
        self._file.write(np.ascontiguousarray(data).tobytes())

    def values(self) -> np.ndarray[Any, Any]:
        """Return the copied elements."""
        self._file.seek(0)
        return np.frombuffer(self._file.read(), self._dtype).reshape(self._shape)
