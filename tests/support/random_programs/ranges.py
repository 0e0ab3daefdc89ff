"""Loops over ranges of every integer type: bounds near the limits of the type, steps of either sign, backwards."""

from __future__ import annotations

from .memory import Role
from .writer import Writer

__all__ = ["Ranges"]

_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}
_NEAR_A_LIMIT = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
"""Types whose limits an int64 holds, in which the counter is counted from the first value."""


class Ranges:
    """Writes the heads of loops.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def head(self, k: str) -> tuple[str, tuple[str, int]]:
        """The head of a loop with the variable ``k``; an int32 that counts from 0, and what it stays below."""
        w = self.w
        kind = w.below(10)
        if kind < 5:
            bounds, below = w.pick(
                (("m", 4), ("3", 3), ("1, m + 2", 5), ("m, -1, -1", 4), ("0, 7, 3", 7), ("j0 % 4", 4))
            )
            return self._over(k, bounds), (k, below)
        if kind < 8:
            return self._narrow(k)
        return self._near_a_limit(k)

    def _over(self, k: str, bounds: str) -> str:
        """A range, now and then backwards."""
        return f"for {k} in {f'reversed(range({bounds}))' if self.w.chance(50) else f'range({bounds})'}:"

    def _narrow(self, k: str) -> tuple[str, tuple[str, int]]:
        """A few trips of an index of another type, as many as a parameter, a value of the thread or data say."""
        w = self.w
        kind = w.pick(list(_BITS))
        trips, below = w.pick((("m", 4), ("j0 % 4", 4), (f"{w.flat} % 3", 3), ("5", 5), *self._data()))
        bounds = w.pick((f"dk.{kind}({trips})", f"dk.{kind}(0), dk.{kind}({trips})"))
        if w.chance(20):
            bounds = f"dk.{kind}(0), dk.{kind}({trips}), dk.{kind}({w.pick(('2', '3'))})"
        return self._over(k, bounds), (f"dk.int32({k})", below)

    def _data(self) -> list[tuple[str, int]]:
        return [
            (f"{p.name}[{self.w.indices.anywhere(0)}] % {size}", size)
            for p in self.w.having(Role.READ, "uint8", "uint16", "uint32")
            for size in (3, 4)
        ]

    def _near_a_limit(self, k: str) -> tuple[str, tuple[str, int]]:
        """A few trips just below the greatest or above the least number of a type, or from one to the other."""
        w = self.w
        kind = w.pick(_NEAR_A_LIMIT)
        bits, signed = _BITS[kind], kind.startswith("i")
        least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        trips = 1 + w.below(5)
        way = w.below(3)
        if way == 0:  # up to the greatest number
            step = 1 + w.below(3)
            first, stop = greatest - step * trips, greatest - w.below(step)
        elif way == 1 and signed:  # down to the least number
            step = -1 - w.below(3)
            first, stop = least - step * trips, least + w.below(-step)
        else:  # from one end to the other, further apart than a signed number tells
            step = (greatest - least) // (trips + 1) if not signed else min((greatest - least) // (trips + 1), greatest)
            first, stop = least, greatest
        count = len(range(first, stop, step))
        numbers = [self._number(kind, v) for v in (first, stop, step)]
        return self._over(k, ", ".join(numbers)), (f"dk.int32((dk.int64({k}) - ({first})) // ({step}))", max(count, 1))

    def _number(self, kind: str, value: int) -> str:
        """A number of a type, literally or such that it is known only at run time."""
        w = self.w
        return f"dk.{kind}({value})" if w.chance(50) else f"dk.{kind}(dk.int64({value}) + 0 * dk.int64(m))"
