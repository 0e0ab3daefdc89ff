"""The time of a round of a recorded ``capture_while`` whose body is two small launches.

    python benchmarks/native_conditionals.py

Beside it a body with a copy of an array that is not contiguous, which has no native form, so that Python looks at the
number. Processor time of this thread, the least of twenty replays.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import diffkern as dk

ROUNDS = 2000


@dk.kernel
def count_down(left: dk.array(dtype=int)):
    left[0] = left[0] - 1


@dk.kernel
def move(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] + 0.5 * x[i]


def least(run: Callable[[], None], rounds: int) -> float:
    """Return the microseconds of a round."""
    times = []
    for _ in range(20):
        begin = time.thread_time_ns()
        run()
        times.append(time.thread_time_ns() - begin)
    return min(times) / rounds / 1e3


def main() -> None:
    left, x, y = dk.zeros(1, dtype=int), dk.ones(1000), dk.zeros(1000)
    strided = dk.zeros((2, 2))

    def body() -> None:
        dk.launch(count_down, 1, [left])
        dk.launch(move, 1000, [x, y])

    def by_python() -> None:
        body()
        dk.copy(strided[:, 1], strided[:, 0])

    for name, part in (("native", body), ("with a step of Python", by_python)):
        with dk.record(run=False) as sequence:
            left.fill_(ROUNDS)
            dk.capture_while(left, part)
        print(f"{name:24s}{least(sequence.replay, ROUNDS):8.2f} us a round")


if __name__ == "__main__":
    main()
