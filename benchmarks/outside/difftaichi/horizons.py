"""Gradients of simulators by the number of steps, in float64, with ``dk.testing.horizon``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import diffkern as dk
from benchmarks.outside.results import HorizonRow

from .simulation import SIMULATIONS, SteppedSimulation

NUMBERS = {"mass_spring_simple": (16, 64, 256, 1023), "billiards": (256, 640, 768, 1023)}
"""Numbers of steps by simulator. Billiards has no gradient until the rack is hit, after more than 512."""


def report(cls: type[SteppedSimulation], numbers: tuple[int, ...]) -> dk.testing.HorizonReport:
    """Return the report for a simulator from its initial parameters."""
    sim = cls("float64", max(numbers) + 1)
    last = 0

    def step(k: int) -> None:
        nonlocal last
        last = k + 1
        if k == 0:
            sim.begin()
        sim.advance(last)

    def loss() -> dk.array:
        sim.measure(last)
        return sim.loss

    return dk.testing.horizon(step, max(numbers), loss=loss, inputs=[*sim.parameters.values()], horizons=numbers)


def rows() -> Iterator[HorizonRow]:
    """Yield the rows of all simulators that are looked at."""
    for name, numbers in NUMBERS.items():
        cls = SIMULATIONS[name]
        assert issubclass(cls, SteppedSimulation)
        for each in report(cls, numbers).rows:
            yield HorizonRow(name, each.steps, each.norm, _known(each.growth), _known(each.cosine))


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
