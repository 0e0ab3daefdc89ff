"""Registry of arrays by address, which finds the array that contains a range of bytes.

An array is listed once its address has been given away (by ``ptr``, an interface of another library, …) and for as
long as it is alive. Arrays whose address nobody asked for are not listed.
"""

from __future__ import annotations

import bisect
import itertools
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["around", "beside", "note"]

_numbers = itertools.count()
# Where each array begins, in order, with a number of its own, its end and the array.
_places: list[tuple[int, int, int, weakref.ref[array]]] = []
# By id: the array, and when it was last asked for its address.
_noted: dict[int, tuple[weakref.ref[array], int]] = {}
# How long the longest of them was ever, and how many entries there may be before those of dead arrays are removed.
_longest, _limit = 0, 64


def note(held: array) -> None:
    """Register an array whose address is given away, and each array that it is a view of."""
    # A view's address lies within its parents, and a caller may compute addresses beyond the view from it.
    if held._parent is not None:
        note(held._parent)
    known = _noted.get(id(held))
    # An id may be reused after an array died, hence the comparison of the referent.
    if known is not None and known[0]() is held:
        _noted[id(held)] = known[0], next(_numbers)
        return
    low, high = held._range
    if low == high:
        return
    global _longest
    _longest = max(_longest, high - low)
    # Dead entries are purged only when the list has doubled, so that registering costs amortized constant time.
    if len(_places) >= _limit:
        _forget_dead()
    number, reference = next(_numbers), weakref.ref(held)
    _noted[id(held)] = reference, number
    bisect.insort(_places, (low, number, high, reference))


def _forget_dead() -> None:
    global _limit
    _places[:] = [place for place in _places if place[3]() is not None]
    for key, (reference, _) in list(_noted.items()):
        if reference() is None:
            _noted.pop(key, None)
    _limit = max(64, 2 * len(_places))


def around(low: int, high: int) -> array | None:
    """Return the registered array that contains a range of addresses; of several the one that was noted last."""
    found, last = None, -1
    # Arrays may overlap, so that the nearest start below need not be the one that contains the range. Walk downwards
    # from the last array that begins at or before `low`.
    for at in range(bisect.bisect(_places, (low + 1,)) - 1, -1, -1):
        start, _, end, reference = _places[at]
        # Every array further down begins even lower, so that not even the longest one reaches `high`.
        if start + _longest < high:
            break
        if end >= high and (held := reference()) is not None:
            known = _noted[id(held)]
            if known[1] > last:
                found, last = held, known[1]
    return found


def beside(low: int, high: int) -> array | None:
    """Return a registered array in memory that diffkern owns and that overlaps a range of addresses, or None."""
    for at in range(bisect.bisect(_places, (high,)) - 1, -1, -1):
        start, _, end, reference = _places[at]
        if start + _longest <= low:
            break
        if end > low and (held := reference()) is not None and not held._memory.foreign:
            return held
    return None
