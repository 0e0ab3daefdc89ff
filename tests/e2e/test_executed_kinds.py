"""What launches bring with them, on executed PTX: both compilers, two architectures, blocks of 3 and of 256 threads.

Results are those of the CPU. Without ``--full`` each kind of program runs in one of the four ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import require
from device_kinds import KINDS, TOLD, N, agree, numbers, squared, tell
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk

require("nvidia")

G = "cuda:0"
WAYS = [("llvm", "sm_80", 3), ("llvm", "sm_90", 256), ("numba", "sm_80", 256), ("numba", "sm_90", 3)]


@contextlib.contextmanager
def driven(compiler: str, arch: str) -> Iterator[FakeDriver]:
    """A driver with two devices that executes what a compiler makes for an architecture."""
    before = dk.config.cuda_compiler
    dk.config.cuda_compiler = compiler
    try:
        with fake_cuda(devices=2, target=arch, run="ptx") as made:
            yield made
    finally:
        dk.config.cuda_compiler = before


CASES = [(kind, way) for kind in KINDS for way in WAYS]
USUAL = {(kind, WAYS[k % len(WAYS)]) for k, kind in enumerate(KINDS)}


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, id=f"{kind.__name__}-{way[0]}-{way[1]}-{way[2]}", marks=marks)
        for kind, way in CASES
        for marks in [() if (kind, way) in USUAL else pytest.mark.full]
    ],
)
def test_results_are_those_of_the_cpu(kind, way):
    compiler, arch, block = way
    if compiler == "numba":
        require("numba.cuda")
    expected = kind("cpu", block)
    with driven(compiler, arch) as driver:
        found = kind(G, block)
        assert {one.threads for one in driver.launches} & {block}
    agree(found, expected)


def test_texts(capsys):
    with driven("llvm", "sm_80"):
        tell(G, 256)
    assert capsys.readouterr().out.splitlines() == TOLD


def test_two_devices():
    """What one has computed is copied to the other, and goes on there."""
    with driven("llvm", "sm_80") as driver:
        x, y = dk.array(numbers(8), device=G), dk.zeros(N, device=G)
        there, z = dk.zeros(N, device="cuda:1"), dk.zeros(N, device="cuda:1")
        dk.launch(squared, N, [x, y], block_dim=3)
        dk.copy(there, y)
        dk.launch(squared, N, [there, z], block_dim=3)
        np.testing.assert_allclose(z.numpy(), numbers(8) ** 4, rtol=1e-5)
        assert "copy_peer" in driver.names()


def test_an_error_of_the_device_stays():
    with driven("llvm", "sm_80") as driver:
        x, y = dk.ones(N, device=G), dk.zeros(N, device=G)
        dk.launch(squared, N, [x, y], block_dim=3)
        assert y.list() == [1.0] * N
        dk.launch(squared, N, [x, y], block_dim=3)
        driver.fail("synchronize", code=700)
        with pytest.raises(dk.CudaError, match="last one first: forward of squared"):
            dk.synchronize()
        with pytest.raises(dk.CudaError, match="ILLEGAL_ADDRESS"):
            y.numpy()
