"""Launches on a GPU of kernels whose threads work together."""

from __future__ import annotations

import pytest
from runtime_cuda_kernels import reversed_blocks

import diffkern as dk

G = "cuda:0"


@pytest.mark.parametrize(("options", "grid"), [({}, (2, 256)), ({"block_dim": 64}, (8, 64))])
def test_whole_blocks(driver, options, grid):
    x, y = dk.zeros(512, device=G), dk.zeros(512, device=G)
    dk.launch(reversed_blocks, 512, inputs=[x, y], **options)
    dk.synchronize()
    (launched,) = driver.launches
    assert (launched.blocks, launched.threads) == grid


@pytest.mark.parametrize(
    ("dim", "options", "message"),
    [
        (100, {"block_dim": 32}, "is not whole blocks"),
        (128, {}, "blocks of 256, and dim"),
        ((4, 32), {"block_dim": 32}, "ask for 1 axes"),
    ],
)
def test_what_is_not_whole_blocks(driver, dim, options, message):
    x, y = dk.zeros(128, device=G), dk.zeros(128, device=G)
    with pytest.raises(dk.LaunchError, match=message):
        dk.launch(reversed_blocks, dim, inputs=[x, y], **options)
    assert not driver.launches
