"""Functions of the user's that a reverse sweep calls, which must not write to what the rest of the sweep needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.operation import FunctionCall, Operation
from diffkern.runtime.effects.residuals import Need, Needs
from diffkern.runtime.memory.memory import Memory

__all__ = ["CheckedCall"]


class CheckedCall(FunctionCall):
    """A call in a reverse sweep.

    Parameters
    ----------
    function : callable
        The function.
    name : str
        What messages call it.
    relied : sequence of mapping
        The needs of the tapes that are swept, by memory.
    number : int
        The launches on the tape before it: what steps behind it need, the sweep has read when it comes here.
    """

    __slots__ = ("_name", "_number", "_relied")

    def __init__(
        self, function: Callable[[], object], name: str, relied: Sequence[Mapping[Memory, Needs]], number: int
    ) -> None:
        super().__init__(function)
        self._name, self._relied, self._number = name, [*relied], number

    @classmethod
    def of(cls, operation: Operation, name: str, relied: Sequence[Mapping[Memory, Needs]], number: int) -> Operation:
        """Return an operation of a sweep as a checked one, if it is a call."""
        return cls(operation.function, name, relied, number) if isinstance(operation, FunctionCall) else operation

    def execute(self) -> None:
        """Call the function.

        Raises
        ------
        LaunchError
            If it has written to an array that adjoints of earlier steps read.
        """
        # The last tape is the one that the call was recorded on; numbers of others mean other launches.
        own = self._relied[-1] if self._relied else None
        before = [(memory, memory.now, needs, tape) for tape in self._relied for memory, needs in tape.items()]
        super().execute()
        for memory, version, needs, tape in before:
            if memory.now == version:
                continue
            for need in needs:
                if need.alive and need.is_wanted and (tape is not own or self._is_to_come(need)):
                    raise LaunchError(
                        f"{self._name} writes to {described(need.held)}, which the gradient needs as it is",
                        remedy="write to arrays that it makes, and to gradients; dk.clone() makes one of another",
                    )

    def _is_to_come(self, need: Need) -> bool:
        """Return whether the sweep has yet to read what is needed."""
        # A roll-out has no number, and may stand in front. A launch of the same number stands behind; of adjoints and
        # other operations the order is not known by it.
        number: int = getattr(need.step, "number", -1)
        return number < self._number or (number == self._number and not need.step.is_launch)
