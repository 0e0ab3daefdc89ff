"""The log of a launch: what its adjoint needs of its atomic updates or its loads.

In: a launch whose adjoint reads a log. Out: the arrays of the log, which the forward program writes; where loops decide
how many slots a thread takes, these have been counted by a program of their own. In a sequence that is recorded the
count is a step in front of the launch; the log then has room for what was counted when it was recorded, and each replay
looks whether that is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import INT64, Scalar, parse_type
from diffkern.manifest import Log
from diffkern.runtime.array import array, new
from diffkern.runtime.device import Device
from diffkern.runtime.operation import Assign, Operation, perform
from diffkern.runtime.state import current

if TYPE_CHECKING:
    from diffkern.runtime.packed import PackedLaunch

__all__ = ["new_log"]


def new_log(launch: PackedLaunch, logged: PackedLaunch, log: Log) -> tuple[array, ...]:
    """Return the arrays of a launch's log, and run the count of its slots where there has to be one.

    Parameters
    ----------
    launch, logged : PackedLaunch
        The launch without the log, and the one that is to have it.
    log : Log
        What it is like.

    Raises
    ------
    LaunchError
        If several threads of the launch have the same index, or if slots would have to be counted while a graph is
        captured, or by numbers that are not computed while a sequence is put together.
    """
    axes, device = launch.executable.manifest.tid_arity, launch.device
    element = parse_type(log.type)
    assert isinstance(element, Scalar)
    threads = math.prod(launch.dims[:axes])
    if any(extent > 1 for extent in launch.dims[axes:]):
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what} in each thread, and several threads of a "
            f"launch over {launch.dims} have the same index",
            loc=log.loc,
            remedy=f"ask for all {len(launch.dims)} axes with dk.tid()",
        )
    if log.calls is not None:
        return (new((threads * log.calls,), element, True, device),)
    if launch.device.is_capturing:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what}, and how often a thread comes there is "
            "counted before each launch, which a graph cannot do",
            loc=log.loc,
            remedy="let the loop around it make a constant number of trips, with an if in it, or record a sequence",
        )
    begins = new((threads,), INT64, True, device)
    if current.recorder is not None:
        room = _capacity(launch, log)
        perform(Count(logged, log, begins))
        return new((room,), element, True, device), begins
    return new((_count(launch, log, begins, perform),), element, True, device), begins


def _count(launch: PackedLaunch, log: Log, begins: array, act: Callable[[Operation], object]) -> int:
    """Note where the slots of each thread begin, and return how many there are in all."""
    ends = np.cumsum(launch.count(log, act)._elements(), dtype=np.int64)
    act(Assign(begins, np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]))
    return int(ends[-1]) if len(ends) else 0


def _capacity(launch: PackedLaunch, log: Log) -> int:
    """Return how many slots a recorded launch has: twice as many as now, where numbers in arrays decide about that."""
    reads = bool(launch.counting(log)[0].executable.reads)
    recorder = current.recorder
    if reads and recorder is not None and not recorder.runs:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what}, and how often a thread comes there depends "
            "on what arrays hold, which is not computed while the adjoint of a sequence is put together",
            loc=log.loc,
            remedy="record forward and backward as they run: with dk.record() as sequence: with dk.Tape() as tape: ...",
        )
    begins = new((math.prod(launch.dims),), INT64, True, launch.device)
    current.recorder = None
    try:
        found = _count(launch, log, begins, perform)
    finally:
        current.recorder = recorder
    return 2 * found if reads else found


class Count(Operation):
    """The count of the slots of a launch in a sequence, in front of the launch.

    Parameters
    ----------
    launch : PackedLaunch
        With the log, and the parameters of now.
    log : Log
        What it is like.
    begins : array
        Where the slots of each thread begin.
    """

    __slots__ = ("begins", "launch", "log")

    def __init__(self, launch: PackedLaunch, log: Log, begins: array) -> None:
        self.launch, self.log, self.begins = launch, log, begins

    @property
    def label(self) -> str:
        """What it is, for a person."""
        return f"count for {self.launch.kernel.name}"

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.launch.device

    def execute(self) -> None:
        """Count, and raise if the log has not room for so many."""
        total = _count(self.launch, self.log, self.begins, lambda operation: operation.execute())
        room = self.launch.log[0].size if self.launch.log else total
        if total > room:
            raise LaunchError(
                f"kernel {self.launch.kernel.name!r}: its gradient needs {self.log.what} {total} times, and the "
                f"recorded sequence has room for {room}",
                loc=self.log.loc,
                remedy="record it anew with arguments for which the loops make as many trips",
            )

    def reads(self) -> list[array]:
        """Return the arrays that are read."""
        return self.launch.reads()

    def writes(self) -> list[array]:
        """Return the array of the counts."""
        return [self.begins]

    def steps(self) -> None:
        """Return None: it looks at what was counted."""
