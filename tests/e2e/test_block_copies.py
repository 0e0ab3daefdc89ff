"""Launches whose threads work in blocks and add to elements anywhere: each group of blocks has copies of these."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern import cuda
from diffkern.runtime.launch.program import Executable


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each launch so far was in groups with copies, on any number of processors."""
    found: list[bool] = []
    usual = Executable._groups

    def groups(self, grid, arguments):
        made = usual(self, grid, arguments)
        found.append(made is not None)
        return made

    monkeypatch.setattr(Executable, "_groups", groups)
    monkeypatch.setattr("diffkern.runtime.launch.program.pool.num_threads", lambda: 2)
    monkeypatch.setattr("diffkern.runtime.launch.schedule.processors", lambda: 2)
    return found


@cuda.jit
def block_sums(x, y):
    s = cuda.shared.array(64, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    if t == 0:
        for k in range(64):
            y[cuda.blockIdx.x] += s[k]


@cuda.jit
def block_histogram(x, bins):
    s = cuda.shared.array(8, np.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t < 8:
        s[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(bins, t, np.float32(s[t]))


@cuda.jit
def plane_sums(x, y):
    s = cuda.shared.array((4, 8), np.float64)
    i, j = cuda.grid(2)
    s[cuda.threadIdx.x, cuda.threadIdx.y] = x[i, j]
    cuda.syncthreads()
    cuda.atomic.add(y, cuda.threadIdx.y, s[3 - cuda.threadIdx.x, cuda.threadIdx.y] * cuda.blockDim.x)


@pytest.mark.parametrize("blocks", [1, 2, 3, 40, 400, 3001])
def test_sums_of_blocks(grouped: list[bool], blocks: int) -> None:
    x = np.random.default_rng(blocks).integers(0, 9, 64 * blocks - 28).astype(np.float32)
    expected = np.pad(x, (0, 28)).reshape(blocks, 64).sum(axis=1)
    for _ in range(3):
        y = np.zeros(blocks, np.float32)
        block_sums[blocks, 64](x, y)
        np.testing.assert_array_equal(y, expected)
    assert any(grouped) or blocks < 40


@pytest.mark.parametrize("threads", [32, 64, 96])
def test_a_histogram(threads: int) -> None:
    x = np.random.default_rng(threads).integers(0, 8, 100_000).astype(np.int32)
    bins = np.zeros(8, np.float32)
    block_histogram[-(-x.size // threads), threads](x, bins)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=8))


def test_blocks_of_two_axes_and_recorded_launches(grouped: list[bool]) -> None:
    x = np.random.default_rng(0).integers(0, 9, (4 * 50, 8 * 30)).astype(np.float64)
    y = np.zeros(8)
    plane_sums[(50, 30), (4, 8)](x, y)
    expected = 4.0 * x.reshape(-1, 30, 8).sum(axis=(0, 1))
    np.testing.assert_array_equal(y, expected)
    assert any(grouped)
    to = dk.zeros(8, dtype=dk.float64)
    with dk.record() as sequence:
        plane_sums[(50, 30), (4, 8)](dk.array(x), to)
    sequence.replay()
    np.testing.assert_array_equal(to.numpy(), 2 * expected)
