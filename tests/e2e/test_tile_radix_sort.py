"""Sorts of tiles by counting, by merging and by digits: order, stability, NaN, zeros of both signs, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

FEW = [(dk.float32, 300), (dk.float64, 513), (dk.int64, 512), (dk.uint8, 70), (dk.float16, 257), (dk.float32, 4100)]
ALL = [
    dk.float16,
    dk.float32,
    dk.float64,
    dk.int8,
    dk.int16,
    dk.int32,
    dk.int64,
    dk.uint8,
    dk.uint16,
    dk.uint32,
    dk.uint64,
]
SIZES = [1, 3, 7, 8, 16, 33, 64, 128, 255, 256, 511, 512, 1000, 5000]


def numpy_type(dtype):
    return np.dtype(dtype.__name__ if hasattr(dtype, "__name__") else str(dtype))


def sorting(size):
    @dk.kernel
    def kernel(x, y, origin):
        i = dk.tid()
        keys = dk.tile_load(x[i], shape=size)
        places = dk.tile_arange(size, dtype=dk.int32)
        dk.tile_sort(keys, places)
        dk.tile_store(y[i], keys)
        dk.tile_store(origin[i], places)

    return kernel


def tables(dtype, size):
    """Rows of keys: random, of few values, equal, in order, backwards, extreme."""
    rng, held = np.random.default_rng(size), numpy_type(dtype)
    few = rng.integers(0, 4, size).astype(held)
    if held.kind != "f":
        info = np.iinfo(held)
        whole = rng.integers(info.min, info.max, size, dtype=held, endpoint=True)
        special = rng.choice(np.array([info.min, info.max, 0, 1, info.max - 1], held), size)
    else:
        whole = rng.normal(size=size).astype(held)
        tiny = np.finfo(held).smallest_subnormal
        special = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, 1.0], held), size)
    return np.stack([whole, few, np.ones(size, held), np.sort(whole), np.sort(whole)[::-1], special])


def check(dtype, size):
    x = tables(dtype, size)
    y, origin = dk.zeros(x.shape, dtype=dtype), dk.zeros(x.shape, dtype=dk.int32)
    dk.launch_tiled(sorting(size), dim=[len(x)], inputs=[dk.array(x, dtype=dtype)], outputs=[y, origin], block_dim=32)
    expected = np.argsort(x, axis=-1, kind="stable")
    np.testing.assert_array_equal(origin.numpy(), expected)
    # The same bits, as a key is moved and not computed.
    bits = f"u{x.itemsize}"
    np.testing.assert_array_equal(y.numpy().view(bits), np.take_along_axis(x, expected, -1).view(bits))


@pytest.mark.parametrize(("dtype", "size"), FEW)
def test_keys_are_sorted_and_equal_ones_keep_their_order(dtype, size):
    check(dtype, size)


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ALL)
def test_every_type_and_size(dtype, size):
    check(dtype, size)


@dk.kernel
def weighted(
    x: dk.array(dtype=dk.float64),
    v: dk.array(dtype=dk.float64),
    w: dk.array(dtype=dk.float64),
    y: dk.array(dtype=dk.float64),
):
    keys = dk.tile_load(x, shape=600)
    values = dk.tile_load(v, shape=600)
    dk.tile_sort(keys, values)
    t = dk.tile_load(w, shape=600)
    dk.tile_store(y, dk.tile_sum(keys * keys * t + values * t))


def test_cotangents_go_back_to_where_keys_and_values_came_from():
    rng = np.random.default_rng(5)
    x, v, w = rng.permutation(600) / 100.0, rng.normal(size=600), rng.normal(size=600)
    ours = [dk.array(a, requires_grad=True) for a in (x, v, w)]
    y = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(weighted, dim=[1], inputs=ours, outputs=[y], block_dim=32)
    tape.backward(y)
    order = np.argsort(x)
    rank = np.argsort(order)
    np.testing.assert_allclose(ours[0].grad.numpy(), 2.0 * x * w[rank], rtol=1e-12)
    np.testing.assert_allclose(ours[1].grad.numpy(), w[rank], rtol=1e-12)
    np.testing.assert_allclose(ours[2].grad.numpy(), x[order] ** 2 + v[order], rtol=1e-12)
