"""The price of deterministic sums on a GPU: instructions, counted by the interpreter of PTX, and memory.

``python benchmarks/exact_sums.py`` needs no GPU. It prints for each type of an array the instructions of a warp for an
addition of 32 threads, plain and exact; those of the second kernel for 32 numbers that nothing and something was added
to; and the bytes of memory for each number.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.contracts.exact_sums import DIGITS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.fake_driver import executed
from support.fake_driver.driver import fake_cuda

N = 256


def scatter(t: Any, twice: bool, **options: Any) -> dk.Kernel:
    """Return a kernel that adds to elements of one or of two arrays."""

    numbers = dk.array(dtype=t)

    @dk.kernel(block_dim=32, **options)
    def added(at: dk.array(dtype=int), x: numbers, h: numbers, g: numbers):
        i = dk.tid()
        h[at[i]] += x[i]
        if dk.static(twice):
            g[at[i]] += x[i]

    return added


def counted(kernel: dk.Kernel, t: Any, values: np.ndarray) -> list[float]:
    """Return the instructions of a warp for 32 threads, of each launch."""
    found: list[float] = []
    launch = executed.launch

    def noted(*given: Any) -> int:
        steps = launch(*given)
        found.append(steps * 32 / N)
        return steps

    executed.launch = noted
    try:
        with fake_cuda(run="ptx"), dk.ScopedDevice("cuda:0"):
            at, x = dk.array(np.arange(N), dtype=int), dk.array(values, dtype=t)
            h, g = dk.zeros(N, dtype=t), dk.zeros(N, dtype=t)
            # One warp, so that there is one copy of the digits.
            dk.launch(kernel, N, [at, x], [h, g], max_blocks=1)
            h.numpy()
    finally:
        executed.launch = launch
    return found


def main() -> None:
    """Print the table."""
    print(f"{'array of':<10} {'add':>5} {'exact add':>10} {'unchanged':>10} {'changed':>8} {'bytes':>6}")
    values = np.random.default_rng(0).normal(size=N)
    for name, digits in DIGITS.items():
        t = getattr(dk, name)
        adds = []
        for options in ({}, {"deterministic": True}):
            one, two = (counted(scatter(t, twice, **options), t, values)[0] for twice in (False, True))
            adds.append(two - one)
        kernel = scatter(t, False, deterministic=True)
        behind = [counted(kernel, t, given)[1] for given in (0.0 * values, values)]
        print(f"{name:<10} {adds[0]:5.0f} {adds[1]:10.0f} {behind[0]:10.0f} {behind[1]:8.0f} {digits.nbytes:6}")


if __name__ == "__main__":
    main()
