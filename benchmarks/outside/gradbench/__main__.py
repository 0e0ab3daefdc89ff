"""Run the evals of GradBench with all tools that run here: ``python -m benchmarks.outside.gradbench --source DIR``."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.outside.gradbench import session
from benchmarks.outside.results import Exclusion, Row, collect, write

SOURCE = "https://github.com/gradbench/gradbench"
TIME = "--min-runs 5 --min-seconds 0.1"
EVALS = {
    "hello": "",
    "saddle": TIME,
    "particle": TIME,
    "lse": f"-n 2500 40000 {TIME}",
    "llsq": f"-n 128 2048 {TIME}",
    "ode": f"-n 1000 10000 -s 10 {TIME}",
    "det": f"-l 5 7 {TIME}",
    "kmeans": f"-k 10 100 -n 1000 -d 8 {TIME}",
    "gmm": f"-d 2 10 -k 5 25 {TIME}",
    "lstm": f"-l 2 -c 1024 {TIME}",
    "ba": f"--min 1 --max 1 {TIME}",
    "ht": f"--min 1 --max 1 {TIME}",
}
"""Options of each eval: sizes from its own list."""
QUICK = {"lse": "-n 40000", "llsq": "-n 2048", "ode": "-n 1000 -s 10", "det": "-l 5", "kmeans": "-k 10 -n 1000 -d 8",
         "gmm": "-d 10 -k 5", "lstm": "-l 2 -c 1024", "ht": "--min 1 --max 1"}  # fmt: skip
PARTS = {"primal": "forward", "objective": "forward", "cost": "forward", "square": "forward",
         "jacobian": "gradient", "double": "gradient", "dir": "gradient"}  # fmt: skip
"""Names of functions in the tables; the others keep theirs."""
UNRANKED = {"manual": "by hand"}
"""Tools that are no peers: derivatives written by hand."""
CAUSES = {
    (
        "ode",
        "primal",
    ): "a thread asks at each of its ten slopes whether the chain has ended; a kernel of the inner numbers "
    "without these conditions takes 0.066 ms for n = 10000 where this one takes 0.298",
    (
        "ode",
        "gradient",
    ): "the adjoint of ten slopes for each number, where JAX computes and transposes four; without the "
    "conditions at the ends it takes 1.09 ms for n = 10000 where this one takes 1.34",
}
"""Of rows in which another tool is faster, by eval and function."""


def measure(source: Path, name: str, options: str, limit: float) -> tuple[list[Row], list[Exclusion]]:
    """Let an eval question all tools; return a row for each question, and what was not answered."""
    seconds: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    excluded = []
    for tool, command in session.tools(source, name):
        found = session.run(source, session.eval_command(name, options), command, limit)
        print(f"{name:10}{tool:10}{len(found.answers)} answers {found.error[:80]}", flush=True)
        if found.error:
            excluded.append(Exclusion(f"{name}, {tool}", found.error))
        for answer in found.answers:
            if answer.valid and answer.seconds is not None:
                # Some evals ask the same question again.
                before = seconds[answer.size, answer.function].get(tool, answer.seconds)
                seconds[answer.size, answer.function][tool] = min(before, answer.seconds)
            else:
                why = (answer.error or "not validated").splitlines()[-1][:120]
                excluded.append(Exclusion(f"{name} {answer.size}, {answer.function}, {tool}", why))
    answered = {key: times for key, times in seconds.items() if "diffkern" in times}
    return [_row(name, size, function, times) for (size, function), times in answered.items()], excluded


def _row(name: str, size: str, function: str, seconds: dict[str, float]) -> Row:
    """Return the row of a question; times that are not ranked are noted beside it."""
    notes: dict[str, float | str] = {}
    for tool, shown in UNRANKED.items():
        if (found := seconds.pop(tool, None)) is not None:
            notes[f"published {shown}"] = found
    program = f"{name} {size}" if size and name not in ("saddle", "particle") else name
    cause = CAUSES.get((name, function), "")
    return Row(program, PARTS.get(function, function), seconds, None, "validated", cause, notes)


def main() -> int:
    """Run the evals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.gradbench", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help=f"a checkout of {SOURCE}")
    parser.add_argument("--quick", action="store_true", help="one small size of each eval")
    parser.add_argument("--only", metavar="PROGRAM", help="one eval")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for an eval and a tool")
    chosen = parser.parse_args()
    rows: list[Row] = []
    excluded: list[Exclusion] = []
    for name, options in EVALS.items():
        if chosen.only in (None, name):
            own = f"{QUICK.get(name, '')} {TIME}" if chosen.quick and name != "hello" else options
            found = measure(chosen.source.resolve(), name, own, chosen.limit)
            rows += found[0]
            excluded += found[1]
    command = "python -m benchmarks.outside.gradbench --source gradbench"
    packages = ("numpy", "numba", "jax", "torch")
    write(collect("gradbench", SOURCE, command, rows, excluded, packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
