"""Many wrong programs: in processes of their own, so that a crash and an endless program are findings as well."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .check import Verdict, check, program

__all__ = ["Campaign", "check_in_turn", "numbers", "run_campaign"]

_DEADLINE = 30
"""Seconds of processor time after which a program is dead."""
_BATCH = 100


@dataclass
class Campaign:
    """What became of programs, by their numbers."""

    verdicts: dict[int, Verdict] = field(default_factory=dict)

    @property
    def findings(self) -> dict[int, Verdict]:
        """Those that did not end as they must."""
        return {number: v for number, v in sorted(self.verdicts.items()) if v.wrong}

    @property
    def refused(self) -> int:
        """How many ended in an error of diffkern's."""
        return sum(v.outcome not in ("right", "python") and not v.wrong for v in self.verdicts.values())

    def counts(self) -> dict[str, int]:
        """How many programs had which outcome, as numbers that add up over campaigns."""
        known = {"programs": len(self.verdicts), "findings": len(self.findings), "refused": self.refused}
        return known | Counter(v.outcome for v in self.verdicts.values() if not v.wrong)

    def __str__(self) -> str:
        counts = Counter(v.outcome for v in self.verdicts.values() if not v.wrong).most_common()
        lines = [f"{len(self.verdicts)} programs, {len(self.findings)} findings, {self.refused} refused:"]
        return "\n".join([*lines, *(f"{count:6} {outcome}" for outcome, count in counts)])


def numbers(seed: int, count: int) -> range:
    """The numbers of the programs of a run."""
    return range(seed << 24, (seed << 24) + count)


def check_in_turn(first: int, count: int) -> None:
    """Check programs one after the other; prints a line before and after each."""
    for number in range(first, first + count):
        print(json.dumps({"begun": number}), flush=True)
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + _DEADLINE, resource.RLIM_INFINITY))
        if str(number) == os.environ.get("DIFFKERN_WRONG_PROGRAM_DIES"):  # in the test of what becomes of it
            os._exit(3)
        verdict = check(program(number))
        print(json.dumps({"number": number, **asdict(verdict)}), flush=True)


def _run_batch(first: int, count: int, folder: str, end: float | None) -> Iterable[tuple[int, Verdict]]:
    """Verdicts of consecutive programs; a process that dies is followed by another one."""
    while count > 0 and (end is None or time.monotonic() < end):
        command = [sys.executable, "-m", "tests.support.wrong_programs", "--batch", str(first), str(count)]
        with subprocess.Popen(
            command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "DIFFKERN_CACHE_DIR": folder, "PYTHONPATH": str(Path(__file__).parents[2])},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            begun, said = None, []
            for line in process.stdout:
                if not line.startswith('{"'):
                    said.append(line)
                    continue
                known = json.loads(line)
                if "begun" in known:
                    begun = known["begun"]
                    continue
                begun = None
                first, count = known["number"] + 1, count - 1
                yield known.pop("number"), Verdict(**known)
                if end is not None and time.monotonic() > end:
                    process.kill()
                    return
            process.wait()
        if begun is not None or process.returncode:
            died = first if begun is None else begun
            yield died, Verdict("died", "".join(said), f"the process ended with {process.returncode}: {''.join(said)}")
            count -= died + 1 - first
            first = died + 1


def run_campaign(
    seed: int,
    count: int,
    time_limit: float | None = None,
    workers: int = 2,
    found: Callable[[int, Verdict], None] = lambda number, verdict: None,
) -> Campaign:
    """Check programs in several processes.

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
        Is told of every finding, at once.
    """
    campaign = Campaign()
    end = None if time_limit is None else time.monotonic() + time_limit
    every = numbers(seed, count)
    batches = [(every[k], min(_BATCH, count - k)) for k in range(0, count, _BATCH)]

    with tempfile.TemporaryDirectory(prefix="wrong-programs-") as folder, ThreadPoolExecutor(workers) as pool:

        def work(batch: tuple[int, int]) -> None:
            for number, verdict in _run_batch(*batch, folder, end):
                campaign.verdicts[number] = verdict
                if verdict.wrong:
                    found(number, verdict)

        list(pool.map(work, batches))
    return campaign
