"""A stable sort of places by destinations, and sums by it, on all native threads.

From the destination of each place comes a :class:`SortedPlaces`, whose :meth:`~SortedPlaces.add_up` adds the numbers at
the places to their destinations: in the order of the places, whatever the number of threads. The code is loaded by the
first sort.
"""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native
from diffkern.runtime.native.replay import address_of

__all__ = ["SortedPlaces", "sort_places"]

_TOGETHER = 4
"""Scalars of an element that are added up at once."""
_MOST_GROUPS = 16  # each of them reads all keys
_FEWEST, _MOST_CHUNKS = 2048, 256
_counts = struct.Struct("3q").pack
_places = struct.Struct("4q").pack
_sums = struct.Struct("7q").pack


class SortedPlaces(NamedTuple):
    """Places in the order of their destinations.

    Attributes
    ----------
    starts
        The first position of each destination's places, and at the end the total number.
    places
        The places.
    """

    starts: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]

    def add_up(self, target: int, numbers: int, components: int, itemsize: int) -> None:
        """Add to elements the numbers at their places.

        Parameters
        ----------
        target, numbers : int
            Addresses of the elements, and of the numbers to add, an element for each place.
        components : int
            Scalars of an element.
        itemsize : int
            Bytes of a scalar: 4 or 8, of a floating-point number.
        """
        count = self.places.size
        chunk = max(_FEWEST, -(-count // _MOST_CHUNKS))
        data = self.starts.ctypes.data, self.places.ctypes.data, numbers, target, self.starts.size - 1, components
        # A vector's components are summed side by side: one pass over the places for up to four of them.
        for first in range(0, components, _TOGETHER):
            width = min(_TOGETHER, components - first)
            block = bytearray(_sums(*data, first))
            pool.run(_functions()[f"dk_sorted_sum_f{8 * itemsize}_{width}"], address_of(block), 0, count, chunk)


def sort_places(keys: np.ndarray[Any, Any], count: int) -> SortedPlaces:
    """Sort the places of keys by the keys; equal ones stay in their order.

    Parameters
    ----------
    keys : numpy.ndarray
        Contiguous int32, from 0 to before `count`, which nothing else can change meanwhile.
    count : int
        The number of destinations.
    """
    # Counts are stored two places further on and starts one: after the sums and the placing, each key's start is in its
    # own place, without another buffer.
    starts, places = np.zeros(count + 2, dtype=np.int32), np.empty(keys.size, dtype=np.int32)
    # Every chunk of keys reads all places, so that more chunks than threads would only read more.
    chunk = max(1, -(-count // min(pool.num_threads(), _MOST_GROUPS)))
    data = keys.ctypes.data, starts.ctypes.data, keys.size
    counts, placed = bytearray(_counts(*data)), bytearray(_places(*data, places.ctypes.data))
    pool.run(_functions()["dk_sort_count"], address_of(counts), 0, count, chunk)
    np.cumsum(starts, out=starts)
    pool.run(_functions()["dk_sort_place"], address_of(placed), 0, count, chunk)
    return SortedPlaces(starts[:-1], places)


@functools.cache
def _functions() -> dict[str, int]:
    sums = [f"dk_sorted_sum_f{bits}_{width}" for bits in (32, 64) for width in range(1, _TOGETHER + 1)]
    sources = [Path(__file__), Path(__file__).with_name("sorting_ir.py")]
    return load_native(_text, sources, ["dk_sort_count", "dk_sort_place", *sums], EXTERNAL_NAMES, level=2)


def _text() -> str:
    from diffkern.runtime.native.sorting_ir import sorting_ir  # here, because kept object code does without it

    return sorting_ir(_TOGETHER)
