"""How far diffkern is from hand-written programs: forward and gradient, one thread, processor time.

    python benchmarks/limit                      # about 2 minutes
    python benchmarks/limit --quick n-body mesh

Beside the hand-written program: the launches on a tape with ``backward``, the same recorded and replayed, that with
``fast_math`` as the hand-written programs have it, and Warp's tape on its CPU device. All start from the same inputs;
their results are compared before anything is timed.
"""

# ruff: noqa: E402  (the number of threads and the path are set before)

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

for _name in ("DIFFKERN_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.insert(1, str(Path(__file__).parent.parent))

import kernels
import limit_kernels
import numpy as np
from cases import CASES, Case, Values
from harness import Row, chosen_cases, machine, print_machine, rounds_of, row_of_readings, save_json

import diffkern as dk

RUNS, QUICK_RUNS = 21, 7
OWN = ("tape", "recorded", "fast")
Work = Callable[[], Values]


def by_tape(w: Any, case: Case, made: SimpleNamespace, recorded: bool = False) -> Work:
    """Return what computes a case on a tape; ``recorded``: in a sequence that is replayed."""
    launch, results, wanted = case.launched(w, made)
    seeds = {out: w.array(seed, dtype=out.dtype) for out, seed in results.values()}

    def compute() -> None:
        with w.Tape() as tape:
            launch()
        tape.backward(grads=dict(seeds))
        if not recorded:
            kept.append(tape)

    def clear() -> None:
        for array in wanted.values():
            array.grad.zero_()

    kept: list[Any] = []

    def work() -> Values:
        compute()
        found = {name: out.numpy() for name, (out, _) in results.items()}
        found.update({f"gradient {name}": array.grad.numpy() for name, array in wanted.items()})
        return found

    def once() -> Values:
        if kept:
            kept.pop().zero()
        return work()

    if not recorded:
        return once
    with dk.record() as sequence:
        clear()
        compute()

    def replay() -> Values:
        sequence.replay()
        found = {name: out.numpy() for name, (out, _) in results.items()}
        found.update({f"gradient {name}": array.grad.numpy() for name, array in wanted.items()})
        return found

    return replay


def seconds(work: Work) -> float:
    begin = time.process_time_ns()
    work()
    return (time.process_time_ns() - begin) * 1e-9


def check(case: Case, expected: Values, found: Values) -> str:
    """Return how results differ, "" where they agree."""
    for name, value in expected.items():
        other = found[name].reshape(value.shape)
        scale = np.abs(value) if case.apart else np.abs(value).max()
        with np.errstate(over="ignore", invalid="ignore"):
            fine = np.abs(other - value) <= case.rtol * (scale + 1e-30)
        wrong = 1.0 - float(fine.mean())
        if wrong > case.apart:
            return f"{100 * wrong:.2g} % differ"
    return ""


def works_of(case: Case, warp: Any) -> dict[str, Work]:
    """Return the hand-written program and what stands beside it, by name."""
    own = _kernels(dk)
    found = {
        "by hand": case.hand,
        "tape": by_tape(dk, case, own),
        "recorded": by_tape(dk, case, own, recorded=True),
        "fast": by_tape(dk, case, _fast(own), recorded=True),
    }
    if warp is not None:
        found["warp"] = by_tape(warp, case, _kernels(warp))
    return found


def _kernels(w: Any) -> SimpleNamespace:
    return SimpleNamespace(**vars(kernels.make(w)), **vars(limit_kernels.make(w)))


def _fast(own: SimpleNamespace) -> SimpleNamespace:
    """Return kernels with ``fast_math``: what the hand-written programs are compiled with."""
    return SimpleNamespace(**{name: dk.kernel(k.func, fast_math=True) for name, k in vars(own).items()})


def measure(name: str, case: Case, warp: Any, runs: int) -> tuple[list[Row], dict[str, Any]]:
    """Compare the results of a case, measure it, and print its line."""
    works = works_of(case, warp)
    expected = {key: np.array(value) for key, value in works["by hand"]().items()}
    wrong = {}
    for other in list(works)[1:]:
        works[other]()
        wrong[other] = check(case, expected, works[other]())
        if wrong[other]:
            del works[other]
    times = {side: [] for side in works}
    for _ in range(runs):
        for side, work in works.items():
            times[side].append(seconds(work))
    row: dict[str, Any] = {"case": name, "target": case.most, "seconds": {k: median(t) for k, t in times.items()}}
    row["ratios"] = {k: median(a / b for a, b in zip(t, times["by hand"], strict=True)) for k, t in times.items()}
    cells = [f"{1e3 * row['seconds']['by hand']:9.2f}"]
    for side in ("tape", "recorded", "fast", "warp"):
        if side in times:
            cells.append(f"{1e3 * row['seconds'][side]:9.2f} ({row['ratios'][side]:5.2f})")
        else:
            cells.append(wrong.get(side, "").rjust(17))
    best = min((row["ratios"][k] for k in OWN if k in times), default=float("inf"))
    print(f"{name:<12}", *cells, f"   {case.most}: {'met' if best <= case.most else 'missed'}", flush=True)
    why = {side: said for side, said in wrong.items() if said}
    return rows_of(name, times, why), {**row, "wrong": why}


def rows_of(name: str, times: dict[str, list[float]], wrong: dict[str, str]) -> list[Row]:
    """Return the rows of a case: diffkern's three ways beside the hand-written program, and its tape beside Warp's."""
    rows = []
    for side, called in zip(OWN, ("on a tape", "recorded", "recorded, fast_math"), strict=True):
        if side in times:
            rows.append(
                row_of_readings(f"{name}, {called}", "by hand", "diffkern", times["by hand"], times[side], name)
            )
        else:
            rows.append(Row(f"{name}, {called}", "by hand", "diffkern", error=wrong[side]))
    if "warp" in times and "tape" in times:
        rows.append(row_of_readings(f"{name}, on a tape", "warp", "diffkern", times["warp"], times["tape"], name))
    elif "warp" in wrong:
        rows.append(Row(f"{name}, on a tape", "warp", "diffkern", unlike=wrong["warp"]))
    return rows


def main() -> int:
    """Run the chosen cases and print the table."""
    chosen = chosen_cases(str(__doc__), CASES)
    facts = machine()
    print_machine(facts)
    warp = _warp()
    print("ms of one thread, forward and gradient (ratio to the hand-written program)")
    print(f"{'case':<12} {'by hand':>9} {'tape':>17} {'recorded':>17} {'fast':>17} {'warp':>17}    target")
    runs = rounds_of(chosen, RUNS, QUICK_RUNS)
    rows, found = zip(*(measure(name, CASES[name](), warp, runs) for name in chosen.cases or CASES), strict=True)
    if chosen.json:
        save_json(chosen.json, facts, [row for each in rows for row in each], readings=found)
    return int(any(side in each["wrong"] for each in found for side in OWN))


def _warp() -> Any:
    """Return Warp, quiet and on the CPU; None where it is not installed."""
    try:
        warp: Any = importlib.import_module("warp")
    except ImportError:
        return None
    warp.config.log_level = warp.LOG_ERROR
    warp.init()
    warp.set_device("cpu")
    return warp


if __name__ == "__main__":
    sys.exit(main())
