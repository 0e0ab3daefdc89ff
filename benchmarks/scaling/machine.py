"""What a machine can do: measured on this one, and assumed of ones with more processors.

:func:`measured` reads bandwidths, the price of accesses at random, of a chunk, of waking a thread, of a page and of a
cache line that moves between processors. :func:`larger` makes a machine of many processors from that, with a topology
that is written down and was not measured.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.native import pool

from . import probe_kernels as probes
from .timing import Clock, least, on_processors

__all__ = ["LINE", "NODE_BANDWIDTH", "REMOTE", "WAKE", "Curve", "Machine", "larger", "measured"]

NODE_BANDWIDTH = 90e9
"""Bytes in a second from the memory of a node of 16 processors: assumed, as of three channels of DDR5."""
REMOTE = 1.6
"""How many times as long memory of another node takes: assumed."""
LINE = 200e-9
"""Seconds of a cache line that a processor of another group has written: assumed."""
WAKE = 10e-6
"""Seconds until a woken thread runs, on a machine without a hypervisor: assumed."""

_KB = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 98304)
_IN_CACHE = 1 << 18
_PICKS = 1 << 18
_PATIENCE = 3.0
"""Seconds that readings of several processors go on: others use them as well."""
_TRIPS = (0, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Curve:
    """A quantity over a number of bytes, interpolated between the logarithms of these."""

    sizes: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, size: float) -> float:
        """Return the value at a number of bytes; beyond the ends that of the end."""
        return float(np.interp(math.log(max(size, 1.0)), np.log(self.sizes), self.values))

    def times(self, factor: float) -> Curve:
        """Return the curve with all values multiplied."""
        return Curve(self.sizes, tuple(factor * v for v in self.values))


@dataclass(frozen=True)
class Machine:
    """A machine; times in seconds.

    Attributes
    ----------
    name : str
        Its name in tables.
    processors, nodes : int
        Processors, and groups of them with memory of their own.
    inward, outward : Curve
        Seconds for each byte that comes from beyond a processor's own caches, and goes there, all processors together,
        over the bytes that a launch touches.
    random : Curve
        What an access at random takes longer than one in a processor's own caches, for one processor.
    overlap : float
        How computing and waiting for memory overlap: (computing ** overlap + memory ** overlap) ** (1 / overlap).
    chunk : float
        Of drawing a chunk.
    launch : float
        Of a run that is shared with awake threads, beyond its chunks.
    call : float
        Of a launch from Python, beyond its chunks.
    wake : float
        From the signal to a sleeping thread until it runs.
    signal : float
        Of the signal, for the thread that gives it.
    lock : float
        Of a lock that is free, with what is done under it.
    handover : float
        Of a lock that a sleeping thread waits for, from the unlocking until it has it.
    line : float
        Of a cache line that another processor has written.
    page, large_page : float
        Of the first access to a page of 4 KiB and of 2 MiB.
    bins : float
        Of adding a number to one at the same place of another array, all in caches.
    node_bandwidth : float
        Bytes in a second from the memory of one node; all of it on a machine of one.
    own_bandwidth : float
        Bytes in a second that one processor gets from memory.
    remote : float
        How many times as long memory of another node takes.
    """

    name: str
    processors: int
    nodes: int
    inward: Curve
    outward: Curve
    random: Curve
    overlap: float
    chunk: float
    launch: float
    call: float
    wake: float
    signal: float
    lock: float
    handover: float
    line: float
    page: float
    large_page: float
    bins: float
    node_bandwidth: float
    own_bandwidth: float
    remote: float = 1.0

    def combined(self, computing: float, memory: float) -> float:
        """Return the time of computing and waiting for memory that overlap."""
        return float((computing**self.overlap + memory**self.overlap) ** (1.0 / self.overlap))


def runner(kernel: Any, n: int, arguments: Sequence[Any]) -> Callable[[], object]:
    """Return what runs a launch without Python's part."""
    made = PackedLaunch(kernel, n, list(arguments))
    packed = b"".join(made.parts)
    return lambda: made.executable.run(made.grid, packed)


def measured(processors: int, rounds: int, one: Machine | None = None) -> Machine:
    """Measure this machine on some of its processors; `one` is what was measured on one of them."""
    with on_processors(processors) as clock:
        computing, together = _streams(rounds, clock, processors)
        overlap = _overlap(rounds, clock, processors) if one is None else one.overlap
        inward, outward = _beyond(computing, together, overlap)
        chunk, call, launch = _runs(rounds, clock)
        return Machine(
            name=f"this machine, {processors} processor{'s' if processors > 1 else ''}",
            processors=processors,
            nodes=1,
            inward=inward,
            outward=outward,
            random=_random(rounds, clock) if one is None else one.random,
            overlap=overlap,
            chunk=chunk,
            launch=launch,
            call=call,
            bins=_bins(rounds, clock),
            node_bandwidth=1.0 / inward.values[-1],
            own_bandwidth=1.0 / inward.values[-1] / processors,
            **_threads(rounds),
            **_pages(rounds),
        )


def _streams(rounds: int, clock: Clock, processors: int) -> tuple[dict[str, float], dict[str, Curve]]:
    """Return seconds for each byte in caches, and beyond them by size: of reading, and of reading and writing."""
    works: dict[str, Callable[[], object]] = {}
    total, sizes = dk.zeros(1), [1024 * kb for kb in _KB]
    x = dk.ones(sizes[-1] // 4)
    for size in (_IN_CACHE, 3 * _IN_CACHE, *sizes):
        part = x[: size // 4]
        works[f"read {size}"] = runner(probes.read, size // 4, [part, total])
        works[f"update {size}"] = runner(probes.update, size // 4, [part, 1.0])
    found = least(works, rounds, clock, 0.0 if processors == 1 else _PATIENCE)
    computing, together = {}, {}
    for name in ("read", "update"):
        # The difference of two sizes that a cache holds, without what a launch takes; these run in one thread.
        more = max(found[f"{name} {3 * _IN_CACHE}"] - found[f"{name} {_IN_CACHE}"], 1e-9)
        each = more / (2 * _IN_CACHE)
        fixed = max(found[f"{name} {_IN_CACHE}"] - each * _IN_CACHE, 0.0)
        computing[name] = each / processors
        seconds = [max(found[f"{name} {size}"] - fixed, 0.0) / size for size in sizes]
        together[name] = Curve(tuple(map(float, sizes)), tuple(seconds))
    return computing, together


def _beyond(computing: Mapping[str, float], together: Mapping[str, Curve], overlap: float) -> tuple[Curve, Curve]:
    """Return the curves of memory alone: what the overlap leaves of the readings."""
    sizes = together["read"].sizes

    def alone(name: str) -> list[float]:
        c = computing[name]
        return [max(t**overlap - c**overlap, 0.0) ** (1.0 / overlap) for t in together[name].values]

    inward = alone("read")
    outward = [max(both - one, 0.0) for both, one in zip(alone("update"), inward, strict=True)]
    return Curve(sizes, tuple(inward)), Curve(sizes, tuple(outward))


def _overlap(rounds: int, clock: Clock, processors: int) -> float:
    """Fit the overlap on a kernel with any amount of computing for each element of large arrays."""
    n, small = 1 << 23, 1 << 14
    x, y = dk.ones(n), dk.ones(n)
    works = {}
    for trips in _TRIPS:
        works[f"{trips} large"] = runner(probes.chains, n, [x, trips, y])
        works[f"{trips} small"] = runner(probes.chains, small, [x[:small], trips, y[:small]])
    found = least(works, max(rounds // 2, 2), clock)
    pairs = [(found[f"{t} small"] / small / processors, found[f"{t} large"] / n) for t in _TRIPS]

    def error(p: float) -> float:
        c0, t0 = pairs[0]
        memory = max(t0**p - c0**p, 1e-40) ** (1.0 / p)
        return sum((math.log((c**p + memory**p) ** (1.0 / p) / t)) ** 2 for c, t in pairs[1:])

    return float(min(np.arange(1.0, 6.05, 0.1), key=error))


def _random(rounds: int, clock: Clock) -> Curve:
    """Return what an access at random takes longer than in a cache, by the bytes of the table."""
    rng, works, y = np.random.default_rng(0), {}, dk.zeros(_PICKS)
    sizes = [1 << k for k in range(17, 27)]
    for size in sizes:
        at = dk.array(rng.integers(0, size // 4, _PICKS).astype(np.int32))
        works[str(size)] = runner(probes.pick, _PICKS, [at, dk.ones(size // 4), y])
    found = least(works, rounds, clock)
    first = found[str(sizes[0])]
    return Curve(tuple(map(float, sizes)), tuple(max(found[str(s)] - first, 0.0) / _PICKS for s in sizes))


def _runs(rounds: int, clock: Clock) -> tuple[float, float, float]:
    """Return the seconds of a chunk, of a launch, and of sharing a run."""
    n = 1 << 12
    x = dk.ones(n)
    made = PackedLaunch(probes.write, n, [x, 1.0])
    block = made.grid.header + b"".join(made.parts)
    address, place = made.executable.address, id(block) + made.executable._block_offset
    works: dict[str, Callable[[], object]] = {
        "one": lambda: pool.entry(address, place, 0, n, n, 0, 1),
        "many": lambda: pool.entry(address, place, 0, n, 4, 0, 1),
        "bare": lambda: pool.entry(address, place, 0, 64, 64, 0, 1),
        "launch": made.execute,
    }
    found = least(works, 4 * rounds, clock)
    call = max(found["launch"] - found["one"], 0.0)
    # Four elements in a chunk take next to nothing.
    return max(found["many"] - found["one"], 0.0) / (n // 4 - 1), call + found["bare"], 2e-6


def _bins(rounds: int, clock: Clock) -> float:
    """Return the seconds of adding one number to another, in caches."""
    n = 1 << 13
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    found = least({"add": lambda: np.add(x, y, out=x)}, rounds, clock)
    return found["add"] / n


def _threads(rounds: int) -> dict[str, float]:
    """Return what waking, locking and moving cache lines take.

    Waking is what the pool itself has measured; the rest are usual values of such processors, as two processors that
    others use as well cannot show them.
    """
    address = pool.functions().get("dk_pool_arrival")
    arrival = ctypes.c_int64.from_address(address).value * 1e-9 if address else 50e-6
    return {"wake": arrival, "signal": 2e-6, "lock": 60e-9, "handover": arrival, "line": 100e-9}


def _pages(rounds: int) -> dict[str, float]:
    """Return what the first access to a page takes, of the usual size and of the large one."""
    found, size = {}, 64 << 20
    for name, page, advice in (("page", 4096, 15), ("large_page", 2 << 20, 14)):  # MADV_NOHUGEPAGE, MADV_HUGEPAGE
        best = float("inf")
        for _ in range(max(rounds // 2, 2)):
            with mmap.mmap(-1, size) as held:
                if hasattr(held, "madvise"):
                    held.madvise(advice)
                firsts = np.frombuffer(held, np.uint8)[::4096]
                start = time.process_time()
                firsts[...] = 1
                best = min(best, time.process_time() - start)
                del firsts
        found[name] = best / (size / page)
    return found


def larger(one: Machine, two: Machine, processors: int, nodes: int) -> Machine:
    """Return a machine of many processors like these; its topology is assumed.

    Parameters
    ----------
    one, two : Machine
        What was measured on one processor, and on two.
    processors, nodes : int
        Processors, and nodes of memory.
    """
    node = min(NODE_BANDWIDTH, processors / nodes / one.inward.values[-1])
    # Chunks are drawn by any processor: what they touch comes from memory, or as slowly from another's cache.
    # And all nodes but one are other nodes.
    byte = 1.0 / (node * nodes) * (1.0 + (REMOTE - 1.0) * (nodes - 1) / nodes)
    flat = Curve(one.inward.sizes, (byte,) * len(one.inward.sizes))
    return replace(
        one,
        name=f"{processors} processors, {nodes} nodes",
        processors=processors,
        nodes=nodes,
        inward=flat,
        outward=flat.times(0.0) if one.outward.values[-1] < one.inward.values[-1] / 4 else flat,
        node_bandwidth=node,
        own_bandwidth=1.0 / one.inward.values[-1],
        remote=REMOTE,
        launch=two.launch,
        wake=WAKE,
        handover=WAKE,
        line=LINE,
    )
