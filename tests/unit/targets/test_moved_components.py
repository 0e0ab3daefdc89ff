"""Loops that only move vectors and matrices take one element after the other, its components as vectors."""

import itertools

import numpy as np
import pytest

import diffkern as dk
from diffkern.cli.command import main
from diffkern.types import matrix, vector

SOURCE = """import diffkern as dk

@dk.kernel(enable_backward=False)
def move(a: dk.array(dtype=dk.mat33), b: dk.array(dtype=dk.mat33)):
    i = dk.tid()
    t = dk.tile_load(a, shape=(16,), offset=(i * 16,), storage="shared")
    dk.tile_store(b, t, offset=(i * 16,))
"""
TYPES = (dk.vec3, dk.mat33, dk.mat44, matrix((3, 5), dk.float64), vector(6, dk.int16))


def moving(element, length):
    @dk.kernel(enable_backward=False)
    def move(a: dk.array(dtype=element), b: dk.array(dtype=element)):
        i = dk.tid()
        t = dk.tile_load(a, shape=(length,), offset=(i * length,), storage="shared")
        dk.tile_store(b, t, offset=(i * length,))

    return move


@pytest.mark.parametrize(("element", "length"), list(itertools.product(TYPES, (9, 16))))
def test_tiles_of_vectors_and_matrices_keep_every_element(element, length):
    blocks = 3
    n = blocks * length - 2  # the last tile has elements beyond the end
    given = np.arange(n * int(np.prod(element.shape))).astype(element.numpy).reshape(n, *element.shape)
    a, b = dk.array(given, dtype=element), dk.zeros(n + 1, dtype=element)
    dk.launch_tiled(moving(element, length), dim=(blocks,), inputs=[a, b[:n]], block_dim=1)
    np.testing.assert_array_equal(b.numpy()[:n], given)
    assert not b.numpy()[n].any()


def test_components_are_neither_gathered_nor_scattered(tmp_path, capsys):
    path = tmp_path / "moving.py"
    path.write_text(SOURCE, encoding="utf-8")
    assert main(["inspect", f"{path}:move", "--asm", "--target", "x86-64-v4"]) == 0
    text = capsys.readouterr().out
    assert "gather" not in text
    assert "scatter" not in text
    assert "ymm" in text or "zmm" in text  # eight components at a time
