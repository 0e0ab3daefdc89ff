"""What a function of an eval is here: prepared once for an input, called as often as the eval asks, then read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Given = dict[str, Any]
"""The input of an eval, as it comes from JSON."""


@dataclass(frozen=True)
class Program:
    """A function on prepared arrays.

    Attributes
    ----------
    call
        Computes the result.
    output
        Returns what was computed last, ready for JSON.
    """

    call: Callable[[], object]
    output: Callable[[], Any]


def timed(program: Program, runs: int, seconds: float) -> dict[str, Any]:
    """Call a program at least so often and so long, and return the response to an eval.

    One call before is not counted: it compiles, as the modules of the other tools in Python compile before.
    """
    program.call()
    timings: list[dict[str, Any]] = []
    elapsed = 0
    while len(timings) < runs or elapsed < 1e9 * seconds:
        begin = time.perf_counter_ns()
        program.call()
        took = time.perf_counter_ns() - begin
        timings.append({"name": "evaluate", "nanoseconds": took})
        elapsed += took
    return {"success": True, "output": program.output(), "timings": timings}
