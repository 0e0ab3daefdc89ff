"""What is recorded: the steps of a sequence, taken while arrays change.

In: operations on arrays. Out: :class:`Item` values, launches among them prepared for repetition, which a sequence
compiles.
"""

from __future__ import annotations

from diffkern.runtime.adjoint import AdjointLaunch
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.operation import Copy, Operation, perform
from diffkern.runtime.packed import PackedLaunch, dispatch
from diffkern.runtime.prepared import Prepared
from diffkern.runtime.scope import Scope
from diffkern.runtime.second_order import record
from diffkern.runtime.state import current
from diffkern.runtime.stream import Stream

__all__ = ["Item", "Recorder"]


class Item:
    """One step: an operation, prepared if it is a launch."""

    __slots__ = ("_operation", "prepared", "stream")

    def __init__(self, operation: Operation, stream: Stream | None, fixed: bool) -> None:
        self.prepared: Prepared | None = None
        self.stream = stream
        self._operation: Operation | None = None
        if isinstance(operation, AdjointLaunch):
            self.prepared = Prepared(operation.launch, operation, fixed=True)
        elif isinstance(operation, PackedLaunch):
            self.prepared = Prepared(operation, fixed=fixed)
        else:
            self._operation = operation

    @property
    def operation(self) -> Operation:
        """What it does."""
        if self.prepared is not None:
            self.prepared.check_alive()
            return self.prepared.operation
        assert self._operation is not None
        return self._operation

    @property
    def steps(self) -> Steps | None:
        """Its native form."""
        return self.operation.steps() if self.prepared is None else self.prepared.steps

    def again(self, copies: dict[PackedLaunch, PackedLaunch]) -> None:
        """Do it in the way of a program: a tape or another sequence may take it.

        Parameters
        ----------
        copies : dict
            The launches that take the places of those of the sequence, by these. An adjoint is of the one that its
            launch has, so that the two go on to share their arguments.
        """
        operation, tape = self.operation, current.tape
        if isinstance(operation, PackedLaunch):
            if tape is not None and operation.logged is not None:
                _log_anew(operation)
                return
            made = copies[operation] = operation.copy()
            dispatch(made)
            recorder = current.recorder
            if isinstance(recorder, Recorder) and self.prepared is not None and self.prepared.fixed:
                recorder.fix(made)
                recorder.settle(made, self.prepared.settled)
            return
        if isinstance(operation, AdjointLaunch):
            launch = copies.setdefault(operation.launch, operation.launch.copy())
            if isinstance(current.recorder, Recorder) and self.prepared is not None:
                current.recorder.settle(launch, self.prepared.settled)
            perform(AdjointLaunch(launch, operation.cotangents, operation.saved, operation.contents))
            return
        record(operation)


def _log_anew(launch: PackedLaunch) -> None:
    """Run a launch with a log that the present tape keeps; its adjoint in the sequence finds a copy in its own."""
    assert launch.logged is not None
    made = launch.with_log(launch.logged)
    dispatch(made)
    for own, new in zip(launch.log or (), made.log or (), strict=True):
        if new.size:
            perform(Copy(own[: new.size], new))


class Recorder(Scope):
    """Takes what happens to arrays.

    Attributes
    ----------
    runs
        Whether things also happen while they are recorded.
    """

    def __init__(self, runs: bool) -> None:
        self.runs = runs
        self.items: list[Item] = []
        self._prepared: dict[int, list[Prepared]] = {}
        # Launches some of whose integer arguments are settled, and these; also those that are yet to be taken.
        self._settled: dict[int, tuple[PackedLaunch, frozenset[int]]] = {}

    def add(self, operation: Operation, stream: Stream | None) -> None:
        """Take one operation."""
        item = Item(operation, stream or current.stream, current.tape is not None)
        self.items.append(item)
        if item.prepared is not None:
            # A launch and its adjoint share the arguments by value, and change them together.
            family = self._prepared.setdefault(id(item.prepared.launch), [])
            family.append(item.prepared)
            item.prepared.join(family)
            if (settled := self._settled.get(id(item.prepared.launch))) is not None:
                item.prepared.settle(settled[1])

    def settle(self, launch: PackedLaunch, leaves: frozenset[int]) -> None:
        """Refuse other numbers for some leaves of a launch: copies were made, or left out, for these."""
        if not leaves:
            return
        _, known = self._settled.get(id(launch), (launch, frozenset()))
        self._settled[id(launch)] = launch, known | leaves
        for prepared in self._prepared.get(id(launch), ()):
            prepared.settle(leaves)

    def fix(self, launch: PackedLaunch) -> None:
        """Refuse other arrays and dimensions for a launch that was taken: a gradient was built for them."""
        for prepared in self._prepared.get(id(launch), ()):
            prepared.fix()

    def _begin(self) -> tuple[str, Recorder, Recorder]:
        if current.recorder is not None:
            raise RuntimeError("a sequence is being recorded already; leave its block before entering another")
        return "recorder", self, self
