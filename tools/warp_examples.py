"""Run Warp's examples, as they stand in the installed wheel, under Warp and under ``diffkern.warp``; compare arrays.

    python tools/warp_examples.py                       # all of them: which run, which give Warp's arrays
    python tools/warp_examples.py fluid raymarch -v     # some, with each array and the tail of what they print

Each example runs on the CPU, twice, each time in a process of its own: once under Warp itself, once with ``warp`` led
to ``diffkern.warp`` (:mod:`warp_tests`). The files are those of the wheel; the rows below say with which arguments they
run, as few frames as show all of it. Compared are all arrays that the module's variables lead to, and those that the
named functions had in theirs: shapes, types, and values within 1e-4 of the greatest one.

Where a program amplifies rounding, its row says which part of the elements may differ by more, and why: products and
sums are fused here, which Warp does on GPUs alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import runpy
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Example:
    """A program of the wheel, and how it runs here.

    ``call`` runs in the module's variables in place of its last lines, where these ask for a GPU. ``functions`` are
    those whose variables are compared, ``left_out`` arrays that are not. ``unordered``: threads take elements in any
    order, so arrays are compared sorted. ``loose`` is which part of the elements may differ, and ``alone`` says that
    Warp itself cannot run it on a CPU.
    """

    module: str
    arguments: str = ""
    call: str = ""
    functions: str = ""
    left_out: str = ""
    unordered: bool = False
    loose: float = 0.0
    alone: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        return self.module.rpartition(".")[2].removeprefix("example_")


ON_CPU = "--device cpu --headless"
QUEUE = """
buffer = wp.zeros(8192, dtype=int, device="cpu")
buffer.assign(np.concatenate([np.arange(4096), np.zeros(4096)]).astype(np.int32))
head, tail = wp.array([0], dtype=int, device="cpu"), wp.array([4096], dtype=int, device="cpu")
queue = WorkQueue()
queue.capacity, queue.head, queue.tail, queue.buffer = 8192, head, tail, buffer
wp.launch(process_queue, dim=1024, inputs=[queue], device="cpu")
"""
GRAINS = """
with wp.ScopedDevice("cpu"):
    example, once = Example(stage_path=None), Example(stage_path=None)
    example.step()
    once.x.assign(once.points.astype(np.float32))
    once.v.assign(np.tile(np.float32([0.0, 0.0, 15.0]), (len(once.points), 1)))
    once.grid.build(once.x, once.grid_cell_size)
    once.sim_substeps = 1
    once.simulate()
"""
PERCEPTRON = """
IMG_WIDTH = IMG_HEIGHT = 64
BATCH_SIZE = 512
wp.capture_begin, wp.capture_end, wp.capture_launch = (lambda: None), (lambda: None), (lambda graph: None)
with wp.ScopedDevice("cpu"):
    example = Example(1)
    example.train_warp()
"""
SURFACES = """
with wp.ScopedDevice("cpu"):
    cubes, nets = Example(stage_path=None), Example(stage_path=None, method="surface_nets")
    for example in (cubes, nets):
        example.frame = 7
        example.step()
    of_cubes, of_nets = cubes.iso.verts, nets.iso.verts
"""
TRANSFORMS = """
rng = np.random.default_rng(42)
given = [wp.array2d(rng.standard_normal((TILE_M, TILE_N, 2)), dtype=wp.vec2d, device="cpu") for _ in range(%d)]
result = wp.zeros((TILE_M, TILE_N), dtype=wp.vec2d, device="cpu")
wp.launch_tiled(%s, dim=[1, 1], inputs=given, outputs=[result], block_dim=BLOCK_DIM, device="cpu")
"""
EXAMPLES = (
    Example("core.example_fluid", f"{ON_CPU} --num-frames 5"),
    Example("core.example_wave", "--device cpu --stage-path None --num-frames 10"),
    Example(
        "core.example_fdtd_3d",
        f"{ON_CPU} --resolution 48 --num-steps 10",
        left_out="example.e_x_center_plane_buffer",
        note="without a buffer that is filled for the picture alone",
    ),
    Example(
        "core.example_raymarch",
        f"{ON_CPU} --height 64 --width 128",
        loose=0.002,
        note="normals by differences with a step of 1e-5 in single precision",
    ),
    Example("core.example_graph_capture", f"{ON_CPU} --num-frames 5"),
    Example("core.example_torch", f"{ON_CPU} --num-frames 5"),
    Example(
        "core.example_sph",
        "--device cpu --stage-path None --num-frames 1",
        loose=0.001,
        note="pressures amplify rounding",
    ),
    Example(
        "core.example_dem",
        call=GRAINS,
        left_out="example.v example.f",
        note="places after 64 steps, velocities and forces after one: contacts come and go by rounding",
    ),
    Example("optim.example_particle_repulsion", f"{ON_CPU} --num-frames 3"),
    Example(
        "core.example_work_queue",
        call=QUEUE,
        unordered=True,
        note="with a buffer as long as its capacity: with its own, half as long, Warp dies as well",
    ),
    Example("core.example_spin_lock", call='test_spinlock("cpu")', functions="test_spinlock"),
    Example("tile.example_tile_matmul", ON_CPU),
    Example("tile.example_tile_nbody", "--headless --num-frames 3 -N 256"),
    Example("tile.example_tile_cholesky", ON_CPU),
    Example("tile.example_tile_block_cholesky", f"{ON_CPU} -N 3", functions="test_cholesky_solver"),
    Example("tile.example_tile_mlp", call=PERCEPTRON, alone=True, note="Warp has blocks of one thread on a CPU"),
    Example(
        "optim.example_fluid_checkpoint",
        f"{ON_CPU} --num-frames 6 --train-iters 2 --pressure-iterations 4 --segment-size 3",
        loose=0.0002,
        note="Adam divides gradients that are rounding by their size",
    ),
    Example(
        "optim.example_fluid_checkpoint_custom_backward",
        f"{ON_CPU} --num-frames 6 --train-iters 2 --pressure-iterations 4 --segment-size 3",
        loose=0.0002,
        note="Adam divides gradients that are rounding by their size",
    ),
    Example(
        "optim.example_navier_stokes_perturbation",
        f"{ON_CPU} --spin-up-steps 4 --lead-steps 3 --train-iters 2",
    ),
    Example("core.example_fft_poisson_navier_stokes_2d", f"{ON_CPU} --num-steps 4 --sim-substeps 2"),
    Example("tile.example_tile_fft", call=TRANSFORMS % (1, "fft_tiled")),
    Example("tile.example_tile_convolution", call=TRANSFORMS % (1, "conv_tiled")),
    Example("tile.example_tile_filtering", call=TRANSFORMS % (2, "conv_tiled")),
    Example(
        "geometry.example_isosurface",
        call=SURFACES,
        unordered=True,
        note="vertices are numbered in another order, so that they are compared sorted and faces are not",
    ),
    Example("interop.example_jax_kernel", functions=" ".join(f"example{k}" for k in range(1, 9))),
    Example("interop.example_jax_callable", functions="example1 example2 example3"),
)


# -- one example, in a process of its own ------------------------------------------------------------------------------


def child(name: str, under: str, out: str) -> None:
    """Run an example and write its arrays."""
    if under == "diffkern":
        import warp_tests

        warp_tests.take_the_place_of_warp()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the examples draw from it
    if name == "torch":
        import torch

        torch.manual_seed(0)
    example = next(e for e in EXAMPLES if e.name == name)
    module = f"warp.examples.{example.module}"
    kept: dict[str, dict[str, Any]] = {}

    def watch(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_name in example.functions.split():
            kept[frame.f_code.co_name] = dict(frame.f_locals)

    sys.argv = [module, *example.arguments.split()]
    sys.setprofile(watch if example.functions else None)
    variables = runpy.run_module(module, run_name="example" if example.call else "__main__")
    exec(example.call, variables)
    sys.setprofile(None)
    found = dict(arrays({**variables, **kept}, "", variables["__name__"], set()))
    np.savez(out, **found)
    os._exit(0)  # without what threads and libraries still want to do


def arrays(thing: Any, path: str, module: str, seen: set[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays that something leads to: through containers and objects of the example's own classes."""
    is_array = all(hasattr(thing, name) for name in ("shape", "dtype")) and not isinstance(thing, type)
    if is_array and (hasattr(thing, "strides") or hasattr(thing, "device")):
        if (values := _values(thing)) is not None:
            yield path, values
            gradient = getattr(thing, "grad", None)
            if gradient is not None and (values := _values(gradient)) is not None:
                yield f"{path}.grad", values
        return
    is_own = type(thing).__module__ == module and not hasattr(thing, "numpy_value")  # that is a struct
    if isinstance(thing, (dict, list, tuple)) or is_own:
        if id(thing) in seen:
            return
        seen.add(id(thing))
        parts = thing if isinstance(thing, dict) else dict(enumerate(thing)) if isinstance(thing, (list, tuple)) else {}
        for name, part in (parts or getattr(thing, "__dict__", {})).items():
            if not str(name).startswith("_"):
                yield from arrays(part, f"{path}.{name}".lstrip("."), module, seen)


def _values(array: Any) -> np.ndarray | None:
    """The elements of an array of NumPy, Warp, diffkern, PyTorch or JAX; None of a vector's, or what is not numbers."""
    if isinstance(array, ctypes.Array) or (isinstance(array, np.ndarray) and type(array) is not np.ndarray):
        return None
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    found = np.asarray(array.numpy() if hasattr(array, "numpy") else array)
    return found.copy() if found.dtype.kind in "biuf" else None


# -- comparison --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How an array differs: by how much at most, in how many elements by more than allowed, None for its shape."""

    worst: float | None
    beyond: int = 0
    size: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of an example: how each array differs, which are not in both; or how a process ended."""

    example: Example
    arrays: dict[str, Difference]
    missing: tuple[str, ...] = ()
    died: str = ""

    @property
    def is_equal(self) -> bool:
        allowed = self.example.loose
        good = [d.worst is not None and d.beyond <= allowed * d.size for d in self.arrays.values()]
        return not self.died and not self.missing and all(good) and (bool(good) or self.example.alone)


def run(example: Example, under: str, out: Path, limit: float) -> str:
    """Run a process; returns how it failed, or nothing."""
    command = [sys.executable, __file__, "--child", example.name, under, str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "MPLBACKEND": "agg"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=limit, check=False, cwd=out.parent
        )
    except subprocess.TimeoutExpired:
        return f"longer than {limit:g} seconds"
    said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing said"]
    return "" if done.returncode == 0 and out.exists() else f"exit status {done.returncode}: " + "\n".join(said[-12:])


def compare(example: Example, limit: float = 300.0) -> Outcome:
    """Run an example under both, and compare the arrays."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for under in ("diffkern",) if example.alone else ("diffkern", "warp"):
            out = Path(folder) / f"{under}.npz"
            if died := run(example, under, out, limit):
                return Outcome(example, {}, died=f"under {under}, {died}")
            with np.load(out) as archive:
                found[under] = {name: archive[name] for name in archive.files if name not in example.left_out.split()}
    ours, theirs = found["diffkern"], found.get("warp", {})
    differences = {name: difference(a, ours[name], example.unordered) for name, a in theirs.items() if name in ours}
    return Outcome(example, differences, () if example.alone else tuple(sorted(theirs.keys() ^ ours.keys())))


def difference(theirs: np.ndarray, ours: np.ndarray, unordered: bool) -> Difference:
    """The differences by the greatest value, where that is above 1."""
    if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        return Difference(None)
    if unordered:
        theirs, ours = np.sort(theirs, axis=None), np.sort(ours, axis=None)
    a, b = theirs.astype(np.float64), ours.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    off = np.nan_to_num(off, nan=np.inf) / max(1.0, np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
    return Difference(float(np.max(off, initial=0.0)), int(np.sum(off > TOLERANCE)), a.size)


def report(outcome: Outcome, verbose: bool) -> None:
    """Print the line of an example."""
    example, arrays = outcome.example, outcome.arrays
    known = [d.worst for d in arrays.values() if d.worst is not None]
    worst = f"{max(known):.1e}" if known else ""
    equal = "no oracle" if example.alone and outcome.is_equal else "yes" if outcome.is_equal else "no"
    ran = "no" if outcome.died else "yes"
    print(f"{example.name:20} {ran:4} {equal:10} {len(arrays):6}  {worst:8}  {example.note}", flush=True)
    if outcome.died:
        print(f"    {outcome.died if verbose else outcome.died.splitlines()[-1]}")
    for name, d in arrays.items():
        if d.worst is None:
            print(f"    {name:40} another shape or type")
        elif verbose or d.beyond:
            print(f"    {name:40} {d.worst:.1e}, beyond {TOLERANCE:g} in {d.beyond} of {d.size}")
    if outcome.missing:
        print(f"    not in both: {', '.join(outcome.missing[:8])}")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("examples", nargs="*", help="names, such as fluid; all without any")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one run may take")
    parser.add_argument("-v", action="store_true", help="print each array")
    args = parser.parse_args()
    chosen = [e for e in EXAMPLES if not args.examples or e.name in args.examples]
    print(f"{'example':20} {'ran':4} {'equal':10} {'arrays':6}  {'error':8}")
    outcomes = []
    for example in chosen:
        outcomes.append(compare(example, args.limit))
        report(outcomes[-1], args.v)
    equal = sum(o.is_equal and not o.example.alone for o in outcomes)
    print(f"\n{sum(not o.died for o in outcomes)} of {len(chosen)} ran, {equal} gave the same arrays")
    return 0 if all(o.is_equal for o in outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
