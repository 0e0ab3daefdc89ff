"""Compare kernels, adjoints and the cost of launches on a GPU with NVIDIA Warp's, and one kernel with PyTorch's.

In: nothing but the command line, a CUDA GPU, and of the peers what is installed. Out: a table of ratios, a table of how
much of the GPU's memory bandwidth each case reaches, and a JSON file if asked for. All run in one process on the same
float32 inputs; results are compared before anything is timed, readings alternate, and every reading ends with a wait
for the GPU.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gpu_kernels
import kernels
import numpy as np
from harness import (
    Results,
    Row,
    Target,
    Work,
    check_agreement,
    exit_status,
    machine,
    measure_alone,
    measure_pair,
    options,
    print_machine,
    print_table,
    save_json,
)

LAUNCHES = 100
NO_TARGET = Target()


@dataclass(frozen=True)
class Sizes:
    """How large the cases are."""

    wave: int = 1 << 26
    bodies: int = 1 << 14
    mesh: int = 1 << 11
    grid: int = 1 << 12
    steps: int = 50


@dataclass(frozen=True)
class Case:
    """One case of one library.

    Attributes
    ----------
    work
        What is timed: ``rounds`` launches and a wait.
    rounds
        Launches in a reading.
    nbytes
        Bytes that one launch has to move at least, 0 where that is not what limits it.
    """

    work: Work
    rounds: int = 1
    nbytes: int = 0


class Side:
    """A library with its kernels, and what a case needs of it on one device."""

    def __init__(self, name: str, module: Any, device: str) -> None:
        self.name = name
        self.w = module
        self.device = device
        self.kernels = {**vars(kernels.make(module)), **vars(gpu_kernels.make(module))}

    def array(self, values: Any, dtype: Any = float) -> Any:
        """Return an array on the device."""
        return self.w.array(np.asarray(values), dtype=dtype, device=self.device)

    def wait(self) -> None:
        """Wait for the device."""
        self.w.synchronize_device(self.device)

    def both(
        self, label: str, kernel: str, dim: Any, inputs: list[Any], outputs: list[Any], nbytes: int, rounds: int = 1
    ) -> Iterator[tuple[str, Case]]:
        """Yield the forward and the adjoint of a launch whose outputs begin at zero."""
        w, launched = self.w, self.kernels[kernel]

        def zero(arrays: Sequence[Any]) -> None:
            for a in arrays:
                a.zero_()
            self.wait()

        def repeated(run: Callable[[], Any]) -> Callable[[], None]:
            def work() -> None:
                for _ in range(rounds):
                    run()
                self.wait()

            return work

        def results(label: str, arrays: Sequence[Any]) -> Results:
            return {f"{label} {k}": a.numpy().copy() for k, a in enumerate(arrays)}

        def forward() -> None:
            w.launch(launched, dim=dim, inputs=inputs, outputs=outputs, device=self.device)

        yield (
            f"{label}, forward",
            Case(
                Work(self.name, repeated(forward), lambda: zero(outputs), lambda: results("out", outputs)),
                rounds,
                nbytes,
            ),
        )
        own = [self._gradient(a) for a in inputs]
        cotangents = [self._gradient(a) for a in outputs]
        active = [a for a in own if a is not None]
        rng = np.random.default_rng(9)
        given = [rng.normal(size=ct.numpy().shape).astype(np.float32) for ct in cotangents]

        def prepare() -> None:
            zero(active)
            for ct, values in zip(cotangents, given, strict=True):
                ct.assign(values)
            self.wait()

        def adjoint() -> None:
            w.launch(
                launched, dim=dim, inputs=inputs, outputs=outputs, adj_inputs=own, adj_outputs=cotangents,
                adjoint=True, device=self.device,
            )  # fmt: skip

        # One launch for each reading: it consumes the gradients of the outputs.
        def once() -> None:
            adjoint()
            self.wait()

        found = Work(self.name, once, prepare, lambda: results("gradient", active))
        yield f"{label}, adjoint", Case(found, 1, 2 * nbytes)

    def _gradient(self, value: Any) -> Any:
        if not hasattr(value, "numpy") or value.numpy().dtype.kind != "f":
            return None
        return self.w.zeros_like(value)


def wave(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield an elementwise kernel: two arrays in, one out."""
    rng = np.random.default_rng(1)
    x, y = (side.array(rng.normal(size=sizes.wave).astype(np.float32)) for _ in range(2))
    z = side.array(np.zeros(sizes.wave, np.float32))
    yield from side.both("wave", "wave", sizes.wave, [x, y, 1.7], [z], 12 * sizes.wave, 10)


def nbody(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield all pairs of bodies; arithmetic limits it."""
    rng = np.random.default_rng(2)
    n = sizes.bodies
    position = side.array(rng.normal(size=(n, 3)).astype(np.float32), side.w.vec3)
    mass = side.array(rng.uniform(0.5, 1.5, n).astype(np.float32))
    out = side.array(np.zeros((n, 3), np.float32), side.w.vec3)
    yield from side.both("n-body", "nbody", n, [position, mass, n], [out], 0)


def mesh(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield the graph Laplacian of a grid of points, summed edge by edge with atomics."""
    n = sizes.mesh
    index = np.arange(n * n, dtype=np.int32).reshape(n, n)
    pairs = ((index[:, :-1], index[:, 1:]), (index[:-1], index[1:]))
    edge = np.concatenate([np.stack([a.reshape(-1), b.reshape(-1)], axis=1) for a, b in pairs])
    x = side.array(np.random.default_rng(3).normal(size=(n * n, 3)).astype(np.float32), side.w.vec3)
    force = side.array(np.zeros((n * n, 3), np.float32), side.w.vec3)
    edges = side.w.array(edge, dtype=int, ndim=2, device=side.device)
    yield from side.both("mesh Laplacian", "laplacian", len(edge), [x, edges], [force], 8 * len(edge) + 24 * n * n)


def rollout(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield steps of the heat equation between two grids, launched one by one and as a graph; one step's adjoint."""
    n, w = sizes.grid, side.w
    start = np.random.default_rng(4).uniform(size=(n, n)).astype(np.float32)
    grids = [w.array(start, dtype=float, ndim=2, device=side.device) for _ in range(2)]
    kernel = side.kernels["heat"]

    def steps() -> None:
        for k in range(sizes.steps):
            a, b = grids[k % 2], grids[1 - k % 2]
            w.launch(kernel, dim=(n, n), inputs=[a, n, n, 0.2], outputs=[b], device=side.device)

    def prepare() -> None:
        for grid in grids:
            grid.assign(start)
        side.wait()

    def plain() -> None:
        steps()
        side.wait()

    def results() -> Results:
        return {"u": grids[sizes.steps % 2].numpy().copy()}

    nbytes = 8 * n * n
    yield "roll-out, launches", Case(Work(side.name, plain, prepare, results), sizes.steps, nbytes)
    with w.ScopedCapture(device=side.device) as capture:
        steps()

    def graph() -> None:
        w.capture_launch(capture.graph)
        side.wait()

    yield "roll-out, graph", Case(Work(side.name, graph, prepare, results), sizes.steps, nbytes)
    both = side.both("stencil step", "heat", (n, n), [grids[0], n, n, 0.2], [grids[1]], nbytes)
    yield from (entry for entry in both if entry[0].endswith("adjoint"))


def launches(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield what a launch costs that does nearly nothing."""
    w = side.w
    arrays = [side.array(np.ones(1, np.float32)) for _ in range(4)]
    kernel = side.kernels["four_arrays"]

    def launch() -> None:
        w.launch(kernel, dim=1, inputs=arrays, device=side.device)

    def many(run: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            for _ in range(LAUNCHES):
                run()
            side.wait()

        return work

    def results() -> Results:
        return {"d": arrays[3].numpy().copy()}

    record = w.launch(kernel, dim=1, inputs=arrays, device=side.device, record_cmd=True)
    with w.ScopedCapture(device=side.device) as capture:
        for _ in range(LAUNCHES):
            launch()

    def graph() -> None:
        w.capture_launch(capture.graph)
        side.wait()

    yield "launch, plain", Case(Work(side.name, many(launch), results=results), LAUNCHES)
    yield "launch, record", Case(Work(side.name, many(record.launch), results=results), LAUNCHES)
    yield "launch, graph", Case(Work(side.name, graph, results=results), LAUNCHES)


GROUPS = (launches, wave, nbody, mesh, rollout)


def torch_wave(torch: Any, sizes: Sizes) -> Case:
    """Return the elementwise kernel in PyTorch, compiled by it."""
    rng = np.random.default_rng(1)
    x, y = (torch.tensor(rng.normal(size=sizes.wave).astype(np.float32), device="cuda") for _ in range(2))
    z = torch.zeros_like(x)
    function = torch.compile(lambda x, y: torch.sin(1.7 * x) + y * torch.exp(-x * x))

    def run() -> None:
        for _ in range(10):
            z.copy_(function(x, y))
        torch.cuda.synchronize()

    return Case(Work("torch", run, results=lambda: {"out 0": z.cpu().numpy()}), 10, 12 * sizes.wave)


def optional(name: str) -> Any:
    """Import a peer; None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def rows_of(own: Side, peers: Sequence[Any], sizes: Sizes, only: str, pairs: int) -> Iterator[tuple[Row, Case]]:
    """Yield the rows of all cases, each with the case that diffkern ran."""
    for group in GROUPS:
        mine = dict(group(own, sizes))
        others = [dict(group(peer, sizes)) for peer in peers]
        for name, case in mine.items():
            if only not in name:
                continue
            yield measure_alone(name, case.work, NO_TARGET, pairs), case
            for theirs in others:
                try:
                    check_agreement(theirs[name].work, case.work, rtol=2e-3)
                    yield measure_pair(name, theirs[name].work, case.work, NO_TARGET, pairs), case
                except Exception as error:
                    yield replace(_empty(name), error=f"{type(error).__name__}: {error}"), case


def _empty(name: str) -> Row:
    nan = float("nan")
    return Row(name=name, top="-", bottom="-", top_s=nan, pairs=0, target=NO_TARGET)


def print_bandwidth(measured: Sequence[tuple[Row, Case]], bandwidth: float) -> None:
    """Print how much of the memory's bandwidth each case of diffkern reaches."""
    print(f"\nmemory bandwidth of this GPU: {bandwidth / 1e9:.0f} GB/s (clock times width)")
    for row, case in measured:
        if row.bottom == "-" and case.nbytes:
            seconds = row.top_s / case.rounds
            reached = case.nbytes / seconds
            print(f"{row.name:28s} {seconds * 1e6:10.1f} us  {reached / 1e9:8.0f} GB/s  {reached / bandwidth:6.1%}")


def main() -> int:
    """Run the benchmark."""
    parser = options(__doc__ or "")
    arguments = parser.parse_args()
    dk: Any = importlib.import_module("diffkern")
    if not dk.is_cuda_available():
        sys.exit("This benchmark needs a CUDA GPU, a driver, and pip install 'diffkern[cuda]'")
    gpu = dk.get_device("cuda:0")
    sizes = Sizes(1 << 22, 1 << 12, 1 << 9, 1 << 10, 10) if arguments.quick else Sizes()
    peers = [Side("warp", warp, "cuda:0")] if (warp := optional("warp")) is not None else []
    facts = {**machine(), "gpu": gpu.name, "target": gpu.target}
    print_machine(facts)
    pairs = 3 if arguments.quick else 15
    measured = list(rows_of(Side("diffkern", dk, "cuda:0"), peers, sizes, arguments.only or "", pairs))
    torch = optional("torch")
    if torch is not None and torch.cuda.is_available() and (arguments.only or "") in "wave, forward":
        case = dict(wave(Side("diffkern", dk, "cuda:0"), sizes))["wave, forward"]
        measured.append(
            (measure_pair("wave, forward", torch_wave(torch, sizes).work, case.work, NO_TARGET, pairs), case)
        )
    rows = [row for row, _ in measured]
    print_table(rows)
    print_bandwidth(measured, gpu.memory_bandwidth)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
