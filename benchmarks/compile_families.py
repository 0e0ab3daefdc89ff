"""Measure what a kernel of 300 lines costs to compile that uses every family of the language.

In: nothing but the command line. Out: a table (and a JSON file) with the processor time of the first launch of
``families_kernel.families`` and of its adjoint with an empty cache: reading the source, lowering, differentiating,
compiling, loading, and importing the compiler, whose modules have bytecode as an installed package has it. Each reading
is that of a new process; the least of them counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine, options, print_machine, rounds_of, rows_beside, save_json, seconds_text

LIMIT = 3.0
"""Seconds of processor time for both."""
READINGS, QUICK_READINGS = 5, 2
THREADS = 8


def arguments(dk: Any, material: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a launch."""
    rng = np.random.default_rng(0)

    def array(values: Any, dtype: Any = None) -> Any:
        return dk.array(values, dtype=dtype or dk.float32, requires_grad=True)

    def numbers(*shape: int) -> Any:
        return rng.uniform(0.3, 1.3, shape).astype(np.float32)

    turns = numbers(THREADS, 4)
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    frames = np.concatenate([numbers(THREADS, 3), turns], axis=1)
    inputs = [
        array(numbers(THREADS)), array(numbers(THREADS, 6)), array(numbers(THREADS, 3), dk.vec3), array(turns, dk.quat),
        array(frames, dk.transform), array(numbers(THREADS, 3, 3) + np.eye(3, dtype=np.float32), dk.mat33),
        dk.array(np.arange(THREADS, dtype=np.int32)[::-1].copy()), material(1.0, 2.0, dk.vec3(1.0, 0.0, 0.0), 1), 5, 42,
    ]  # fmt: skip
    outputs = [
        array(np.zeros(THREADS)), array(np.zeros((THREADS, 3)), dk.vec3), array(np.zeros(1)),
        dk.zeros(THREADS, dtype=int), dk.zeros(THREADS, dtype=int),
    ]  # fmt: skip
    return inputs, outputs


def read() -> None:
    """Print the processor time of the first launches in this process, as JSON."""
    import families_kernel

    import diffkern as dk

    inputs, outputs = arguments(dk, families_kernel.Material)
    start = time.process_time()
    dk.launch(families_kernel.families, THREADS, inputs, outputs)
    launched = time.process_time()
    nothing = {"adj_inputs": [None] * len(inputs), "adj_outputs": [None] * len(outputs)}
    dk.launch(families_kernel.families, THREADS, inputs, outputs, adjoint=True, **nothing)
    found = outputs[0].numpy()
    assert np.isfinite(found).all(), found
    print(json.dumps({"forward_s": launched - start, "adjoint_s": time.process_time() - launched}))


def one_reading(bytecode: str) -> dict[str, float]:
    """The reading of a new process without a cache; Python's own is in a folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--child"],
            env={**kept, "DIFFKERN_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": bytecode},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    reading: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return reading


def main() -> int:
    """Take the readings and print the least."""
    parser = options(str(__doc__).partition("\n")[0])
    parser.add_argument("--child", action="store_true", help="take one reading in this process")
    chosen = parser.parse_args()
    if chosen.child:
        read()
        return 0
    facts = machine()
    print_machine(facts)
    with tempfile.TemporaryDirectory() as bytecode:
        one_reading(bytecode)  # writes it
        readings = [one_reading(bytecode) for _ in range(rounds_of(chosen, READINGS, QUICK_READINGS))]
    least = min(readings, key=lambda r: r["forward_s"] + r["adjoint_s"])
    total = least["forward_s"] + least["adjoint_s"]
    lines = len((Path(__file__).parent / "families_kernel.py").read_text(encoding="utf-8").splitlines())
    met = "met" if total <= LIMIT else "missed"
    print(f"{lines} lines: forward {seconds_text(least['forward_s'])}, adjoint {seconds_text(least['adjoint_s'])}")
    print(f"both {seconds_text(total)} of a processor <= {LIMIT:g} s {met}")
    if chosen.json:
        name = f"a kernel of {lines} lines, forward and adjoint"
        both = [r["forward_s"] + r["adjoint_s"] for r in readings]
        save_json(chosen.json, facts, rows_beside(name, both, {}), readings=readings)
    return int(chosen.strict and total > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
