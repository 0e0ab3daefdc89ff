"""The objectives of the ADBench suite as kernels, beside JAX and PyTorch: value, and value with gradient or Jacobian.

    python benchmarks/adbench                    # one thread, processor time            about 4 minutes
    python benchmarks/adbench --threads 2        # wall time
    python benchmarks/adbench --quick lstm hand

The derivatives are compared first. The readings of diffkern and JAX are interleaved. A reading is the mean of as many
calls as take 20 ms, after as many unread ones: JAX's threads go on for milliseconds after a call, to free its memory,
and that must not be taken for work of the next program. PyTorch is read behind them: its graphs of up to a million
nodes leave an allocator behind that the next program tidies up for many milliseconds.
"""

# ruff: noqa: E402  (the number of threads and the path are set before)

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
for _name in ("DIFFKERN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
sys.path.insert(1, str(Path(__file__).parent.parent))

import jax
import jax_forms
import torch
import torch_forms
from case import Case, difference
from harness import Row, add_rounds, machine, print_machine, rounds_of, rows_beside, save_json, version_of
from sizes import CASES, MODULES

RUNS, QUICK_RUNS = 15, 5
SHORT, LONG, FEW = 0.02, 0.3, 2
LARGEST_DIFFERENCE, MOST_TIMES = 1e-9, 4.0


def seconds(work: Callable[[], object], calls: int = 1) -> float:
    """What a call takes, of several: of the processor with one thread, of the clock with more."""
    clock = time.process_time_ns if THREADS == 1 else time.perf_counter_ns
    begin = clock()
    for _ in range(calls):
        work()
    return (clock() - begin) * 1e-9 / calls


def readings(cases: dict[str, Case], runs: int) -> dict[str, dict[str, list[float]]]:
    """Interleaved readings, those of PyTorch at the end; what takes long is read a few times."""
    if len(cases) > 1 and "torch" in cases:
        others = {name: case for name, case in cases.items() if name != "torch"}
        return readings(others, runs) | readings({"torch": cases["torch"]}, runs)
    works = {(name, what): getattr(case, what) for name, case in cases.items() for what in ("forward", "derivative")}
    first = {key: seconds(work) for key, work in works.items()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in works}
    for turn in range(runs):
        for key, work in works.items():
            calls = max(1, round(SHORT / first[key]))
            if first[key] < LONG:
                seconds(work, calls)
            elif turn >= FEW:
                continue
            times[key].append(seconds(work, calls))
    return {name: {what: times[name, what] for what in ("forward", "derivative")} for name in cases}


def rows_of(name: str, read: dict[str, dict[str, list[float]]], wrong: str) -> list[Row]:
    """Return the rows of a case: value, and value with derivative, beside each other library."""
    rows = []
    for what, called in (("forward", "value"), ("derivative", "value and derivative")):
        others = {other: times[what] for other, times in read.items() if other != "diffkern"}
        rows += rows_beside(f"{name}, {called}", read["diffkern"][what], others, name)
    return [replace(row, error=wrong) for row in rows]


def measure(name: str, runs: int) -> tuple[list[Row], dict[str, Any]]:
    """Compare the derivatives of a case, measure it, and print its line."""
    given, module = CASES[name](), name.partition(" ")[0]
    cases = {
        "diffkern": MODULES[module].case(given),
        "jax": getattr(jax_forms, module)(given),
        "torch": getattr(torch_forms, module)(given),
    }
    for case in cases.values():
        case.forward()
        case.derivative()
    expected = cases["jax"].results()
    differences = {other: difference(cases[other].results(), expected) for other in ("diffkern", "torch")}
    read = readings(cases, runs)
    found = {side: {what: median(times) for what, times in each.items()} for side, each in read.items()}
    own = found["diffkern"]
    ratio = own["derivative"] / own["forward"]
    cells = [f"{1e3 * t['forward']:10.3f}{1e3 * t['derivative']:10.3f}" for t in found.values()]
    beside = [f"{found[other]['derivative'] / own['derivative']:7.2f}" for other in ("jax", "torch")]
    wrong = "" if differences["diffkern"] <= LARGEST_DIFFERENCE else "  WRONG"
    print(f"{name:<26}", *cells, f"{ratio:7.2f}", *beside, f"{differences['diffkern']:9.1e}{wrong}", flush=True)
    measured = {"case": name, "threads": THREADS, "seconds": found, "difference": differences, "ratio": ratio}
    return rows_of(name, read, f"differs by {differences['diffkern']:.1e}" if wrong else ""), measured


def main() -> int:
    """Run the chosen cases and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"beginnings of: {', '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=1, help="1: processor time; more: wall time")
    add_rounds(parser)
    parser.add_argument("--json", metavar="FILE", default="", help="also write the figures to FILE")
    chosen = parser.parse_args()
    torch.set_num_threads(THREADS)
    jax.config.update("jax_enable_x64", True)
    facts = {**machine(), "jax": version_of("jax"), "torch": version_of("torch")}
    print_machine(facts)
    print(f"ms {'of one thread' if THREADS == 1 else 'of the clock'}; derivative / value at most {MOST_TIMES:g}")
    sides = [f"{side:>10}{'derivative':>10}" for side in ("diffkern", "jax", "torch")]
    print(f"{'case':<26}", *sides, f"{'times':>7} {'jax/dk':>7} {'torch/dk':>7} {'differs':>9}")
    names = [name for name in CASES if not chosen.cases or any(name.startswith(c) for c in chosen.cases)]
    runs = rounds_of(chosen, RUNS, QUICK_RUNS)
    rows, measured = zip(*(measure(name, runs) for name in names), strict=True)
    if chosen.json:
        save_json(chosen.json, facts, [row for each in rows for row in each], readings=measured)
    return int(any(each["difference"]["diffkern"] > LARGEST_DIFFERENCE for each in measured))


if __name__ == "__main__":
    sys.exit(main())
