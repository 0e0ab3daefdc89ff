"""Matrix products of tiles for CUDA: what making and linking their code costs, with and without the adjoint's.

``python benchmarks/tile_lto.py`` compares, for one kernel with one product of 16 x 16 tiles of float16:

- a forward-only build with one that can be differentiated: processor seconds of all processes (libmathdx and the link)
  and bytes of the cubins;
- making the products of both directions in parallel with making them one by one: wall seconds;
- a rebuild that finds the products in the cache with the first build: processor seconds.

No GPU is needed. Tile kernels do not call these products yet, so each is linked into a kernel of its own that copies
its operands to shared memory and back.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import diffkern as dk
from diffkern.backends.cuda import mathdx, toolchain
from diffkern.backends.cuda.mathdx import Product
from diffkern.cache.store import Store
from diffkern.passes.tile_products import TileProduct, tile_products
from diffkern.pipeline import adjoint_ir, forward_ir
from diffkern.products import Products, obtain

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "backends" / "cuda"))
from product_kernel import NAME, kernel_text

SIZE, THREADS = dk.constant(16), 32
half = dk.array(dtype=dk.float16, ndim=2)


@dk.kernel
def gemm(a: half, b: half, c: half):
    x, y = dk.tile_load(a, shape=(SIZE, SIZE)), dk.tile_load(b, shape=(SIZE, SIZE))
    dk.tile_store(c, dk.tile_matmul(x, y))


def products(arch: str, adjoint: bool) -> list[Product]:
    """What the kernel needs, or its adjoint."""
    types = gemm.argument_types()
    if adjoint:
        found: Iterable[TileProduct] = tile_products(adjoint_ir(gemm.func, types, frozenset({0, 1, 2}), {}).fn)
    else:
        found = tile_products(forward_ir(gemm.func, types, {}))
    return [Product(p.m, p.n, p.k, p.a, p.b, p.c, THREADS, arch, p.columns_a, p.columns_b) for p in found]


def link(made: Products) -> tuple[float, int]:
    """Processor seconds of linking a kernel for each product, and the bytes of the cubins."""
    started, size = time.process_time(), 0
    for product, code in made.code.items():
        kernel = toolchain.ltoir(kernel_text(product), NAME, product.arch)
        size += len(toolchain.link([kernel, code], product.arch, NAME))
    return time.process_time() - started, size


def build(wanted: list[Product], processes: int, folder: Path) -> tuple[float, float, float, int, int]:
    """Wall seconds and processor seconds of making, processor seconds of linking, cubin bytes, products made."""
    started = time.perf_counter()
    made = obtain(wanted, store=Store(folder), processes=processes, progress=False)
    wall = time.perf_counter() - started
    linking, size = link(made)
    return wall, made.cpu_seconds, linking, size, len(made.made)


def main() -> None:
    """Measure, and print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    arch = arguments.arch
    print(f"libmathdx {mathdx.version()}, {arch}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    forward, both = products(arch, False), products(arch, False) + products(arch, True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        one = build(forward, arguments.processes, place / "forward")
        all_ = build(both, arguments.processes, place / "both")
        warm = build(both, arguments.processes, place / "both")
        serial = build(both, 1, place / "serial")
    cpu = [making + linking for _, making, linking, _, _ in (one, all_, warm)]
    print(f"processor seconds: forward only {cpu[0]:.1f} ({one[4]} products), with adjoint {cpu[1]:.1f} ({all_[4]})")
    print(f"  ratio {cpu[0] / cpu[1]:.2f}, to be at most 0.45")
    print(f"cubin bytes: forward only {one[3]}, with adjoint {all_[3]}")
    print(f"  ratio {one[3] / all_[3]:.2f}, to be at most 0.5")
    print(f"wall seconds of making: {all_[0]:.1f} in {arguments.processes} processes, {serial[0]:.1f} one by one")
    print(f"  ratio {all_[0] / serial[0]:.2f}, to be at most 0.6 on 2 processors")
    print(
        f"processor seconds of a rebuild: {cpu[2]:.1f} with a warm cache ({warm[4]} products made), {cpu[1]:.1f} cold"
    )
    print(f"  ratio {cpu[2] / cpu[1]:.2f}, to be at most 0.2")


if __name__ == "__main__":
    main()
