"""Measure first hits of rays with a mesh beside Embree, through the package ``embreex``, on one thread.

Both get the same triangles and rays, of a camera and in any direction, and say how far away each hit is. Embree traces
one ray after the other; a kernel of diffkern also finds the place on the face, and its normal. The distances are
compared before anything is timed.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import meshes  # first: it asks for one thread
import numpy as np
from harness import (
    Results,
    Row,
    Target,
    Work,
    exit_status,
    few_options,
    machine,
    measure_in_turn,
    print_machine,
    print_table,
    rounds_of,
    row_of_pairs,
    save_json,
)

LENGTH = 1.0e6  # of a ray


def embree_work(points: np.ndarray, indices: np.ndarray, x: np.ndarray, e: np.ndarray) -> Work:
    """The rays by Embree."""
    scene: Any = importlib.import_module("embreex.rtcore_scene").EmbreeScene()
    made = importlib.import_module("embreex.mesh_construction").TriangleMesh(scene, points[indices])
    held: list[np.ndarray] = []

    def run() -> None:
        held[:] = [scene.run(x, e, query="DISTANCE")]

    def results() -> Results:
        run()
        assert made is not None  # the scene refers to it
        return {"values": np.where(held[0] < LENGTH, held[0], np.float32(0.0))}

    return Work("embree", run, results=results)


def measured(title: str, pair: list[Work], rounds: int) -> Row:
    """Compare and time one case; a ray that passes along an edge may hit or miss by rounding."""
    ours, peer = (work.results()["values"] for work in pair)
    differ = np.count_nonzero(np.abs(ours - peer) > 1e-4 * np.maximum(1.0, np.abs(peer)))
    if differ > 1e-4 * len(ours):
        return Row(title, pair[1].name, pair[0].name, error=f"{differ} of {len(ours)} rays differ")
    top, bottom = measure_in_turn(pair[::-1], rounds, 1, time.process_time)
    return row_of_pairs(title, pair[1].name, pair[0].name, top, bottom, Target())


def main() -> int:
    """Print the table."""
    arguments = few_options(str(__doc__)).parse_args()
    facts = machine()
    print_machine(facts)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        side = meshes.Side("diffkern", importlib.import_module("diffkern"), meshes.kernels("diffkern", Path(folder)))
        for faces in meshes.SIZES:
            points, indices = meshes.bumpy_sphere(faces)
            mesh = meshes.mesh_of(side, points, indices)
            for name, kernel, x, e, _ in meshes.queries_of(points, faces):
                title = f"{name}, {faces:.0e}".replace("e+0", "e")
                if kernel == "ray" and arguments.only in title:
                    pair = [
                        meshes.query_work(side, mesh, kernel, x, e, gradient=False),
                        embree_work(points, indices, x, e),
                    ]
                    rows.append(measured(title, pair, rounds_of(arguments, 21, 5)))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, strict=False)


if __name__ == "__main__":
    sys.exit(main())
