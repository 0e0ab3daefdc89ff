"""Updates of elements that all lanes share: they are summed together, and made before anything that could see them."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

I32, F32 = dk.int32, dk.float32


@dk.kernel(lanes=True)
def together(x: dk.array2d[F32], first: dk.array[F32], second: dk.array[F32], third: dk.array[F32]):
    i = dk.tid()
    for k in range(x.shape[0]):
        v = x[k, i]
        first[k] += v
        second[k] += 2.0 * v
        third[k] += v * v


@dk.kernel(lanes=True)
def between(x: dk.array2d[I32], total: dk.array[I32], seen: dk.array2d[I32], often: dk.array[I32]):
    """Updates of one element one after the other, a read, a store, and updates under a mask."""
    i = dk.tid()
    for k in range(x.shape[0]):
        dk.atomic_add(total, k, x[k, i])
        dk.atomic_sub(total, k, 2 * x[k, i])
        dk.atomic_add(total, k + x.shape[0], 1)
        seen[k, i] = total[k + x.shape[0]]
        if x[k, i] > 3:
            dk.atomic_add(often, k, x[k, i])
            dk.atomic_add(often, k, 1)


@pytest.mark.parametrize("threads", [1, 16, 37])
def test_sums_of_several_arrays(threads):
    x = np.arange(5 * threads, dtype=np.float32).reshape(5, threads) % 7
    found = [dk.zeros(5, dtype=F32) for _ in range(3)]
    together[threads](dk.array(x), *found)
    for array, expected in zip(found, (x.sum(1), 2 * x.sum(1), (x * x).sum(1)), strict=True):
        np.testing.assert_array_equal(array.numpy(), expected)


@pytest.mark.parametrize("threads", [1, 16, 37])
def test_reads_see_updates_before_them(threads):
    x = np.arange(4 * threads, dtype=np.int32).reshape(4, threads) % 9
    total, seen, often = dk.zeros(8, dtype=I32), dk.zeros((4, threads), dtype=I32), dk.zeros(4, dtype=I32)
    between[threads](dk.array(x), total, seen, often)
    np.testing.assert_array_equal(total.numpy(), [*-x.sum(1), *[threads] * 4])
    assert seen.numpy().min() >= 1, "each thread has added before it reads"
    np.testing.assert_array_equal(often.numpy(), ((x + 1) * (x > 3)).sum(1))


@pytest.mark.lanes_choice("reads the code of lanes")
def test_the_code_adds_three_vectors_up_at_once():
    """Four elements of a group hold parts of up to four sums: one vector is halved to a group, not three."""
    text = dk.compile(together, target="x86-64-v3").asm
    folds, groups = text.count("vextractf128"), text.count("vunpcklps")
    assert 0 < folds == groups, "each group of three sums is interleaved, and folded once"
