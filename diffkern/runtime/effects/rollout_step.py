"""A roll-out as a step of a tape: the contents that its gradient needs, and its part of a reverse sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from diffkern.errors import LaunchError, described
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import FunctionCall, Operation
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents
from diffkern.runtime.effects.step import NONE_LOST, TapeStep
from diffkern.runtime.launch.regions import Region
from diffkern.runtime.memory.memory import Memory

__all__ = ["RolloutStep", "Steps"]


class Steps(Protocol):
    """The steps of a roll-out, with states that are kept."""

    @property
    def nbytes(self) -> int:
        """The bytes of the states in memory."""
        ...

    @property
    def differentiated(self) -> set[Memory]:
        """The memory that takes part in gradients."""
        ...

    @property
    def written(self) -> set[Memory]:
        """The memory that they write to."""
        ...

    def relies_on(self, held: array) -> bool:
        """Return whether reversing the steps relies on the contents of an array after the last step."""
        ...

    def take_back(self, sweep: Cotangents, contents: Mapping[int, array]) -> None:
        """Reverse all steps; `contents` are those of arrays, by their numbers, that have changed since."""
        ...


@dataclass(frozen=True)
class Inputs:
    """The arrays of a roll-out, in the form in which a launch has its arrays."""

    arrays: Sequence[array]


class RolloutStep(TapeStep):
    """A roll-out on a tape.

    Attributes
    ----------
    launch
        The arrays that it has read and written.
    contents
        Copies of their contents after it, where a later step overwrote them.
    lost
        Those that were changed where the tape could not see it.
    """

    def __init__(self, steps: Steps, arrays: Sequence[array]) -> None:
        self.launch = Inputs(arrays)
        self.contents: dict[int, array] = {}
        self.lost: Set[int] = NONE_LOST
        self.lost_before: Set[int] = NONE_LOST
        self.steps = steps

    @property
    def written(self) -> set[Memory]:
        """The memory that its steps write to."""
        return set(self.steps.written)

    @property
    def may_fail(self) -> bool:
        """True: the steps are the user's."""
        return True

    @property
    def can_repeat(self) -> bool:
        """False: its states are kept one after the other."""
        return False

    @property
    def nbytes(self) -> int:
        """The bytes of the states in memory."""
        return self.steps.nbytes

    def read_after(self, index: int) -> Region:
        """Return that reversing the steps may read all of an array."""
        return None

    def take_copy(self, index: int, copy: Contents, *, before: bool) -> None:
        """Store a copy of an array."""
        assert isinstance(copy, array)
        self.contents[index] = copy

    def needs_after(self, index: int) -> bool:
        """Return whether reversing the steps reads the contents of an array after the roll-out."""
        return self.steps.relies_on(self.launch.arrays[index])

    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        if cotangents.live.isdisjoint(self.steps.written):
            return []
        for index, held in enumerate(self.launch.arrays):
            if index in self.lost and index not in self.contents and self.needs_after(index):
                raise LaunchError(
                    f"{described(held)} was changed outside the tape after dk.checkpoint, and the gradient needs what "
                    "it held",
                    remedy="make the change inside the tape's block, or call backward() before it",
                )
        # Which cotangents are live is taken now: earlier steps of the tape add to the set before the work runs.
        live = frozenset(cotangents.live)
        # The steps run only later, so that everything with a part in gradients has to count as live.
        cotangents.live.update(self.steps.differentiated)

        def roll_out() -> None:
            needed = {index: copy for index, copy in self.contents.items() if self.needs_after(index)}
            self.steps.take_back(cotangents.inside(live), needed)

        return [FunctionCall(roll_out)]
