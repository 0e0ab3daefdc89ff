"""Live state between the steps of a roll-out, as opposed to memory that each step overwrites before it reads it.

From the reads and writes of the steps, in their order, follows for a write whether the contents that it overwrites may
be needed when the steps run again from an earlier state. Memory that every step so far has wholly overwritten before
anything else (an array of forces, the row of a trajectory) is not live: at each earlier state it has yet to be written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Places"]


class _StatePlace:
    __slots__ = ("anew", "high", "low", "turn")

    def __init__(self, low: int, high: int, anew: bool, turn: int) -> None:
        self.low, self.high, self.anew, self.turn = low, high, anew, turn


class Places:
    """The parts of one block of memory that steps have accessed: disjoint, in order of their addresses."""

    __slots__ = ("_lows", "_places")

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._places: list[_StatePlace] = []

    def accessed(self, low: int, high: int, turn: int, whole: bool) -> bool:
        """Note an access.

        Parameters
        ----------
        low, high : int
            Addresses of the first byte and behind the last.
        turn : int
            A number of its own for each time that a step runs.
        whole : bool
            Whether all of these bytes are overwritten and none is read.

        Returns
        -------
        bool
            Whether every step that accessed them has overwritten them first.
        """
        first = bisect_right(self._lows, low) - 1
        if first < 0 or self._places[first].high <= low:
            first += 1
        last = bisect_left(self._lows, high)
        found = self._places[first:last]
        if len(found) == 1 and found[0].low <= low and high <= found[0].high:
            place = found[0]
            # Only the first access of a step counts: whatever it does later, it finds its own values.
            if place.turn != turn:
                place.turn = turn
                # An access to a part of the bytes leaves others as an earlier step left them.
                place.anew &= whole and (low, high) == (place.low, place.high)
            return place.anew
        # Accesses that overlap known parts differently merge them to one part, which is live to be on the safe side.
        made = _StatePlace(low, high, whole and not found, turn)
        if found:
            made.low, made.high = min(low, found[0].low), max(high, found[-1].high)
        self._lows[first:last], self._places[first:last] = [made.low], [made]
        return made.anew

    def anew(self, low: int, high: int) -> bool:
        """Return whether every step that accessed any of these bytes has overwritten them first."""
        first, last = bisect_right(self._lows, low) - 1, bisect_left(self._lows, high)
        found = [place for place in self._places[max(first, 0) : last] if place.high > low]
        return all(place.anew for place in found)
