"""The base of the steps of a tape, and the steps that no gradient can pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from diffkern.errors import LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import Memory

__all__ = ["NONE_LOST", "NO_CONTENTS", "Barrier", "TapeStep", "is_told"]

NO_CONTENTS: Mapping[int, Contents] = MappingProxyType({})
NONE_LOST: Set[int] = frozenset()
"""The kept contents of steps, and the lost ones, until there are some."""


class TapeStep(ABC):
    """A change of memory while the tape recorded."""

    __slots__ = ()

    @property
    def may_fail(self) -> bool:
        """True if reversing it runs functions of the user's, so that gradients have to be restored after an error."""
        return False

    @property
    def can_repeat(self) -> bool:
        """True if sweeps over it always consist of the same operations, which can be compiled."""
        return True

    @property
    def is_launch(self) -> bool:
        """True if it counts among the launches of the tape, which its number is that of."""
        return False

    @property
    def nbytes(self) -> int:
        """The bytes that it holds, but for copies that the tape counts itself."""
        return 0

    @property
    def written(self) -> Set[Memory]:
        """The memory that it wrote to, but for what users are responsible for."""
        return frozenset()

    def relied_on(self) -> Iterable[array]:
        """Return the arrays whose contents take part in gradients that pass it, read by its derivative or not."""
        return ()

    def settled_by(self) -> tuple[PackedLaunch, frozenset[int]] | None:
        """Return the launch and its integer arguments that determine which parts of arrays its derivative reads."""
        return None

    def reads_still(self) -> list[Memory]:
        """Return the memory of the arrays themselves, not of copies, that its derivative reads."""
        return []

    def told_by(self, owners: Mapping[Memory, array]) -> tuple[tuple[object, ...], Sequence[Executable]] | None:
        """Return what decides about the operations that reverse it, and the programs among that; None if more does.

        Parameters
        ----------
        owners : mapping of Memory to array
            The arrays of the tape that have gradients.
        """
        return None

    @property
    def free(self) -> PackedLaunch | None:
        """The launch whose numbers decide nothing about the operations that reverse it, None where they do."""
        return None

    @abstractmethod
    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        """Return the operations that reverse the step: none if no cotangent reaches it."""


class Barrier(TapeStep):
    """A change that no gradient can pass.

    Parameters
    ----------
    memories : collection of Memory
        The memory that was changed.
    error : callable
        Makes the error for a gradient that passes.
    """

    __slots__ = ("_error", "_memories")

    def __init__(self, memories: Collection[Memory], error: Callable[[], LaunchError]) -> None:
        self._memories, self._error = memories, error

    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        if not cotangents.live.isdisjoint(self._memories):
            raise self._error()
        return []


def is_told(held: array, owners: Mapping[Memory, array]) -> bool:
    """Return whether the place of an array and the gradients of a tape decide where its own gradient is."""
    top = held
    while top._parent is not None:
        if top._grad is not None:
            return False
        top = top._parent
    return top._grad is None or owners.get(top._memory) is top
