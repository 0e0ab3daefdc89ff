"""Launches on a GPU of kernels whose threads work together."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

G = "cuda:0"


@dk.kernel
def turned(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(256, float)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[n - 1 - t]


@pytest.mark.parametrize(("options", "grid"), [({}, (2, 256)), ({"block_dim": 64}, (8, 64))])
def test_whole_blocks(driver, options, grid):
    x, y = dk.array(np.arange(512, dtype=np.float32), device=G), dk.zeros(512, device=G)
    dk.launch(turned, 512, inputs=[x, y], **options)
    np.testing.assert_array_equal(y.numpy(), np.arange(512).reshape(grid)[:, ::-1].ravel())
    (launched,) = driver.launches
    assert (launched.blocks, launched.threads) == grid


@pytest.mark.parametrize(
    ("dim", "options", "message"),
    [
        (100, {"block_dim": 32}, "is not whole blocks"),
        (128, {}, "blocks of 256, and dim"),
        ((4, 32), {"block_dim": 32}, "grid of 2 axes"),
    ],
)
def test_what_is_not_whole_blocks(driver, dim, options, message):
    x, y = dk.zeros(128, device=G), dk.zeros(128, device=G)
    with pytest.raises(dk.LaunchError, match=message):
        dk.launch(turned, dim, inputs=[x, y], **options)
    assert not driver.launches
