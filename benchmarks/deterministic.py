"""The price of deterministic programs: launches whose results depend on the order of threads, against the usual ones.

``python benchmarks/deterministic.py [THREADS]`` prints the times of both and their quotient.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import diffkern as dk

N = 1_000_000
READINGS = 15


@dk.kernel
def scatter(x: dk.array(dtype=float), k: dk.array(dtype=int), y: dk.array(dtype=float)) -> None:
    i = dk.tid()
    dk.atomic_add(y, k[i], x[i])


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)) -> None:
    dk.atomic_add(y, 0, x[dk.tid()])


@dk.kernel
def gather(x: dk.array(dtype=float), k: dk.array(dtype=int), y: dk.array(dtype=float)) -> None:
    i = dk.tid()
    y[i] = x[k[i]] * x[k[i]]


def cases(size: int) -> dict[str, Callable[[], None]]:
    """Return what is timed, made for the programs that are chosen now."""
    rng = np.random.default_rng(1)
    x, k = dk.array(rng.normal(size=N).astype(np.float32)), dk.array(rng.integers(0, size, N).astype(np.int32))
    y, t = dk.zeros(size, dtype=float), dk.zeros(1, dtype=float)
    v = dk.array(rng.normal(size=size).astype(np.float32), requires_grad=True)
    w = dk.zeros(N, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gather, dim=N, inputs=[v, k, w])
    return {
        f"scatter-add to {size}": lambda: dk.launch(scatter, dim=N, inputs=[x, k, y]),
        f"gradient of a gather from {size}": lambda: tape.backward(grads={w: x}),
        "sum": lambda: dk.launch(total, dim=N, inputs=[x, t]),
    }


def best(run: Callable[[], None]) -> float:
    """Return the shortest of some readings, in seconds."""
    run()
    found = []
    for _ in range(READINGS):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    dk.config.num_threads = int(sys.argv[1]) if len(sys.argv) > 1 else dk.config.num_threads
    print(f"{N} threads of a launch on {dk.config.num_threads} of the processor; shortest of {READINGS}, in ms")
    for size in (100, 100_000):
        times = {}
        for mode in (False, True):
            dk.config.deterministic = mode
            times[mode] = {name: best(run) for name, run in cases(size).items()}
        for name, usual in times[False].items():
            ordered = times[True][name]
            print(f"{name:38}{1e3 * usual:9.2f}{1e3 * ordered:9.2f}{ordered / usual:8.2f}")


if __name__ == "__main__":
    main()
