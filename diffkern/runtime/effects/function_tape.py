"""A tape nested in another tape or in tangents: gradients of a function as values that have derivatives themselves.

The gradients of some arrays with respect to the launches of a block get arrays of their own. The operations that write
these are recorded by the surrounding tape or tangents like any launch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Add, Assign, Copy, Operation, perform, submit
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.second_order import on_copies
from diffkern.runtime.effects.tangent_map import Beside, root_of
from diffkern.runtime.effects.tape_memory import TapeMemory
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.effects.tape_steps import carry_out
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.scope import Scope, under
from diffkern.runtime.memory.state import Handler, handler_now
from diffkern.runtime.memory.stream import Stream, drain

__all__ = ["FunctionTape"]


class FunctionTape(TapeRecording, Scope, Uncopied):
    """Records a function for the gradients of some arrays, whatever their ``grad`` is.

    Parameters
    ----------
    arrays : sequence of array
        The arrays to differentiate with respect to.
    """

    follows_objects = True
    # Launches of the usual kind are known by the arrays' own gradients, which count for nothing here.
    _takes_usual = False

    def __init__(self, arrays: Sequence[array]) -> None:
        self._own = Beside("gradient")
        self._around: Handler | None = None
        super().__init__()
        for held in arrays:
            self._own.made(held)

    def _begin(self) -> tuple[str, FunctionTape, FunctionTape]:
        self._around = handler_now()
        # The reverse sweep is differentiated by the tape around it, and so reads inputs that a plain sweep would not
        # need.
        self.keeps_inputs = self._around is not None
        # The derivative is with respect to what the arrays hold now: what others change before a launch reads them is
        # noticed as well.
        for held, _ in self._own.pairs.values():
            self._notice(held, "the function")
            self._exposures.note(held)
        return "tape", self, self

    @property
    def follower(self) -> TapeMemory | None:
        """The follower of the surrounding tape, or None."""
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

    def _used(self, memory: Memory) -> list[array]:
        found = super()._used(memory)
        if memory in self._own.pairs:
            found.append(self._own.pairs[memory][0])
        return found

    def _is_source(self, memory: Memory) -> bool:
        return memory in self._own.pairs

    def _has_derivative(self, held: array) -> bool:
        return held._memory in self._own.pairs

    def note_read(self, held: array) -> None:
        """Note that the host reads an array."""
        super().note_read(held)
        if self._around is not None:
            self._around.note_read(held)

    def note_unrecorded(self, operation: Operation) -> None:
        """Note an operation that is deliberately left out of derivatives."""
        super().note_unrecorded(operation)
        if self._around is not None:
            self._around.note_unrecorded(operation)

    def is_differentiated(self, held: array) -> bool:
        """Return whether a derivative is taken for an array, or for what it was computed from."""
        around = self._around
        return super().is_differentiated(held) or (around is not None and around.is_differentiated(held))

    def begin_derivative(self, name: str | None) -> None:
        """Begin the derivative of a custom operation."""
        super().begin_derivative(name)
        if self._around is not None:
            self._around.begin_derivative(name)

    def end_derivative(self) -> None:
        """End it."""
        super().end_derivative()
        if self._around is not None:
            self._around.end_derivative()

    def hide(self, began: int, ended: int, results: Collection[array], name: str) -> None:
        """Note a custom operation: of what it has made, nothing but its results may be used here."""
        super().hide(began, ended, results, name)
        if self._around is not None:
            self._around.hide(began, ended, results, name)

    def check_not_read(self, found: Iterable[array], what: str) -> None:
        """Raise if arrays may have been written from what the host has read."""
        found = [*found]
        super().check_not_read(found, what)
        if self._around is not None:
            self._around.check_not_read(found, what)

    def derive(self, found: Iterable[array], sources: Iterable[Memory]) -> None:
        """Note that arrays are derivatives of what was computed from some memory."""
        super().derive(found, sources)
        if self._around is not None:
            self._around.derive(found, sources)

    # -- what the tape around records too ----------------------------------------------------------------------------

    def _perform(self, operation: Operation, stream: Stream | None = None) -> None:
        # While the operation runs, the surrounding tape is the current one: it takes what this tape has taken.
        with under(self._around):
            if self._around is not None and isinstance(operation, PackedLaunch) and _logs_values(operation):
                submit(on_copies(operation))
                operation = operation.without_log()  # the tape around has a log of its own
            perform(operation, stream)

    # -- the reverse sweep -------------------------------------------------------------------------------------------

    def gradients(self, arrays: Sequence[array], seeds: Sequence[tuple[array, array | None]]) -> tuple[array, ...]:
        """Run the reverse sweep, outside of the block; return the gradients, which the next call overwrites.

        Parameters
        ----------
        arrays : sequence of array
            The arrays to differentiate with respect to.
        seeds : sequence of (array, array or None)
            Results, and the cotangent of each; None for ones.

        Raises
        ------
        LaunchError
            If no result depends on an array that the tape was made for.
        """
        self.check_results([goal for goal, _ in seeds])
        # Pending work has to end before its results are compared with what the tape noted.
        drain()
        self._verify()
        self._lose_changed()
        found = tuple([self._own.made(held) for held in arrays])
        sweep = Cotangents(self._owners, self._gradient, Beside("cotangent"))
        sweep.relied.append(self._needs)
        # A result may be an argument that no launch has touched.
        sweep.own({held._memory: self._owner(held) for held in arrays if held._memory not in self._owners})
        sweep.live = {goal._memory for goal, _ in seeds}
        # Every step prepares before any runs: an error leaves gradients and cotangents untouched.
        work = [step.prepare(sweep) for step in reversed(self._steps)]
        begun = [sweep.of(goal) for goal, _ in seeds]
        sweep.clear(perform)
        # Gradients accumulate, and this function returns the derivative of one call.
        for _, gradient in self._own.pairs.values():
            perform(Assign(gradient, 0))
        seeded = set()
        for ct, (_, values) in zip(begun, seeds, strict=True):
            if values is None:
                perform(Assign(ct, 1))
            else:  # results may be one array, or parts of one
                perform((Add if ct._memory in seeded else Copy)(ct, values))
            seeded.add(ct._memory)
        carry_out(work, perform)
        if self._around is not None:
            self._around.derive(found, [*self._own.pairs, *self._versions])
        return found


def _logs_values(launch: PackedLaunch) -> bool:
    """Return whether a launch logs values that a second run of it would log as well, and that its adjoint needs."""
    log = launch.logged
    return log is not None and log.active is not None and not log.searches
