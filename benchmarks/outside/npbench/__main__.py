"""Run the ports of NPBench beside the published versions and write ``results/npbench.json``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.outside.results import Exclusion, Row, collect, write

from . import checkout, excluded, ports_all

MARK, PATIENCE = "npbench-result ", 300


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside.npbench", description=str(__doc__).strip())
    parser.add_argument("--source", type=Path, metavar="DIR", help=f"a checkout of {checkout.REPOSITORY}")
    parser.add_argument("--quick", action="store_true", help="few repetitions, one processor: a look, not a figure")
    parser.add_argument("--only", metavar="PROGRAM", nargs="*", default=[], help="only these, printed and not written")
    parser.add_argument("--preset", default="S", choices=("S", "M", "L", "paper"), help="the published sizes")
    parser.add_argument("--processors", type=int, nargs="*", help="numbers of processors; 1 and all by default")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measured(chosen: argparse.Namespace, programs: list[str], processors: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of each program on a number of processors; one that ends its process is left out and named."""
    count = str(processors)
    environment = {
        **os.environ, "DIFFKERN_NUM_THREADS": count, "NUMBA_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
        "OMP_NUM_THREADS": count, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "NPBENCH_PROCESSORS": count,
    }  # fmt: skip
    left = list(programs)
    while left:
        command = [sys.executable, "-m", "benchmarks.outside.npbench", "--source", str(chosen.source)]
        command += ["--preset", chosen.preset, "--only", *left, "--child"] + ["--quick"] * chosen.quick
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                if line.startswith(MARK):
                    found = json.loads(line[len(MARK) :])
                    left.remove(found["program"])
                    yield found
        if left:
            reason = f"on {count} processors: the process ended with status {worker.returncode}"
            yield {"program": left[0], "rows": [], "missing": [reason]}
            left = left[1:]


def inside(chosen: argparse.Namespace) -> None:
    """Measure programs here, and print a line of JSON for each."""
    processors = int(os.environ["NPBENCH_PROCESSORS"])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-processors:])
    from .measure import measure

    def too_long(*_: object) -> None:
        raise TimeoutError(f"not done within {PATIENCE} s")

    signal.signal(signal.SIGALRM, too_long)
    for name in chosen.only:
        signal.alarm(PATIENCE)
        try:
            found = measure(chosen.source, name, chosen.preset, chosen.quick)
        except Exception as reason:  # one program's failure is a row less, not the end
            found = {
                "rows": [],
                "missing": [f"on {processors} processors: {type(reason).__name__}: {str(reason)[:600]}"],
            }
        signal.alarm(0)
        print(MARK + json.dumps({"program": name, **found}), flush=True)


def show(row: Row) -> None:
    """Print one row."""
    times = ", ".join(f"{tool} {1e3 * seconds:.3f} ms" for tool, seconds in row.seconds.items())
    ratio = f" ratio {row.ratio:.2f}" if row.ratio else ""
    print(f"{row.program:16} {row.part:22} {times}{ratio}  difference {row.difference:.1e} {row.notes}", flush=True)


def main() -> int:
    """Measure what was chosen; print the rows, and write them if all programs were measured."""
    chosen = options()
    if chosen.source is None or not (chosen.source / "bench_info").is_dir():
        print(f"Name a checkout with --source DIR: git clone {checkout.REPOSITORY}", file=sys.stderr)
        return 2
    if chosen.child:
        inside(chosen)
        return 0
    missing: list[Exclusion] = []
    rows: list[Row] = []
    for processors in chosen.processors or sorted({1} if chosen.quick else {1, len(os.sched_getaffinity(0))}):
        for found in measured(chosen, chosen.only or sorted(ports_all.PORTS), processors):
            missing += [Exclusion(found["program"], text) for text in found["missing"]]
            rows += (new := [Row(**row) for row in found["rows"]])
            for row in new:
                show(row)
            if not chosen.only:
                save(chosen, rows, missing)
    for each in missing:
        print(f"{each.program}: {each.reason}")
    return 0


def save(chosen: argparse.Namespace, rows: list[Row], missing: list[Exclusion]) -> None:
    """Write what has been measured so far."""
    without = [Exclusion(name, reason) for name, reason in excluded.REASONS.items() if name not in ports_all.PORTS]
    command = f"python -m benchmarks.outside.npbench --source DIR --preset {chosen.preset}" + " --quick" * chosen.quick
    unique = list(dict.fromkeys([*without, *missing]))
    packages = ("numpy", "numba", "llvmlite", "jax", "scipy")
    write(collect("npbench", checkout.revision(chosen.source), command, rows, unique, packages))


if __name__ == "__main__":
    sys.exit(main())
