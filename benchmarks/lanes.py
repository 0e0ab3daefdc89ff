"""Measure kernels whose threads run in lanes beside the same kernels whose threads run one by one.

In: nothing but the command line. Out: a table (and a JSON file) of ratios of processor time, forward and forward with
gradient, as medians of interleaved pairs. The results are compared first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import lane_kernels
import numpy as np
from harness import machine, options, print_machine, rounds_of, save_json

import diffkern as dk

PAIRS, QUICK_PAIRS = 15, 5


def _inputs(name: str) -> tuple[int, list[Any], Any]:
    """Threads, inputs and the output of a case."""
    rng = np.random.default_rng(0)

    def array(values: Any, dtype: Any = dk.float32) -> Any:
        return dk.array(values.astype(np.float32), dtype=dtype, requires_grad=True)

    if name == "recurrence":
        count = 100_000
        return count, [array(rng.uniform(0.1, 0.9, count)), 64, 3.1], array(np.zeros(count))
    if name == "nbody":
        count = 4096
        bodies = array(rng.normal(size=(count, 3)), dk.vec3)
        return count, [bodies, array(rng.uniform(0.5, 1.5, count)), count], array(np.zeros((count, 3)), dk.vec3)
    across, down = np.meshgrid(np.linspace(-1.5, 0.7, 320), np.linspace(-1.2, 1.2, 320))
    points = np.stack([across, down], axis=-1).reshape(-1, 2)
    return len(points), [array(points, dk.vec2), 100], array(np.zeros(len(points)))


def _works(name: str, lanes: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The launch, and the launch on a tape with its gradient; each returns what it computes."""
    kernel = dk.kernel(getattr(lane_kernels, name), lanes=lanes)
    count, inputs, out = _inputs(name)
    seed = dk.array(np.ones(out.numpy().shape, np.float32), dtype=out.dtype)

    def forward() -> Any:
        dk.launch(kernel, count, inputs, [out])
        return out.numpy()

    def gradient() -> Any:
        with dk.Tape() as tape:
            dk.launch(kernel, count, inputs, [out])
        tape.backward(grads={out: seed})
        found = inputs[0].grad.numpy().copy()
        tape.zero()
        return found

    return forward, gradient


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    """Run the cases and print the table."""
    chosen = options(str(__doc__).partition("\n")[0]).parse_args()
    facts = machine()
    print_machine(facts)
    rows = []
    print(f"{'case':<24}{'one by one':>14}{'in lanes':>12}{'ratio':>8}")
    for name in ("recurrence", "nbody", "escape"):
        alone, together = _works(name, False), _works(name, True)
        for what, one, other in zip(("forward", "with gradient"), alone, together, strict=True):
            expected, found = one(), other()
            scale = float(np.nanmax(np.abs(expected[np.isfinite(expected)])))
            assert np.allclose(found / scale, expected / scale, atol=1e-4, equal_nan=True), (name, what)
            pairs = [(_seconds(one), _seconds(other)) for _ in range(rounds_of(chosen, PAIRS, QUICK_PAIRS))]
            first, second = (median(times) for times in zip(*pairs, strict=True))
            ratio = median(a / b for a, b in pairs)
            print(f"{name + ' ' + what:<24}{first * 1e3:>11.2f} ms{second * 1e3:>9.2f} ms{ratio:>8.1f}")
            rows.append({"case": name, "what": what, "alone_s": first, "lanes_s": second, "ratio": ratio})
    if chosen.json:
        save_json(chosen.json, facts, [], readings=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
