"""Shared memory and barriers in cubins: what the PTX must hold."""

from __future__ import annotations

import pytest
from block_corpus import BLOCKS
from conftest import require

from diffkern import pipeline
from diffkern.backends import cuda

require("cuda.bindings.nvjitlink", "nvidia")


def compiled(name: str, arch: str = "sm_90") -> cuda.CudaObject:
    kernel = BLOCKS[name].kernel
    return cuda.compile_function(pipeline.forward_ir(kernel.func, kernel.argument_types(), {}), "kernel", arch=arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_compiles(name: str, arch: str) -> None:
    assert compiled(name, arch).cubin[:4] == b"\x7fELF"


def test_each_round_of_the_grid_ends_with_a_barrier() -> None:
    """One for the program's barrier, one before the next round writes to the shared array."""
    found = compiled("reversed_in_blocks")
    assert found.ptx.count("bar.sync") == 2
    assert found.shared_bytes == 64
    assert ".shared .align 16 .b8" in found.ptx


def test_atomics_on_shared_memory_stay_there() -> None:
    ptx = compiled("histograms").ptx
    assert "atom.shared" in ptx or "atom.relaxed.sys.shared" in ptx or ".shared.add" in ptx
    assert "red.relaxed.gpu.global" not in ptx
