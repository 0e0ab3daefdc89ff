"""Functions of the user's that a reverse sweep calls, which must not write to what the rest of the sweep needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from diffkern.errors import LaunchError, described
from diffkern.runtime.effects.residuals import Needs
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.operation import FunctionCall, Operation

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
    """

    __slots__ = ("_name", "_relied")

    def __init__(self, function: Callable[[], object], name: str, relied: Sequence[Mapping[Memory, Needs]]) -> None:
        super().__init__(function)
        self._name, self._relied = name, [*relied]

    @classmethod
    def of(cls, operation: Operation, name: str, relied: Sequence[Mapping[Memory, Needs]]) -> Operation:
        """Return an operation of a sweep as a checked one, if it is a call."""
        return cls(operation.function, name, relied) if isinstance(operation, FunctionCall) else operation

    def execute(self) -> None:
        """Call the function.

        Raises
        ------
        LaunchError
            If it has written to an array that adjoints of earlier steps read.
        """
        before = [(memory, memory.now, needs) for tape in self._relied for memory, needs in tape.items()]
        super().execute()
        for memory, version, needs in before:
            if memory.now == version:
                continue
            for need in needs:
                if need.alive and need.is_wanted:
                    raise LaunchError(
                        f"{self._name} writes to {described(need.held)}, which the gradient needs as it is",
                        remedy="write to arrays that it makes, and to gradients; dk.clone() makes one of another",
                    )
