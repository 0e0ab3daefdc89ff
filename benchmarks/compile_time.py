"""Measure how the time to compile a kernel grows with its length.

In: nothing but the command line. Out: a table (and a JSON file) with the seconds from the first launch of a generated
kernel to its return — reading the source, lowering, differentiating, compiling, loading, with an empty cache — for
250 to 4000 scalar operations, and the exponent p of the fit ``seconds ~ operations**p``. NVIDIA Warp compiles the same
text for the smaller sizes. Two shapes are generated: one long straight line, and the same number of operations in loops
and branches. ``--lanes`` asks for threads in lanes, or for none.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import Row, compare, load_peer, machine, options, print_machine, rows_beside, save_json, seconds_text

Float32 = npt.NDArray[np.float32]
SIZES = (250, 500, 1000, 2000, 4000)
QUICK_SIZES = (250, 500, 1000)
PEER_LIMIT = 1000
LANES = {"unasked": "", "on": "(lanes=True)", "off": "(lanes=False)"}
"""What kernels are decorated with."""
HEAD = """import {library} as w


@w.kernel{options}
def generated(x: w.array(dtype=float), y: w.array(dtype=float), n: int, z: w.array(dtype=float)):
    i = w.tid()
    a = x[i] * 1.0
    b = y[i] * 1.0
"""


@dataclass(frozen=True)
class Reading:
    """What one kernel took (the first forward launch, and the first adjoint launch, in seconds), and its output."""

    library: str
    shape: str
    operations: int
    forward_s: float
    adjoint_s: float
    output: Float32 = field(repr=False)


def straight_line(operations: int) -> str:
    """Return statements of two operations each, every one of which depends on those before."""
    lines, older, newer = [], "a", "b"
    for number in range(operations // 2):
        name = f"v{number}"
        form = ("{n} * 0.5 + {o}", "{n} * a - 0.25", "{o} * {n} - 0.25", "{n} * b + 0.125")[number % 4]
        lines.append(f"    {name} = " + form.format(n=newer, o=older))
        older, newer = newer, name
    return "\n".join([*lines, f"    z[i] = {newer}"])


def loops_and_branches(operations: int) -> str:
    """Return blocks of ten operations: a loop with a run-time trip count, and a branch in it."""
    lines = ["    s = a * 1.0"]
    for _ in range(operations // 10):
        lines += [
            "    for k in range(n):",
            "        s = s * 0.5 + a",
            "        if s > b:",
            "            s = s * s - b",
            "        else:",
            "            s = s * 0.75 + 0.125",
            "    s = s * 0.5 - a * 0.25",
        ]
    return "\n".join([*lines, "    z[i] = s"])


SHAPES: dict[str, Callable[[int], str]] = {"straight line": straight_line, "loops and branches": loops_and_branches}


def module_of(library: str, shape: str, operations: int, folder: Path, kernel_options: str = "") -> Any:
    """Write the kernel to a file of its own, because kernels are read from their source, and import it."""
    name = f"generated_{library}_{shape.replace(' ', '_')}_{operations}_{len(kernel_options)}"
    text = HEAD.format(library=library, options=kernel_options) + SHAPES[shape](operations) + "\n"
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(name)


def first_launch(library: Any, kernel: Any, adjoint: bool) -> tuple[float, Float32]:
    """Launch a kernel on a few elements and return the seconds and its output."""
    x = library.array(np.linspace(0.1, 0.5, 8, dtype=np.float32), dtype=library.float32, requires_grad=True)
    y = library.array(np.linspace(0.2, 0.4, 8, dtype=np.float32), dtype=library.float32, requires_grad=True)
    z = library.zeros(8, dtype=library.float32, requires_grad=True)
    arguments: dict[str, Any] = {"dim": 8, "inputs": [x, y, 3], "outputs": [z]}
    if adjoint:
        arguments.update(adj_inputs=[x.grad, y.grad, None], adj_outputs=[z.grad], adjoint=True)
    start = time.perf_counter()
    library.launch(kernel, **arguments)
    elapsed = time.perf_counter() - start
    return elapsed, np.array(z.numpy())


def read_own(library: Any, shape: str, operations: int, folder: Path, kernel_options: str) -> Reading:
    """Time diffkern, which compiles the two directions apart from each other, each when it is first launched."""
    kernel = module_of("diffkern", shape, operations, folder, kernel_options).generated
    forward, output = first_launch(library, kernel, adjoint=False)
    adjoint, _ = first_launch(library, kernel, adjoint=True)
    return Reading("diffkern", shape, operations, forward, adjoint, output)


def read_peer(library: Any, shape: str, operations: int, folder: Path) -> Reading:
    """Time Warp, which compiles both directions at once: the adjoint is the difference to a forward-only kernel."""
    forward_only = module_of("warp", shape, operations, folder, "(enable_backward=False)").generated
    forward, output = first_launch(library, forward_only, adjoint=False)
    both, _ = first_launch(library, module_of("warp", shape, operations, folder).generated, adjoint=False)
    return Reading("warp", shape, operations, forward, both - forward, output)


def check_outputs(readings: Sequence[Reading]) -> None:
    """Compare the outputs of kernels that both libraries compiled; a difference ends the script."""
    peers = {(r.shape, r.operations): r.output for r in readings if r.library == "warp"}
    for r in readings:
        if (r.shape, r.operations) in peers:
            compare(f"{r.shape}, {r.operations}, {r.library}", r.output, peers[r.shape, r.operations], 1e-5)


def rows_of(readings: Sequence[Reading]) -> list[Row]:
    """Return a row for each kernel of diffkern's, forward and adjoint together, beside Warp's where there is one."""
    both = {(r.library, r.shape, r.operations): r.forward_s + r.adjoint_s for r in readings}
    rows = []
    for (library, shape, operations), seconds in both.items():
        if library == "diffkern":
            theirs = both.get(("warp", shape, operations))
            others = {} if theirs is None else {"warp": [theirs]}
            rows += rows_beside(f"{shape}, {operations} operations", [seconds], others, shape)
    return rows


def growth(operations: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the exponent of the least-squares fit of a power law."""
    if len(operations) < 2 or min(seconds) <= 0.0:
        return math.nan
    return float(np.polyfit(np.log(operations), np.log(seconds), 1)[0])


def print_readings(readings: Sequence[Reading]) -> dict[str, float]:
    """Print the readings and the fitted exponents, and return the exponents by name."""
    exponents: dict[str, float] = {}
    print(f"{'library':9} {'shape':19} {'operations':>10} {'forward':>9} {'adjoint':>9} {'both, per operation':>20}")
    for library, shape in dict.fromkeys((r.library, r.shape) for r in readings):
        chosen = [r for r in readings if (r.library, r.shape) == (library, shape)]
        for r in chosen:
            each = seconds_text((r.forward_s + r.adjoint_s) / r.operations)
            times = f"{seconds_text(r.forward_s):>9} {seconds_text(r.adjoint_s):>9}"
            print(f"{library:9} {shape:19} {r.operations:10d} {times} {each:>20}")
        sizes = [r.operations for r in chosen]
        for part, seconds in (
            ("forward", [r.forward_s for r in chosen]),
            ("adjoint", [r.adjoint_s for r in chosen]),
        ):
            exponents[f"{library}, {shape}, {part}"] = growth(sizes, seconds)
        fits = ", ".join(f"{p} {exponents[f'{library}, {shape}, {p}']:.2f}" for p in ("forward", "adjoint"))
        print(f"{'':9} growth exponent: {fits}\n")
    return exponents


def main() -> int:
    """Measure the chosen shapes and print the table."""
    parser = options(str(__doc__).partition("\n")[0])
    parser.add_argument("--lanes", choices=LANES, default="unasked", help="how the threads of diffkern's kernels run")
    arguments = parser.parse_args()
    if arguments.rounds > 1:
        parser.error("each kernel is compiled once, for each is a new one")
    own_options = LANES[arguments.lanes]
    sizes = QUICK_SIZES if arguments.quick else SIZES
    facts = machine()
    print_machine(facts)
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Both libraries read their cache directory when they are imported.
        os.environ["WARP_CACHE_PATH"] = str(folder / "warp")
        os.environ["DIFFKERN_CACHE_DIR"] = str(folder / "diffkern")
        sys.path.insert(0, name)
        warp = load_peer()
        diffkern = None if arguments.peer_only else importlib.import_module("diffkern")
        for shape in SHAPES:
            if arguments.only not in shape:
                continue
            # The first kernel of a process also pays for starting the compilers; it is not counted.
            read_peer(warp, shape, 20, folder)
            readings += [read_peer(warp, shape, size, folder) for size in sizes if size <= PEER_LIMIT]
            if diffkern is not None:
                read_own(diffkern, shape, 20, folder, own_options)
                readings += [read_own(diffkern, shape, size, folder, own_options) for size in sizes]
    check_outputs(readings)
    exponents = print_readings(readings)
    if arguments.json:
        figures = [
            {
                "library": r.library,
                "shape": r.shape,
                "operations": r.operations,
                "forward_s": r.forward_s,
                "adjoint_s": r.adjoint_s,
            }
            for r in readings
        ]
        save_json(arguments.json, facts, rows_of(readings), readings=figures, exponents=exponents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
