"""The compiled form of a prepared launch: native steps, argument block, plan.

A :class:`Form` is made of a packed launch, and for an adjoint of the gradients. Arguments of another kind take another
form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffkern.contracts.argument_block import arguments_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Operation, memories
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.native.replay import PYTHON, Plan, Steps

__all__ = ["Form", "Packed"]


class Form:
    """The compiled form of a prepared launch. It is replaced as a whole: an interrupt finds the old one or the new one.

    Attributes
    ----------
    launch, adjoint, given
        As in :class:`Prepared`.
    device
        The device that it runs on.
    steps
        The native steps, None if there are none.
    block, offsets
        The argument block, and the offset of each leaf in it.
    program
        The program for these arguments.
    plan
        The steps with the counters of the memory that they write.
    """

    __slots__ = ("adjoint", "block", "device", "given", "launch", "offsets", "plan", "program", "steps")

    def __init__(
        self, launch: PackedLaunch, adjoint: AdjointLaunch | None, given: list[array | None], flags: int = 0
    ) -> None:
        self.launch, self.adjoint, self.given = launch, adjoint, given
        operation = launch if adjoint is None else adjoint
        self.device = operation.device
        self.steps = operation.steps()
        # One counter for each array of a forward launch that is written, so that it can be exchanged alone.
        written = memories(operation.writes()) if adjoint else [held._memory for held in operation.writes()]
        # On a GPU a launch also counts with another library that owns the memory; native code cannot.
        counted = self.device is not CPU and any(memory.is_counted for memory in written)
        flags |= PYTHON if self.steps is None or counted else 0
        self.plan = Plan(self.steps or (), [memory.counter for memory in written], flags)
        self.block = self.steps[0].block if self.steps else operation.block()
        self.program: Executable = operation.executable
        # On a GPU the program may have variants for particular arguments, of which the block selects one.
        if self.block and self.device is not CPU:
            self.program = self.program.chosen(arguments_of(self.block))
        self.offsets = operation.executable.layout.offsets if self.block else {}


class Packed(Operation):
    """The operation that runs a form on a GPU: its native steps, or its argument block as it is."""

    __slots__ = ("_form", "_of")

    def __init__(self, form: Form, of: PackedLaunch | AdjointLaunch) -> None:
        self._form = form
        self._of = of

    @property
    def label(self) -> str:
        """The name of the launch for messages."""
        return self._of.label

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of its span."""
        return self._of.kind

    def facts(self) -> dict[str, Any]:
        """Return the facts for observers of the launch."""
        return self._of.facts()

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self._form.device

    def execute(self) -> None:
        """Submit the launch to the current stream."""
        form = self._form
        if form.steps is not None:
            form.device.replay(form.plan, form.device.stream)
        elif self._of.grid.n:
            program: Any = form.program
            program.enqueue(self._of.grid, form.block)
            # Gathering reads cotangents from several threads, so that they can only be cleared once all threads have
            # ended.
            for ct in form.adjoint.accumulation.cleared if form.adjoint is not None else ():
                Assign(ct, 0).execute()

    def reads(self) -> Iterable[array]:
        """Return the arrays that are read."""
        return self._of.reads()

    def writes(self) -> Iterable[array]:
        """Return the arrays that are written."""
        return self._of.writes()

    def steps(self) -> Steps | None:
        """Return its native steps."""
        return self._form.steps
