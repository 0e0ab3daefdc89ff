"""The one owner of thread state: the current tape, recorder, streams and device that take launches.

Besides the current objects there is one word of memory that is not 0 while anything is current in any thread or work is
pending on a stream. Prepared launches look at that word alone, in native code, and turn to Python when it is not 0.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.stream import CudaStream
    from diffkern.runtime.effects.compiled_backward import Collector
    from diffkern.runtime.effects.tape import Tape
    from diffkern.runtime.memory.stream import Stream
    from diffkern.runtime.records.recorder import Recorder

__all__ = ["SlowPathFlags", "current", "is_recorded", "slow_path_flags"]


class _Current(threading.local):
    """State of each thread; a tape entered in one thread does not record what another launches."""

    tape: Tape | None = None
    recorder: Recorder | Collector | None = None
    # The tape that dk.no_grad has put aside.
    left: Tape | None = None
    stream: Stream | None = None
    # Whether observers were started here; they are those of the process.
    observed: bool | None = None
    # The GPU that is meant where none is named, None for the CPU; the current stream of each GPU that has one.
    device: CudaDevice | None = None
    streams: dict[int, CudaStream] | None = None


class SlowPathFlags:
    """Reasons why launches have to ask Python: one word, readable by native code at ``address``.

    Its halves are the number of objects that are current in any thread, which :func:`diffkern.runtime.memory.scope.put`
    keeps, and whether work is pending. ``word[0]`` is both of them in Python. A current device does not count: it only
    matters for launches without arrays.
    """

    def __init__(self) -> None:
        # Two halves of one word: native code tests both with a single load.
        self._halves = (ctypes.c_int32 * 2)()
        self.word = memoryview(self._halves).cast("B").cast("q")
        self.address = ctypes.addressof(self._halves)

    def restart(self, reasons: int) -> None:
        """Start with a number of current objects, in the child of a fork."""
        self._halves[0] = reasons

    def add(self, reasons: int) -> None:
        """Add to the number of current objects."""
        self._halves[0] += reasons

    def busy(self, pending: bool) -> None:
        """Note whether work is pending."""
        self._halves[1] = pending


current = _Current()
slow_path_flags = SlowPathFlags()


def is_recorded() -> bool:
    """Return whether what is done now is recorded: for derivatives, or for a sequence to be replayed."""
    return (current.tape is not None and current.tape.records) or current.recorder is not None
