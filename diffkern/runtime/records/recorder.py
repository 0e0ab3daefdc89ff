"""Recording of the steps of a sequence while arrays change.

Operations on arrays become :class:`Item` values, launches among them records, which a sequence
compiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diffkern.errors import LaunchError
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Copy, Operation, perform, run, submit
from diffkern.runtime.launch.packed import PackedLaunch, dispatch
from diffkern.runtime.memory.memory import Memory
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.state import current, is_handled, recorder_now, will_replay
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.records.launch_record import LaunchRecord

__all__ = ["Item", "Recorder"]


class Item:
    """One step: an operation, or the record of a launch."""

    __slots__ = ("_operation", "record", "stream")

    def __init__(self, operation: Operation, stream: Stream | None, fixed: bool) -> None:
        self.record: LaunchRecord | None = None
        self.stream = stream
        self._operation: Operation | None = None
        if isinstance(operation, AdjointLaunch):
            self.record = LaunchRecord(operation.launch, operation, fixed=True)
        elif isinstance(operation, PackedLaunch):
            self.record = LaunchRecord(operation, fixed=fixed)
        else:
            self._operation = operation

    @property
    def operation(self) -> Operation:
        """The operation of the step."""
        record = self.record
        if record is not None:
            if record.released:
                record.check_alive()
            return record.operation
        assert self._operation is not None
        return self._operation

    @property
    def steps(self) -> Steps | None:
        """Its native steps."""
        return self.operation.steps() if self.record is None else self.record.steps

    def launches(self) -> Iterator[LaunchRecord]:
        """Yield the launches of the step: its own, or those of the sequences that are parts of it."""
        if self.record is not None:
            yield self.record
            return
        for part in self.operation.sequences:
            for item in part._program.items:
                yield from item.launches()

    def again(self, copies: dict[PackedLaunch, PackedLaunch]) -> None:
        """Perform it like a program would: a tape or another sequence may take it.

        Parameters
        ----------
        copies : dict
            The launches that replace those of the sequence, by these. An adjoint is of the one that replaces its
            launch, so
            that the two go on to share their arguments.
        """
        operation, recorder = self.operation, recorder_now()
        if isinstance(operation, PackedLaunch):
            if operation.logged is not None and is_handled():
                _log_anew(operation)
                return
            made = copies[operation] = operation.copy()
            dispatch(made)
            if isinstance(recorder, Recorder) and self.record is not None and self.record.fixed:
                recorder.fix(made)
                recorder.settle(made, self.record.settled)
            return
        if isinstance(operation, AdjointLaunch):
            launch = copies.setdefault(operation.launch, operation.launch.copy())
            if recorder is not None and self.record is not None:
                recorder.settle(launch, self.record.settled)
            cotangents, saved, contents = operation.cotangents, operation.saved, operation.contents
            again = AdjointLaunch(launch, cotangents, saved, contents, of_sweep=operation.of_sweep)
            again.launch_by_hand()
            return
        perform(operation)


def _log_anew(launch: PackedLaunch) -> None:
    """Run a launch with a log that the present tape keeps; its adjoint in the sequence finds a copy in its own."""
    assert launch.logged is not None
    made = launch.with_log(launch.logged)
    dispatch(made)
    # The log of the sequence has room for what was counted at its recording; the new one may have fewer slots.
    for own, new in zip(launch.log or (), made.log or (), strict=True):
        if new.size:
            submit(Copy(own[: new.size], new))


class Recorder(Scope):
    """Takes the operations on arrays in a block.

    Parameters
    ----------
    runs : bool
        Whether operations also run while they are recorded.
    allow_reads : bool, optional
        Whether the host may read what was recorded to be written.
    written : mapping of Memory to str, optional
        The memory that a surrounding recording has written, and by what.
    is_capture : bool, optional
        Whether a graph is captured.
    """

    def __init__(
        self,
        runs: bool,
        allow_reads: bool = False,
        written: Mapping[Memory, str] | None = None,
        is_capture: bool = False,
    ) -> None:
        self.runs = runs
        self.items: list[Item] = []
        self.written = dict(written or {})
        self._allow_reads, self._is_capture = allow_reads, is_capture
        self.reader: str | None = None  # the custom operation that runs, or its derivative
        self._records: dict[int, list[LaunchRecord]] = {}
        # Launches some of whose integer arguments are settled, and these; also those that are yet to be taken.
        self._settled: dict[int, tuple[PackedLaunch, frozenset[int]]] = {}

    def inside(self) -> Recorder:
        """Return the recorder of a part of this recording that becomes one step of it."""
        made = Recorder(False, self._allow_reads, self.written, self._is_capture)
        made.reader = self.reader
        return made

    def check_parts(self, operation: Operation) -> None:
        """Do nothing: the operations that a composite one performs are recorded."""

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Record an operation, and run it if those that are recorded run."""
        self._record(operation, stream)
        if self.runs:
            run(operation, stream)
        else:
            # It will run when the sequence is replayed, but an array's contents count as changed already.
            operation.touch()

    def _record(self, operation: Operation, stream: Stream | None) -> None:
        item = Item(operation, stream or current.stream, is_handled())
        self.items.append(item)
        label = operation.label
        for a in operation.writes():
            self.written[a._memory] = label
        if item.record is not None:
            # A launch and its adjoint share the arguments by value, and change them together.
            family = self._records.setdefault(id(item.record.launch), [])
            family.append(item.record)
            item.record.join(family)
            if (settled := self._settled.get(id(item.record.launch))) is not None:
                item.record.settle(settled[1])

    def settle(self, launch: PackedLaunch, leaves: frozenset[int]) -> bool:
        """Refuse other numbers for some leaves of a launch: copies were made, or left out, for these."""
        if not leaves:
            return True
        _, known = self._settled.get(id(launch), (launch, frozenset()))
        # The launch is kept with its id, which could otherwise be given to another one.
        self._settled[id(launch)] = launch, known | leaves
        for record in self._records.get(id(launch), ()):
            record.settle(leaves)
        return True

    def check_read(self, held: array) -> None:
        """Raise if the host reads what was recorded to be written: a replay would not read it again.

        A custom operation and its derivatives are recorded as functions of their arguments, and read nothing.
        """
        if self._allow_reads:
            return
        label = self.written.get(held._memory)
        if label is None:
            if self.reader is None:
                return
            raise LaunchError(
                f"{self.reader} reads {held._summary()} on the host in a sequence that is recorded: replays would go "
                "on with the numbers that it has now",
                remedy="use launches and operations of arrays in it, or leave it out of the sequence",
            )
        what = "captured" if self._is_capture else "recorded"
        remedy = (
            "let the sequence look at it, with dk.capture_while(condition, body) or dk.capture_if(condition, on_true, "
            "on_false), or read it after the block"
        )
        if not self._is_capture:
            remedy += "; dk.record(allow_reads=True) is for reads that have no part in what is recorded"
        raise LaunchError(
            f"{held._summary()} is read while work for it is {what} (step {label!r} writes it): numbers, branches and "
            "loops that depend on it would be the same in every replay",
            remedy=remedy,
        )

    def fix(self, launch: PackedLaunch) -> None:
        """Refuse other arrays and dimensions for a launch that was taken: a gradient was built for them."""
        for record in self._records.get(id(launch), ()):
            record.fix()

    def _begin(self) -> tuple[str, Recorder, Recorder]:
        if will_replay():
            raise RuntimeError("a sequence is being recorded already; leave its block before entering another")
        return "recorder", self, self
