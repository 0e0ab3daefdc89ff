"""The one owner of thread state: the current tape, recorder, streams and device that take launches.

Operations are handed to :func:`diffkern.runtime.arrays.operation.perform`, which decides who takes them. What does
something else where a tape or a sequence listens asks one of the questions here, so that no other module looks at the
tape or the recorder itself; to put another one in their place there are the blocks of
:mod:`diffkern.runtime.memory.scope`.

While anything is current in any thread the word of :mod:`diffkern.runtime.native.slow_path` is not 0, so that prepared
launches turn to Python.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from diffkern.errors import LaunchError
from diffkern.process.tracebacks import brief
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from diffkern.runtime.memory.device import Device
    from diffkern.runtime.memory.stream import Stream

__all__ = [
    "Handler", "RecorderProtocol", "can_look", "check_not_replayed", "current", "handler_now", "is_fill_noted",
    "is_handled",
    "is_postponed", "is_recorded", "is_repeated", "is_taken", "note_read", "recorder_now", "runs_at_once",
    "slow_path_reasons", "will_replay",
]  # fmt: skip


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

    def settle(self, launch: Any, leaves: frozenset[int]) -> bool:
        """Refuse other numbers for some leaves of a launch, and return True; False if it cannot."""
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


# -- questions ---------------------------------------------------------------------------------------------------------


def is_handled() -> bool:
    """Return whether a handler takes what is done now: a tape, tangents, a roll-out, or a custom operation in one."""
    return current.tape is not None


def is_repeated() -> bool:
    """Return whether a handler does what is done now again later, and compares the two."""
    return current.tape is not None and current.tape.repeats


def is_recorded() -> bool:
    """Return whether what is done now is recorded: for derivatives, or for a sequence to be replayed."""
    return (current.tape is not None and current.tape.records) or current.recorder is not None


def is_taken() -> bool:
    """Return whether what is done now is handed to something that has to see each step: a tape, tangents, a sequence.

    What repeats several steps in one call does them one by one then.
    """
    return current.tape is not None or current.recorder is not None


def will_replay() -> bool:
    """Return whether what is done now belongs to a sequence: replays of it find other contents than there are now."""
    return current.recorder is not None


def is_postponed() -> bool:
    """Return whether what is done now runs in replays alone, so that nobody knows yet what arrays will hold."""
    return current.recorder is not None and not current.recorder.runs


def can_look(device: Device) -> bool:
    """Return whether the host can look at memory of a device: not while work for it is captured, or postponed."""
    return device.is_cpu or not (device.is_capturing or is_postponed())


def is_fill_noted(held: Any) -> bool:
    """Return whether the tape of this thread, alone in the process, has set an array to zero and noted that."""
    tape: Any = current.tape
    return getattr(tape, "_noted", None) is not None and bool(tape.note_fill(held))


def runs_at_once() -> bool:
    """Return whether an operation has run, once, when it has been submitted: in no sequence, and on no stream."""
    return current.recorder is None and current.stream is None and not current.streams


def check_not_replayed(what: str, remedy: str) -> None:
    """Raise if what is done now belongs to a sequence, with what is wrong with that.

    Raises
    ------
    LaunchError
        If a sequence or a graph is recorded.
    """
    if current.recorder is not None:
        raise LaunchError(what, remedy=remedy)


def handler_now() -> Handler | None:
    """Return what takes operations for derivatives, for another handler that takes its place and passes them on."""
    return current.tape


def recorder_now() -> RecorderProtocol | None:
    """Return what records, for what belongs to one recording and to no other."""
    return current.recorder


def slow_path_reasons() -> int:
    """Return how many objects of this thread make launches ask Python."""
    return sum(x is not None for x in (current.tape, current.recorder, current.stream, current.observed))


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
