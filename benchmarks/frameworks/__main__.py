"""Four workloads, forward and gradient: kernels beside the same in Dr.Jit, JAX (``jit``) and ``torch.compile``.

    python benchmarks/frameworks                    # one thread, processor time          about 3 minutes
    python benchmarks/frameworks --threads 2        # wall time
    python benchmarks/frameworks --quick mesh

What is not installed is left out. Results are compared first, and the readings of a case are interleaved. A reading is
the mean of as many calls as take 20 ms, after as many unread ones: threads of a library go on after a call has
returned, to free its memory, and that must not be taken for work of the next one.
"""

# ruff: noqa: E402  (the number of threads and the path are set before)

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
for _name in ("DIFFKERN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
sys.path[1:1] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "limit")]

import inputs
import numpy as np
from harness import Row, chosen_cases, machine, print_machine, rounds_of, rows_beside, save_json, version_of

CASES = ("elementwise", "nbody", "mesh", "recurrence")
SIDES = {"diffkern": "own_forms", "drjit": "drjit_forms", "jax": "jax_forms", "torch": "torch_forms"}
RUNS, QUICK_RUNS, SHORT, LONG, FEW = 15, 5, 0.02, 0.5, 3
LARGEST_DIFFERENCE = 2e-3


def forms() -> dict[str, Any]:
    """The modules of the frameworks that are installed."""
    found = {}
    for side, module in SIDES.items():
        try:
            found[side] = importlib.import_module(module)
        except ImportError as missing:
            print(f"{side} is left out: {missing}")
    if "torch" in found:
        found["torch"].torch.set_num_threads(THREADS)
    if "drjit" in found:
        found["drjit"].dr.set_thread_count(THREADS)
    return found


def difference(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest difference, each relative to the largest number of its array."""
    pairs = [(np.asarray(found[name]).reshape(x.shape), x) for name, x in expected.items()]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def seconds(work: Any, calls: int = 1) -> float:
    """What a call takes, of several: of the processor with one thread, of the clock with more."""
    clock = time.process_time_ns if THREADS == 1 else time.perf_counter_ns
    begin = clock()
    for _ in range(calls):
        work()
    return (clock() - begin) * 1e-9 / calls


def measure(name: str, modules: dict[str, Any], runs: int) -> tuple[list[Row], dict[str, Any]]:
    """Compare the results of a case, measure it, and print its line."""
    given = getattr(inputs, name)()
    works = {side: getattr(module, name)(given) for side, module in modules.items()}
    for work, _ in works.values():
        work()
    expected = works["diffkern"][1]()
    differences = {side: difference(results(), expected) for side, (_, results) in works.items()}
    first = {side: seconds(work) for side, (work, _) in works.items()}
    times: dict[str, list[float]] = {side: [] for side in works}
    for turn in range(runs):
        for side, (work, _) in works.items():
            if turn < FEW or first[side] < LONG:
                calls = max(1, round(SHORT / first[side]))
                seconds(work, calls)
                times[side].append(seconds(work, calls))
    found = {side: median(read) for side, read in times.items()}
    own = found["diffkern"]
    cells = [f"{1e3 * t:10.2f} ({t / own:6.2f})" for t in found.values()]
    wrong = [side for side, far in differences.items() if not far <= LARGEST_DIFFERENCE]
    print(f"{name:<12}", *cells, f"  differ: {wrong}" if wrong else "", flush=True)
    peers = {side: read for side, read in times.items() if side != "diffkern"}
    rows = rows_beside(name, times["diffkern"], peers)
    for row in rows:
        row.unlike = "another result" if row.top in wrong else ""
    return rows, {"case": name, "threads": THREADS, "seconds": found, "difference": differences}


def main() -> int:
    """Run the chosen cases and print the table."""
    chosen = chosen_cases(str(__doc__), CASES, threads=True)
    facts = {**machine(), **{name: version_of(name) for name in ("drjit", "jax", "torch")}}
    print_machine(facts)
    modules = forms()
    print(f"ms {'of one thread' if THREADS == 1 else 'of the clock'}, forward and gradient (times diffkern's)")
    print(f"{'case':<12}", *(f"{side:>19}" for side in modules))
    runs = rounds_of(chosen, RUNS, QUICK_RUNS)
    rows, found = zip(*(measure(name, modules, runs) for name in chosen.cases or CASES), strict=True)
    if chosen.json:
        save_json(chosen.json, facts, [row for each in rows for row in each], readings=found)
    return int(any(far > LARGEST_DIFFERENCE for each in found for far in each["difference"].values()))


if __name__ == "__main__":
    sys.exit(main())
