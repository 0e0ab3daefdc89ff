"""Operations on tiles whose elements are computed where they are read say so in their rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.ir.ops import table

N = 4


@dk.kernel
def turned(x: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    t = dk.tile_load(x, shape=(N, N))
    u = t * t
    dk.tile_store(y, dk.tile_transpose(u) + dk.tile_broadcast(dk.tile_sum(u, axis=0), shape=(N, N)))


def launched() -> np.ndarray:
    y = dk.zeros((N, N))
    dk.launch_tiled(turned, dim=1, inputs=[dk.array(np.arange(N * N, dtype=np.float32).reshape(N, N)), y])
    return y.numpy()


def test_lazy_results_are_computed_from_tiles_that_are_still_there():
    square = np.arange(N * N, dtype=np.float32).reshape(N, N) ** 2
    np.testing.assert_array_equal(launched(), square.T + square.sum(axis=0))


@pytest.mark.parametrize("name", ["tile_permute", "tile_broadcast"])
def test_a_row_that_does_not_say_so_is_an_error_that_names_the_operation(name, monkeypatch):
    monkeypatch.setitem(table._TABLE, name, replace(table.lookup(name), lazy=False))
    with pytest.raises(dk.KernelError, match=f"{name} reads its operands later, and its row is not lazy"):
        Compilation(turned.func, turned.argument_types()).build("k")
