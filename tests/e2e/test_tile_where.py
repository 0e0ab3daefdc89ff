"""Choices between tiles, element by element: values, types, and what is refused."""

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelTypeError

N = dk.constant(6)
X = np.array([0.0, -0.0, 2.5, np.nan, np.inf, -1.0], "f")
f1, h1, v1, b1 = (dk.array(dtype=t) for t in (float, dk.float16, dk.vec2, bool))


@dk.kernel(enable_backward=False)
def choices(x: f1, half: h1, given: b1, y: f1, z: h1, v: v1, m: b1):
    t, h, g = dk.tile_load(x, shape=N), dk.tile_load(half, shape=N), dk.tile_load(given, shape=N)
    inside = (t > -2.0) & ~(t == 0.0)
    inside |= t != t
    dk.tile_store(m, inside ^ g)
    dk.tile_store(y, dk.where(cond=inside, value_if_false=dk.select(g, 1.0, 2.0), value_if_true=t))
    dk.tile_store(z, dk.tile_map(dk.where, g, h, -h))
    w = dk.tile_full(shape=N, value=dk.vec2(3.0, 4.0), dtype=dk.vec2)
    dk.tile_store(v, dk.where(dk.tile_arange(6) % 2, dk.vec2(1.0, 2.0), w))


def test_values():
    half, given = np.arange(6).astype(np.float16), np.array([1, 0, 0, 1, 1, 0], bool)
    y, z, v, m = (dk.zeros(6, dtype=t) for t in (float, dk.float16, dk.vec2, bool))
    dk.launch_tiled(choices, dim=1, inputs=[X, half, given], outputs=[y, z, v, m], block_dim=32)
    inside = ((X > -2.0) & (X != 0.0)) | np.isnan(X)
    np.testing.assert_array_equal(m.numpy(), inside ^ given)
    np.testing.assert_array_equal(y.numpy(), np.where(inside, X, np.where(given, 2.0, 1.0)))
    np.testing.assert_array_equal(z.numpy(), np.where(given, half, -half))
    odd = np.arange(6)[:, None] % 2 == 1
    np.testing.assert_array_equal(v.numpy(), np.where(odd, (1.0, 2.0), (3.0, 4.0)))


@dk.kernel
def a_branch(x: f1, y: f1):
    t = dk.tile_load(x, shape=N)
    if t > 0.0:
        dk.tile_store(y, t)


@dk.kernel
def a_conjunction(x: f1, y: f1):
    t = dk.tile_load(x, shape=N)
    dk.tile_store(y, dk.where(t > 0.0 and t < 1.0, t, 0.0))


@dk.kernel
def two_shapes(x: f1, y: f1):
    t = dk.tile_load(x, shape=N)
    dk.tile_store(y, dk.where(t > 0.0, t, t[:3]))


@dk.kernel
def two_types(x: f1, y: f1):
    t = dk.tile_load(x, shape=N)
    dk.tile_store(y, dk.where(t > 0.0, t, dk.tile_arange(6)))


@dk.kernel
def a_number_beside_a_tile(x: f1, y: f1):
    i = dk.tid()
    dk.tile_store(y, dk.where(i > 0, dk.tile_load(x, shape=N), 0.0))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (a_branch, "used as a condition.*dk.where.tile, a, b. chooses"),
        (a_conjunction, "used as a condition.*& | ~ combine"),
        (two_shapes, "two shapes"),
        (two_types, "float32 on one side and int32 on the other"),
        (a_number_beside_a_tile, "on the other.*dk.tile_full"),
    ],
)
def test_what_is_refused(kernel, message):
    with pytest.raises(KernelTypeError, match=f"(?s){message}"):
        dk.launch_tiled(kernel, dim=1, inputs=[X, np.zeros_like(X)], block_dim=32)
