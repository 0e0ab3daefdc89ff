"""The loop over the threads of a launch: every thread exactly once, whatever the grid."""

from __future__ import annotations

import numpy as np
import pytest
from on_host import HostCuda, cpu_harness

from diffkern.ir.types import INT32, INT64, Array


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
