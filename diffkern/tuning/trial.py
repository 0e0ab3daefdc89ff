"""A launch that is measured: run as often as wanted, each time on the contents that its arrays had at first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from diffkern.errors import MisuseError
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.arrays.operation import Copy, submit
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.stream import synchronize_device
from diffkern.runtime.records.record import Launch

__all__ = ["FirstContents", "Trial"]


class FirstContents:
    """The contents of arrays, to be put back before each launch and at the end.

    A launch need not be repeatable: one that takes places from a counter would write past the end of its output the
    second time.

    Parameters
    ----------
    arrays : sequence of array
        The arrays that launches change.
    """

    def __init__(self, arrays: Sequence[array]) -> None:
        self._kept = [(held, clone(held, requires_grad=False)) for held in arrays]

    def restore(self) -> None:
        """Put them back."""
        for held, kept in self._kept:
            submit(Copy(held, kept))  # not an assignment, which would be seen by whoever looks at the arrays


class Trial:
    """A launch with some options.

    Parameters
    ----------
    kernel : Kernel
        The kernel with these options.
    record : Launch
        Its launch.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    seconds : list of float
        The times that were read.
    """

    def __init__(self, kernel: Kernel, record: Launch) -> None:
        self.kernel = kernel
        self._record = record
        self.seconds: list[float] = []

    @property
    def launch(self) -> PackedLaunch:
        """The launch, or that of which the adjoint runs."""
        return self._record._record.launch

    @property
    def program(self) -> Any:
        """The program that runs."""
        return self._record._record.executable

    @property
    def active(self) -> frozenset[int] | None:
        """The parameters to differentiate for; None for the forward."""
        adjoint = self._record._record.adjoint
        return None if adjoint is None else frozenset(adjoint.cotangents)

    @property
    def adds(self) -> bool:
        """True if groups of threads may have copies of what they add to."""
        return self.active is not None or bool(self.program.manifest.added)

    @property
    def changed(self) -> list[array]:
        """The arrays whose contents the launch changes.

        Raises
        ------
        MisuseError
            If it also changes what cannot be put back, or prints.
        """
        launch, adjoint = self.launch, self._record._record.adjoint
        for program in {launch.executable, self.program}:
            _check_repeatable(self.kernel, program)
        found = [launch.arrays[k] for k in launch.executable.writes]
        return [held for held in (*found, *(adjoint.cotangents.values() if adjoint else ())) if held is not None]

    def run(self, contents: FirstContents) -> None:
        """Read the time of one launch."""
        contents.restore()
        device = self.program.device
        # A launch on a GPU returns before it has run.
        if not device.is_cpu:
            synchronize_device(device)
        begin = time.perf_counter()
        self._record.launch()
        if not device.is_cpu:
            synchronize_device(device)
        self.seconds.append(time.perf_counter() - begin)

    @property
    def best(self) -> float:
        """The shortest time, in seconds."""
        return min(self.seconds)


def _check_repeatable(kernel: Kernel, program: Any) -> None:
    if program.changes:
        raise MisuseError(
            f"kernel {kernel.name!r} changes an object that it finds by its id, and measuring repeats that",
            remedy="tune a kernel that does the work without the change, and give its options to this one",
        )
    if program.manifest.outputs:
        raise MisuseError(
            f"kernel {kernel.name!r} prints, and measuring repeats its launch", remedy="tune it without the print"
        )
