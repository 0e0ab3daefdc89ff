"""A vector against a matrix of tiles: the error says how to extend it, and what it says gives what NumPy gives."""

from __future__ import annotations

import re

import numpy as np
import pytest

import diffkern as dk

M = dk.array2d(dtype=dk.float64)


@dk.kernel
def tall(x: M, y: M):
    t = dk.tile_load(x, shape=(4, 3))
    top = dk.tile_reduce(dk.max, t, axis=1)
    dk.tile_store(y, t - top)


@dk.kernel
def tall_mended(x: M, y: M):
    t = dk.tile_load(x, shape=(4, 3))
    top = dk.tile_reduce(dk.max, t, axis=1)
    dk.tile_store(y, t - dk.tile_broadcast(dk.tile_reshape(top, shape=(4, 1)), shape=(4, 3)))


@dk.kernel
def wide(x: M, y: M):
    t = dk.tile_load(x, shape=(4, 3))
    top = dk.tile_reduce(dk.max, t, axis=0)
    dk.tile_store(y, top - t)


@dk.kernel
def square(x: M, y: M):
    t = dk.tile_load(x, shape=(3, 3))
    top = dk.tile_reduce(dk.max, t, axis=1)
    dk.tile_store(y, t - top)


COLUMN = "dk.tile_broadcast(dk.tile_reshape(top, shape=({0}, 1)), shape=({0}, 3))"
ROW = "dk.tile_broadcast(top, shape=({}, 3))"


@pytest.mark.parametrize(
    ("kernel", "n", "forms"), [(tall, 4, [COLUMN]), (wide, 4, [ROW]), (square, 3, [ROW, COLUMN])], ids=str
)
def test_a_vector_is_extended_as_a_row_or_as_a_column(kernel: dk.Kernel, n: int, forms: list[str]) -> None:
    with pytest.raises(dk.KernelTypeError, match="two shapes") as caught:
        dk.launch_tiled(kernel, 1, [dk.ones((n, 3), dtype=dk.float64)], [dk.ones((n, 3), dtype=dk.float64)])
    told = re.findall(r"(?:row|column, such as a result of axis=1): (dk\.[^;\n]*)", str(caught.value))
    assert told == [form.format(n) for form in forms]


def test_a_column_is_the_result_of_axis_1() -> None:
    x, y = np.random.default_rng(1).random((4, 3)), dk.zeros((4, 3), dtype=dk.float64)
    dk.launch_tiled(tall_mended, 1, [dk.array(x)], [y], block_dim=32)
    np.testing.assert_array_equal(y.numpy(), x - x.max(axis=1, keepdims=True))
