"""The square of a number and its derivative, called from Python."""

from __future__ import annotations

from typing import Any

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Program


@dk.func
def square(x: dk.float64):
    """The function."""
    return x * x


def _program(function: Any) -> Any:
    def prepare(given: float) -> Program:
        found = [0.0]

        def call() -> None:
            found[0] = function(given)

        return Program(call, lambda: float(found[0]))

    return prepare


FUNCTIONS = {"square": _program(square), "double": _program(dk.grad(square))}
