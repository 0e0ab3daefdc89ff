"""Kernels that make tiles of what the threads of a block hold."""

from __future__ import annotations

import diffkern as dk

f1 = dk.array(dtype=float)


@dk.kernel
def softmax(x: f1, scale: f1, y: f1):
    """Of the numbers of a block, each times the same number; one for every second thread."""
    i = dk.tid()
    v = x[i] * scale[0]
    e = dk.tile_map(dk.exp, dk.tile(v) * scale[1])
    own = dk.untile(e)
    total = dk.tile_sum(e)[0]
    if i % 2 == 0:
        y[i] = own / total


@dk.kernel
def ordered(x: f1, y: f1, count: dk.array(dtype=int)):
    """Every thread writes for itself; sorts go over the block."""
    i = dk.tid()
    keys = dk.tile(x[i])
    places = dk.tile(float(i))
    dk.tile_sort(keys, places)
    y[i] = dk.untile(places) + 100.0 * float(dk.block_dim())
    dk.atomic_add(count, 0, 1)


@dk.kernel
def reversed_by_stack(x: f1, kept: f1, y: f1):
    """The items of a block that are kept, from the last one to the first, behind them zeros."""
    i = dk.tid()
    s = dk.tile_stack(4, float)
    dk.tile_stack_push(s, x[i], kept[i] > 0.0)
    item, place = dk.tile_stack_pop(s)
    if place >= 0:
        y[i] = item
