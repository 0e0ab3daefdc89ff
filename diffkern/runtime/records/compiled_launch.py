"""The compiled form of a launch that repeats: native steps, argument block, plan.

A :class:`CompiledLaunch` is made of a packed launch, and for an adjoint of the gradients. Arguments of another kind
take another one. On a GPU it is also the operation that runs: its native steps, or its argument block as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffkern.contracts.argument_block import arguments_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, memories
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.native.replay import PYTHON, Plan, Steps

__all__ = ["CompiledLaunch"]


class CompiledLaunch(Operation):
    """The compiled form of a launch. It is replaced as a whole: an interrupt finds the old one or the new one.

    Attributes
    ----------
    launch, adjoint, given
        As in :class:`LaunchRecord`.
    native
        The native steps, None if there are none.
    block, offsets
        The argument block, and the offset of each leaf in it.
    program
        The program for these arguments.
    plan
        The steps with the counters of the memory that they write.
    """

    __slots__ = ("adjoint", "block", "given", "launch", "native", "offsets", "plan", "program")

    def __init__(
        self, launch: PackedLaunch, adjoint: AdjointLaunch | None, given: list[array | None], flags: int = 0
    ) -> None:
        self.launch, self.adjoint, self.given = launch, adjoint, given
        operation = self.operation
        self.native = operation.steps()
        # One counter for each array of a forward launch that is written, so that it can be exchanged alone.
        written = memories(operation.writes()) if adjoint else [held._memory for held in operation.writes()]
        # On a GPU a launch also counts with another library that owns the memory; native code cannot.
        counted = self.device is not CPU and any(memory.is_counted for memory in written)
        flags |= PYTHON if self.native is None or counted else 0
        self.plan = Plan(self.native or (), [memory.counter for memory in written], flags)
        self.block = self.native[0].block if self.native else operation.block()
        self.program: Executable = operation.executable
        # On a GPU the program may have variants for particular arguments, of which the block selects one.
        if self.block and self.device is not CPU:
            self.program = self.program.chosen(arguments_of(self.block))
        self.offsets = operation.executable.layout.offsets if self.block else {}

    @property
    def operation(self) -> PackedLaunch | AdjointLaunch:
        """The launch, or its adjoint if that is what runs."""
        return self.launch if self.adjoint is None else self.adjoint

    @property
    def label(self) -> str:
        """The name of the launch for messages."""
        return self.operation.label

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of its span."""
        return self.operation.kind

    def facts(self) -> dict[str, Any]:
        """Return the facts for observers of the launch."""
        return self.operation.facts()

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self.operation.device

    def execute(self) -> None:
        """Submit the launch to the current stream of its GPU."""
        device: Any = self.device
        if self.native is not None:
            device.replay(self.plan, device.stream)
        elif self.operation.grid.n:
            program: Any = self.program
            program.enqueue(self.operation.grid, self.block)
            # Gathering reads cotangents from several threads, so that they can only be cleared once all threads have
            # ended.
            if self.adjoint is not None:
                self.adjoint.clear()

    def reads(self) -> Iterable[array]:
        """Return the arrays that are read."""
        return self.operation.reads()

    def writes(self) -> Iterable[array]:
        """Return the arrays that are written."""
        return self.operation.writes()

    def constants(self) -> bytes:
        """Return what the launch does besides its arrays."""
        return self.operation.constants()

    def steps(self) -> Steps | None:
        """Return its native steps."""
        return self.native
