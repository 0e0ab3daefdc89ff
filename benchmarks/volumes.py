"""Milliseconds of operations on sparse volumes: diffkern and Warp on the CPU, in interleaved runs.

``python benchmarks/volumes.py [--quick] [OPERATION ...]`` prints the least processor time of the rounds, and the least
time that passed. Queries are of 1e6 places in a shell of tiles, at random and in order. Columns of libraries that
are not installed are empty.
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
Row = tuple[str, list[Call | None]]


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


def measured(calls: list[Call | None], rounds: int) -> list[tuple[float, float] | None]:
    """Return the milliseconds of each call, of the processor and passed, the least of the rounds, taken in turns."""
    least = [(float("inf"), float("inf"))] * len(calls)
    for round_ in range(rounds + 1):
        for k, call in enumerate(calls):
            if call is None:
                continue
            begin, passed = time.process_time(), time.perf_counter()
            call()
            took = time.process_time() - begin, time.perf_counter() - passed
            if round_:
                least[k] = min(least[k][0], took[0]), min(least[k][1], took[1])
    return [None if call is None else (1e3 * a, 1e3 * b) for call, (a, b) in zip(calls, least, strict=True)]


def shell(n: int) -> np.ndarray:
    """Return tiles around a sphere of 40 tiles in diameter, and many points in them."""
    rng = np.random.default_rng(n)
    way = rng.normal(size=(n, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return (way * (160.0 + rng.uniform(-6.0, 6.0, (n, 1)))).astype(np.float32)


def queries(n: int, folder: Path) -> Iterator[Row]:
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


def allocations(n: int) -> Iterator[Row]:
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


def main() -> None:
    """Print the table."""
    quick, wanted = "--quick" in sys.argv, [a for a in sys.argv[1:] if not a.startswith("-")]
    n, rounds = (100_000, 3) if quick else (1_000_000, ROUNDS)
    print(f"{n} points; milliseconds of the processor, and passed")
    print(f"{'':34}{'diffkern':>18}{'Warp':>18}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for rows in (allocations(n), queries(n, Path(folder))):
            for name, calls in rows:
                if wanted and not any(name.startswith(w) for w in wanted):
                    continue
                ours, theirs = measured(calls, rounds)
                assert ours is not None
                text = f"{name:34}{ours[0]:9.1f}{ours[1]:9.1f}"
                if theirs is not None:
                    text += f"{theirs[0]:9.1f}{theirs[1]:9.1f}{ours[0] / theirs[0]:8.2f}"
                print(text, flush=True)


if __name__ == "__main__":
    main()
