"""Compare a matrix product of tiles on a GPU with NVIDIA Warp's and with the vendor's library, as PyTorch calls it.

In: nothing but the command line, a CUDA GPU, and of the peers what is installed. Out: a table of ratios, the
floating-point operations per second that each one reaches, and a JSON file if asked for. The kernel is written once for
both libraries: a block of threads computes a tile of the result, step by step along the inner axis. Sizes of the tiles
and of the block are the same, products are those of libmathdx on both sides, and of float16 the sums are float32. All
run in one process on the same matrices; results are compared before anything is timed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gpu_kernels
import numpy as np
from gpu import optional
from harness import (
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

THREADS = 128
NO_TARGET = Target()


@dataclass(frozen=True)
class Precision:
    """What is multiplied, and how well."""

    name: str
    dtype: str
    precision: str
    tile: tuple[int, int, int]
    rtol: float


PRECISIONS = (
    Precision("float32", "float32", "default", (64, 64, 16), 1e-5),
    Precision("tf32", "float32", "tf32", (64, 64, 32), 2e-3),
    Precision("float16", "float16", "default", (64, 64, 64), 2e-3),
)


def factors(p: Precision, size: int) -> tuple[Any, Any]:
    """Return two matrices, the same in every call."""
    rng = np.random.default_rng(7)
    a, b = (rng.normal(size=(size, size)).astype(p.dtype) for _ in range(2))
    return a, b


def tiled(name: str, w: Any, p: Precision, size: int, device: str) -> Work:
    """Return the product by tiles of one library."""
    a, b = (w.array(values, dtype=getattr(w, p.dtype), device=device) for values in factors(p, size))
    c = w.zeros((size, size), dtype=w.float32, device=device)
    kernel = gpu_kernels.gemm(w, p.dtype, p.tile, p.precision)
    rows, columns, inner = p.tile
    dim = [size // rows, size // columns]

    def run() -> None:
        w.launch_tiled(kernel, dim=dim, inputs=[a, b], outputs=[c, size // inner], block_dim=THREADS, device=device)
        w.synchronize_device(device)

    return Work(name, run, results=lambda: {"c": c.numpy().copy()})


def vendor(torch: Any, p: Precision, size: int) -> Work:
    """Return the product by the vendor's library. Of float16 its result is float16 too, summed in float32."""
    a, b = (torch.from_numpy(values).cuda() for values in factors(p, size))
    c = torch.empty((size, size), dtype=a.dtype, device="cuda")

    def run() -> None:
        torch.backends.cuda.matmul.allow_tf32 = p.precision == "tf32"
        torch.matmul(a, b, out=c)
        torch.cuda.synchronize()

    return Work("torch", run, results=lambda: {"c": c.float().cpu().numpy()})


def works(p: Precision, size: int, device: str, peers: Sequence[str] = ("warp", "torch")) -> Iterator[Work]:
    """Yield diffkern's product, then those of the peers that are installed."""
    yield tiled("diffkern", importlib.import_module("diffkern"), p, size, device)
    if "warp" in peers and (warp := optional("warp")) is not None:
        yield tiled("warp", warp, p, size, device)
    if "torch" in peers and (torch := optional("torch")) is not None and torch.cuda.is_available():
        yield vendor(torch, p, size)


def rows_of(p: Precision, size: int, device: str, pairs: int) -> Iterator[Row]:
    """Yield the row of diffkern alone, then one for each peer."""
    name = f"{size} x {size} x {size}, {p.name}"
    mine, *others = works(p, size, device)
    yield measure_alone(name, mine, NO_TARGET, pairs)
    for theirs in others:
        try:
            check_agreement(theirs, mine, rtol=p.rtol)
            yield measure_pair(name, theirs, mine, NO_TARGET, pairs)
        except Exception as error:
            empty = Row(name, theirs.name, mine.name, target=NO_TARGET)
            yield replace(empty, error=f"{type(error).__name__}: {error}")


def print_rates(rows: Sequence[Row], size: int) -> None:
    """Print how many floating-point operations per second each side reaches."""
    print()
    for row in rows:
        for who, seconds in ((row.top, row.top_s), (row.bottom, row.bottom_s)):
            if seconds == seconds and (who != "diffkern" or row.bottom == "-"):
                print(f"{row.name:28s} {who:9s} {seconds * 1e6:10.1f} us  {2e-12 * size**3 / seconds:8.2f} Tflop/s")


def main() -> int:
    """Run the benchmark."""
    parser = options(__doc__ or "")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns; a multiple of 64")
    arguments = parser.parse_args()
    dk: Any = importlib.import_module("diffkern")
    if not dk.is_cuda_available():
        sys.exit("This benchmark needs a CUDA GPU, a driver, and pip install 'diffkern[cuda,tiles]'")
    gpu = dk.get_device("cuda:0")
    facts = {**machine(), "gpu": gpu.name, "target": gpu.target}
    print_machine(facts)
    pairs = rounds_of(arguments, 15, 3)
    chosen = [p for p in PRECISIONS if arguments.only in p.name]
    rows = [row for p in chosen for row in rows_of(p, arguments.size, "cuda:0", pairs)]
    print_table(rows)
    print_rates(rows, arguments.size)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
