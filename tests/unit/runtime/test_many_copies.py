"""Private copies of arrays as a machine of many processors has them: cleared, and added up."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.launch import program, schedule
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.native import pool
from diffkern.runtime.native.copies_ir import summed

N = 1 << 17


@dk.kernel(enable_backward=False)
def scattered(at: dk.array(dtype=int), x: dk.array(dtype=float), sums: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(sums, at[i], x[i])


@pytest.fixture(autouse=True)
def _two_threads():
    before = pool.num_threads()
    pool.set_num_threads(2)
    yield
    pool.set_num_threads(before)


def chunks_of(launch: PackedLaunch) -> int:
    """The length of a chunk with copies."""
    grid = launch.executable._groups(launch.grid, b"".join(launch.parts))
    assert grid is not None
    return grid.size


@pytest.mark.parametrize("size", [3, 64, 1000, 4133])
def test_copies_of_many_chunks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Of whole numbers, whose sums are exact in any order."""
    monkeypatch.setattr(schedule, "processors", lambda: 64)
    rng = np.random.default_rng(size)
    at, x = rng.integers(0, size, N).astype(np.int32), rng.integers(-8, 9, N).astype(np.float32)
    expected = rng.integers(-8, 9, size).astype(np.float32)
    sums = dk.array(expected)
    launch = PackedLaunch(scattered, N, [dk.array(at), dk.array(x), sums])
    launch.executable._grouped.clear()
    assert N / chunks_of(launch) >= 16
    for _ in range(3):  # memory that was used before is not zero
        np.add.at(expected, at, x)
        launch.execute()
        np.testing.assert_array_equal(sums.numpy(), expected)
    launch.executable._grouped.clear()


def test_copies_in_new_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bytes as the C library always has new pages for."""
    size, groups = 1 << 19, 18
    monkeypatch.setattr(program, "cut_groups", lambda dims, *_: schedule.ChunkGrid(dims, N, -(-N // groups)))
    at = np.arange(N, dtype=np.int32)[::-1].copy()
    x, sums = np.ones(N, np.float32), dk.zeros(size)
    launch = PackedLaunch(scattered, N, [dk.array(at), dk.array(x), sums])
    launch.executable._grouped.clear()
    launch.execute()
    launch.execute()
    launch.executable._grouped.clear()
    expected = np.zeros(size, np.float32)
    expected[:N] = 2.0
    np.testing.assert_array_equal(sums.numpy(), expected)


def test_chunks_of_the_sums_are_shorter_with_more_copies() -> None:
    found = [summed(copies) for copies in (1, 3, 7, 15, 63, 255, 1023)]
    assert found == [4096, 4096, 4096, 2048, 512, 128, 64]
