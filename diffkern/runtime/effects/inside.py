"""The inside of a custom operation, where nothing is recorded for derivatives.

What runs there may depend on nothing that a derivative is taken for but the arguments, and may change nothing but what
it has made: the derivative of the whole would be wrong otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, submit
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import given_to
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.state import Handler
from diffkern.runtime.memory.stream import Stream

__all__ = ["Inside"]


class Inside:
    """Stands in a tape's place while a custom operation runs.

    Parameters
    ----------
    around : Handler
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

    def __init__(self, around: Handler, name: str, given: Sequence[array], began: int) -> None:
        self._around, self._name, self._given, self._began = around, name, given, began
        # What was read without a derivative: constants, by their ids.
        self._constants: dict[int, array] = {}

    @property
    def name(self) -> str:
        """The name of the operation for messages."""
        return f"the custom operation {self._name!r}"

    @property
    def constants(self) -> list[array]:
        """The arrays without a derivative that were read, but for arguments."""
        return [*self._constants.values()]

    @property
    def repeats(self) -> bool:
        """True if what is done here is done again later."""
        return self._around.repeats

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
            self._check_read(held)
        if operation.kind == "launch" and (launch := cast("PackedLaunch", operation)).executable.by_id:
            for held in given_to(launch):
                self._check_read(held)
        for held in operation.writes():
            if not self._is_own(held):
                raise LaunchError(
                    f"{operation.label} writes to {described(held)} in {self.name}, which has not made that array",
                    remedy="write to arrays that it makes, and return them",
                )

    def note_read(self, held: array) -> None:
        """Raise if the host reads an array that has a derivative and is no argument, and note that it has read one."""
        self._check_read(held)
        # What the host keeps of it, and uses outside, has no derivative. Of what was made here nothing is known there,
        # and it depends on the arguments at most.
        for one in self._given if self._is_own(held) else (held,):
            self._around.note_read(one)

    def _check_read(self, held: array) -> None:
        if self._is_own(held) or any(_is_part(held, one) for one in self._given):
            return
        if not self._around.is_differentiated(held):
            self._constants[id(held)] = held
        else:
            raise LaunchError(
                f"{self.name} reads {described(held)}, which a derivative is taken for, and "
                "which is none of its arguments",
                remedy="pass it as an argument, with a derivative; of an object with an id the array that it was given",
            )

    def is_differentiated(self, held: array) -> bool:
        """Return whether a derivative is taken for an array."""
        return self._around.is_differentiated(held)

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Do nothing: what is computed here needs no derivative."""

    def begin_derivative(self, name: str | None) -> None:
        """Do nothing, for the same reason."""

    def end_derivative(self) -> None:
        """Do nothing, for the same reason."""

    def hide(self, began: int, ended: int, results: Collection[array], name: str) -> None:
        """Do nothing: all that is made here is hidden from outside."""

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Do nothing: what depends on what is known from the operation as a whole."""

    def _is_own(self, held: array) -> bool:
        return held._memory.serial > self._began and not held._memory.foreign


def _is_part(held: array, given: array) -> bool:
    """Return whether all elements of an array are elements of an argument."""
    if held._memory is not given._memory:
        return False
    if given._type.layout == "C":
        (low, high), (first, last) = held._range, given._range
        return first <= low and high <= last
    # Between elements of an argument with strides lie others: only views of it are known to have none of these.
    view: array | None = held
    while view is not None:
        if view is given or view._same_place(given):
            return True
        view = view._parent
    return False
