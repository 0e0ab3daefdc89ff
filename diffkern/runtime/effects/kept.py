"""Copies that a tape keeps of parts of arrays, and the arrays in which an adjoint reads them.

:class:`Parts` holds a copy of each of some boxes of an array's elements. An adjoint indexes an array of the launch's
shape, so that before it runs the copies are put into such an array, whose other elements are undefined: it does not
read them. These arrays are made once for a reverse sweep, not for every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from diffkern.process.tracebacks import place_of, warn
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, Operation
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import Extent, Region, part_of, size_of
from diffkern.runtime.memory.memory import Memory

__all__ = ["Contents", "KeptCopies", "Parts", "Rooms", "StepRooms", "copies_of", "parts_of"]

_MANY, _FEW_BYTES = 16, 1 << 20
"""Copies of an array that a sequence keeps as a whole, so that all numbers can be set, are many from so many on."""
_MUCH_BYTES = 1 << 28
"""Bytes from which they are many as well, once there are two."""
_EXCESS_TIMES, _EXCESS_BYTES = 32, 1 << 24
"""The copies of an array that are worth a warning, as multiples of its size and in bytes, beyond what launches
overwrite."""


class Parts:
    """Copies of boxes of an array.

    Parameters
    ----------
    held : array
        The array.
    copies : sequence of (box, array)
        The copies.
    """

    __slots__ = ("copies", "held")

    def __init__(self, held: array, copies: Sequence[tuple[Extent, array]]) -> None:
        self.held, self.copies = held, copies

    def put(self, room: array) -> list[Operation]:
        """Return the operations that copy the parts to their places in an array like the one they are from."""
        return [Copy(part_of(room, extent), copy) for extent, copy in self.copies]


Contents: TypeAlias = "array | Parts"
"""The contents of an array for a step: an array of the same shape, or copies of the parts that it reads."""


class Rooms:
    """The arrays of one reverse sweep that the steps use one after the other, such as those for copies of parts."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], list[array]] = {}

    def of_step(self) -> StepRooms:
        """Return the object that hands them out to one step."""
        return StepRooms(self._made)


class StepRooms:
    """The arrays that one step uses, each for one purpose."""

    def __init__(self, made: dict[tuple[Any, ...], list[array]]) -> None:
        self._made = made
        self._taken: dict[tuple[Any, ...], int] = {}

    def room(self, held: array) -> array:
        """Return an array like another one, with undefined contents."""
        # A step takes the k-th room of a kind. The next step starts from the first again, when nobody needs its
        # contents.
        like = held.shape, held._element, held._memory.device
        rooms, k = self._made.setdefault(like, []), self._taken.get(like, 0)
        self._taken[like] = k + 1
        if k == len(rooms):
            rooms.append(new(held.shape, held._element, True, held._memory.device))
        return rooms[k]

    def filled(self, kept: Mapping[int, Contents]) -> tuple[dict[int, array], list[Operation]]:
        """Return the array to pass for each parameter with kept contents, and the operations that fill these arrays."""
        found: dict[int, array] = {}
        work: list[Operation] = []
        for index, one in kept.items():
            if isinstance(one, Parts):
                found[index] = self.room(one.held)
                work += one.put(found[index])
            else:
                found[index] = one
        return found, work


def parts_of(held: array, region: Region) -> list[array]:
    """Return the boxes of an array as views; the array itself if the region is all of it."""
    return [held] if region is None else [part_of(held, extent) for extent in region]


def copies_of(goal: array, source: array, region: Region) -> list[Operation]:
    """Return the copies of a part of an array to the same part of another one."""
    return [Copy(*pair) for pair in zip(parts_of(goal, region), parts_of(source, region), strict=True)]


class KeptCopies:
    """The copies that one tape keeps; steps that need the same contents share one.

    Attributes
    ----------
    nbytes
        Their bytes.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._excess: dict[Memory, int] = {}
        self._has_warned = False
        self._of: dict[Memory, int] = {}
        self._made: dict[tuple[Memory, int, bytes, Extent | None], array] = {}

    def are_many(self, held: array) -> bool:
        """Return whether copies of the memory of an array have come to many times its size, or need much memory."""
        size = held._memory.nbytes
        much = max(2 * size, _MUCH_BYTES)
        return self.of(held._memory) >= max(min(_MANY * size, much), _FEW_BYTES)

    def of(self, memory: Memory) -> int:
        """Return the bytes of the copies of a block."""
        return self._of.get(memory, 0)

    def copy(
        self, held: array, region: Region, act: Callable[[Operation], object], launch: PackedLaunch | None = None
    ) -> Contents:
        """Return a copy of a part of the present contents of an array.

        Parameters
        ----------
        held : array
            The array.
        region : Region
            The part.
        act : callable
            Performs the operations for it.
        launch : PackedLaunch, optional
            The launch that overwrites some of that part.
        """
        before = self.nbytes
        # Boxes may overlap. Once they add up to the whole array, one copy of it is no larger and needs fewer
        # operations.
        if region is None or size_of(region) >= held.size:
            made: Contents = self.whole(held, act)
        else:
            made = Parts(held, [(extent, self._one(held, extent, act)) for extent in region])
        if launch is not None and self.nbytes > before:
            self._weigh(held._memory, self.nbytes - before, launch)
        return made

    def _weigh(self, memory: Memory, copied: int, launch: PackedLaunch) -> None:
        """Warn once if copies have come to many times what the launches overwrite and the array holds."""
        written = bytes_written(launch, memory)
        if self._has_warned or written is None:
            return
        # Copying what a launch overwrites is unavoidable; only what is copied beyond that is a sign of trouble.
        excess = self._excess[memory] = self._excess.get(memory, 0) + max(copied - written, 0)
        if excess < max(_EXCESS_TIMES * memory.nbytes, _EXCESS_BYTES):
            return
        self._has_warned = True
        executable, kernel = launch.executable, launch.kernel
        at = (k for k in executable.writes if (a := launch.arrays[k]) is not None and a._memory is memory)
        loc = place_of(kernel.func)
        where = "" if loc is None else f" ({loc.file}:{loc.line})"
        warn(
            f"the tape keeps {self.of(memory) >> 20} MB so far of copies of {executable.name_of(next(at))!r}, an array "
            f"of {memory.nbytes / 2**20:.3g} MB: launches of kernel {kernel.name!r}{where} write to parts of it, and "
            "which parts gradients need is not known before they run; pass rows as arguments of their own (x[n]), or "
            "use dk.checkpoint"
        )

    def whole(self, held: array, act: Callable[[Operation], object]) -> array:
        """Return a copy of all of an array."""
        return self._one(held, None, act)

    def _one(self, held: array, extent: Extent | None, act: Callable[[Operation], object]) -> array:
        # The version is part of the key: later contents of the same elements are another copy.
        key = (held._memory, held._memory.now, held._packed, extent)
        copy = self._made.get(key)
        if copy is None:
            source = held if extent is None else part_of(held, extent)
            copy = self._made[key] = new(source.shape, held._element, False, held._memory.device)
            act(Copy(copy, source))
            self.nbytes += copy._data.nbytes
            self._of[held._memory] = self.of(held._memory) + copy._data.nbytes
        return copy


def bytes_written(launch: PackedLaunch, memory: Memory) -> int | None:
    """Return an upper bound of the bytes of a block that a launch overwrites; None if it may be all of it."""
    total, executable = 0, launch.executable
    for index in executable.writes:
        held = launch.arrays[index]
        if held is None or held._memory is not memory:
            continue
        # Two bounds, of which the smaller counts: the region of the written elements, and the stores of all threads.
        region, stores = executable.regions.written(launch, index), executable.manifest.params[index].stores
        most = [size_of(region)] if region is not None else []
        most += [] if stores is None else [stores * launch.grid.n]
        if not most:
            return None
        total += min(most) * (held._data.nbytes // max(held.size, 1))
    return total
