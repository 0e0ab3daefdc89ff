"""Runs a simulator: losses of its iterations, times and memory, and its gradient beside differences."""

from __future__ import annotations

import os
import resource
import time
from typing import Any

import numpy as np

import diffkern as dk

from .simulation import Simulation

CHANGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


def descended(cls: type[Simulation], iterations: int) -> dict[str, Any]:
    """Return losses and seconds of the passes, forward and gradient, and the memory of the process.

    The passes replay a recorded sequence of forward and gradient.
    """
    one = len(os.sched_getaffinity(0)) == 1
    clock = time.process_time if one else time.perf_counter
    sim = cls()
    begin = clock()
    with dk.record(run=False) as sequence:
        sim.forward()
    both = sequence.adjoint(sim.loss)
    made = clock() - begin
    losses, seconds = [], []
    for _ in range(iterations):
        begin = clock()
        both.replay()
        seconds.append(clock() - begin)
        losses.append(float(sim.loss.numpy()[0]))
        sim.descend()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"losses": losses, "seconds": seconds, "memory": memory, "recording": made}


def value(sim: Simulation) -> float:
    """Run the simulation and return its loss."""
    sim.reset()
    sim.forward()
    return float(sim.loss.numpy()[0])


def directional(cls: type[Simulation], steps: int = 0, seed: int = 3) -> tuple[float, float]:
    """Compare the gradient with central differences in float64 along a random direction of all parameters.

    The best of several step sizes counts.

    Returns
    -------
    tuple of float
        The derivative, and the difference relative to it.
    """
    sim = cls("float64", steps or cls.checked_steps)
    random = np.random.default_rng(seed)
    start, direction = {}, {}
    for name, array in sim.parameters.items():
        start[name] = np.array(array.numpy())
        size = max(float(np.abs(start[name]).max()), 1e-2)
        start[name] = start[name] + 1e-2 * size * random.normal(size=start[name].shape)
        direction[name] = size * random.normal(size=start[name].shape)
        array.assign(start[name])
    sim.reset()
    with dk.Tape() as tape:
        sim.forward()
    tape.backward(sim.loss)
    expected = sum(float((g * direction[name]).sum()) for name, g in sim.gradients().items())
    best = float("inf")
    for h in CHANGES:
        ends = []
        for s in (1.0, -1.0):
            for name, array in sim.parameters.items():
                array.assign(start[name] + s * h * direction[name])
            ends.append(value(sim))
        best = min(best, abs((ends[0] - ends[1]) / (2.0 * h) - expected) / max(abs(expected), 1e-300))
        if best < 1e-7:
            break
    return expected, best
