"""Run Enzyme's applications as kernels, and write ``results/enzyme.json``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.outside.results import Exclusion, Row, collect, write

from . import counts
from .applications import APPLICATIONS

REPOSITORIES = (
    "https://github.com/EnzymeAD/enzyme-sc22 (with submodules), https://github.com/wsmoses/Enzyme-GPU-Tests; a folder "
    "with miniBUDE, XSBench and RSBench of https://github.com/UoB-HPC and https://github.com/ANL-CESAR in it"
)
LEFT_OUT = (
    ("dg", "the Galerkin method of SC21 is written in Julia, with a mesh and element library of its own"),
    ("overheads of SC21", "its figures are plots; of its abstract there is the bound for all applications"),
)
ROUNDS, BUDGET = 15, 20.0


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.enzyme", description=str(__doc__).strip())
    parser.add_argument("--source", type=Path, metavar="DIR", help=f"checkouts to run originals from: {REPOSITORIES}")
    parser.add_argument("--quick", action="store_true", help="the smallest size of each application")
    parser.add_argument("--only", metavar="APPLICATION", default="", help="only this one, printed and not written")
    parser.add_argument("--child", metavar="FILE", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def on_one_processor(command: list[str]) -> str:
    """Run a command on one processor; return the end of what it says on failure."""
    last = max(os.sched_getaffinity(0))
    done = subprocess.run(
        command, env={**os.environ, "DIFFKERN_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {last}),
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip()[-500:] or f"status {done.returncode}"


def median_time(run: Callable[[], Any], rounds: int) -> float:
    """Return the median of the processor times of a call, after a first one that compiles."""
    times: list[float] = []
    begin = time.perf_counter()
    for number in range(rounds + 1):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
        if number >= 3 and time.perf_counter() - begin > BUDGET:
            break
    return statistics.median(times[1:])


def rows(name: str, source: Path | None, quick: bool) -> Iterator[Row]:
    """Validate and measure one application in this process."""
    application = APPLICATIONS[name]
    difference, oracle = application.validate(source)
    slope = application.build(application.checked).check()
    overheads = {f"published {where}": f"{value:.3g} times" for where, value in application.published}
    for size in application.sizes[:1] if quick else application.sizes:
        program = application.build(size)
        rounds = 3 if quick else ROUNDS
        # Before and after the original, and away from the gradient, which would leave its own arrays in the caches.
        before = median_time(program.primal, rounds)
        beside = application.original(source, size) if source is not None else {}
        primal = (before + median_time(program.primal, rounds)) / 2
        gradient = median_time(program.gradient, rounds)
        called = f"{name} {size}"
        cause = application.cause if min(beside.values(), default=primal) < primal else ""
        yield Row(called, "forward", {"diffkern": primal, **beside}, difference, oracle, cause, dict(program.notes))
        notes: dict[str, float | str] = {"gradient over primal": gradient / primal, **overheads}
        yield Row(called, "gradient", {"diffkern": gradient}, slope, "forward mode and differences", "", notes)
    for kernel in application.kernels():
        called = (kernel[0] if isinstance(kernel, tuple) else kernel).__name__
        yield Row(name, called, {}, None, "counted", "", dict(counts.counted(kernel)))


def main() -> int:
    """Measure what was chosen; print the rows, and write them if all applications were measured."""
    chosen = options()
    source = chosen.source.resolve() if chosen.source else None
    if chosen.child:
        found = [asdict(row) for row in rows(chosen.only, source, chosen.quick)]
        Path(chosen.child).write_text(json.dumps(found), encoding="utf-8")
        return 0
    measured: list[Row] = []
    missing = [Exclusion(*each) for each in LEFT_OUT]
    for name in [chosen.only] if chosen.only else sorted(APPLICATIONS):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.json")
            command = [sys.executable, "-m", "benchmarks.outside.enzyme", "--only", name, "--child", str(path)]
            command += ["--source", str(source)] if source else []
            failure = on_one_processor([*command, *["--quick"] * chosen.quick])
            if failure:
                missing.append(Exclusion(name, failure))
                print(json.dumps(asdict(missing[-1])), flush=True)
                continue
            measured += [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
        print(*(json.dumps(asdict(row)) for row in measured if row.program.split()[0] == name), sep="\n", flush=True)
    if not chosen.only:
        told = "python -m benchmarks.outside.enzyme --source DIR" + " --quick" * chosen.quick
        write(collect("enzyme", REPOSITORIES, told, measured, missing, ("numpy", "llvmlite")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
