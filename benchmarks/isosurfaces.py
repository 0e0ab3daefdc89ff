"""Compare surfaces of fields with Warp on the CPU, in interleaved runs.

    python benchmarks/isosurfaces.py [--quick] [NODES]

The medians of processor time, for grids of 128 nodes along each axis or as many as it is told. A case in which numbers
of triangles differ fails. Without Warp diffkern is timed alone.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from harness import (
    Row,
    exit_status,
    few_options,
    machine,
    measure_beside,
    print_machine,
    print_table,
    rounds_of,
    save_json,
)

import diffkern.warp

ROUNDS, QUICK_ROUNDS = 7, 3
Case = tuple[str, Callable[..., Callable[[], int]], str, np.ndarray]


def fields(nodes: int) -> dict[str, np.ndarray]:
    """Return a ball and a gyroid with many sheets."""
    x, y, z = np.meshgrid(*[np.linspace(-1.0, 1.0, nodes, dtype=np.float32)] * 3, indexing="ij")
    a, b, c = (12.0 * axis for axis in (x, y, z))
    gyroid = np.sin(a) * np.cos(b) + np.sin(b) * np.cos(c) + np.sin(c) * np.cos(a)
    return {"a ball": np.sqrt(x * x + y * y + z * z) - 0.7, "a gyroid": gyroid.astype(np.float32)}


def extract(wp: Any, geometry: Any, kind: str, values: np.ndarray) -> Callable[[], int]:
    """Return a work that gives the number of its triangles."""
    field = wp.array(values, dtype=wp.float32, device="cpu")
    surface = getattr(geometry, kind)
    return lambda: surface.extract(field, 0.0)[1].size // 3


def with_gradient(wp: Any, geometry: Any, kind: str, values: np.ndarray) -> Callable[[], int]:
    """Return a work that also goes back from the vertices to the field."""
    field = wp.array(values, dtype=wp.float32, device="cpu", requires_grad=True)
    surface = getattr(geometry, kind)

    def run() -> int:
        with wp.Tape() as tape:
            vertices, indices = surface.extract(field, 0.0)
        tape.backward(grads={vertices: wp.ones_like(vertices)})
        tape.zero()
        return indices.size // 3

    return run


def measured(cases: Iterable[Case], sides: dict[str, tuple[Any, Any]], rounds: int) -> Iterator[Row]:
    """Count the triangles of both libraries, then time them."""
    for name, make, kind, values in cases:
        works = {side: make(*modules, kind, values) for side, modules in sides.items()}
        counts = {side: work() for side, work in works.items()}
        if len(set(counts.values())) > 1:
            yield Row(name, "warp", "diffkern", error=f"numbers of triangles differ: {counts}")
        else:
            yield from measure_beside(name, works, rounds, time.process_time)


def main() -> int:
    """Run the chosen cases and print the table."""
    parser = few_options(str(__doc__))
    parser.add_argument("nodes", nargs="?", type=int, default=128, metavar="NODES", help="along each axis")
    chosen = parser.parse_args()
    facts = machine()
    print_machine(facts)
    sides = {"diffkern": (diffkern.warp, importlib.import_module("diffkern.warp").geometry)}
    try:
        sides["warp"] = importlib.import_module("warp"), importlib.import_module("warp.geometry")
    except ImportError:
        print("Warp is not installed")
    shapes = fields(chosen.nodes)
    cases = [(f"{CALLED[kind]}, {name}", extract, kind, values) for kind in CALLED for name, values in shapes.items()]
    first = next(iter(CALLED))
    cases.append((f"{CALLED[first]}, a ball, with the gradient", with_gradient, first, shapes["a ball"]))
    rounds = rounds_of(chosen, ROUNDS, QUICK_ROUNDS)
    rows = list(measured((case for case in cases if chosen.only in case[0]), sides, rounds))
    print_table(rows)
    if chosen.json:
        save_json(chosen.json, facts, rows)
    return exit_status(rows, strict=False)


CALLED = {"IsoSurfaceMarchingCubes": "marching cubes", "IsoSurfaceNets": "surface nets"}

if __name__ == "__main__":
    sys.exit(main())
