"""Reads of a thread's array come before its elements are replaced, and no array is copied for them."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D2, after, assert_same, lowered, names

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.passes import WRITTEN_TO_PRIMAL
from diffkern.contracts.options import Variant
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import walk
from diffkern.ir.passes import run
from diffkern.lower.tiles.serial import lower_tiles, read_first
from diffkern.opt.dce import eliminate


def filled(x: dk.array2d[float], y: dk.array[float]):
    i = dk.tid()
    a = dk.zeros(20, dtype=float)
    for k in range(20):
        a[k] = x[i, k] * x[i, k]
    s = 0.0
    for k in range(20):
        for j in range(k):
            s += a[j] * a[k] * x[i, j]
    y[i] = s


def copies(fn):
    """The loops that do nothing but copy elements from one buffer to another."""
    found = 0
    for op in walk(fn.body):
        if op.name == "for":
            inside = [inner.name for inner in walk(op.regions[0])]
            found += inside == ["buffer_get", "buffer_set"]
    return found


@pytest.mark.parametrize("active", [None, frozenset({0, 1})])
def test_no_array_of_a_thread_is_copied(active):
    made = dk.kernel(filled)
    fn = Compilation(filled, made.argument_types(), Variant(active=active)).fn
    assert copies(lower_tiles(clone_function(fn))) == 0


def exchanged(x, y):
    i = dk.tid()
    a = dk.zeros(4, dtype=dk.float64)
    for k in range(4):
        a[k] = x[i, k]
    first = a[0]
    a[0] = a[3]
    k = 3
    if y[i, 0] > 0.0:
        k = 2
    a[k] = first
    y[i, 0] = a[0] + 10.0 * a[k]
    y[i, 1] = a[3] * a[1]


def test_the_meaning_stays():
    fn = run(WRITTEN_TO_PRIMAL, lowered(exchanged, D2, D2))
    x = np.arange(12.0).reshape(3, 4)
    assert_same(fn, after(fn, read_first), (3,), [x, np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 0.0]])])
    assert "tile_replace" in names(after(fn, eliminate))
