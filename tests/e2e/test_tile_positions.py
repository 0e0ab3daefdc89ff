"""Positions of extrema in tiles: the first of equals, and the first NaN before all numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk

NAN = np.nan
ROWS = {
    "first of equals": [3.0, 1.0, 5.0, 1.0, 5.0, 2.0],
    "NaN at the beginning": [NAN, 1.0, 5.0, 0.0, 9.0, 2.0],
    "NaN between": [3.0, 1.0, NAN, 0.0, 9.0, NAN],
    "NaN at the end": [3.0, 1.0, 5.0, 0.0, 9.0, NAN],
    "NaN alone": [NAN] * 6,
    "infinities": [np.inf, -np.inf, np.inf, -np.inf, 0.0, 1.0],
}


@dk.kernel
def of_all(x: dk.array2d(dtype=float), least: dk.array(dtype=int), most: dk.array(dtype=int)):
    i = dk.tid()
    t = dk.tile_load(x[i], shape=6)
    dk.tile_store(least, dk.tile_argmin(t), offset=i)
    dk.tile_store(most, dk.tile_argmax(t), offset=i)


@pytest.mark.parametrize("block_dim", [1, 4])
def test_positions_are_those_of_numpy(block_dim: int) -> None:
    x = np.array(list(ROWS.values()), np.float32)
    least, most = dk.zeros(len(x), dtype=int), dk.zeros(len(x), dtype=int)
    options: dict[str, Any] = {"inputs": [dk.array(x), least, most], "block_dim": block_dim}
    dk.launch_tiled(of_all, dim=[len(x)], **options)
    np.testing.assert_array_equal(least.numpy(), np.argmin(x, axis=1))
    np.testing.assert_array_equal(most.numpy(), np.argmax(x, axis=1))
