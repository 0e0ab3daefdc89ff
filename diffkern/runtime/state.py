"""The one owner of what is current in a thread of Python: the tape, the sequence and the stream that take launches.

In: tapes, recorders and streams that are entered and left. Out: what is current, and one word of memory that is not 0
while anything is current in any thread or work is pending on a stream. Prepared launches look at that word alone, in
native code, and turn to Python when it is not 0.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.stream import CudaStream
    from diffkern.runtime.recorder import Recorder
    from diffkern.runtime.repeat import Collector
    from diffkern.runtime.stream import Stream
    from diffkern.runtime.tape import Tape

__all__ = ["Attention", "attention", "current"]


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


class Attention:
    """Reasons why launches have to ask Python: one word, readable by native code at ``address``.

    Its halves are the number of things that are current in any thread, which :func:`diffkern.runtime.scope.put` keeps,
    and whether work is pending. ``word[0]`` is both of them in Python. A device that is current does not count: it has
    a say in launches without arrays alone.
    """

    def __init__(self) -> None:
        self._halves = (ctypes.c_int32 * 2)()
        self.word = memoryview(self._halves).cast("B").cast("q")
        self.address = ctypes.addressof(self._halves)

    def restart(self, reasons: int) -> None:
        """Begin with a number of things that are current, in the child of a fork."""
        self._halves[0] = reasons

    def add(self, reasons: int) -> None:
        """Add a number of things that are current, or take it away."""
        self._halves[0] += reasons

    def busy(self, pending: bool) -> None:
        """Note whether work is pending."""
        self._halves[1] = pending


current = _Current()
attention = Attention()
