"""Readings of short pieces of work on a machine that others use as well."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from diffkern.runtime.launch import schedule
from diffkern.runtime.native import pool

__all__ = ["Clock", "as_processors", "least", "on_processors", "processor_times"]

Clock: TypeAlias = Callable[[], dict[int, int]]

_SHORTEST = 3e-4
"""Seconds of a reading: shorter work is repeated within it."""
_TOGETHER = 5
"""Repetitions of launches on several processors at least: looking at the clocks takes longer than the pool's threads
stay awake without work, so that the first of them finds these asleep."""


def least(works: dict[str, Callable[[], object]], rounds: int, clock: Clock, seconds: float = 0.0) -> dict[str, float]:
    """Return the least seconds that each work took once; their readings are interleaved.

    The least, because what disturbs a reading only ever adds to it. After the rounds there are more until the seconds
    have passed.
    """
    repeats = {}
    for name, work in works.items():
        work()
        start = time.perf_counter()
        work()
        repeats[name] = max(_TOGETHER if seconds else 1, int(_SHORTEST / max(time.perf_counter() - start, 1e-7)))
    found = dict.fromkeys(works, float("inf"))
    end, k = time.perf_counter() + seconds, 0
    while k < rounds or time.perf_counter() < end:
        k += 1
        for name, work in works.items():
            work()  # what other works have left in the caches is not this one's
            start = clock()
            for _ in range(repeats[name]):
                work()
            found[name] = min(found[name], _longest(start, clock()) / repeats[name])
    return found


@contextlib.contextmanager
def on_processors(count: int) -> Iterator[Clock]:
    """Restrict the process to some processors and as many native threads, and yield the clock to read.

    It is the processor time of each thread: others use the machine as well, and what counts is the thread that has
    worked longest (:func:`least`), the submitter with its waiting included.
    """
    threads, allowed = pool.num_threads(), os.sched_getaffinity(0)
    own = set(sorted(allowed)[-count:])
    _move(own)
    pool.set_num_threads(count)
    try:
        yield processor_times
    finally:
        pool.set_num_threads(threads)
        _move(allowed)


def processor_times() -> dict[int, int]:
    """Return the nanoseconds that each thread of the process has had a processor."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            # The number of the clock of a thread of this process, as pthread_getcpuclockid makes it.
            found[int(task)] = time.clock_gettime_ns(~int(task) << 3 | 6)
    return found


def _longest(before: dict[int, int], after: dict[int, int]) -> float:
    return max(end - before.get(task, end) for task, end in after.items()) * 1e-9


def _move(processors: set[int]) -> None:
    """Let all threads of the process run on these processors alone."""
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task), processors)


@contextlib.contextmanager
def as_processors(count: int) -> Iterator[None]:
    """Have diffkern plan its launches as if the process had that number of processors and threads; none may run."""
    processors, threads = schedule.processors, pool.num_threads
    schedule.processors, pool.num_threads = lambda: count, lambda: count
    try:
        yield
    finally:
        schedule.processors, pool.num_threads = processors, threads
