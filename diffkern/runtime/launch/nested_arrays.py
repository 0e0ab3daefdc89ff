"""Launches whose arguments hold arrays in elements: the arrays that they read and write besides their arguments.

From the arrays of a launch follow the arrays to which their elements point; errors where one that is written may be
another one, since a program assumes that elements of different indices are distinct; and arrays of descriptors like
those of a launch, but of copies or cotangents of these arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array, new, wrap
from diffkern.runtime.arrays.operation import Copy, submit

if TYPE_CHECKING:
    from diffkern.runtime.launch.program import Executable

__all__ = ["Table", "check_constant", "check_disjoint", "nested_arrays", "pointed_by"]


class Table:
    """The arrays to which the elements of an array pointed at one time.

    Parameters
    ----------
    holder : array
        The array of descriptors.
    """

    def __init__(self, holder: array) -> None:
        self._holder = holder
        self._words = np.ascontiguousarray(holder._elements()).view(np.uint64)
        self._width = self._words.shape[-1]
        known = holder._memory.pointed or {}
        # The first word of a descriptor is its address, 0 for an element without an array.
        rows = [row.tobytes() for row in self._words.reshape(-1, self._width) if row[0]]
        self.arrays = [known[row] for row in rows]

    @property
    def distinct(self) -> dict[bytes, array]:
        """The arrays, each once, by their descriptors."""
        return {held._packed: held for held in self.arrays}

    def mapped(self, function: Callable[[array], array]) -> array:
        """Return an array of descriptors of what a function returns for each array; the caller keeps these alive."""
        words = self._words.copy()
        made = {key: np.frombuffer(function(held)._packed, np.uint64) for key, held in self.distinct.items()}
        for row in words.reshape(-1, self._width):
            if row[0]:
                row[:] = made[row.tobytes()]
        holder = self._holder
        out = new(holder.shape, holder._element, False, holder._memory.device)
        submit(Copy(out, wrap(words, holder._element)))  # not an assignment, which a tape would record
        return out


def pointed_by(executable: Executable, arrays: Iterable[array | None]) -> list[array]:
    """Return the arrays that a program may read because elements of its arguments point to them."""
    if not executable.by_id:
        return []
    # An upper bound: all arrays that elements of the block are known to have pointed to, whatever they hold now.
    holders = dict.fromkeys(a._memory for a in arrays if a is not None and a._memory.pointed is not None)
    return [held for memory in holders for held in (memory.pointed or {}).values()]


def nested_arrays(executable: Executable, arrays: Sequence[array | None], among: Collection[int]) -> Iterator[array]:
    """Yield the arrays that elements of some parameters point to, each once for each parameter."""
    if executable.by_id:
        for index in executable.manifest.pointing:
            holder = arrays[index]
            if index in among and holder is not None:
                yield from Table(holder).distinct.values()


def check_disjoint(kernel: str, executable: Executable, arrays: Sequence[array | None]) -> None:
    """Raise if a program writes to memory that it may also reach another way."""
    pointing = executable.manifest.pointing
    for index in executable.writes:
        written = arrays[index]
        if written is None:
            continue
        if index in pointing:
            _check_elements(kernel, executable, arrays, index, Table(written))
            continue
        for held in pointed_by(executable, arrays):
            if _overlap(written, held):
                raise LaunchError(
                    f"kernel {kernel!r} writes to {executable.name_of(index)!r}, which is also an array in an element "
                    "of an array that is passed",
                    remedy="write to an array of its own, or pass an array of structs that does not hold this one",
                )


def _check_elements(
    kernel: str, executable: Executable, arrays: Sequence[array | None], index: int, table: Table
) -> None:
    """Check the written arrays in elements: no two overlap, and none overlaps another array of the launch."""
    own = sorted((held for held in table.arrays if held.size), key=lambda held: held._range)
    name = f"elements of {executable.name_of(index)!r}"
    # Sorted by address, so that arrays which overlap are neighbours.
    for first, second in itertools.pairwise(own):
        if _overlap(first, second):
            raise LaunchError(
                f"kernel {kernel!r} writes to the arrays in {name}, and two elements hold arrays that share memory",
                remedy="give each element an array of its own, for example dk.clone() of it",
            )
    pointing = executable.manifest.pointing
    others = [a for k, a in enumerate(arrays) if a is not None and k not in pointing]
    others += nested_arrays(executable, arrays, [k for k in pointing if k != index and k in executable.uses])
    for held in own:
        if not held._writable:
            raise LaunchError(
                f"kernel {kernel!r} writes to the arrays in {name}, and one of them is read-only",
                remedy="let the element hold a copy",
            )
        for other in others:
            if _overlap(held, other):
                raise LaunchError(
                    f"kernel {kernel!r} writes to the arrays in {name}, and one of them shares memory with another "
                    "array of the launch",
                    remedy="pass arrays that do not overlap, for example dk.clone() of one of them",
                )


def _overlap(a: array, b: array) -> bool:
    (low, high), (start, end) = a._range, b._range
    return a._memory.device is b._memory.device and low < end and start < high


def check_constant(
    kernel: str, executable: Executable, arrays: Sequence[array | None], varies: Callable[[array], str | None]
) -> None:
    """Raise if a launch accesses an array through an element of which `varies` says why its derivative would be lost.

    For example, ``varies`` returns ``"has a tangent"``, or None for a constant.
    """
    for held in pointed_by(executable, arrays):
        if (why := varies(held)) is not None:
            raise LaunchError(
                f"kernel {kernel!r} uses {described(held)} through an element of an array, and it {why}: "
                "no gradient goes that way here",
                remedy="pass that array as a parameter of its own, launch on a dk.Tape, or with record_tape=False",
            )
