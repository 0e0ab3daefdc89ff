"""Compare operations on sparse volumes with Warp on the CPU, in interleaved runs.

    python benchmarks/volumes.py [--quick] [--wall]

The medians of processor time, or with ``--wall`` of the time that passed. Queries are of 1e6 places in a shell of
tiles, at random and in order. Without Warp diffkern is timed alone.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, few_options, machine, measure_beside, print_machine, print_table, rounds_of, save_json

import diffkern as dk

try:
    import warp as wp
except ImportError:
    wp = None

KERNELS = """
import {name} as m

F = m.array(dtype=float)
V = m.array(dtype=m.vec3)
I = m.array(dtype=int)


@m.kernel
def sample(volume: m.uint64, x: V, y: F):
    i = m.tid()
    y[i] = m.volume_sample_f(volume, x[i], 1)


@m.kernel
def lookup(volume: m.uint64, x: V, y: F):
    i = m.tid()
    p = x[i]
    y[i] = m.volume_lookup_f(volume, int(p[0]), int(p[1]), int(p[2]))


@m.kernel
def gradient(volume: m.uint64, x: V, y: F):
    i = m.tid()
    g = m.vec3(0.0, 0.0, 0.0)
    s = m.volume_sample_grad_f(volume, x[i], 1, g)
    y[i] = s + g[0] + g[1] + g[2]


@m.kernel
def by_index(volume: m.uint64, x: V, values: F, y: F):
    i = m.tid()
    y[i] = m.volume_sample_index(volume, x[i], 1, values, 0.5)


@m.kernel
def store(volume: m.uint64, x: V, y: F):
    i = m.tid()
    p = x[i]
    m.volume_store_f(volume, int(p[0]), int(p[1]), int(p[2]), y[i])
"""

ROUNDS = 7
Call = Callable[[], Any]
Case = tuple[str, list[Call | None]]


def kernels(name: str, folder: Path) -> Any:
    """Return the module of the kernels for a library."""
    path = folder / f"volumes_for_{name}.py"
    path.write_text(KERNELS.format(name=name))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def shell(n: int) -> np.ndarray:
    """Return tiles around a sphere of 40 tiles in diameter, and many points in them."""
    rng = np.random.default_rng(n)
    way = rng.normal(size=(n, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return (way * (160.0 + rng.uniform(-6.0, 6.0, (n, 1)))).astype(np.float32)


def queries(n: int, folder: Path) -> Iterator[Case]:
    """Queries and their adjoints with respect to the place and, of an array by index, the values."""
    libraries = [(dk, kernels("diffkern", folder)), (wp, wp and kernels("warp", folder))]
    points = shell(n)
    voxels = np.round(points).astype(np.int32)
    order = np.lexsort((voxels[:, 2], voxels[:, 1], voxels[:, 0]))
    made = {}
    for m, _ in libraries:
        if m is not None:
            volume = m.Volume.allocate_by_tiles(m.array(voxels, dtype=m.int32, device="cpu"), 1.0, 0.5, device="cpu")
            values = m.array(
                np.ones(volume.get_voxel_count(), np.float32), dtype=float, device="cpu", requires_grad=True
            )
            made[m] = volume, values
    for where, places in (("at random", points), ("in order", points[order])):
        for name in ("sample", "lookup", "gradient", "by_index", "store"):
            forward: list[Call | None] = []
            backward: list[Call | None] = []
            for m, own in libraries:
                if m is None:
                    forward.append(None)
                    backward.append(None)
                    continue
                volume, values = made[m]
                x = m.array(places, dtype=m.vec3, device="cpu", requires_grad=name != "store")
                y = m.zeros(n, dtype=float, device="cpu", requires_grad=name != "store")
                inputs = [volume.id, x, values] if name == "by_index" else [volume.id, x]
                tape = m.Tape()
                if name != "store":
                    with tape:
                        m.launch(getattr(own, name), n, inputs, [y], device="cpu")
                seed = m.array(np.ones(n, np.float32), dtype=float, device="cpu")

                def run(m=m, own=own, name=name, inputs=inputs, y=y):
                    m.launch(getattr(own, name), n, inputs, [y], device="cpu")

                def reverse(tape=tape, y=y, seed=seed):
                    tape.backward(grads={y: seed})

                forward.append(run)
                backward.append(reverse)
            yield f"{name}, {where}", forward
            if name in ("sample", "gradient", "by_index"):
                yield f"{name}, {where}: adjoint", backward


def allocations(n: int) -> Iterator[Case]:
    """Allocation from points, of which many share a tile or a voxel."""
    points = np.round(shell(n)).astype(np.int32)
    for what in ("tiles", "voxels"):
        calls: list[Call | None] = []
        for m in (dk, wp):
            if m is None:
                calls.append(None)
                continue
            given = m.array(points, dtype=m.int32, device="cpu")
            allocate = getattr(m.Volume, f"allocate_by_{what}")
            calls.append(lambda allocate=allocate, given=given: allocate(given, 1.0, device="cpu"))
        yield f"allocation by {what}", calls


def main() -> int:
    """Run the chosen operations and print the table."""
    parser = few_options(str(__doc__))
    parser.add_argument("--wall", action="store_true", help="the time that passed")
    chosen = parser.parse_args()
    facts = machine()
    print_machine(facts)
    n, rounds = 100_000 if chosen.quick else 1_000_000, rounds_of(chosen, ROUNDS, 3)
    clock = time.perf_counter if chosen.wall else time.process_time
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for cases in (allocations(n), queries(n, Path(folder))):
            for name, calls in cases:
                if chosen.only in name:
                    rows += measure_beside(name, dict(zip(("diffkern", "warp"), calls, strict=True)), rounds, clock)
    print_table(rows)
    if chosen.json:
        save_json(chosen.json, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
