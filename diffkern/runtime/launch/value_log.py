"""The log of a launch: what its adjoint needs of its atomic updates or its loads.

For a launch whose adjoint reads a log, this allocates the arrays of the log, which the forward program writes. Where
loops decide how many slots a thread takes, a program of its own counts them first. In a sequence that is recorded the
count is a step in front of the launch; the log then has room for the slots counted at recording, and each replay
checks that this suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from diffkern.contracts.manifest import Log
from diffkern.errors import LaunchError
from diffkern.ir.types import INT64, Scalar, parse_type
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Assign, Operation, submit
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.scope import unrecorded
from diffkern.runtime.memory.state import is_postponed, will_replay

if TYPE_CHECKING:
    from diffkern.runtime.launch.packed import PackedLaunch

__all__ = ["new_log"]


def new_log(launch: PackedLaunch, logged: PackedLaunch, log: Log) -> tuple[array, ...]:
    """Return the arrays of a launch's log, and run the count of its slots if one is needed.

    Parameters
    ----------
    launch, logged : PackedLaunch
        The launch without the log, and the one that is to have it.
    log : Log
        The description of the log.

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
    # Slots are numbered by the thread index that the kernel asks for. Axes behind it repeat the index, so that several
    # threads would write to one slot.
    if any(extent > 1 for extent in launch.dims[axes:]):
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what} in each thread, and several threads of a "
            f"launch over {launch.dims} have the same index",
            loc=log.loc,
            remedy=f"ask for all {len(launch.dims)} axes with dk.tid()",
        )
    # The number of slots per thread is a constant: thread t begins at t * calls, and no table of offsets is needed.
    if log.calls is not None:
        return (new((threads * log.calls,), element, True, device),)
    if launch.device.is_capturing:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what}, and how often a thread comes there is "
            "counted before each launch, which a graph cannot do",
            loc=log.loc,
            remedy="let the loop around it make a constant number of trips, with an if in it, or record a sequence",
        )
    # Layout: thread t owns the slots from begins[t] on, as in the row pointers of a CSR matrix.
    begins = new((threads,), INT64, True, device)
    if will_replay():
        room = _capacity(launch, log)
        submit(Count(logged, log, begins))
        return new((room,), element, True, device), begins
    return new((_count(launch, log, begins, submit),), element, True, device), begins


def _count(launch: PackedLaunch, log: Log, begins: array, act: Callable[[Operation], object]) -> int:
    """Store the first slot of each thread in `begins`, and return the total number of slots."""
    # An exclusive prefix sum of the counts per thread.
    ends = np.cumsum(launch.count(log, act)._elements(), dtype=np.int64)
    act(Assign(begins, np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]))
    return int(ends[-1]) if len(ends) else 0


def _capacity(launch: PackedLaunch, log: Log) -> int:
    """Return the number of slots of a recorded launch: twice as many as now if contents of arrays decide it."""
    reads = bool(launch.counting(log)[0].executable.reads)
    if reads and is_postponed():
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: its gradient needs {log.what}, and how often a thread comes there depends "
            "on what arrays hold, which is not computed while the adjoint of a sequence is put together",
            loc=log.loc,
            remedy="record forward and backward as they run: with dk.record() as sequence: with dk.Tape() as tape: ...",
        )
    # The count runs now, on its own buffer, and must not become a step of the sequence.
    begins = new((math.prod(launch.dims),), INT64, True, launch.device)
    with unrecorded():
        found = _count(launch, log, begins, submit)
    # Later replays may need more slots as the arrays change. Doubling leaves room, and `Count` raises if it is
    # exceeded.
    return 2 * found if reads else found


class Count(Operation):
    """The step of a sequence that counts the slots of a launch before it runs.

    Parameters
    ----------
    launch : PackedLaunch
        The launch with its log and its current parameters.
    log : Log
        The description of the log.
    begins : array
        The first slot of each thread.
    """

    __slots__ = ("begins", "launch", "log")

    def __init__(self, launch: PackedLaunch, log: Log, begins: array) -> None:
        self.launch, self.log, self.begins = launch, log, begins

    @property
    def label(self) -> str:
        """The name of the step for messages."""
        return f"count for {self.launch.kernel.name}"

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self.launch.device

    def execute(self) -> None:
        """Count, and raise if the log has not enough room."""
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
        """Return the arrays that the launch reads, on which the counts may depend."""
        return self.launch.reads()

    def writes(self) -> list[array]:
        """Return the array of the first slots."""
        return [self.begins]

    def constants(self) -> bytes:
        """Return nothing: it counts for its launch."""
        return b""

    def steps(self) -> None:
        """Return None: the total is checked on the host, which native code cannot do."""
