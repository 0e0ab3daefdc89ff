"""Gradients of programs beside central differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

CHANGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


class Valued(Protocol):
    """A program with a number that its gradient is of."""

    def gradient(self) -> Any:
        """Run the program, and write the gradients of its inputs."""

    def value(self) -> float:
        """Run the program and return the number."""

    def tangent(self, direction: Mapping[str, Any]) -> float:
        """Return the derivative of the number along a direction, by forward mode."""


def along(program: Valued, inputs: Mapping[str, Any], *, size: float = 0.1, seed: int = 5) -> float:
    """Compare both modes with differences along a random direction of all inputs, near where these are.

    The inputs, arrays of float64, are moved by a hundredth of ``size`` at first, away from values that are equal; zeros
    stay zeros, and so does the direction there. Of several step sizes the best counts.

    Returns
    -------
    float
        The largest difference of three, relative to the derivative: gradient, forward mode and differences.
    """
    random = np.random.default_rng(seed)
    start, direction = {}, {}
    for name, array in inputs.items():
        before = np.array(array.numpy())
        moved = [size * np.max(np.abs(before)) * random.normal(size=before.shape) * (before != 0.0) for _ in range(2)]
        start[name], direction[name] = before + 0.01 * moved[0], moved[1]
        array.assign(start[name])
    program.gradient()
    found = sum(float((array.grad.numpy() * direction[name]).sum()) for name, array in inputs.items())
    scale = max(abs(found), 1e-300)
    forward = abs(program.tangent(direction) - found) / scale
    best = float("inf")
    for h in CHANGES:
        ends = []
        for sign in (1.0, -1.0):
            for name, array in inputs.items():
                array.assign(start[name] + sign * h * direction[name])
            ends.append(program.value())
        best = min(best, abs((ends[0] - ends[1]) / (2.0 * h) - found) / scale)
        if best < 1e-8:
            break
    return max(best, forward)
