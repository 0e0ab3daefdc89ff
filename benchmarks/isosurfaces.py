"""Milliseconds of surfaces of fields: diffkern and Warp on the CPU, in interleaved runs.

``python benchmarks/isosurfaces.py [NODES]`` prints the least processor time of seven rounds, and the ratio of Warp's to
diffkern's, for grids of 128 nodes along each axis or as many as it is told. It stops if numbers of triangles differ.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk
import diffkern.warp

ROUNDS = 7


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


def main(arguments: list[str]) -> None:
    sides = [(diffkern.warp, importlib.import_module("diffkern.warp").geometry)]
    try:
        sides.append((importlib.import_module("warp"), importlib.import_module("warp.geometry")))
    except ImportError:
        print("Warp is not installed")
    shapes = fields(int(arguments[0]) if arguments else 128)
    cases = [(f"{kind}, {name}", extract, kind, values) for kind in KINDS for name, values in shapes.items()]
    cases.append((f"{KINDS[0]}, a ball, with the gradient", with_gradient, KINDS[0], shapes["a ball"]))
    print(f"diffkern {dk.__version__}; processor time in ms, the least of {ROUNDS}")
    for name, make, kind, values in cases:
        works = [make(*side, kind, values) for side in sides]
        if len({work() for work in works}) > 1:
            print(f"  {name}: numbers of triangles differ")
        least = [1e9] * len(works)
        for _ in range(ROUNDS):
            for k, work in enumerate(works):
                began = time.process_time()
                work()
                least[k] = min(least[k], time.process_time() - began)
        ratio = f"{least[1] / least[0]:8.1f}" if len(least) > 1 else ""
        print(f"  {name:55s}", *(f"{1e3 * t:9.1f}" for t in least), ratio, flush=True)


KINDS = ("IsoSurfaceMarchingCubes", "IsoSurfaceNets")

if __name__ == "__main__":
    main(sys.argv[1:])
