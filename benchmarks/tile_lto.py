"""Matrix products of tiles for CUDA: what building a kernel costs without and with its adjoint, in parallel, and again.

In: two kernels, a matrix product of float16 and the training kernel of ``examples/tile_mlp.py``, whose products of
tiles libmathdx makes. Out: for each of them a table with

- a build of the kernel made with ``enable_backward=False`` against one of the kernel that can be differentiated:
  processor seconds of all processes (libmathdx, the compiler, the link) and bytes of the cubins;
- the second build with as many processes as processors against the same with one: wall seconds;
- the second build again, with the products in the cache, against the first time: processor seconds.

Each build is ``compile_ahead``, as in ``diffkern compile``, in a process of its own with empty directories; its whole
life is counted. No GPU is needed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffkern as dk
from diffkern.cache.maintenance import artifacts
from diffkern.shipping.ship import compile_ahead
from diffkern.targets.cuda import mathdx

ROWS, COLUMNS, INNER = dk.constant(64), dk.constant(64), dk.constant(32)
half, wide = dk.array2d(dtype=dk.float16), dk.array2d(dtype=float)


def product(a: half, b: half, c: wide):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(ROWS, COLUMNS), dtype=float)
    for k in range((a.shape[1] + INNER - 1) // INNER):
        x = dk.tile_load(a, shape=(ROWS, INNER), offset=(i * ROWS, k * INNER))
        y = dk.tile_load(b, shape=(INNER, COLUMNS), offset=(k * INNER, j * COLUMNS))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total, offset=(i * ROWS, j * COLUMNS))


def network() -> Any:
    """The function of the example's training kernel."""
    path = Path(__file__).parents[1] / "examples" / "tile_mlp.py"
    spec = importlib.util.spec_from_file_location("tile_mlp", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tile_mlp"] = module
    spec.loader.exec_module(module)
    return module.cross_entropy.func


CASES = {
    "product": (lambda: product, 128, ["a", "b", "c"]),
    "network": (network, 64, ["w1", "b1", "w2", "b2", "loss"]),
}


@dataclass(frozen=True)
class Build:
    """What one build took."""

    wall: float
    cpu: float
    cubins: int
    made: int


def child(case: str, backward: bool, processes: int, arch: str, out: Path) -> None:
    """Build, in this process."""
    function, threads, active = CASES[case]
    kernel = dk.kernel(enable_backward=backward, enable_mathdx_gemm=True, block_dim=threads)(function())
    compile_ahead([kernel], [arch], out, active=active, programs="least", processes=processes, progress=False)


def build(case: str, backward: bool, processes: int, arch: str, cache: Path, out: Path) -> Build:
    """Build in a process of its own."""
    command = [sys.executable, __file__, "--child", case, "--processes", str(processes), "--arch", arch]
    command += ["--out", str(out), *(["--backward"] if backward else [])]
    before, known, started = _cpu(), len(_products(cache)), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "DIFFKERN_CACHE_DIR": str(cache)})
    wall, cpu = time.perf_counter() - started, _cpu() - before
    return Build(wall, cpu, sum(f.stat().st_size for f in out.rglob("*.cubin")), len(_products(cache)) - known)


def _products(cache: Path) -> list[Any]:
    return [a for a in artifacts(cache) if a.title.startswith("matrix product")] if cache.exists() else []


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(case: str, processes: int, arch: str) -> None:
    """Measure one kernel, and print a line for each comparison."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def one(cache: str, backward: bool, workers: int, out: str) -> Build:
            found = build(case, backward, workers, arch, place / cache, place / out)
            name = f"{case}, {'with adjoint' if backward else 'forward only'}, {workers} processes"
            print(f"{name:42s} {found.wall:7.1f} s, {found.cpu:7.1f} processor seconds, {found.made} products made")
            return found

        forward = one("forward", False, processes, "out_forward")
        both = one("both", True, processes, "out_both")
        again = one("both", True, processes, "out_again")
        serial = one("serial", True, 1, "out_serial")
    print(f"\n{case}: {forward.made} products in the forward, {both.made} with the adjoint")
    lines = [
        ("processor seconds, forward only / with adjoint", forward.cpu, both.cpu, 0.45),
        ("bytes of cubins, forward only / with adjoint", forward.cubins, both.cubins, 0.5),
        (f"wall seconds, {processes} processes / one", both.wall, serial.wall, 0.6),
        ("processor seconds, products in the cache / cold", again.cpu, both.cpu, 0.2),
    ]
    for name, top, bottom, target in lines:
        ratio = top / bottom
        verdict = "met" if ratio <= target else "missed"
        print(f"  {name:50s} {top:9.1f} / {bottom:9.1f} = {ratio:.2f}  (at most {target:g}: {verdict})")
    assert again.made == 0


def main() -> None:
    """Measure, or build as the child of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=CASES, help="one of the kernels")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.backward, arguments.processes, arguments.arch, arguments.out)
        return
    nvrtc = ".".join(map(str, mathdx.nvrtc_version() or ()))
    load = os.getloadavg()[0]
    print(
        f"libmathdx {mathdx.version()}, NVRTC {nvrtc}, {arguments.arch}, {os.cpu_count()} processors, load {load:.1f}"
    )
    for case in [arguments.only] if arguments.only else CASES:
        measure(case, arguments.processes, arguments.arch)


if __name__ == "__main__":
    main()
