"""Many random programs at once: workers that check one after the other, and what became of all.

A worker is a process of its own with a limit on its processor time, so that a compilation that never ends and a crash
are found as well: its program is counted as dead, and another worker goes on. Workers are replaced now and then,
because the code of thousands of programs would stay in memory.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import diffkern as dk

from ..lanes import force
from .check import Verdict, check
from .program import random_program

__all__ = ["Campaign", "program_seeds", "run_campaign"]

COMPILE_LIMIT = 10.0
"""Seconds of processor time that a compilation may take."""
_DEADLINE = 90
"""Seconds of processor time after which a program is dead."""
_PROGRAMS_OF_A_WORKER = 150


@dataclass
class Campaign:
    """What became of programs.

    Attributes
    ----------
    verdicts
        By seed.
    """

    verdicts: dict[int, Verdict] = field(default_factory=dict)

    @property
    def failures(self) -> dict[int, Verdict]:
        """The programs that are wrong, dead or slow to compile."""
        return {seed: v for seed, v in sorted(self.verdicts.items()) if v.wrong or v.seconds > COMPILE_LIMIT}

    @property
    def refused(self) -> int:
        """How many programs have no gradient, or no code at all."""
        return sum(v.outcome in ("refused", "forward only") for v in self.verdicts.values())

    def counts(self) -> dict[str, int]:
        """How many programs had which outcome, and why, as numbers that add up over campaigns."""
        found = Counter({"programs": len(self.verdicts)})
        for v in self.verdicts.values():
            found[v.outcome] += 1
            found["derivatives compared"] += v.compared
            found["derivatives too near a kink"] += v.kinks
            found["also run in plain Python"] += v.by_python
            if v.reason and not v.wrong:
                found[f"{v.outcome}: {v.reason}"] += 1
            if v.no_tangents:
                found[f"without tangents: {v.no_tangents}"] += 1
        return dict(found)

    def __str__(self) -> str:
        outcomes = Counter(v.outcome for v in self.verdicts.values())
        reasons = Counter((v.outcome, v.reason) for v in self.verdicts.values() if v.reason and not v.wrong)
        compared, kinks = (sum(getattr(v, what) for v in self.verdicts.values()) for what in ("compared", "kinks"))
        slowest = sorted(((v.seconds, seed) for seed, v in self.verdicts.items()), reverse=True)[:3]
        lines = [f"{len(self.verdicts)} programs: " + ", ".join(f"{n} {what}" for what, n in outcomes.most_common())]
        by_python = sum(v.by_python for v in self.verdicts.values())
        lines += [f"{compared} derivatives compared, {kinks} too near a kink; {by_python} with plain Python as well"]
        lines += ["slowest to compile: " + ", ".join(f"{s:.1f} s (program {seed})" for s, seed in slowest)]
        lines += [f"{n:5} {outcome}: {reason}" for (outcome, reason), n in reasons.most_common()]
        tangents = Counter(v.no_tangents for v in self.verdicts.values() if v.no_tangents)
        lines += [f"{n:5} without tangents: {reason}" for reason, n in tangents.most_common()]
        return "\n".join(lines)


def program_seeds(seed: int, count: int) -> Iterator[int]:
    """The seeds of the programs of a run."""
    return iter(range(seed << 20, (seed << 20) + count))


def run_campaign(
    seed: int,
    count: int,
    time_limit: float | None = None,
    workers: int = 2,
    found: Callable[[int, Verdict], None] = lambda seed, verdict: None,
    device: str = "cpu",
) -> Campaign:
    """Check programs in parallel.

    Parameters
    ----------
    seed
        Of the run.
    count
        How many programs.
    time_limit
        Seconds after which no further program is begun.
    workers
        How many processes.
    found
        Is told of every program that is wrong, dead or slow, at once.
    device
        Where the programs run.
    """
    campaign = Campaign()
    seeds = program_seeds(seed, count)
    end = None if time_limit is None else time.monotonic() + time_limit
    with tempfile.TemporaryDirectory(prefix="random-programs-") as directory:
        running: list[_Worker] = [_Worker(directory, device) for _ in range(min(workers, count))]
        while running:
            for worker in running:
                if worker.seed is None and (end is None or time.monotonic() < end):
                    worker.begin(next(seeds, None))
            for worker in [w for w in running if w.seed is None]:
                worker.stop()
                running.remove(worker)
            for number in _collect(campaign, running):
                if number in campaign.failures:
                    found(number, campaign.verdicts[number])
    return campaign


def _collect(campaign: Campaign, running: list[_Worker]) -> list[int]:
    """Wait for verdicts, and replace workers that died or have done enough; returns whose verdicts have come."""
    numbers = []
    ready = wait([w.pipe for w in running], timeout=5.0) if running else []
    for k, worker in enumerate(running):
        if worker.pipe not in ready or worker.seed is None:
            continue
        seed, verdict = worker.result()
        campaign.verdicts[seed] = verdict
        numbers.append(seed)
        if worker.done >= _PROGRAMS_OF_A_WORKER or not worker.process.is_alive():
            worker.stop()
            running[k] = _Worker(worker.directory, worker.device)
    return numbers


class _Worker:
    """A process that checks one program after the other."""

    def __init__(self, directory: str, device: str) -> None:
        self.directory, self.device = directory, device
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.folder = tempfile.mkdtemp(dir=directory)
        self.process: BaseProcess = context.Process(target=_work, args=(theirs, self.folder, device), daemon=True)
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.done = 0

    def begin(self, seed: int | None) -> None:
        """Give it a program."""
        self.seed = seed
        if seed is not None:
            self.pipe.send(seed)

    def result(self) -> tuple[int, Verdict]:
        """What became of its program."""
        assert self.seed is not None
        seed, self.seed = self.seed, None
        self.done += 1
        try:
            return seed, self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return seed, Verdict("error", f"the process died ({self.process.exitcode})")

    def stop(self) -> None:
        """End it."""
        self.pipe.close()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def _work(pipe: Connection, folder: str, device: str) -> None:
    os.environ["DIFFKERN_CACHE_DIR"] = str(Path(folder) / "cache")
    force()
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + _DEADLINE, resource.RLIM_INFINITY))
        try:
            with dk.ScopedDevice(device):
                verdict = check(random_program(seed), folder)
        except Exception:
            verdict = Verdict("error", traceback.format_exc())
        pipe.send(verdict)
