"""Steps of a tape for operations that state their own derivatives: copies, fills, sums and whatever else comes.

An :class:`OperationStep` turns to :meth:`Operation.vjp` when a cotangent reaches what the operation has written. It
hands that the cotangents, and the contents that the operation needs as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from diffkern.errors import LaunchError, described
from diffkern.runtime.accumulate.cotangents import Cotangents
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.effects.step import Step
from diffkern.runtime.launch.regions import Region
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.kept import Contents
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.operation import Assign, Composite, Operation

__all__ = ["OperationStep"]


class OperationStep(Step):
    """An operation on a tape.

    Parameters
    ----------
    operation : Operation
        The operation.
    place : str
        Where on the tape it is, for messages.
    varied : collection of Memory
        The memory that it reads and gradients pass through.
    ended : sequence of array
        Arrays with cotangents that it overwrites, none of which passes to what it reads.

    Attributes
    ----------
    contents
        Copies of the contents that it needs, where a later step overwrote them.
    lost, lost_before
        Those of them that were changed where the tape could not see it.
    """

    __slots__ = ("contents", "ended", "lost", "lost_before", "needed", "operation", "place", "varied")

    def __init__(self, operation: Operation, place: str, varied: Collection[Memory], ended: Sequence[array]) -> None:
        self.operation, self.place, self.varied, self.ended = operation, place, varied, ended
        self.needed = tuple(operation.needs()) if varied else ()
        self.contents: dict[int, Contents] = {}
        self.lost: set[int] = set()
        self.lost_before: set[int] = set()

    @property
    def written(self) -> set[Memory]:
        """The memory that it wrote to."""
        return {held._memory for held in self.operation.writes()}

    @property
    def may_fail(self) -> bool:  # type: ignore[override]
        """True if its derivative is a function of the user's, which may raise anything."""
        return isinstance(self.operation, Composite)

    @property
    def can_repeat(self) -> bool:  # type: ignore[override]
        """True if its derivative always consists of the same operations."""
        return not self.may_fail

    def reads_still(self) -> list[Memory]:
        """Return the memory of the arrays themselves, not of copies, that its derivative reads."""
        return [held._memory for index, held in enumerate(self.needed) if index not in self.contents]

    def needs_after(self, index: int) -> bool:
        """Return that the derivative may read any of the contents that are noted."""
        return True

    def read_after(self, index: int) -> Region:
        """Return that the derivative may read all of an array."""
        return None

    def take_copy(self, index: int, copy: Contents, *, before: bool) -> None:
        """Store a copy of an array."""
        self.contents[index] = copy

    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        if cotangents.live.isdisjoint(self.written):
            return []
        if not self.varied:
            # The cotangent of what was there before is zero.
            return [Assign(cotangents.of(held), 0) for held in self.ended]
        for index in self.lost:
            if index not in self.contents:
                raise LaunchError(
                    f"{described(self.needed[index])} was changed outside the tape after {self.place}, and the "
                    "gradient needs what it held",
                    remedy="make the change inside the tape's block, or call backward() before it",
                )
        contents, fill = cotangents.rooms.of_step().filled(self.contents)
        values = {id(held): contents.get(index, held) for index, held in enumerate(self.needed)}
        work = self.operation.vjp(_Reverse(cotangents, self.varied, values))
        cotangents.live.update(self.varied)
        return [*fill, *work] if fill else work


class _Reverse:
    """The cotangents of an operation in a sweep, and what its arrays held."""

    def __init__(self, cotangents: Cotangents, varied: Collection[Memory], values: dict[int, array]) -> None:
        self._cotangents, self._varied, self._values = cotangents, varied, values

    def cotangent(self, held: array) -> array:
        return self._cotangents.of(held)

    def wants(self, held: array) -> bool:
        return held._smooth and held._memory in self._varied

    def value(self, held: array) -> array:
        return self._values[id(held)]

    def scratch(self, like: array, device: Device) -> array:
        return new(like.shape, like._element, False, device)
