"""The one owner of thread state: the current tape, recorder, streams and device that take launches.

While anything is current in any thread the word of :mod:`diffkern.runtime.native.slow_path` is not 0, so that prepared
launches turn to Python.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from diffkern.process.tracebacks import brief
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from diffkern.runtime.memory.device import Device
    from diffkern.runtime.memory.stream import Stream

__all__ = ["Handler", "RecorderProtocol", "current", "is_recorded", "is_taken", "note_read"]


class Handler(Protocol):
    """A tape, tangents, a roll-out, or anything else in a tape's place: it is handed the operations on arrays.

    It keeps what it needs of an operation and passes it on.
    """

    @property
    def records(self) -> bool:
        """True if derivatives are taken of what it is handed."""
        ...

    @property
    def repeats(self) -> bool:
        """True if what is done here is done again later."""
        ...

    @property
    def follower(self) -> Any:
        """The tape that carries gradients of arrays themselves, None if there is none."""
        ...

    def take(self, operation: Any, stream: Any = None) -> None:
        """Take an operation, for a stream if one is given."""
        ...

    def note_unrecorded(self, operation: Any) -> None:
        """Note an operation that is deliberately left out of derivatives."""
        ...

    def note_read(self, held: Any) -> None:
        """Note that the host reads an array."""
        ...

    def is_differentiated(self, held: Any) -> bool:
        """Return whether a derivative is taken for an array."""
        ...

    def check_not_read(self, found: Iterable[Any], what: str) -> None:
        """Raise for arrays that the host has made when it had read numbers, as a derivative would miss that."""
        ...

    def begin_derivative(self, name: str | None) -> None:
        """Note that the derivative of a custom operation begins, or with None the operation itself."""
        ...

    def end_derivative(self) -> None:
        """Note that it ends."""
        ...

    def hide(self, began: int, ended: int, results: Collection[Any], name: str) -> None:
        """Hide what a custom operation has made in between, but for its results."""
        ...

    def derive(self, found: Iterable[Any], sources: Iterable[Any]) -> None:
        """Note that arrays are derivatives of what was computed from some memory."""
        ...


class RecorderProtocol(Protocol):
    """The interface of what takes operations instead of running them: a sequence, or a sweep that is compiled."""

    @property
    def runs(self) -> bool:
        """True if operations also run while they are recorded."""
        ...

    reader: str | None
    """The custom operation that runs, or its derivative."""

    def take(self, operation: Any, stream: Any = None) -> None:
        """Take an operation, for a stream if one is given."""
        ...

    def check_parts(self, operation: Any) -> None:
        """Raise if it cannot take the parts of a composite operation."""
        ...

    def check_read(self, held: Any) -> None:
        """Raise if the host may not read an array."""
        ...


class _Current(threading.local):
    """State of each thread; a tape entered in one thread does not record what another launches."""

    tape: Handler | None = None
    recorder: RecorderProtocol | None = None
    # The tape that dk.no_grad has put aside.
    left: Handler | None = None
    stream: Stream | None = None
    # Whether observers were started here; they are those of the process.
    observed: bool | None = None
    # The GPU that is meant where none is named, None for the CPU; the current stream of each GPU that has one.
    device: Device | None = None
    streams: dict[int, Stream] | None = None


current = _Current()


def is_recorded() -> bool:
    """Return whether what is done now is recorded: for derivatives, or for a sequence to be replayed."""
    return (current.tape is not None and current.tape.records) or current.recorder is not None


def is_taken() -> bool:
    """Return whether what is done now is handed to something that has to see each step: a tape, tangents, a sequence.

    What repeats several steps in one call does them one by one then.
    """
    return current.tape is not None or current.recorder is not None


# -- reads by the host -------------------------------------------------------------------------------------------------
# Reads of arrays by the host, or by other libraries that are given an array.
#
# Before elements are read, an error is raised if a sequence that has written them is being recorded: a replay would
# not read again, so that Python's results would stay as they are now. Tapes and tangents are told of the read.
# Diffkern's own reads do not come here.


def note_read(held: Any) -> None:
    """Note that the host reads an array.

    Raises
    ------
    LaunchError
        If a recording that does not allow this has written it.
    """
    if slow_path_flags.word[0]:
        _note(held)


@brief
def _note(held: Any) -> None:
    if (recorder := current.recorder) is not None:
        recorder.check_read(held)
    if (tape := current.tape) is not None:
        tape.note_read(held)
