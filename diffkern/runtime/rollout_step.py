"""A roll-out as a step of a tape: what its gradient needs of the arrays, and how it is taken back.

In: arrays that a roll-out has read and written, and what can run its steps again. Out: its part of a reverse sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from diffkern.errors import LaunchError, described
from diffkern.runtime.array import array
from diffkern.runtime.cotangents import Cotangents
from diffkern.runtime.history import FuncStep, Work
from diffkern.runtime.kept import Contents
from diffkern.runtime.memory import Memory
from diffkern.runtime.regions import Region

__all__ = ["RolloutStep", "Steps"]


class Steps(Protocol):
    """The steps of a roll-out, with states that are kept."""

    @property
    def nbytes(self) -> int:
        """The bytes of the states in memory."""
        ...

    @property
    def differentiated(self) -> set[Memory]:
        """The memory that has a part in gradients."""
        ...

    @property
    def written(self) -> set[Memory]:
        """The memory that they write to."""
        ...

    def relies_on(self, held: array) -> bool:
        """Whether going back relies on what an array held when the last step had run."""
        ...

    def take_back(self, sweep: Cotangents, contents: Mapping[int, array]) -> None:
        """Go back through all steps; `contents` are those of arrays, by their numbers, that have changed since."""
        ...


@dataclass(frozen=True)
class Inputs:
    """The arrays of a roll-out, as of a launch."""

    arrays: Sequence[array]


class RolloutStep:
    """A roll-out on a tape.

    Attributes
    ----------
    launch
        The arrays that it has read and written.
    contents
        Copies of what they held behind it, where a later step overwrote them.
    lost
        Those that were changed where the tape could not see it.
    """

    def __init__(self, steps: Steps, arrays: Sequence[array]) -> None:
        self.launch = Inputs(arrays)
        self.contents: dict[int, array] = {}
        self.lost: set[int] = set()
        self.lost_before: set[int] = set()
        self.steps = steps

    def read_after(self, index: int) -> Region:
        """Return that going back may read all of an array."""
        return None

    def take_copy(self, index: int, copy: Contents, *, before: bool) -> None:
        """Take a copy of an array."""
        assert isinstance(copy, array)
        self.contents[index] = copy

    def needs_after(self, index: int) -> bool:
        """Whether going back reads what an array held after the roll-out."""
        return self.steps.relies_on(self.launch.arrays[index])

    def prepare(self, cotangents: Cotangents) -> Sequence[Work]:
        """Return what takes the roll-out back."""
        if cotangents.live.isdisjoint(self.steps.written):
            return []
        for index, held in enumerate(self.launch.arrays):
            if index in self.lost and index not in self.contents and self.needs_after(index):
                raise LaunchError(
                    f"{described(held)} was changed outside the tape after dk.checkpoint, and the gradient needs what "
                    "it held",
                    remedy="make the change inside the tape's block, or call backward() before it",
                )
        live = frozenset(cotangents.live)
        cotangents.live.update(self.steps.differentiated)

        def roll_out() -> None:
            needed = {index: copy for index, copy in self.contents.items() if self.needs_after(index)}
            self.steps.take_back(cotangents.inside(live), needed)

        return [FuncStep(roll_out, ())]
