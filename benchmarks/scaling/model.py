"""The time of a launch, from its plan, the time of its chunks in caches, and a machine.

All threads of a launch compute, and what they touch comes from memory; both overlap (:meth:`.Machine.combined`). Chunks
are drawn one by one, so that the last round may leave processors idle. Private copies are set to zero, their pages are
new where they are large, and they are added up in chunks of their own. Atomic updates wait for cache lines that other
processors have written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffkern.contracts.argument_block import with_partials
from diffkern.runtime.launch.schedule import ChunkGrid
from diffkern.runtime.native import copies_ir, pool
from diffkern.runtime.native.waking_ir import WORTH_NS

from .launches import Launch, Plan, Traffic
from .machine import Machine
from .timing import Clock, least

__all__ = ["Costs", "Prediction", "costs_of", "predicted", "rounds_of"]

_SAMPLE_BYTES = 1 << 17
_SAMPLES = 5
_MOST_SECONDS = 5e-3
_CLEARING = 1.2e-11  # seconds for each byte that one thread sets to zero in a cache
_USUAL_SUMS = 4096
_ATOMIC = 5e-9
_NEAR = 32 << 20
_DIGEST = 4.2e-11  # seconds for each byte of indices: they are compared by a digest
_WORTH = WORTH_NS * 1e-9


@dataclass(frozen=True)
class Costs:
    """What a launch costs by itself.

    Attributes
    ----------
    plain, atomic : float
        Seconds of one thread (or block) with its data in caches, with plain and with atomic updates.
    traffic : Traffic
        The memory that it touches.
    random : tuple of (float, int)
        Accesses at random of a thread, and the bytes that they are spread over.
    """

    plain: float
    atomic: float
    traffic: Traffic
    random: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Prediction:
    """The parts of a launch in seconds, which add up to its time.

    Attributes
    ----------
    computing, memory : float
        What its threads compute and wait for memory; they overlap in `threads`.
    threads : float
        Of both together, with processors that are idle in the end.
    zeroing, adding : float
        Of private copies.
    sharing : float
        Of launching, and of drawing chunks, and of waking threads.
    """

    computing: float
    memory: float
    threads: float
    zeroing: float
    adding: float
    sharing: float

    @property
    def seconds(self) -> float:
        """Return the time of the launch."""
        return self.threads + self.zeroing + self.adding + self.sharing


def costs_of(launch: Launch, plan: Plan, rounds: int, clock: Clock) -> Costs:
    """Measure some chunks of a launch, each again and again, so that its data stays in caches."""
    traffic = launch.traffic()
    size = max(1, min(plan.n, int(_SAMPLE_BYTES * plan.n / max(traffic.footprint, 1))))
    lanes = max(plan.executable.lane_counts, default=1)
    size = min(plan.n, max(lanes, size // lanes * lanes))
    pieces = plan.n // size
    firsts = sorted({min(pieces - 1, int((k + 0.5) * pieces / _SAMPLES)) for k in range(_SAMPLES)})
    cut = ChunkGrid((*plan.grid.dims, 1, 1, 1)[:4], plan.n, size)  # type: ignore[arg-type]
    found = []
    for marked in (plan.executable.updates, False):
        works = {str(k): _piece(plan, cut, k, marked) for k in firsts}
        seconds = least(works, rounds, clock)
        found.append(sum(seconds.values()) / len(seconds) / size)
    random = tuple((times, spread) for times, spread in launch.scattered.values())
    return Costs(found[0], found[1], traffic, random)


def _piece(plan: Plan, cut: ChunkGrid, first: int, marked: bool) -> Callable[[], object]:
    """Return what runs one chunk of a cut in this thread."""
    program = plan.executable
    grid = program.grid_of(cut) if not program.blockwise else plan.grid
    return _Piece(plan, grid.header, cut, first, marked, cut.chunks * program.sites).run


class _Piece:
    """One chunk of a launch."""

    def __init__(self, plan: Plan, header: bytes, cut: ChunkGrid, first: int, marked: bool, partials: int) -> None:
        self._sums = np.empty(partials, np.int64)
        if partials:
            header = with_partials(header, self._sums.ctypes.data)
        self._block = header + plan.arguments
        self._call = (plan.executable.address, id(self._block) + bytes.__basicsize__ - 1 + marked, 0, cut.n, cut.chunk,
                      first, max(cut.chunks, 1))  # fmt: skip

    def run(self) -> None:
        pool.entry(*self._call)


def predicted(
    costs: Costs, plan: Plan, machine: Machine, *, asleep: bool = False, is_mended: bool = True
) -> Prediction:
    """Return the time of a launch on a machine.

    Parameters
    ----------
    costs : Costs
        What the launch costs by itself.
    plan : Plan
        How it runs.
    machine : Machine
        The machine.
    asleep : bool, optional
        Whether it comes after a pause, in which the machine's threads have fallen asleep.
    is_mended : bool, optional
        Whether copies are cleared and added up as now: by all threads, in chunks that depend on their number.
    """
    each = _each(costs, plan, machine)
    chunks = _working(plan, machine, each)
    share = rounds_of(plan, chunks)
    computing = each * plan.n * share
    memory = _memory(costs, plan, machine, chunks)
    threads = machine.combined(computing, memory)
    if chunks > 1 and machine.processors > 2:
        threads = _drawn(threads, plan, machine, chunks)
    if plan.way == "sorted":
        zeroing, adding = 0.0, _sums(plan, machine)
    else:
        zeroing, adding = _copies(plan, machine, is_mended=is_mended)
    sharing = machine.call + machine.chunk * plan.count / chunks
    if chunks > 1:
        sharing += machine.launch * plan.colours + (machine.wake if asleep else 0.0)
    return Prediction(computing, memory, threads, zeroing, adding, sharing)


def _each(costs: Costs, plan: Plan, machine: Machine) -> float:
    """Return the seconds of a thread, in caches."""
    if plan.way != "atomic" or machine.processors == 1 or plan.count == 1:
        return costs.plain
    # Each atomic update takes longer by about as much; a line that another processor has written comes from there.
    updates = max(costs.atomic - costs.plain, 0.0) / _ATOMIC
    is_near = costs.traffic.written <= _NEAR
    return costs.atomic + is_near * updates * machine.line * (1.0 - 1.0 / machine.processors)


def _working(plan: Plan, machine: Machine, each: float) -> int:
    """Return how many processors take part: one where all is done before another one could."""
    if plan.count == 1 or each * plan.n < _WORTH:
        return 1
    return min(machine.processors, -(-plan.count // plan.colours))


def rounds_of(plan: Plan, processors: int) -> float:
    """Return the part of all threads that the processor has which has most of them."""
    counts = [len(range(colour, plan.count, plan.colours)) for colour in range(plan.colours)]
    return min(1.0, sum(math.ceil(count / processors) for count in counts) * plan.chunk / plan.n)


def _drawn(threads: float, plan: Plan, machine: Machine, processors: int) -> float:
    """Return the time of threads that join one after the other, and draw all chunks from one cursor."""
    joining = plan.colours * processors * (machine.lock + machine.line)
    # Each is idle for half of the time until the last one has joined; a line moves with each draw.
    return max(threads + joining / 2, plan.count * machine.line)


def _memory(costs: Costs, plan: Plan, machine: Machine, processors: int) -> float:
    """Return the seconds that what the threads touch comes from memory, all together."""
    traffic = costs.traffic
    inward = traffic.footprint * machine.inward.at(traffic.footprint)
    outward = traffic.written * machine.outward.at(traffic.footprint)
    random = sum(times * plan.n * machine.random.at(spread) for times, spread in costs.random) / processors
    # Few processors do not get the bandwidth of all.
    return (inward + outward) * _slower(machine, processors) + random


def _slower(machine: Machine, processors: int) -> float:
    """Return how much longer a number of processors takes for memory than all of them."""
    if processors >= machine.processors:
        return 1.0
    if machine.nodes == 1:
        return machine.processors / processors
    total = machine.node_bandwidth * machine.nodes
    return max(1.0, total / (processors * machine.own_bandwidth))


def _copies(plan: Plan, machine: Machine, *, is_mended: bool = True) -> tuple[float, float]:
    """Return the seconds of setting private copies to zero, and of adding them up."""
    if not plan.copies:
        return 0.0, 0.0
    size, processors = plan.copies * plan.copied, machine.processors
    stream = size * machine.inward.at(size)
    if size >= copies_ir.FRESH:
        zeroing = size / (2 << 20) * machine.large_page / processors
    else:
        working = processors if is_mended and size * _CLEARING > _WORTH else 1
        zeroing = max(stream * _slower(machine, working), size * _CLEARING / working)
    numbers = plan.copied / 4
    chunks = math.ceil(numbers / (copies_ir.summed(plan.copies) if is_mended else _USUAL_SUMS))
    work = machine.bins * numbers * (plan.copies + 1)
    working = min(processors, chunks) if work > _WORTH else 1
    rounds = math.ceil(chunks / working) / chunks
    away = stream * _slower(machine, working) if processors > 1 else 0.0
    return zeroing, machine.combined(work * rounds, away) + (machine.launch if working > 1 else 0.0)


def _sums(plan: Plan, machine: Machine) -> float:
    """Return the seconds of comparing indices, and of adding up contributions by destination."""
    comparing = plan.compared * _DIGEST  # in one thread
    random = plan.places * machine.random.at(plan.stored) / machine.processors
    adding = 4.0 * machine.bins * plan.stored / 4 / machine.processors
    streams = (plan.stored + 4 * plan.places) * machine.inward.at(2 * plan.stored)
    return comparing + machine.combined(adding + random, streams) + machine.launch
