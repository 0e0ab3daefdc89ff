"""Adjoints that sum by sorted destinations what they would otherwise add atomically.

For an adjoint launch whose threads race, and each :class:`~diffkern.contracts.manifest.SortedSum` of its program, a
variant of the program stores its contributions one behind the other, and sums them by destinations, which are sorted
once for an array of indices.

An array is sorted when it is met again with the same version, so that one which changes with every step is never
sorted. The version misses what others write through a view. The contents are what is trusted therefore: a digest of
them is taken at each launch, and an order is used as long as it belongs to the contents that were sorted. Orders live
as long as the memory of their array of indices.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffkern.contracts.manifest import Destination
from diffkern.contracts.options import SORTED
from diffkern.process.forks import free_in_child
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.digest import digest
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.device import CPU
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.native import pool
from diffkern.runtime.native.sorting import SortedPlaces, sort_places

__all__ = ["Sorting", "sorting_of"]

_FEWEST = 1 << 16
"""Contributions from which it is worth the calls from Python."""
_MOST_BYTES = 1 << 29
"""Of the contributions to all cotangents of a launch."""
_MOST_READ = 8
"""Times the indices that are read that an array of them may be: all of it is looked at for changes."""
_MOST_DESTINATIONS = 2
"""Times the contributions to a cotangent that its elements may be: all of them are looked at."""
_MOST_ORDERS = 4  # for one array


class Sorting:
    """The sums of one launch whose destinations can be sorted.

    Parameters
    ----------
    launch : PackedLaunch
        The forward launch.
    plain : Executable
        Its adjoint that accumulates plainly.
    arrays : mapping of int to array
        The arrays of indices, by parameter, as the adjoint reads them.
    cotangents : mapping of int to array
        The cotangent of each active parameter.
    """

    __slots__ = ("_arrays", "_cotangents", "_launch", "_plain")

    def __init__(
        self,
        launch: PackedLaunch,
        plain: Executable,
        arrays: Mapping[int, array],
        cotangents: Mapping[int, array],
    ) -> None:
        self._launch, self._plain, self._arrays, self._cotangents = launch, plain, arrays, cotangents

    def run(self, pack: Callable[[Mapping[int, array], Mapping[int, bytes]], bytes]) -> bool:
        """Run the adjoint, if its destinations are sorted or should now be; return whether it has run."""
        n, sums = self._launch.dims[0], self._plain.manifest.sums
        orders = [
            _order_of(found.places, self._arrays, n, self._cotangents[found.cotangent].shape[0]) for found in sums
        ]
        if any(order is None for order in orders):
            return False
        program = self._program()
        if program is None:
            return False
        pairs = [(found.cotangent, order) for found, order in zip(sums, orders, strict=True) if order is not None]
        taken = {k: order.take(self._cotangents[k]) for k, order in pairs}
        # The program stores to the buffer where it would have added to the cotangent: one place per contribution, no
        # races.
        program.run(program.grid(n), pack(self._cotangents, {k: held._packed for k, held in taken.items()}))
        for k, order in pairs:
            goal, numbers = self._cotangents[k], taken[k]
            itemsize = goal._data.itemsize
            order.order.add_up(goal._range[0], numbers._range[0], _itemsize(goal) // itemsize, itemsize)
        for k, order in pairs:
            order.give(taken[k])
        return True

    def _program(self) -> Executable | None:
        """Return the program that stores contributions; None if it was not shipped and there is no compiler."""
        program = self._launch.optional_adjoint(frozenset(self._cotangents), SORTED)
        if program is None:
            self._plain.sorts = False
        return program


def sorting_of(
    launch: PackedLaunch, plain: Executable, cotangents: Mapping[int, array], contents: Mapping[int, array]
) -> Sorting | None:
    """Return the sums of an adjoint that would otherwise add atomically, if their destinations may be sorted.

    Parameters
    ----------
    launch : PackedLaunch
        The forward launch.
    plain : Executable
        Its adjoint that accumulates plainly.
    cotangents : mapping of int to array
        The cotangent of each active parameter. None shares memory with another.
    contents : mapping of int to array
        Arrays that are read in place of the launch's own.
    """
    if not plain.sorts or plain.device is not CPU or len(launch.dims) != 1 or launch.merged:
        return None
    if pool.num_threads() == 1 or not pool.functions():
        return None
    arrays: dict[int, array] = {}
    (n,), size = launch.dims, 0
    for found in plain.manifest.sums:
        goal, count = cotangents[found.cotangent], len(found.places) * n
        # Places are numbered with 32 bits.
        if not goal._data.flags.c_contiguous or not _FEWEST <= count < 2**31:
            return None
        if goal.size > _MOST_DESTINATIONS * count:
            return None
        size += count * _itemsize(goal)
        for place in found.places:
            held = None if place.array is None else contents.get(place.array, launch.arrays[place.array])
            if place.array is None:
                continue
            # Indices that the launch itself writes are known only afterwards, and differ from launch to launch.
            if held is None or place.array in launch.executable.writes or not held._data.flags.c_contiguous:
                return None
            arrays[place.array] = held
    read = sum(place.array is not None for found in plain.manifest.sums for place in found.places) * n
    if not arrays or size > _MOST_BYTES or sum(held.size for held in arrays.values()) > _MOST_READ * read:
        return None
    return Sorting(launch, plain, arrays, cotangents)


def _itemsize(goal: array) -> int:
    """Return the bytes of an element."""
    return goal._data.nbytes // max(goal.size, 1)


class _Order:
    """Sorted destinations, and memory for the contributions to them.

    Attributes
    ----------
    order
        The places in their order.
    digests
        Those of the contents that were sorted.
    """

    __slots__ = ("_free", "digests", "order")

    def __init__(self, order: SortedPlaces, digests: tuple[bytes, ...]) -> None:
        self.order, self.digests = order, digests
        self._free: list[array] = []

    def take(self, goal: array) -> array:
        """Return memory for an element of a cotangent at each place, which no other launch has."""
        count = self.order.places.size
        try:
            held = self._free.pop()
        except IndexError:
            return new((count,), goal._element, False)
        return held if held._element == goal._element else new((count,), goal._element, False)

    def give(self, held: array) -> None:
        """Keep memory for the next launch."""
        if not self._free:
            self._free.append(held)


class _Key(NamedTuple):
    """The key of an order: places in arrays, the number of threads, and the number of destinations."""

    places: tuple[Destination, ...]
    arrays: tuple[bytes, ...]
    threads: int
    destinations: int


class _Entry:
    """The state of a key.

    Attributes
    ----------
    memories
        The memory of the arrays; later memory may have the same address.
    now
        Their versions when they were last met.
    digests
        Those of their contents then, if they were taken.
    order
        The order that was made last.
    refused
        Whether the contents of then cannot be sorted.
    """

    __slots__ = ("digests", "memories", "now", "order", "refused")

    def __init__(self, arrays: Sequence[array], now: tuple[int, ...]) -> None:
        self.memories = [weakref.ref(held._memory) for held in arrays]
        self.now = now
        self.digests: tuple[bytes, ...] | None = None
        self.order: _Order | None = None
        self.refused = False

    def is_of(self, arrays: Sequence[array]) -> bool:
        """Return whether it is about these arrays."""
        return all(memory() is held._memory for memory, held in zip(self.memories, arrays, strict=True))


_entries: weakref.WeakKeyDictionary[Memory, dict[_Key, _Entry]] = weakref.WeakKeyDictionary()
_lock = free_in_child(threading.Lock())


def _order_of(places: tuple[Destination, ...], held: Mapping[int, array], n: int, count: int) -> _Order | None:
    """Return the sorted destinations, if they are known or should now be sorted."""
    arrays = [held[k] for k in sorted({place.array for place in places if place.array is not None})]
    if not arrays:
        return None
    key = _Key(places, tuple(a._packed for a in arrays), n, count)
    now = tuple(a._memory.now for a in arrays)
    with _lock:
        known = _entries.setdefault(arrays[0]._memory, {})
        entry = known.get(key)
        # Met for the first time: most arrays of indices are used once, or change, and sorting would not pay.
        if entry is None or not entry.is_of(arrays):
            if len(known) >= _MOST_ORDERS:
                del known[next(iter(known))]
            known[key] = _Entry(arrays, now)
            return None
    order, seen = entry.order, entry.now
    if order is None and (now != seen or entry.refused):
        entry.now, entry.digests, entry.refused = now, None, entry.refused and now == seen
        return None
    digests = tuple(map(digest, arrays))
    if order is not None and order.digests == digests:
        entry.now = now
        return order
    # The contents differ from those that were sorted, although no change was counted. The digests say from now on
    # whether they stay.
    before, entry.now, entry.digests, entry.order = entry.digests, now, digests, None
    if order is not None or (before is not None and before != digests):
        return None  # it changes, perhaps with every launch
    destinations = _destinations(places, held, n, count)
    # Another thread, or another library, may have written while the places were read.
    if destinations is None or tuple(map(digest, arrays)) != digests:
        entry.refused = destinations is None
        return None
    entry.order = _Order(sort_places(destinations, count), digests)
    return entry.order


def _destinations(
    places: Sequence[Destination], held: Mapping[int, array], n: int, count: int
) -> np.ndarray[Any, Any] | None:
    """Return the destinations of all contributions in the order of their places; None if one does not exist."""
    found = np.empty((n, len(places)), dtype=np.int32)
    for k, place in enumerate(places):
        values = _read(place, None if place.array is None else held[place.array], n)
        if values is None:
            return None
        low, high = int(values.min()), int(values.max())
        if low < (-count if place.wrap else 0) or high >= count:
            return None
        part = found[:, k]
        part[:] = values
        if low < 0:
            part[part < 0] += count
    return found.reshape(-1)


def _read(place: Destination, held: array | None, n: int) -> np.ndarray[Any, Any] | None:
    """Return the values that the threads read at a place, or the indices themselves; None beyond the array."""
    if held is None:
        ((step, first),) = place.index
        return first + step * np.arange(n, dtype=np.int64)
    data, start, stride = held._data, 0, 0
    for (step, first), wraps, extent, distance in zip(place.index, place.wraps, held.shape, held.strides, strict=True):
        if wraps and step == 0 and first < 0:
            first += extent
        if min(first, first + step * (n - 1)) < 0 or max(first, first + step * (n - 1)) >= extent:
            return None
        start, stride = start + first * distance, stride + step * distance
    # Affine in the thread index along every axis: all reads together are one strided view.
    read: np.ndarray[Any, Any] = np.ndarray((n,), data.dtype, data, start, (stride,))
    return read
