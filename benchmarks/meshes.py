"""Measure meshes on the CPU beside Warp: trees that are built and refit, and queries of rays, points and boxes.

A table (and a JSON file) of processor time on one thread, of interleaved readings. Queries are timed forward, and
those with derivatives also with the gradient, on a tape, with respect to the ray or the point. Kernels are written
once for both libraries and get the same numbers; results are compared before anything is timed. ``--threads N``
takes the time that passes on N threads instead (Warp has one on a CPU).
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if "--threads" in sys.argv:
    os.environ["DIFFKERN_NUM_THREADS"] = sys.argv[sys.argv.index("--threads") + 1]
os.environ.setdefault("DIFFKERN_NUM_THREADS", "1")

import numpy as np
from harness import (
    Results,
    Row,
    Target,
    Work,
    WrongResult,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_in_turn,
    options,
    print_machine,
    print_table,
    rounds_of,
    row_of_pairs,
    save_json,
)

KERNELS = """
import {name} as m

F = m.array(dtype=float)
V = m.array(dtype=m.vec3)


@m.kernel
def ray(mesh: m.uint64, x: V, e: V, y: F, sign: F):
    i = m.tid()
    hit = m.mesh_query_ray(mesh, x[i], e[i], 1.0e6)
    if hit.result:
        y[i] = hit.t
        sign[i] = hit.sign


@m.kernel(enable_backward=False)
def any_hit(mesh: m.uint64, x: V, e: V, y: F, sign: F):
    i = m.tid()
    if m.mesh_query_ray_anyhit(mesh, x[i], e[i], 1.0e6):
        y[i] = 1.0


@m.kernel(enable_backward=False)
def count_hits(mesh: m.uint64, x: V, e: V, y: F, sign: F):
    i = m.tid()
    y[i] = float(m.mesh_query_ray_count_intersections(mesh, x[i], e[i]))


@m.kernel(enable_backward=False)
def box(mesh: m.uint64, x: V, e: V, y: F, sign: F):
    i = m.tid()
    query = m.mesh_query_aabb(mesh, x[i] - e[i], x[i] + e[i])
    f = int(0)
    n = int(0)
    while m.mesh_query_aabb_next(query, f):
        n += 1
    y[i] = float(n)
"""

POINT = """

@m.kernel
def point{suffix}(mesh: m.uint64, x: V, e: V, y: F, sign: F):
    i = m.tid()
    found = m.mesh_query_point{suffix}(mesh, x[i], 1.0e6)
    if found.result:
        y[i] = m.length(m.mesh_eval_position(mesh, found.face, found.u, found.v) - x[i])
        sign[i] = found.sign
"""

SIGNS = ("_no_sign", "", "_sign_normal", "_sign_parity", "_sign_winding_number")
"""The ends of the names of queries of points."""
SIZES = (100_000, 1_000_000)
RAYS, POINTS, BOXES, SUMS = 256 * 256, 16_384, 16_384, 2_048
"""Queries of a launch; winding numbers, each of a sum over the mesh, are fewer."""
NEVER_SLOWER = Target(at_least=1.0)


@dataclass(frozen=True)
class Side:
    """A library and the kernels written for it."""

    name: str
    module: Any
    kernels: Any


def kernels(name: str, folder: Path) -> Any:
    """Return the module of the kernels for a library."""
    path = folder / f"meshes_for_{name}.py"
    path.write_text(KERNELS.format(name=name) + "".join(POINT.format(suffix=suffix) for suffix in SIGNS))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def bumpy_sphere(faces: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and the indices of a closed surface with about `faces` triangles."""
    m = int((faces / 2) ** 0.5)
    u, v = np.meshgrid(2.0 * np.pi * np.arange(m) / m, np.pi * np.linspace(0.01, 0.99, m + 1), indexing="ij")
    r = 1.0 + 0.1 * np.sin(5.0 * u) * np.sin(4.0 * v)
    points = np.stack([r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)], -1).reshape(-1, 3)
    at = np.arange(m * (m + 1)).reshape(m, m + 1)
    a, b = at[:, :-1], np.roll(at, -1, 0)[:, :-1]
    c, d = np.roll(at, -1, 0)[:, 1:], at[:, 1:]
    quads = [np.stack(corners, -1).reshape(-1, 3) for corners in ((a, d, c), (a, c, b))]
    # Each hole at a pole is closed by triangles around a point.
    north, south, turn = len(points), len(points) + 1, np.roll(at, -1, 0)
    caps = [
        np.stack([np.full(m, north), at[:, 0], turn[:, 0]], -1),
        np.stack([np.full(m, south), turn[:, -1], at[:, -1]], -1),
    ]
    poles = points[at[:, 0]].mean(0), points[at[:, -1]].mean(0)
    return np.vstack([points, *poles]).astype(np.float32), np.concatenate([*quads, *caps]).astype(np.int32)


def camera(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rays of a picture with `side` rows and columns: one start, neighbours in nearly one direction."""
    a, b = np.meshgrid(np.linspace(-0.4, 0.4, side), np.linspace(-0.4, 0.4, side))
    ways = np.stack([a, b, -np.ones_like(a)], -1).reshape(-1, 3)
    return np.tile(np.float32([0.01, 0.02, 3.0]), (side * side, 1)), ways.astype(np.float32)


def queries_of(points: np.ndarray, faces: int) -> Iterator[tuple[str, str, np.ndarray, np.ndarray, bool]]:
    """Yield the cases: their names, kernels, places, directions or sizes, and whether they have a gradient."""
    rng = np.random.default_rng(faces)
    near = points[rng.integers(0, len(points), RAYS)] + 0.05 * rng.normal(size=(RAYS, 3))
    near, ways = near.astype(np.float32), rng.normal(size=(RAYS, 3)).astype(np.float32)
    for name, (x, e) in (("coherent", camera(256)), ("incoherent", (near, ways))):
        yield f"ray, {name}", "ray", x, e, True
        yield f"any hit, {name}", "any_hit", x, e, False
        yield f"count of hits, {name}", "count_hits", x, e, False
    for suffix in SIGNS:
        some = near[: SUMS if suffix == "_sign_winding_number" else POINTS]
        yield f"point{suffix.replace('_', ' ')}", f"point{suffix}", some, some, True
    # About thirty faces in a box, at either size.
    half = np.full((BOXES, 3), 4.0 / faces**0.5, np.float32)
    yield "box", "box", points[rng.integers(0, len(points), BOXES)], half, False


def mesh_of(side: Side, points: np.ndarray, indices: np.ndarray, **more: Any) -> Any:
    """Return the mesh of a library."""
    m = side.module
    given = m.array(points, dtype=m.vec3, device="cpu"), m.array(indices.ravel(), dtype=m.int32, device="cpu")
    return m.Mesh(*given, **more)


def build_work(side: Side, points: np.ndarray, indices: np.ndarray) -> Work:
    """The whole mesh from its arrays, which one ray then looks at."""
    m, held = side.module, []
    given = m.array(points, dtype=m.vec3, device="cpu"), m.array(indices.ravel(), dtype=m.int32, device="cpu")

    def run() -> None:
        held[:] = [m.Mesh(*given)]

    return Work(side.name, run, results=lambda: few_rays(side, held[0]))


def few_rays(side: Side, mesh: Any) -> Results:
    """Return what a few rays meet."""
    x, e = camera(16)
    return query_work(side, mesh, "ray", x, e, False).results()


def refit_work(side: Side, points: np.ndarray, indices: np.ndarray) -> Work:
    """The boxes of a tree once its points have moved."""
    mesh = mesh_of(side, points, indices)
    moved = side.module.array(points * np.float32([1.1, 0.9, 1.0]), dtype=side.module.vec3, device="cpu")
    side.module.copy(mesh.points, moved)
    return Work(side.name, mesh.refit, results=lambda: few_rays(side, mesh))


def query_work(side: Side, mesh: Any, kernel: str, x: np.ndarray, e: np.ndarray, gradient: bool) -> Work:
    """A launch of queries, on a tape and back if asked for."""
    m, n = side.module, len(x)
    place, way = (m.array(a, dtype=m.vec3, device="cpu", requires_grad=gradient) for a in (x, e))
    y = m.zeros(n, dtype=float, device="cpu", requires_grad=gradient)
    sign = m.zeros(n, dtype=float, device="cpu")
    seed = m.array(np.ones(n, np.float32), dtype=float, device="cpu")
    launched: Callable[[], None] = lambda: m.launch(  # noqa: E731
        getattr(side.kernels, kernel), n, [mesh.id, place, way], [y, sign], device="cpu"
    )

    def differentiate() -> None:
        with m.Tape() as tape:
            launched()
        tape.backward(grads={y: seed})

    def prepare() -> None:
        if gradient:
            place.grad.zero_()
            way.grad.zero_()
            y.grad.zero_()

    run = differentiate if gradient else launched

    def results() -> Results:
        prepare()
        run()
        # A point on an edge may be on either side by rounding: the sum of the signs, where they say anything.
        found = {"values": y.numpy(), "sum of signs": np.array(2.0 * n + np.sign(sign.numpy()).sum())}
        if gradient:
            # The ends of a rounded computation decide between two faces at an edge, whose slopes differ.
            found["gradient"] = np.array(np.abs(place.grad.numpy()).mean(0, dtype=np.float64))
        return found

    return Work(side.name, run, prepare, results)


def works(sides: list[Side], faces: int, only: str) -> Iterator[tuple[str, list[Work]]]:
    """Yield the name of each chosen case, and the work of each library."""
    points, indices = bumpy_sphere(faces)
    size = f"{faces:.0e}".replace("e+0", "e")
    for name, make in (("build", build_work), ("refit", refit_work)):
        if only in f"{name}, {size}":
            yield f"{name}, {size}", [make(side, points, indices) for side in sides]
    meshes: dict[bool, list[Any]] = {}
    for name, kernel, x, e, has_gradient in queries_of(points, faces):
        for gradient in (False, True)[: 1 + has_gradient]:
            title = f"{name}, {size}" + (": with gradient" if gradient else "")
            if only not in title:
                continue
            sums = kernel.endswith("winding_number")
            if sums not in meshes:
                meshes[sums] = [mesh_of(s, points, indices, support_winding_number=sums) for s in sides]
            pairs = zip(sides, meshes[sums], strict=True)
            yield title, [query_work(s, mesh, kernel, x, e, gradient) for s, mesh in pairs]


def measured(title: str, pair: list[Work], pairs: int) -> Row:
    """Compare and time one case."""
    clock = time.perf_counter if "--threads" in sys.argv else time.process_time
    try:
        check_agreement(pair[1], pair[0], 1e-3)
    except WrongResult as error:
        return Row(title, pair[0].name, pair[1].name, error=str(error))
    few = max(3, pairs // 5) if title.startswith("build") else pairs
    readings = measure_in_turn(pair, few, 1, clock)
    return row_of_pairs(title, pair[0].name, pair[1].name, *readings, NEVER_SLOWER)


def main() -> int:
    """Print the table."""
    parser = options(str(__doc__).partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="number of threads, timed by the wall clock")
    arguments = parser.parse_args()
    facts = machine()
    print_machine(facts)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sides = [Side("warp", load_peer(), kernels("warp", Path(folder)))]
        if not arguments.peer_only:
            sides.append(Side("diffkern", importlib.import_module("diffkern"), kernels("diffkern", Path(folder))))
        for faces in SIZES:
            for title, pair in works(sides, faces, arguments.only):
                if len(pair) == 1:
                    pair *= 2
                rows.append(measured(title, pair, rounds_of(arguments, 21, 5)))
                print(title, f"{rows[-1].ratio_median:.2f}", file=sys.stderr, flush=True)
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
