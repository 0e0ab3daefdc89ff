"""Steps of a tape for operations that state their own derivatives: copies, fills, sums and whatever else comes.

An :class:`OperationStep` turns to :meth:`Operation.vjp` when a cotangent reaches what the operation has written. It
hands that the cotangents, and the contents that the operation needs as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from diffkern.errors import LaunchError, described
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Add, Assign, Copy, Flow, Operation
from diffkern.runtime.effects.checked_call import CheckedCall
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.kept import Contents
from diffkern.runtime.effects.step import NO_CONTENTS, NONE_LOST, TapeStep, is_told
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.regions import Region
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory

__all__ = ["OperationStep"]


class OperationStep(TapeStep):
    """An operation on a tape.

    Parameters
    ----------
    operation : Operation
        The operation.
    flow : Flow
        How contents flow through it.
    number : int
        The launches on the tape before it, for messages.
    varied : sequence of array
        What it reads and gradients pass through; none if it only ends the cotangents of what it overwrites.

    Attributes
    ----------
    contents
        Copies of the contents that it needs, where a later step overwrote them.
    lost, lost_before
        Those of them that were changed where the tape could not see it.
    """

    __slots__ = ("contents", "flow", "lost", "lost_before", "needed", "number", "operation", "varied")

    def __init__(self, operation: Operation, flow: Flow, number: int, varied: Sequence[array]) -> None:
        self.operation, self.flow, self.number, self.varied = operation, flow, number, varied
        self.needed = tuple(operation.needs()) if varied else ()
        # A trajectory has thousands of copies, which need nothing: each has no containers of its own.
        self.contents: Mapping[int, Contents] = NO_CONTENTS
        self.lost: Set[int] = NONE_LOST
        self.lost_before: Set[int] = NONE_LOST

    @property
    def written(self) -> set[Memory]:
        """The memory that it wrote to."""
        return {held._memory for held in self.flow.written}

    @property
    def may_fail(self) -> bool:
        """True if its derivative is a function of the user's, which may raise anything."""
        return self.operation.is_composite

    @property
    def can_repeat(self) -> bool:
        """True if its derivative always consists of the same operations."""
        return not self.may_fail

    def relied_on(self) -> Iterable[array]:
        return (*self.operation.writes(), *self.operation.reads()) if self.varied else ()

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
        self.contents = {**self.contents, index: copy}

    def told_by(self, owners: Mapping[Memory, array]) -> tuple[tuple[object, ...], Sequence[Executable]] | None:
        operation = self.operation
        if type(operation) not in (Assign, Copy, Add) or self.lost or self.contents:
            return None
        held = (*self.flow.written, *self.flow.sources, *self.varied)
        if not all(is_told(a, owners) for a in held):
            return None
        key: list[object] = [type(operation), len(self.flow.written), len(self.flow.sources)]
        for a in held:
            key += (id(a._memory), a._packed, a._key)
        return tuple(key), ()

    def prepare(self, cotangents: Cotangents) -> Sequence[Operation]:
        live = cotangents.live
        for held in self.flow.written:
            if held._memory in live:
                break
        else:
            return []
        if not self.varied:
            # The cotangent of what was there before is zero.
            return [Assign(cotangents.of(held), 0) for held in self.flow.ended if held._smooth]
        for index in self.lost:
            if index not in self.contents:
                raise LaunchError(
                    f"{described(self.needed[index])} was changed outside the tape after "
                    f"{self.operation.phrase} behind launch {self.number} on the tape, and the gradient needs what it "
                    "held",
                    remedy="make the change inside the tape's block, or call backward() before it",
                )
        contents, fill = cotangents.rooms.of_step().filled(self.contents) if self.contents else ({}, [])
        values = {id(held): contents.get(index, held) for index, held in enumerate(self.needed)} if self.needed else {}
        work = self.operation.vjp(_CotangentsOf(cotangents, self.varied, values))
        for held in self.varied:
            live.add(held._memory)
        if self.operation.is_composite:
            name = f"the derivative of {self.operation.label!r}"
            work = [CheckedCall.of(each, name, cotangents.relied, self.number) for each in work]
        return [*fill, *work] if fill else work


class _CotangentsOf:
    """The cotangents of an operation in a sweep, and what its arrays held."""

    def __init__(self, cotangents: Cotangents, varied: Sequence[array], values: dict[int, array]) -> None:
        self._cotangents, self._varied, self._values = cotangents, varied, values

    def cotangent(self, held: array) -> array:
        return self._cotangents.of(held)

    def wants(self, held: array) -> bool:
        return any(held is other for other in self._varied)

    def value(self, held: array) -> array:
        return self._values[id(held)]

    def scratch(self, like: array, device: Device) -> array:
        return new(like.shape, like._element, False, device)
