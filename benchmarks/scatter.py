"""Measure the three ways in which threads of an adjoint add to elements of each other.

In: nothing but the command line. Out: a table (and a JSON file) of medians of wall and processor time for the gradient
of the area of a mesh: with private copies, as few processors have them; with atomic updates, as a launch on 64
processors has them the first time; with contributions that are added up by sorted destinations, as it has them from
then on; and the time to sort them. Vertices are numbered along the surface or at random, and so are triangles. The
readings of the ways are interleaved, after a comparison of their results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import kernels
import numpy as np
from cpu import grid_mesh
from harness import chosen_cases, compare, machine, print_machine, rounds_of, save_json

import diffkern as dk
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.launch import schedule
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.native.sorting import sort_places

SIDE, QUICK_SIDE = 1000, 400
RUNS, QUICK_RUNS = 15, 5
MANY = 64
"""Processors as which a launch takes this machine, to add atomically."""
ORDERS = {
    "along the surface": (False, False),
    "vertices at random": (True, False),
    "triangles at random": (False, True),
    "both at random": (True, True),
}


def mesh(side: int, vertices: bool, triangles: bool) -> tuple[np.ndarray, np.ndarray]:
    """The vertices and triangles of a mesh, each of them in random order or not."""
    rng = np.random.default_rng(0)
    vertex, face = grid_mesh(side)
    if vertices:
        order = rng.permutation(len(vertex)).astype(np.int32)
        placed = np.empty_like(vertex)
        placed[order] = vertex
        vertex, face = placed, order[face]
    return vertex, np.ascontiguousarray(face[rng.permutation(len(face))] if triangles else face)


def ways(kernel: Any, vertex: np.ndarray, face: np.ndarray) -> tuple[dict[str, Callable[[], None]], Any]:
    """What adds up the gradient in each way, and the gradient."""
    x, at, energy = dk.array(vertex, dtype=dk.vec3), dk.array(face), dk.zeros(1, dtype=float)
    gradient, seed = dk.zeros(len(vertex), dtype=dk.vec3), dk.ones(1, dtype=float)
    launch = PackedLaunch(kernel, len(face), [x, at, energy])
    processors, made = schedule.processors, SimpleNamespace()
    for name in ("copies", "atomics", "sorted"):
        schedule.processors = processors if name == "copies" else lambda: MANY
        launch.adjoint(frozenset({0, 2})).sweeps.clear()
        setattr(made, name, AdjointLaunch(launch, {0: gradient, 2: seed}))
    schedule.processors = processors
    if not made.copies.sweep.plan.private or made.atomics.sorting is None:
        raise SystemExit("this machine has too many processors to compare private copies with the other ways")
    made.atomics.sorting = None
    (step,) = made.atomics.steps()
    # Told that it may be alone, the run would be one thread's, with plain updates, where so few are as quick.
    atomics = step._replace(updates=False)
    return {"copies": made.copies.execute, "atomics": atomics.run, "sorted": made.sorted.execute}, gradient


def readings(work: dict[str, Callable[[], None]], clear: Callable[[], None], runs: int) -> dict[str, Any]:
    """The medians of wall and processor time of each way."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for _ in range(runs):
        for name, run in work.items():
            clear()
            start = time.perf_counter(), time.process_time()
            run()
            found[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {name: [median(column) for column in zip(*pairs, strict=True)] for name, pairs in found.items()}


def sorting(face: np.ndarray, count: int) -> list[float]:
    """The wall and processor time of a sort."""
    keys = face.reshape(-1)
    found = []
    for _ in range(3):
        start = time.perf_counter(), time.process_time()
        sort_places(keys, count)
        found.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return [median(column) for column in zip(*found, strict=True)]


def measure(kernel: Any, order: str, side: int, runs: int) -> dict[str, Any]:
    """All figures of one order of vertices and triangles."""
    vertex, face = mesh(side, *ORDERS[order])
    work, gradient = ways(kernel, vertex, face)
    results = {}
    for _ in range(3):  # the third launch finds its destinations sorted
        for name, run in work.items():
            gradient.zero_()
            run()
            results[name] = gradient.numpy().copy()
    for name in ("atomics", "sorted"):
        compare(f"{order}, {name}", results[name], results["copies"], 1e-4)
    return {"order": order, **readings(work, gradient.zero_, runs), "sort": sorting(face, len(vertex))}


def main() -> int:
    """Run the cases and print the table."""
    chosen = chosen_cases(str(__doc__), ORDERS)
    facts = machine()
    print_machine(facts)
    kernel = kernels.make(dk).mesh_area
    side, runs = QUICK_SIDE if chosen.quick else SIDE, rounds_of(chosen, RUNS, QUICK_RUNS)
    print(f"{2 * side**2:,} triangles, {(side + 1) ** 2:,} vertices; ms of wall time (of processor time)")
    names = ("copies", "atomics", "sorted", "sort")
    print(f"{'':<22}", *(f"{name:>16}" for name in names), f"{'atomics / sorted':>18}")
    rows = []
    for order in chosen.cases or ORDERS:
        row = measure(kernel, order, side, runs)
        rows.append(row)
        cells = [f"{1e3 * row[name][0]:.1f} ({1e3 * row[name][1]:.1f})" for name in names]
        ratios = [a / b for a, b in zip(row["atomics"], row["sorted"], strict=True)]
        print(f"{order:<22}", *(f"{cell:>16}" for cell in cells), f"{ratios[0]:>9.2f} ({ratios[1]:.2f})", flush=True)
    if chosen.json:
        save_json(chosen.json, facts, [], readings=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
