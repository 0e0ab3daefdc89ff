"""Shared memory and barriers in cubins: what the PTX must hold."""

from __future__ import annotations

import re

import pytest
from block_corpus import BLOCKS
from block_gradients import GRADIENTS
from compiling import compile_function
from conftest import require
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.compiler.compilation import Compilation
from diffkern.targets.target import CompiledKernel

require("cuda.bindings.nvjitlink", "nvidia")


def compiled(name: str, arch: str = "sm_90") -> CompiledKernel:
    kernel = BLOCKS[name].kernel
    return compile_function(Compilation(kernel.func, kernel.argument_types()).forward, "kernel", arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_compiles(name: str, arch: str) -> None:
    assert compiled(name, arch).code[:4] == b"\x7fELF"


def test_each_round_of_the_grid_ends_with_a_barrier() -> None:
    """One for the program's barrier, one before the next round writes to the shared array."""
    found = compiled("reversed_in_blocks")
    assert found.assembly().count("bar.sync") == 2
    assert found.gpu is not None
    assert found.gpu.shared_bytes == 64
    assert ".shared .align 16 .b8" in found.assembly()


def test_atomics_on_shared_memory_stay_there() -> None:
    ptx = compiled("histograms").assembly()
    assert "atom.shared" in ptx or "atom.relaxed.sys.shared" in ptx or ".shared.add" in ptx
    assert "red.relaxed.gpu.global" not in ptx


@dk.kernel
def all_and_their_sum(x: dk.array(dtype=float), y: dk.array(dtype=float), out: dk.array(dtype=float)):
    i = dk.tid()
    shared = dk.shared_array(12288, float)  # 48 KiB to the byte
    shared[dk.thread_index()] = x[i]
    dk.syncthreads()
    y[i] = shared[dk.block_dim() - 1 - dk.thread_index()]
    dk.atomic_add(out, 0, x[i])


@dk.kernel
def tile_and_sum(
    x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2), out: dk.array(dtype=float), a: float
):
    t = dk.tile_load(x, shape=(96, 128))
    dk.tile_store(y, dk.tile_transpose(t))
    dk.atomic_add(out, 0, a)


@pytest.mark.parametrize("name", ["all_and_their_sum", "tile_and_sum"])
def test_memory_of_sums_counts_beside_that_of_arrays(name: str) -> None:
    """What fits the block without its sums alone is asked for at the launch."""
    with fake_cuda(target="sm_90") as driver:
        x, y = dk.zeros(256, device="cuda:0"), dk.zeros(256, device="cuda:0")
        out = dk.zeros(1, device="cuda:0")
        if name == "all_and_their_sum":
            dk.launch(all_and_their_sum, 256, inputs=[x, y, out])
        else:
            x, y = dk.zeros((96, 128), device="cuda:0"), dk.zeros((128, 96), device="cuda:0")
            dk.launch_tiled(tile_and_sum, 1, inputs=[x, y, out, 1.0])
        dk.synchronize()
        (launched,) = driver.launches
    kernel = all_and_their_sum if name == "all_and_their_sum" else tile_and_sum
    found = dk.compile(kernel, target="sm_90").manifest.resources
    assert launched.shared == found.dynamic_shared_bytes > 0
    assert found.shared_bytes == found.dynamic_shared_bytes + 128  # 32 warps, a float each
    assert found.shared_bytes > SHARED_BYTES


@pytest.mark.parametrize(
    ("function", "atomics"),
    [
        ("sum_by_halves", 0),  # each element belongs to one thread in each phase
        ("transpose", 0),  # quotient and remainder tell threads apart
        ("stencil_with_halo", 3),  # three threads read each element
    ],
)
def test_adjoints_update_shared_memory_atomically_where_threads_meet(function: str, atomics: int) -> None:
    kernel = GRADIENTS[function].kernel if function in GRADIENTS else BLOCKS[function].kernel
    found = dk.compile(kernel, target="sm_90", adjoint=True)
    assert len(re.findall(r"(?:atom|red)\.\S*shared", found.ptx)) >= atomics
    assert bool(atomics) == any(name.startswith("ATOMS") for name in found.instructions)
    assert any(name.startswith("BAR") for name in found.instructions)
    assert found.spill_bytes == 0
