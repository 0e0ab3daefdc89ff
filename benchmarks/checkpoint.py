"""A long roll-out with few states: memory and work of `dk.checkpoint` beside a plain run, for a chain of masses.

    python benchmarks/checkpoint.py                 # 10,000 steps, 50 slots
    python benchmarks/checkpoint.py --steps 500 --slots 10 --masses 4096

Launches are counted, and so are the bytes of arrays that are alive at once; both are exact. Times are processor times
of one thread. Exits with 1 if the memory is beyond 1.3 times that of the slots, the launches are not the schedule's, or
the time is more than 1.2 times what a plain tape's steps and the repetitions of the schedule take.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("DIFFKERN_NUM_THREADS", "1")

import diffkern as dk
import diffkern.runtime.memory.device as device
from diffkern.runtime.rollouts.rollout import repeated


@dk.kernel
def forces(x: dk.array(dtype=dk.vec3), stiffness: dk.array(dtype=float), f: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    n = x.shape[0]
    total = dk.vec3(0.0, -9.81, 0.0)
    for k in range(2):
        j = i + 2 * k - 1
        if j >= 0 and j < n:
            d = x[j] - x[i]
            length = dk.length(d)
            total += d * (stiffness[0] * (length - 0.1) / length)
    f[i] = total


@dk.kernel
def advance(x: dk.array(dtype=dk.vec3), v: dk.array(dtype=dk.vec3), f: dk.array(dtype=dk.vec3), dt: float):
    i = dk.tid()
    if i > 0:
        v[i] = (v[i] + f[i] * dt) * 0.999
        x[i] = x[i] + v[i] * dt


@dk.kernel
def distance(x: dk.array(dtype=dk.vec3), loss: dk.array(dtype=float)):
    i = dk.tid()
    loss[0] += dk.dot(x[i], x[i]) / float(x.shape[0])


class Allocated:
    """Counts the bytes of the arrays that are alive, and the most there were."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._allocate = device.allocate
        device.allocate = self._counting

    def _counting(self, *args: Any) -> Any:
        data, memory = self._allocate(*args)
        self.now += memory.nbytes
        self.most = max(self.most, self.now)
        weakref.finalize(memory, self._gone, memory.nbytes)
        return data, memory

    def _gone(self, nbytes: int) -> None:
        self.now -= nbytes


class Chain:
    """A chain of masses that hangs at one end."""

    def __init__(self, masses: int) -> None:
        self.masses = masses
        start = [(0.1 * k, 0.0, 0.0) for k in range(masses)]
        self.x = dk.array(start, dtype=dk.vec3, requires_grad=True)
        self.v = dk.zeros(masses, dtype=dk.vec3, requires_grad=True)
        self.f = dk.zeros(masses, dtype=dk.vec3)
        self.stiffness = dk.array([1000.0], dtype=float, requires_grad=True)
        self.loss = dk.zeros(1, dtype=float, requires_grad=True)
        self.launches = 0

    @property
    def state(self) -> int:
        """The bytes that a step hands on."""
        return 2 * 12 * self.masses

    def step(self, k: int) -> None:
        self.launches += 2
        dk.launch(forces, dim=self.masses, inputs=[self.x, self.stiffness], outputs=[self.f])
        dk.launch(advance, dim=self.masses, inputs=[self.x, self.v, self.f, 1e-3])

    def gradient(self, run: Callable[[], None]) -> float:
        """Differentiate a run of steps; return the processor time that it took."""
        begin = time.process_time()
        with dk.Tape() as tape:
            run()
            dk.launch(distance, dim=self.masses, inputs=[self.x], outputs=[self.loss])
        tape.backward(self.loss)
        return time.process_time() - begin


def plain(masses: int, steps: int) -> tuple[float, Chain]:
    """The gradient on a plain tape, whose copies take as much memory as there are steps."""
    chain = Chain(masses)

    def run() -> None:
        for k in range(steps):
            chain.step(k)

    return chain.gradient(run), chain


def forward(masses: int, steps: int) -> float:
    """The processor time of the steps alone."""
    chain = Chain(masses)
    begin = time.process_time()
    for k in range(steps):
        chain.step(k)
    return time.process_time() - begin


def main() -> int:
    """Measure, and return the exit status."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=10_000)
    options.add_argument("--slots", type=int, default=50)
    options.add_argument("--masses", type=int, default=100_000)
    given = options.parse_args()
    few = min(given.steps, 200)
    plain(given.masses, 2)
    per_step = forward(given.masses, few) / few
    plain_time, _ = plain(given.masses, few)

    chain = Chain(given.masses)
    counted = Allocated()
    taken = chain.gradient(lambda: dk.checkpoint(chain.step, given.steps, given.slots, progress=True))
    memory = counted.most / (given.slots * chain.state)
    # Every step runs once more than the plain tape's for each repetition; its adjoint once.
    again = repeated(given.steps, given.slots) + 1
    launches = 2 * (given.steps + again)
    expected = plain_time / few * given.steps + again * per_step
    rows = [
        ("memory / that of the slots", memory, 1.3),
        ("launches / the schedule's", chain.launches / launches, 1.0),
        ("time / the schedule's", taken / expected, 1.2),
    ]
    print(f"{given.masses} masses, {given.steps} steps, {given.slots} slots of {chain.state / 1e6:.1f} MB")
    print(f"steps run {chain.launches // 2}, {chain.launches / 2 / given.steps:.2f} times each; {taken:.1f} s")
    for name, value, bound in rows:
        print(f"{name:30} {value:6.3f}   at most {bound}   {'met' if value <= bound else 'MISSED'}")
    return int(any(value > bound for _, value, bound in rows))


if __name__ == "__main__":
    sys.exit(main())
