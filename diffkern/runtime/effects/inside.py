"""The inside of a custom operation, where nothing is recorded for derivatives.

What runs there may depend on nothing that a derivative is taken for but the arguments, and may change nothing but what
it has made: the derivative of the whole would be wrong otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.operation import Operation, submit
from diffkern.runtime.memory.stream import Stream

__all__ = ["Inside"]


class Inside:
    """Stands in a tape's place while a custom operation runs.

    Parameters
    ----------
    around : Any
        The tape, tangents or roll-out that the operation is performed on.
    name : str
        The name of the operation.
    given : sequence of array
        Its arguments.
    began : int
        How much memory had been made before.
    """

    keeps_inputs = False
    records = False

    def __init__(self, around: Any, name: str, given: Sequence[array], began: int) -> None:
        self._around, self._name, self._given, self._began = around, name, given, began

    @property
    def repeats(self) -> bool:
        """True if what is done here is done again later."""
        return bool(self._around.repeats)

    @property
    def follower(self) -> Any:
        """The tape that carries gradients of arrays themselves."""
        return self._around.follower

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Perform an operation that is part of the custom one."""
        self.note_unrecorded(operation)
        submit(operation, stream)

    def note_unrecorded(self, operation: Operation) -> None:
        """Raise if an operation reads or writes what it must not."""
        for held in operation.reads():
            self.note_read(held)
        for held in operation.writes():
            if not self._is_own(held):
                raise LaunchError(
                    f"{operation.label} writes to {described(held)} in the custom operation {self._name!r}, which has "
                    "not made that array",
                    remedy="write to arrays that it makes, and return them",
                )

    def note_read(self, held: array) -> None:
        """Raise if an array is read that has a derivative and is no argument."""
        if self._is_own(held) or not self._around.is_differentiated(held):
            return
        low, high = held._range
        within = [one._range for one in self._given if one._memory is held._memory]
        if not any(first <= low and high <= last for first, last in within):
            raise LaunchError(
                f"the custom operation {self._name!r} reads {described(held)}, which a derivative is taken for, and "
                "which is none of its arguments",
                remedy="pass it as an argument, with a derivative",
            )

    def is_differentiated(self, held: array) -> bool:
        """Return whether a derivative is taken for an array."""
        return bool(self._around.is_differentiated(held))

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Do nothing: what is computed here needs no derivative."""

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Do nothing: what depends on what is known from the operation as a whole."""

    def _is_own(self, held: array) -> bool:
        return held._memory.serial > self._began and not held._memory.foreign
