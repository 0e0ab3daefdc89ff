"""Time launches for ``threads.py``: a question in a line of JSON, the seconds of the launches in another.

In: case, size, the pause before a launch, for how many seconds launches are not read, and how many are read then. Out: a list of seconds.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import lane_kernels
import numpy as np

import diffkern as dk

Array = dk.array(dtype=float)


@dk.kernel
def light(x: Array, y: Array, a: float):
    """A product and a sum: as little as a thread can do."""
    i = dk.tid()
    y[i] = a * x[i] + 1.0


@dk.kernel
def elementwise(x: Array, y: Array, a: float):
    """Two elementary functions."""
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) + x[i] * dk.exp(-x[i] * x[i])


recurrence = dk.kernel(lane_kernels.recurrence)


@functools.cache
def launch_of(case: str, size: int) -> Callable[[], Any]:
    """The launch of a case."""
    name, _, adjoint = case.partition(" ")
    kernel = globals()[name]
    rng = np.random.default_rng(0)
    x, y, gx, gy = (dk.array(rng.uniform(0.1, 0.9, size).astype(np.float32)) for _ in range(4))
    inputs = [x, 64, 3.1, y] if name == "recurrence" else [x, y, 1.3]
    if not adjoint:
        return lambda: dk.launch(kernel, size, inputs)
    gradients = [gx, None, None, gy] if name == "recurrence" else [gx, gy, None]
    return lambda: dk.launch(kernel, size, inputs, adjoint=True, adj_inputs=gradients)


def readings(launch: Callable[[], Any], pause: float, count: int) -> list[float]:
    """The seconds of some launches."""
    found = []
    for _ in range(count):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        launch()
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    """Answer until there is no question left."""
    for line in sys.stdin:
        asked = json.loads(line)
        launch = launch_of(asked["case"], asked["size"])
        start = time.perf_counter()
        while time.perf_counter() - start < asked["settle"]:
            readings(launch, asked["pause"], 1)
        print(json.dumps(readings(launch, asked["pause"], asked["read"])), flush=True)


if __name__ == "__main__":
    main()
