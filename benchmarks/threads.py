"""Measure launches of 10,000 to 300,000 threads on two native threads beside one.

In: nothing but the command line. Out: a table (and a JSON file) of medians of wall time and their ratios. One and two
native threads take turns of ten launches: with a pause before each, in which the pool's threads fall asleep, or none.
The launches of the first 20 ms of a turn are not read. One thread takes a second turn in each round: the ratios of its
two medians say how far apart readings of the same thing are. The machine must be idle.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import lane_kernels
import numpy as np
from harness import chosen_cases, machine, print_machine, rounds_of, save_json

import diffkern as dk
from diffkern.runtime.native import pool

SIZES = (10_000, 17_000, 30_000, 55_000, 100_000, 170_000, 300_000)
PAUSES = (0.003, 0.0)
TURNS, QUICK_TURNS, READ = 10, 4, 10
SETTLED = 0.02
Array = dk.array(dtype=float)


@dk.kernel
def light(x: Array, y: Array, a: float):
    """A product and a sum."""
    i = dk.tid()
    y[i] = a * x[i] + 1.0


@dk.kernel
def elementwise(x: Array, y: Array, a: float):
    """Two elementary functions."""
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) + x[i] * dk.exp(-x[i] * x[i])


KERNELS = {"light": light, "elementwise": elementwise, "recurrence": dk.kernel(lane_kernels.recurrence)}
CASES = tuple(KERNELS) + tuple(f"{name} adjoint" for name in KERNELS)


def launch_of(case: str, size: int) -> Callable[[], Any]:
    """The launch of a case."""
    name, _, adjoint = case.partition(" ")
    rng = np.random.default_rng(0)
    x, y, ct_x, ct_y = (dk.array(rng.uniform(0.1, 0.9, size).astype(np.float32)) for _ in range(4))
    inputs = [x, 64, 3.1, y] if name == "recurrence" else [x, y, 1.3]
    if not adjoint:
        return lambda: dk.launch(KERNELS[name], size, inputs)
    cotangents = [ct_x, None, None, ct_y] if name == "recurrence" else [ct_x, ct_y, None]
    return lambda: dk.launch(KERNELS[name], size, inputs, adjoint=True, adj_inputs=cotangents)


def reading(launch: Callable[[], Any], pause: float) -> float:
    """The seconds of a launch after a pause."""
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


def measure(case: str, size: int, pause: float, turns: int) -> dict[str, Any]:
    """The medians of a case, of one native thread, two, and one again, and the ratios of the last two to the first."""
    launch = launch_of(case, size)
    times: list[list[float]] = [[], [], []]
    for _ in range(turns):
        for threads, read in zip((1, 2, 1), times, strict=True):
            pool.set_num_threads(threads)
            start = time.perf_counter()
            while time.perf_counter() - start < SETTLED:
                reading(launch, pause)
            read.extend(reading(launch, pause) for _ in range(READ))
    one, two, again = (median(read) for read in times)
    ratios = {"ratio": two / one, "same": again / one}
    return {"case": case, "size": size, "pause_s": pause, "one_s": one, "two_s": two, **ratios}


def spread(ratios: list[float]) -> str:
    """The smallest, the median and the largest of some ratios."""
    return f"{min(ratios):.2f} / {median(ratios):.2f} / {max(ratios):.2f}"


def main() -> int:
    """Run the cases and print the table."""
    chosen = chosen_cases(str(__doc__), CASES)
    facts = machine()
    print_machine(facts)
    rows = []
    print("us on one native thread > us on two (ratio of the medians; of one thread to itself)")
    print("smallest, median and largest ratio; of one thread to itself")
    for pause in PAUSES:
        print(f"\n{f'pauses of {1e3 * pause:g} ms' if pause else 'no pauses':<20}", *(f"{n:>23,}" for n in SIZES))
        for case in chosen.cases or CASES:
            read = [measure(case, size, pause, rounds_of(chosen, TURNS, QUICK_TURNS)) for size in SIZES]
            cells = [
                f"{1e6 * r['one_s']:.0f} > {1e6 * r['two_s']:.0f} ({r['ratio']:.2f}; {r['same']:.2f})" for r in read
            ]
            spreads = [spread([r[key] for r in read]) for key in ("ratio", "same")]
            print(f"{case:<20}", *(f"{cell:>23}" for cell in cells), f"  {'; '.join(spreads)}", flush=True)
            rows.extend(read)
    if chosen.json:
        save_json(chosen.json, facts, [], readings=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
