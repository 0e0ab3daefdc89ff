"""A simulation of the thread pool on many processors, event by event.

It checks the model of :mod:`.model` and shows what that leaves out: how workers wake each other, queue up for the
pool's mutex, draw chunks from one cursor, and share the memory of their node. Threads follow the steps of
``diffkern/runtime/native``: the submitter wakes two, each of which wakes two more; a worker takes part under the mutex,
draws chunks, and leaves.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator
from dataclasses import dataclass

from .machine import Machine

__all__ = ["Job", "Outcome", "Pool", "simulated"]

_PARTS, _MOST_AT_ONCE = 8, 64  # as in the pool
_Step = Generator[float, None, None]


@dataclass(frozen=True)
class Job:
    """Chunks of a launch.

    Attributes
    ----------
    count : int
        Their number.
    computing : float
        Seconds that one computes.
    moved : float
        Bytes that one moves from and to memory.
    """

    count: int
    computing: float
    moved: float


@dataclass(frozen=True)
class Pool:
    """How the pool works.

    Attributes
    ----------
    woken : int
        Workers that each thread wakes which takes part; 0: the submitter wakes all of them.
    spins : bool
        Whether a thread spins for the mutex before it sleeps.
    leaves_locked : bool
        Whether chunks count as finished only under the mutex.
    asleep : bool
        Whether workers sleep at first, or spin.
    local : bool
        Whether pages are on the node of the thread that runs their chunk; else anywhere.
    one_node : bool
        Whether all pages are on one node.
    """

    woken: int = 2
    spins: bool = True
    leaves_locked: bool = False
    asleep: bool = False
    local: bool = False
    one_node: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a simulation has shown.

    Attributes
    ----------
    seconds : float
        From the submission until the submitter goes on.
    last_arrival : float
        When the last worker had its first chunk or found none.
    busy : float
        The part of the processors' time in which they run chunks.
    """

    seconds: float
    last_arrival: float
    busy: float


class _Simulation:
    """The state: time, the mutex, the cursor, and the memory of nodes."""

    def __init__(self, job: Job, machine: Machine, pool: Pool) -> None:
        self.job, self.machine, self.pool = job, machine, pool
        self.time, self._events, self._order = 0.0, [], itertools.count()  # type: ignore[var-annotated]
        self.free_at = self.cursor_at = 0.0
        self.drawn = self.finished = 0
        self.sleeping = machine.processors - 1 if pool.asleep else 0
        self.next_worker = 1
        self.busy = self.last_arrival = self.end = 0.0
        self.active = [0] * machine.nodes

    def start(self, process: _Step, delay: float = 0.0) -> None:
        heapq.heappush(self._events, (self.time + delay, next(self._order), process))

    def run(self) -> None:
        while self._events:
            self.time, _, process = heapq.heappop(self._events)
            for delay in process:
                self.start(process, delay)
                break

    def locked(self) -> float:
        """Take the mutex; return the seconds until it is given back."""
        waits = self.free_at > self.time
        at = max(self.free_at, self.time)
        if waits:
            # A spinning thread has it when the line arrives, a sleeping one when it is awake.
            at += self.machine.line if self.pool.spins else self.machine.handover
        self.free_at = at + self.machine.lock
        return self.free_at - self.time

    def draw(self) -> tuple[int, float]:
        """Draw chunks; return how many, and the seconds that takes."""
        at = max(self.cursor_at, self.time) + (self.machine.line if self.machine.processors > 1 else 0.0)
        self.cursor_at = at
        left = self.job.count - self.drawn
        share = self.machine.processors * _PARTS
        some = min(max(min(left // share, _MOST_AT_ONCE), 1), left) if left > 0 else 0
        self.drawn += some
        return some, at - self.time + self.machine.chunk

    def seconds_of(self, worker: int, chunk: int) -> tuple[int, float]:
        """Return the node of a chunk's pages, and the seconds that it takes."""
        machine, pool = self.machine, self.pool
        own = worker * machine.nodes // machine.processors
        node = 0 if pool.one_node else own if pool.local else chunk % machine.nodes
        rate = machine.node_bandwidth / max(self.active[node] + 1, 1)
        if node != own:
            rate /= machine.remote
        return node, machine.combined(self.job.computing, self.job.moved / rate)


def _chunks(s: _Simulation, worker: int) -> _Step:
    mine = 0
    while s.drawn < s.job.count:
        first = s.drawn
        some, delay = s.draw()
        yield delay
        s.last_arrival = max(s.last_arrival, s.time) if mine == 0 else s.last_arrival
        for chunk in range(first, first + some):
            node, seconds = s.seconds_of(worker, chunk)
            s.active[node] += 1
            s.busy += seconds
            yield seconds
            s.active[node] -= 1
        mine += some
    if s.pool.leaves_locked and worker:
        yield s.locked()
    s.finished += mine
    if s.finished >= s.job.count and not s.end:
        s.end = s.time + (s.machine.line if worker else 0.0)


def _wake(s: _Simulation, most: int) -> _Step:
    for _ in range(most):
        if s.sleeping <= 0 or s.drawn >= s.job.count:
            return
        s.sleeping -= 1
        worker, s.next_worker = s.next_worker, s.next_worker + 1
        yield s.machine.signal
        s.start(_worker(s, worker), s.machine.wake)


def _worker(s: _Simulation, worker: int) -> _Step:
    yield s.locked()
    if s.pool.asleep and s.pool.woken:
        yield from _wake(s, s.pool.woken)
    yield from _chunks(s, worker)


def _submitter(s: _Simulation) -> _Step:
    yield s.locked()
    if s.pool.asleep:
        yield from _wake(s, s.pool.woken or s.machine.processors)
    else:
        for worker in range(1, s.machine.processors):
            s.start(_worker(s, worker), s.machine.line)
    yield from _chunks(s, 0)


def simulated(job: Job, machine: Machine, pool: Pool) -> Outcome:
    """Simulate a run that is shared with all workers."""
    s = _Simulation(job, machine, pool)
    s.start(_submitter(s))
    s.run()
    return Outcome(s.end, s.last_arrival, s.busy / max(s.end, 1e-12) / machine.processors)
