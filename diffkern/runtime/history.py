"""The steps of a tape, and what each of them asks of the arrays when it is taken back.

In: launches, copies and overwrites as they happened. Out: for each one, a function that carries cotangents from what
was written to what was read; or an error, raised before any of them runs, where something it needs is gone.
"""

from __future__ import annotations

from typing import Protocol

from diffkern.errors import KernelError, LaunchError
from diffkern.runtime.adjoint import AdjointLaunch
from diffkern.runtime.array import array, new
from diffkern.runtime.memory import Memory
from diffkern.runtime.operation import Add, Assign, Copy, Operation
from diffkern.runtime.packed import PackedLaunch
from diffkern.runtime.program import Executable

__all__ = ["ChangeStep", "CopyStep", "Cotangents", "LaunchStep", "OverwriteStep", "Step"]


class Cotangents(Protocol):
    """Where the reverse sweep finds the cotangents."""

    live: set[Memory]
    """Memory whose cotangent may differ from zero."""

    def of(self, a: array) -> array:
        """Return the cotangent of an array."""
        ...


class Step(Protocol):
    """Something that changed memory while the tape recorded."""

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        """Return what takes the step back: nothing, if no cotangent reaches it."""
        ...


class LaunchStep:
    """A launch.

    Attributes
    ----------
    saved
        Copies of what parameters held before the launch.
    contents
        Copies of what parameters held after it, where a later step overwrote them.
    lost
        Parameters whose contents after the launch were changed where the tape could not see it.
    """

    def __init__(self, launch: PackedLaunch, number: int, active: frozenset[int]) -> None:
        self.launch = launch
        self.number = number
        self.active = active
        self.saved: dict[int, array] = {}
        self.contents: dict[int, array] = {}
        self.lost: set[int] = set()
        self._program: Executable | None = None
        self._error: KernelError | None = None

    def program(self) -> Executable | None:
        """Return the adjoint program, or None if there is none: the error is raised only if a gradient needs it."""
        if self._program is None and self._error is None:
            try:
                self._program = self.launch.adjoint(self.active)
            except KernelError as error:
                self._error = error
        return self._program

    def needs_after(self, index: int) -> bool:
        """Whether the adjoint reads what a parameter holds after the launch."""
        program = self.program()
        return program is not None and index in program.derivative.after

    def saves(self) -> tuple[int, ...]:
        """Return the parameters whose contents before the launch the adjoint needs."""
        program = self.program()
        return () if program is None else program.derivative.before

    def reads_still(self) -> list[Memory]:
        """Return the memory of the arrays themselves, not of copies, that the adjoint reads."""
        if self._program is None:
            return []
        wanted = [i for i in self._program.derivative.after if i not in self.contents]
        return [held._memory for i in wanted if (held := self.launch.arrays[i]) is not None]

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        launch = self.launch
        arrays = {i: a for i in self.active if (a := launch.arrays[i]) is not None}
        written = [arrays[i]._memory for i in launch.executable.writes if i in arrays]
        if cotangents.live.isdisjoint(written):
            return []
        program = self.program()
        if program is None:
            assert self._error is not None
            raise self._error
        for index in program.derivative.after:
            if index in self.lost and index not in self.contents:
                raise LaunchError(
                    f"array {launch.executable.name_of(index)!r} of launch {self.number} on the tape (kernel "
                    f"{launch.kernel.name!r}) was changed outside the tape, and its gradient needs what it held",
                    remedy="make the change inside the tape's block, or call backward() before it",
                )
        given = {i: cotangents.of(a) for i, a in arrays.items()}
        cotangents.live.update(a._memory for a in arrays.values())
        return [AdjointLaunch(launch, given, self.saved, self.contents, program)]


class OverwriteStep:
    """A fill or an assignment of constants: what was there has no influence any more."""

    def __init__(self, goal: array) -> None:
        self.goal = goal

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        if self.goal._memory not in cotangents.live:
            return []
        return [Assign(cotangents.of(self.goal), 0)]


class CopyStep:
    """A copy from one array to another."""

    def __init__(self, goal: array, source: array) -> None:
        self.goal = goal
        self.source = source

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        if self.goal._memory not in cotangents.live:
            return []
        ct_goal, ct_source = cotangents.of(self.goal), cotangents.of(self.source)
        cotangents.live.add(self.source._memory)
        # By way of a copy of the cotangent, because the two arrays may be parts of one.
        moved = new(ct_goal.shape, ct_goal._element, False, ct_source._memory.device)
        return [Copy(moved, ct_goal), Assign(ct_goal, 0), Add(ct_source, moved)]


class ChangeStep:
    """A change that the tape did not see: no gradient can pass it."""

    def __init__(self, memory: Memory, place: str) -> None:
        self.memory = memory
        self.place = place

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        if self.memory in cotangents.live:
            raise LaunchError(
                f"an array was changed before {self.place} where the tape could not see it, and a gradient passes it",
                remedy="make the change inside the tape's block, and without record_tape=False",
            )
        return []
