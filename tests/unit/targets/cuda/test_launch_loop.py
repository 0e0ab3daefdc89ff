"""The loop over the threads of a launch: every thread exactly once, whatever the grid."""

from __future__ import annotations

import numpy as np
import pytest
from on_host import HostCuda, cpu_harness

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.ir.types import INT32, INT64, Array
from diffkern.lower.tiles.block import lower_tiles_for_blocks


def counting(arity: int, count: int):
    """Adds 1 to the element of each index; sums the components' digits to see that they are the right ones."""

    def body(b, hits, total):
        index = cpu_harness.tids(b, arity)
        b.op("atomic", hits, *index, b.const(1, INT32), kind="add", wrap=(False,) * arity)
        digits = b.const(0, INT32)
        for component in index:
            digits = b.add(b.mul(digits, b.const(100, INT32)), component)
        b.op("atomic", total, b.const(0, INT32), b.one("cast", digits, to=INT64), kind="add", wrap=(False,))

    return cpu_harness.kernel({"hits": Array(INT32, arity), "total": Array(INT64, 1)}, body, tid=arity)


@pytest.mark.parametrize("grid", [1, 2, 7, 200])
@pytest.mark.parametrize(
    ("arity", "dims"),
    [
        (1, (13,)),
        (1, (1,)),
        (1, (5, 3)),
        (1, (4, 2, 3, 2)),
        (2, (5, 7)),
        (2, (7, 1)),
        (2, (1, 9)),
        (2, (3, 4, 5)),
        (3, (3, 5, 7)),
        (3, (2, 3, 4, 2)),
        (4, (2, 3, 4, 5)),
        (4, (3, 1, 1, 2)),
    ],
)
def test_every_thread_runs_once(arity: int, dims: tuple[int, ...], grid: int) -> None:
    fn = counting(arity, len(dims))
    own, repeat = dims[:arity], int(np.prod(dims[arity:], dtype=int))
    hits, total = np.zeros(own, np.int32), np.zeros(1, np.int64)
    HostCuda(fn, grid=grid).launch(cpu_harness.pack(fn, [hits, total], dims, 0, 0))
    np.testing.assert_array_equal(hits, repeat)
    digits = sum(index * 100 ** (arity - 1 - k) for k, index in enumerate(np.indices(own)))
    assert total[0] == repeat * digits.sum()


def test_a_kernel_without_thread_index_runs_once_per_thread() -> None:
    def body(b, total):
        b.op("atomic", total, b.const(0, INT32), b.const(1, INT64), kind="add", wrap=(False,))

    fn = cpu_harness.kernel({"total": Array(INT64, 1)}, body, tid=0)
    total = np.zeros(1, np.int64)
    HostCuda(fn, grid=5).launch(cpu_harness.pack(fn, [total], (3, 4, 2), 0, 0))
    assert total[0] == 24


@dk.kernel
def doubled(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2), hits: dk.array(dtype=int, ndim=2)):
    i, j = dk.tid()
    t = dk.tile_load(x, shape=(2, 4), offset=(i * 2, j * 4))
    dk.tile_store(y, t + t, offset=(i * 2, j * 4))
    dk.atomic_add(hits, i, j, 1)


@pytest.mark.parametrize("threads", [1, 3, 8, 32])
@pytest.mark.parametrize("grid", [1, 2, 15, 40])
@pytest.mark.parametrize("dims", [(3, 5), (3, 5, 2)])
def test_blocks_of_tiles_run_once(dims: tuple[int, ...], grid: int, threads: int) -> None:
    """A launch counts blocks: each index is that of all threads of one block, which share its elements."""
    fn = lower_tiles_for_blocks(Compilation(doubled.func, doubled.argument_types()).forward)
    x = np.arange(6 * 20, dtype=np.float32).reshape(6, 20)
    y, hits = np.zeros_like(x), np.zeros((3, 5), np.int32)
    HostCuda(fn, grid=grid, threads=threads).launch(cpu_harness.pack(fn, [x, y, hits], dims, 0, 0))
    np.testing.assert_array_equal(hits, np.prod(dims[2:], dtype=int))
    np.testing.assert_array_equal(y, 2 * x)
