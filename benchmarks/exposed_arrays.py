"""What it costs that a tape looks at memory which others may write to.

    python benchmarks/exposed_arrays.py

A launch over n elements, ``backward`` and ``zero`` on a new tape, of arrays that nobody else holds, of one whose view
NumPy holds, and of one that lies over NumPy's memory; the time of the processor, medians of interleaved runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import diffkern as dk

RUNS = 41


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def _round(x: dk.array, y: dk.array, seed: dk.array) -> None:
    with dk.Tape() as tape:
        square[x.size](x, y)
    tape.backward(grads={y: seed})
    tape.zero()


def _case(n: int, exposed: str) -> Callable[[], None]:
    values = np.ones(n, np.float32)
    x = dk.array(values, copy=exposed != "over NumPy's", requires_grad=True)
    y, seed = dk.zeros(n), dk.ones(n)
    kept = x.numpy() if exposed == "lent" else None

    def run() -> None:
        _round(x, y, seed)
        assert kept is None or len(kept) == n

    return run


def main() -> None:
    dk.config.num_threads = 1
    for n in (100, 10_000, 1_000_000):
        cases = {name: _case(n, name) for name in ("own", "lent", "over NumPy's")}
        times: dict[str, list[float]] = {name: [] for name in cases}
        for run in cases.values():
            run()
        for _ in range(RUNS):
            for name, run in cases.items():
                begin = time.process_time()
                run()
                times[name].append(time.process_time() - begin)
        found = {name: 1e6 * statistics.median(each) for name, each in times.items()}
        shown = ", ".join(f"{name} {us:.0f} us ({us / found['own']:.2f})" for name, us in found.items())
        print(f"{n:>10} elements: {shown}")


if __name__ == "__main__":
    main()
