"""``diffkern bench``: the speed of built-in workloads, relative to the limits of this machine.

The report has the machine's bandwidth and arithmetic peak, measured by kernels of diffkern's own, and for each
workload, forward and adjoint, the time, the bytes and operations counted from the IR (:mod:`diffkern.analysis.work`),
and the fraction of the lower of the two ceilings that was reached.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.analysis.work import Work, work_of
from diffkern.cli import own_kernels as kernels
from diffkern.compiler.compilation import Compilation
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array

__all__ = ["Ceilings", "Measured", "add_bench_command", "ceilings", "measure"]

_REPEATS = 15
_SEED = 7


@dataclass(frozen=True)
class Workload:
    """A kernel with its arguments.

    Attributes
    ----------
    name : str
        Its name in the report.
    kernel : Kernel
        The kernel that is launched.
    dim : tuple of int
        The launch's dimensions.
    arguments : tuple
        The arguments; arrays of floats have gradients.
    outputs : tuple of int
        The positions of the arguments that it writes.
    """

    name: str
    kernel: Kernel
    dim: tuple[int, ...]
    arguments: tuple[Any, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Ceilings:
    """The peak rates of the machine.

    Attributes
    ----------
    bandwidth : float
        Bytes of memory in a second: ``a[i] = b[i] + s*c[i]`` on arrays that no cache holds.
    flops : float
        Operations on float32 in a second: independent chains of products and sums in registers.
    """

    bandwidth: float
    flops: float

    def bound(self, work: Work) -> float:
        """Return the least time for some work, in seconds."""
        # The roofline model: memory and arithmetic overlap, so the slower one decides.
        return max(work.bytes / self.bandwidth, work.flops / self.flops)


@dataclass(frozen=True)
class Measured:
    """One line of the report.

    Attributes
    ----------
    workload, direction : str
        The workload, and whether it was launched forward or adjoint.
    seconds : float
        The median time of a launch.
    bytes, flops : float or None
        The work of a launch; None where that depends on values.
    fraction, limit : float and str, or None
        The part of the lower ceiling that it reached, and which one that is.
    """

    workload: str
    direction: str
    seconds: float
    bytes: float | None = None
    flops: float | None = None
    fraction: float | None = None
    limit: str | None = None


def add_bench_command(commands: Any) -> None:
    """Add ``bench`` to the commands of the parser."""
    text = "compare built-in workloads with the memory bandwidth and arithmetic peak of this machine"
    parser = commands.add_parser("bench", help=text, description=text)
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads")
    parser.add_argument("--quick", action="store_true", help="smaller arrays and fewer repeats")
    parser.add_argument(
        "--processor-time", action="store_true", help="measure processor time, for one thread on a busy machine"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    before = dk.config.num_threads
    if options.threads is not None:
        # Set back at the end, since the command may be called from Python.
        dk.config.num_threads = options.threads
    try:
        clock = time.process_time if options.processor_time else time.perf_counter
        repeats = 3 if options.quick else _REPEATS
        found = ceilings(options.quick, repeats, clock)
        # With --json only the figures go to standard output, so that a program can read them.
        if not options.json:
            machine = f"{found.bandwidth / 1e9:.1f} GB/s, {found.flops / 1e9:.1f} GFLOP/s"
            print(f"threads: {dk.config.num_threads}; the machine: {machine}\n")
            print(f"{'workload':12}{'':9}{'ms':>9}{'MB':>9}{'MFLOP':>9}{'GB/s':>8}{'GFLOP/s':>9}  of the ceiling")
        rows = []
        for row in measure(found, options.quick, repeats, clock):
            rows.append(row)
            if not options.json:
                print(_line(row), flush=True)
        if options.json:
            print(json.dumps({"ceilings": asdict(found), "workloads": [asdict(row) for row in rows]}, indent=2))
    finally:
        dk.config.num_threads = before


def _line(row: Measured) -> str:
    head = f"{row.workload:12}{row.direction:9}{row.seconds * 1e3:9.2f}"
    if row.bytes is None or row.flops is None:
        return f"{head}{'':35}  trip counts depend on data"
    rates = f"{row.bytes / row.seconds / 1e9:8.1f}{row.flops / row.seconds / 1e9:9.1f}"
    # Arrays that a cache holds are read faster than memory is: of that ceiling there is no part to state.
    is_part = (row.fraction or 0.0) <= 1.0
    reached = f"{row.fraction:6.0%} of {row.limit}" if is_part else f"from caches, above the {row.limit}"
    return f"{head}{row.bytes / 1e6:9.1f}{row.flops / 1e6:9.1f}{rates}  {reached}"


def ceilings(quick: bool, repeats: int, clock: Callable[[], float] = time.perf_counter) -> Ceilings:
    """Measure the peak rates of the machine."""
    n, threads, trips = (1 << 22, 1 << 14, 256) if quick else (1 << 24, 1 << 16, 1024)
    a, b, c = (dk.ones(n, dtype=dk.float32) for _ in range(3))
    # The best time, not the median: anything that disturbs a run lowers the rate, and nothing raises it.
    moved = _best(lambda: dk.launch(kernels.triad, dim=n, inputs=[b, c, 2.0], outputs=[a]), repeats, clock)
    x, y = dk.full(threads, 0.5, dtype=dk.float32), dk.zeros(threads, dtype=dk.float32)
    computed = _best(lambda: dk.launch(kernels.chains, dim=threads, inputs=[x, trips], outputs=[y]), repeats, clock)
    # Three arrays of 4 bytes an element; eight chains of a product and a sum each trip.
    return Ceilings(3 * 4 * n / moved, 16 * threads * trips / computed)


def measure(
    found: Ceilings, quick: bool, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Measured]:
    """Measure the workloads, forward and adjoint."""
    for load in _workloads(quick):
        for direction, launch in (("forward", _forward(load)), ("adjoint", _adjoint(load))):
            # The first launch compiles.
            launch()
            seconds = statistics.median(_timed(launch, clock) for _ in range(repeats))
            work = _work(load, direction == "adjoint")
            if work is None:
                yield Measured(load.name, direction, seconds)
                continue
            bound = found.bound(work)
            limit = "bandwidth" if work.bytes / found.bandwidth >= bound else "arithmetic"
            yield Measured(load.name, direction, seconds, work.bytes, work.flops, bound / seconds, limit)


def _workloads(quick: bool) -> Iterator[Workload]:
    rng = np.random.default_rng(_SEED)

    def floats(*shape: int, dtype: Any = dk.float32) -> array:
        made: array = dk.array(rng.random(shape, dtype=np.float32), dtype=dtype, requires_grad=True)
        return made

    # Inputs and outputs are many times larger than the last-level cache, so that each launch reads memory.
    n = 1 << 18 if quick else 1 << 22
    yield Workload("elementwise", kernels.wave, (n,), (floats(n), floats(n), 1.5, floats(n)), (3,))
    side = 512 if quick else 2048
    yield Workload("heat", kernels.heat, (side, side), (floats(side, side), side, 0.1, floats(side, side)), (3,))
    yield Workload("recurrence", kernels.logistic, (n // 4,), (floats(n // 4), 64, 3.5, floats(n // 4)), (3,))
    bodies = 512 if quick else 4096
    vectors = floats(bodies, 3, dtype=dk.vec3), floats(bodies), bodies, floats(bodies, 3, dtype=dk.vec3)
    yield Workload("n-body", kernels.gravity, (bodies,), vectors, (3,))
    side = 128 if quick else 512
    faces = dk.array(_faces(side))
    points = floats(side * side, 3, dtype=dk.vec3)
    yield Workload("mesh", kernels.area, faces.shape[:1], (points, faces, floats(side * side)), (2,))


def _faces(side: int) -> np.ndarray[Any, Any]:
    """Return the triangles of a square grid of points."""
    i, j = np.meshgrid(np.arange(side - 1), np.arange(side - 1), indexing="ij")
    corner = (i * side + j).ravel()
    lower = np.stack([corner, corner + 1, corner + side], 1)
    upper = np.stack([corner + side + 1, corner + side, corner + 1], 1)
    return np.concatenate([lower, upper]).astype(np.int32)


def _forward(load: Workload) -> Callable[[], object]:
    return lambda: dk.launch(load.kernel, dim=load.dim, inputs=list(load.arguments))


def _adjoint(load: Workload) -> Callable[[], object]:
    gradients = [a.grad if isinstance(a, array) else None for a in load.arguments]
    inputs = list(load.arguments)
    return lambda: dk.launch(load.kernel, dim=load.dim, inputs=inputs, adj_inputs=gradients, adjoint=True)


def _work(load: Workload, adjoint: bool) -> Work | None:
    """Count the work of a launch of a workload; None where that depends on values."""
    kernel, names = load.kernel, [p.name for p in load.kernel.parameters]
    types, given = kernel.argument_types(), dict(zip(names, load.arguments, strict=True))
    arrays = {name: a for name, a in given.items() if isinstance(a, array)}
    active = kernel.positions([name for name, a in arrays.items() if a.requires_grad], types) if adjoint else None
    lowered = Compilation(kernel.func, types, replace(kernel.variant, active=active)).lowered()
    nbytes = {name: a.numpy().nbytes for name, a in arrays.items()}
    # The adjoint accesses cotangents as well, which are as large as their arrays.
    nbytes |= {f"ct_{name}": size for name, size in nbytes.items()}
    numbers = {name: value for name, value in given.items() if name not in arrays}
    return work_of(lowered, int(np.prod(load.dim)), numbers, nbytes)


def _timed(launch: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    launch()
    return clock() - start


def _best(launch: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    launch()
    return min(_timed(launch, clock) for _ in range(repeats))
