"""Compare kernels, adjoints and the cost of launches on a GPU with NVIDIA Warp's, and one kernel with PyTorch's.

It takes a CUDA GPU, and the peers that are installed. It prints a table of ratios and one of the times of the host and
of the GPU, with the part of the memory's bandwidth that each case reaches, and writes a JSON file if asked for. All run
in one process on the same float32 inputs; results are compared before anything is timed, readings alternate, and every
reading ends with a wait for the GPU. For the second table the launches of a reading are a graph, whose time is that
between two events; the host's is that of enqueueing them one by one. Bytes are those that the memory of the GPU has to
move at least: each array once for a read and once for a write.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
    rounds_of,
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
    enqueue
        The launches of a reading, without the wait.
    is_graph
        Whether they are the launch of a graph already.
    """

    work: Work
    rounds: int
    nbytes: int
    enqueue: Callable[[], Any]
    is_graph: bool = False


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

    def separate(self, case: Case, readings: int) -> tuple[float, float]:
        """Return the seconds of the host and of the GPU for one launch of a case, the least of some readings."""
        w, run = self.w, case.enqueue
        if not case.is_graph:
            with w.ScopedCapture(device=self.device) as capture:
                case.enqueue()

            def run() -> None:
                w.capture_launch(capture.graph)

        host, device = [], []
        for _ in range(readings):
            case.work.prepare()
            self.wait()
            began = time.perf_counter()
            case.enqueue()
            host.append(time.perf_counter() - began)
            case.work.prepare()
            self.wait()
            first, last = (w.Event(self.device, enable_timing=True) for _ in range(2))
            stream = w.get_stream(self.device)
            stream.record_event(first)
            run()
            stream.record_event(last)
            device.append(w.get_event_elapsed_time(first, last) / 1e3)
        return min(host) / case.rounds, min(device) / case.rounds

    def both(
        self,
        label: str,
        kernel: str,
        dim: Any,
        inputs: list[Any],
        outputs: list[Any],
        nbytes: tuple[int, int],
        rounds: int = 1,
    ) -> Iterator[tuple[str, Case]]:
        """Yield the forward and the adjoint of a launch whose outputs begin at zero, with the bytes of each."""
        w, launched = self.w, self.kernels[kernel]

        def zero(arrays: Sequence[Any]) -> None:
            for a in arrays:
                a.zero_()
            self.wait()

        def results(label: str, arrays: Sequence[Any]) -> Results:
            return {f"{label} {k}": a.numpy().copy() for k, a in enumerate(arrays)}

        def forward() -> None:
            w.launch(launched, dim=dim, inputs=inputs, outputs=outputs, device=self.device)

        def many() -> None:
            for _ in range(rounds):
                forward()

        found = Work(self.name, self.waiting(many), lambda: zero(outputs), lambda: results("out", outputs))
        yield f"{label}, forward", Case(found, rounds, nbytes[0], many)
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
        found = Work(self.name, self.waiting(adjoint), prepare, lambda: results("gradient", active))
        yield f"{label}, adjoint", Case(found, 1, nbytes[1], adjoint)

    def waiting(self, run: Callable[[], Any]) -> Callable[[], None]:
        """Return a function that runs another one and waits for the device."""

        def whole() -> None:
            run()
            self.wait()

        return whole

    def _gradient(self, value: Any) -> Any:
        if not hasattr(value, "numpy") or value.numpy().dtype.kind != "f":
            return None
        return self.w.zeros_like(value)


def wave(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield an elementwise kernel: two arrays in, one out."""
    rng = np.random.default_rng(1)
    x, y = (side.array(rng.normal(size=sizes.wave).astype(np.float32)) for _ in range(2))
    z = side.array(np.zeros(sizes.wave, np.float32))
    # The adjoint reads x and y, takes the gradient of z and leaves zero, and adds to the gradients of both.
    yield from side.both("wave", "wave", sizes.wave, [x, y, 1.7], [z], (12 * sizes.wave, 32 * sizes.wave), 10)


def nbody(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield all pairs of bodies; arithmetic limits it."""
    rng = np.random.default_rng(2)
    n = sizes.bodies
    position = side.array(rng.normal(size=(n, 3)).astype(np.float32), side.w.vec3)
    mass = side.array(rng.uniform(0.5, 1.5, n).astype(np.float32))
    out = side.array(np.zeros((n, 3), np.float32), side.w.vec3)
    yield from side.both("n-body", "nbody", n, [position, mass, n], [out], (0, 0))


def mesh(side: Side, sizes: Sizes) -> Iterator[tuple[str, Case]]:
    """Yield the graph Laplacian of a grid of points, summed edge by edge with atomics."""
    n = sizes.mesh
    index = np.arange(n * n, dtype=np.int32).reshape(n, n)
    pairs = ((index[:, :-1], index[:, 1:]), (index[:-1], index[1:]))
    edge = np.concatenate([np.stack([a.reshape(-1), b.reshape(-1)], axis=1) for a, b in pairs])
    x = side.array(np.random.default_rng(3).normal(size=(n * n, 3)).astype(np.float32), side.w.vec3)
    force = side.array(np.zeros((n * n, 3), np.float32), side.w.vec3)
    edges = side.w.array(edge, dtype=int, ndim=2, device=side.device)
    # Either way vectors of all points are read once, and others are read and written.
    nbytes = 8 * len(edge) + 36 * n * n
    yield from side.both("mesh Laplacian", "laplacian", len(edge), [x, edges], [force], (nbytes, nbytes))


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

    def results() -> Results:
        return {"u": grids[sizes.steps % 2].numpy().copy()}

    nbytes = 8 * n * n
    plain = Work(side.name, side.waiting(steps), prepare, results)
    yield "roll-out, launches", Case(plain, sizes.steps, nbytes, steps)
    with w.ScopedCapture(device=side.device) as capture:
        steps()

    def graph() -> None:
        w.capture_launch(capture.graph)

    whole = Work(side.name, side.waiting(graph), prepare, results)
    yield "roll-out, graph", Case(whole, sizes.steps, nbytes, graph, is_graph=True)
    both = side.both("stencil step", "heat", (n, n), [grids[0], n, n, 0.2], [grids[1]], (nbytes, 2 * nbytes))
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

        return work

    def results() -> Results:
        return {"d": arrays[3].numpy().copy()}

    record = w.launch(kernel, dim=1, inputs=arrays, device=side.device, record_cmd=True)
    with w.ScopedCapture(device=side.device) as capture:
        for _ in range(LAUNCHES):
            launch()

    def graph() -> None:
        w.capture_launch(capture.graph)

    for name, run in (("plain", many(launch)), ("record", many(record.launch)), ("graph", graph)):
        work = Work(side.name, side.waiting(run), results=results)
        yield f"launch, {name}", Case(work, LAUNCHES, 0, run, is_graph=name == "graph")


GROUPS = (launches, wave, nbody, mesh, rollout)


def torch_wave(torch: Any, sizes: Sizes) -> Case:
    """Return the elementwise kernel in PyTorch, compiled by it; each result takes the memory of the last one."""
    rng = np.random.default_rng(1)
    x, y = (torch.tensor(rng.normal(size=sizes.wave).astype(np.float32), device="cuda") for _ in range(2))
    made: list[Any] = []
    function = torch.compile(lambda x, y: torch.sin(1.7 * x) + y * torch.exp(-x * x))

    def enqueue() -> None:
        for _ in range(10):
            made.clear()
            made.append(function(x, y))

    def run() -> None:
        enqueue()
        torch.cuda.synchronize()

    return Case(Work("torch", run, results=lambda: {"out 0": made[0].cpu().numpy()}), 10, 12 * sizes.wave, enqueue)


def optional(name: str) -> Any:
    """Import a peer; None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@dataclass(frozen=True)
class HostAndGpu:
    """A case's times for one launch, of the host and of the GPU, in seconds, and the bytes it moves."""

    name: str
    library: str
    host_s: float
    device_s: float
    nbytes: int


def separate_times(sides: Sequence[Side], sizes: Sizes, only: str, readings: int) -> Iterator[HostAndGpu]:
    """Yield the times of all cases by each library."""
    for group in GROUPS:
        for side in sides:
            for name, case in group(side, sizes):
                if only in name:
                    yield HostAndGpu(name, side.name, *side.separate(case, readings), case.nbytes)


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


def print_separate(measured: Sequence[HostAndGpu], bandwidth: float) -> None:
    """Print the times of the host and of the GPU, and how much of the memory's bandwidth the latter comes to."""
    print(f"\nmemory bandwidth of this GPU: {bandwidth / 1e9:.0f} GB/s (clock times width)")
    print(f"{'one launch':28s} {'library':10s} {'host, us':>10s} {'GPU, us':>10s}")
    for one in measured:
        line = f"{one.name:28s} {one.library:10s} {one.host_s * 1e6:10.2f} {one.device_s * 1e6:10.2f}"
        reached = one.nbytes / one.device_s if one.device_s else 0.0
        print(line + (f"  {reached / 1e9:8.0f} GB/s  {reached / bandwidth:6.1%}" if reached else ""))


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
    pairs = rounds_of(arguments, 15, 3)
    own, only = Side("diffkern", dk, "cuda:0"), arguments.only or ""
    measured = list(rows_of(own, peers, sizes, only, pairs))
    torch = optional("torch")
    if torch is not None and torch.cuda.is_available() and only in "wave, forward":
        case, theirs = dict(wave(own, sizes))["wave, forward"], torch_wave(torch, sizes)
        check_agreement(theirs.work, case.work, rtol=2e-3)
        measured.append((measure_pair("wave, forward", theirs.work, case.work, NO_TARGET, pairs), case))
    rows = [row for row, _ in measured]
    print_table(rows)
    separate = list(separate_times([own, *peers], sizes, only, pairs))
    print_separate(separate, gpu.memory_bandwidth)
    if arguments.json:
        save_json(arguments.json, facts, rows, separate=[asdict(one) for one in separate])
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
