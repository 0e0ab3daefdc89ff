"""Programs that report errors or print: they run with a record, which is read after the launch.

For an executable whose manifest has ``checks`` or ``outputs``, launches write to the standard output what their threads
have printed, and raise :class:`KernelRuntimeError` if a thread made an error, with its place in the source, the
thread, and the access. All other threads have run by then.
"""

from __future__ import annotations

from array import array as words
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.contracts import abi
from diffkern.contracts.argument_block import with_status
from diffkern.contracts.manifest import Manifest
from diffkern.runtime.launch.checked import error_of, stamp_counts
from diffkern.runtime.launch.output import empty_buffer, give_back, show, show_at
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import Grid
from diffkern.runtime.native.output import StepOutput, output_room
from diffkern.runtime.native.replay import Step, Steps
from diffkern.runtime.observe.config import config

if TYPE_CHECKING:
    from diffkern.runtime.native.loader import Code

__all__ = ["ReportingExecutable"]


class ReportingExecutable(Executable):
    """A debug program, or one that prints, in memory."""

    __slots__ = ("_output",)

    def __init__(self, address: int, finish: int, manifest: Manifest, code: Code | None = None) -> None:
        super().__init__(address, finish, manifest, code)
        self._output = StepOutput(partial(show_at, manifest))

    def steps(self, grid: Grid, arguments: bytes, colours: int = 1) -> Steps | None:
        """Return a run in native code of a program that prints; None of one that checks: its errors are read here."""
        return None if self.manifest.checks is not None else super().steps(grid, arguments, colours)

    def copied_steps(self, grid: Grid, arguments: bytes, colours: int, copied: words[int]) -> Steps | None:
        """Return a native run with copies for chunks, as :meth:`steps`."""
        return None if self.manifest.checks is not None else super().copied_steps(grid, arguments, colours, copied)

    def _steps(self, grid: Grid, arguments: bytes, colours: int, copied: words[int] | None) -> list[Step]:
        output_room.open(config.output_bytes)
        return [step._replace(output=self._output) for step in super()._steps(grid, arguments, colours, copied)]

    def run(self, grid: Grid, arguments: bytes) -> None:
        """Run all threads of a launch."""
        if grid.n:
            self.run_blocks(grid, [arguments], colours=1)

    def run_blocks(self, grid: Grid, arguments: list[bytes], colours: int) -> None:
        """Run with a fresh record.

        Raises
        ------
        KernelRuntimeError
            If a thread caused an error.
        """
        buffers = self._stamps(arguments[0], grid.dims)
        record = np.zeros(abi.RECORD_STAMPS + len(buffers), np.int64)
        # The addresses of the stamps follow the record, which itself is reached by the status word of the header.
        record[abi.RECORD_STAMPS :] = [0 if b is None else b.ctypes.data for b in buffers]
        printed = empty_buffer() if self.manifest.outputs else None
        if printed is not None:
            record[abi.RECORD_OUTPUT] = printed.ctypes.data
        header = with_status(grid.header, record.ctypes.data)
        super().run_blocks(Grid(grid.n, grid.size, grid.count, grid.dims, header), arguments, colours)
        # Shown before an error is raised: what threads printed often explains it.
        if printed is not None:
            show(self.manifest, printed)
            give_back(printed)
        if record[abi.RECORD_CODE]:
            raise error_of(self.manifest, [int(field) for field in record], grid.dims)

    def _stamps(self, arguments: bytes, dims: Sequence[int]) -> list[np.ndarray[Any, Any] | None]:
        """Return a stamp per element of each array in which two threads of this launch could store to one element."""
        counts = stamp_counts(self.manifest, arguments, dims)
        return [np.zeros(count, np.int64) if count else None for count in counts]
