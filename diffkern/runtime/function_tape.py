"""A tape inside another tape or inside tangents: gradients of a function as values that have derivatives themselves.

In: arrays, and what is launched in the block. Out: gradients in arrays of their own, which are written by operations
that the tape or the tangents around take as they take the launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diffkern.runtime.adjoint import AdjointLaunch
from diffkern.runtime.array import array
from diffkern.runtime.beside import Beside, root_of
from diffkern.runtime.cotangents import Cotangents
from diffkern.runtime.history import FuncStep
from diffkern.runtime.memory import Memory
from diffkern.runtime.operation import Add, Assign, Copy, Operation, perform
from diffkern.runtime.packed import PackedLaunch
from diffkern.runtime.scope import Scope
from diffkern.runtime.second_order import on_copies, record
from diffkern.runtime.state import current
from diffkern.runtime.stream import drain
from diffkern.runtime.tape_memory import TapeMemory
from diffkern.runtime.tape_recording import TapeRecording
from diffkern.runtime.uncopied import Uncopied

__all__ = ["FunctionTape"]


class FunctionTape(TapeRecording, Scope, Uncopied):
    """Records a function for the gradients of some arrays, whatever their ``grad`` is.

    Parameters
    ----------
    arrays : sequence of array
        The arrays that gradients are wanted for.
    """

    def __init__(self, arrays: Sequence[array]) -> None:
        self._own = Beside("gradient")
        self._around: Any = None
        super().__init__()
        for held in arrays:
            self._own.made(held)

    def _begin(self) -> tuple[str, FunctionTape, FunctionTape]:
        self._around = current.tape
        self.keeps_inputs = self._around is not None
        return "tape", self, self

    @property
    def follower(self) -> TapeMemory | None:
        """The tape around, if there is one."""
        return None if self._around is None else self._around.follower

    def _gradient(self, held: array) -> array | None:
        return self._own.of(held)

    def _owner(self, held: array) -> array:
        return root_of(held)[0]

    def inside(self) -> FunctionTape:
        """Return a new tape for a step of a roll-out on this one."""
        made = FunctionTape(())
        made._own = self._own
        return made

    def _is_source(self, memory: Memory) -> bool:
        return memory in self._own.pairs

    def _has_derivative(self, held: array) -> bool:
        return held._memory in self._own.pairs

    def note_read(self, held: array) -> None:
        """Take note that the host reads an array."""
        super().note_read(held)
        if self._around is not None:
            self._around.note_read(held)

    def note_unrecorded(self, operation: Operation) -> None:
        """Take note of an operation that is left out of derivatives on purpose."""
        super().note_unrecorded(operation)
        if self._around is not None:
            self._around.note_unrecorded(operation)

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Take note that arrays are derivatives of what was computed from some memory."""
        super().derive(found, sources)
        if self._around is not None:
            self._around.derive(found, sources)

    # -- what the tape around records too ----------------------------------------------------------------------------

    def _perform(self, operation: Operation) -> None:
        here, current.tape = current.tape, self._around
        try:
            if self._around is not None and isinstance(operation, PackedLaunch) and _logs_values(operation):
                perform(on_copies(operation))
                operation = operation.without_log()  # the tape around has a log of its own
            record(operation)
        finally:
            current.tape = here

    def record_overwrite(self, goal: array, values: Any) -> None:
        """Prepare for a fill or an assignment of constants; to be called before it happens."""
        super().record_overwrite(goal, values)
        if self._around is not None:
            self._around.record_overwrite(goal, values)

    def record_copy(self, goal: array, source: array) -> None:
        """Prepare for a copy; to be called before it happens."""
        super().record_copy(goal, source)
        if self._around is not None:
            self._around.record_copy(goal, source)

    def record_add(self, goal: array, source: array) -> None:
        """Prepare for a sum; to be called before it happens."""
        super().record_add(goal, source)
        if self._around is not None:
            self._around.record_add(goal, source)

    def check_adjoint(self, adjoint: AdjointLaunch) -> None:
        """Take an adjoint that is launched by hand, before it runs: no gradient can pass it."""
        super().check_adjoint(adjoint)
        if self._around is not None:
            self._around.check_adjoint(adjoint)

    def note_adjoint(self, adjoint: AdjointLaunch) -> None:
        """Take what an adjoint that is launched by hand has written."""
        super().note_adjoint(adjoint)
        if self._around is not None:
            self._around.note_adjoint(adjoint)

    def note_change(self, held: array) -> None:
        """Take the present contents of an array as the tape's own doing, which comes to its end with that."""
        super().note_change(held)
        if self._around is not None:
            self._around.note_change(held)

    # -- the reverse sweep -------------------------------------------------------------------------------------------

    def gradients(self, arrays: Sequence[array], seeds: Sequence[tuple[array, array | None]]) -> tuple[array, ...]:
        """Take the steps back, outside of the block; return the gradients, which the next call overwrites.

        Parameters
        ----------
        arrays : sequence of array
            The arrays that gradients are wanted for.
        seeds : sequence of (array, array or None)
            Results, and the cotangent of each; None for ones.

        Raises
        ------
        LaunchError
            If no result depends on an array that the tape was made for.
        """
        self.check_results([goal for goal, _ in seeds])
        drain()
        self._verify()
        self._lose_changed()
        found = tuple([self._own.made(held) for held in arrays])
        sweep = Cotangents(self._owners, self._gradient, Beside("cotangent"))
        # A result may be an argument that no launch has touched.
        sweep.own({held._memory: self._owner(held) for held in arrays if held._memory not in self._owners})
        sweep.live = {goal._memory for goal, _ in seeds}
        work = [step.prepare(sweep) for step in reversed(self._steps)]
        begun = [sweep.of(goal) for goal, _ in seeds]
        sweep.clear(record)
        for _, gradient in self._own.pairs.values():
            record(Assign(gradient, 0))
        seeded = set()
        for ct, (_, values) in zip(begun, seeds, strict=True):
            if values is None:
                record(Assign(ct, 1))
            else:  # results may be one array, or parts of one
                record((Add if ct._memory in seeded else Copy)(ct, values))
            seeded.add(ct._memory)
        for part in work:
            for item in part:
                if isinstance(item, FuncStep):
                    item.backward()
                else:
                    record(item)
        if self._around is not None:
            self._around.derive(found, [*self._own.pairs, *self._versions])
        return found


def _logs_values(launch: PackedLaunch) -> bool:
    """Whether a launch logs what another run of it would log as well."""
    return launch.logged is not None and launch.logged.active is not None
