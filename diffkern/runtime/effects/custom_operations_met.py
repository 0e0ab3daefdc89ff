"""The custom operations that a tape or tangents have met, and what may not be used because of them.

The inside of a custom operation is not recorded, so that nothing is known of what it has made, but of its results. Its
derivatives are recorded where their own derivatives are taken; what the host computes there would be missed.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array

__all__ = ["CustomOperationsMet"]


class CustomOperationsMet:
    """The custom operations of one tape, or of one block of tangents."""

    def _forget_custom_operations(self) -> None:
        """Start over without any."""
        # The derivatives that run, innermost last, and None for the inside of an operation that one of them calls.
        self._derivatives: list[str | None] = []
        # In the order in which they ran: how much memory there was in front of each and behind it, the serials of its
        # results, and its name.
        self._insides: list[tuple[int, frozenset[int], str]] = []
        self._ends: list[int] = []

    def begin_derivative(self, name: str | None) -> None:
        """Begin the derivative of a custom operation, whose own derivative is taken here; None begins its inside."""
        self._derivatives.append(name)

    def end_derivative(self) -> None:
        """End it."""
        self._derivatives.pop()

    def hide(self, began: int, ended: int, results: Collection[array], name: str) -> None:
        """Note a custom operation: of what it has made, nothing but its results may be used here.

        Parameters
        ----------
        began, ended : int
            How much memory there was in front of it, and behind it.
        results : collection of array
            Its results.
        name : str
            What messages call it.
        """
        self._insides.append((began, frozenset(held._memory.serial for held in results), name))
        self._ends.append(ended)

    def _check_not_inside(self, held: array) -> None:
        """Raise for an array that a custom operation has made, and not returned."""
        # What integers depend on has no influence on derivatives.
        if not held._smooth:
            return
        serial = held._memory.serial
        place = bisect.bisect_left(self._ends, serial)
        if place == len(self._ends) or held._memory.foreign:
            return
        began, results, name = self._insides[place]
        if began < serial and serial not in results:
            raise LaunchError(
                f"{described(held)} was made in {name}, which has not returned it, so that nothing is known of what it "
                "depends on",
                remedy="return it as a result, where vjp and jvp find it too; or make it outside",
            )
