"""Measure launches of 10,000 to 300,000 threads on two native threads beside one.

In: nothing but the command line. Out: a table (and a JSON file) of medians of wall time and their ratios. The two numbers
of native threads are measured in a process of each, in turns of some launches: one after the other, or with pauses in
which the native threads fall asleep. The launches of the first 20 ms of a turn are not read. The machine must be idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from harness import machine, print_machine, save_json

CASES = ("light", "elementwise", "recurrence", "light adjoint", "elementwise adjoint", "recurrence adjoint")
SIZES = (10_000, 17_000, 30_000, 55_000, 100_000, 170_000, 300_000)
PAUSES = (0.003, 0.0)
TURNS, QUICK_TURNS, READ = 10, 3, 10
SETTLED = 0.02  # seconds of launches before those that are read
CHILD = Path(__file__).parent / "threads_child.py"


class Side:
    """A process with a number of native threads."""

    def __init__(self, threads: int) -> None:
        environment = {**os.environ, "DIFFKERN_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **question: Any) -> Any:
        """Send a question, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(sides: list[Side], case: str, size: int, pause: float, turns: int) -> dict[str, Any]:
    """The medians of a case, one for each side, and their ratio."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(turns):
        for side, read in zip(sides, times, strict=True):
            read.extend(side.ask(case=case, size=size, pause=pause, settle=SETTLED, read=READ))
    one, two = (median(read) for read in times)
    return {"case": case, "size": size, "pause_s": pause, "one_s": one, "two_s": two, "ratio": two / one}


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, not a figure to quote")
    parser.add_argument("--json", metavar="FILE", default="", help="also write the figures to FILE")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(CASES)}")
    facts = machine()
    print_machine(facts)
    sides, rows = [Side(1), Side(2)], []
    turns = QUICK_TURNS if chosen.quick else TURNS
    print("us on one native thread > us on two (ratio of the medians)")
    for pause in PAUSES:
        print(f"\n{f'pauses of {1e3 * pause:g} ms' if pause else 'no pauses':<20}", *(f"{n:>20,}" for n in SIZES))
        for case in chosen.cases or CASES:
            read = [measure(sides, case, size, pause, turns) for size in SIZES]
            cells = [f"{1e6 * r['one_s']:.0f} > {1e6 * r['two_s']:.0f} ({r['ratio']:.2f})" for r in read]
            ratios = [r["ratio"] for r in read]
            spread = f"{min(ratios):.2f} / {median(ratios):.2f} / {max(ratios):.2f}"
            print(f"{case:<20}", *(f"{cell:>20}" for cell in cells), f"  {spread}", flush=True)
            rows.extend(read)
    for side in sides:
        side.end()
    if chosen.json:
        save_json(chosen.json, facts, [], readings=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
