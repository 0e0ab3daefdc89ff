"""Programs of tiles as users write them: their values against NumPy, their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.testing import gradcheck

real = dk.float64
vectors, matrices, stacks = (dk.array(dtype=real, ndim=n) for n in (1, 2, 3))
DEPTH, QUERIES, KEYS = dk.constant(4), dk.constant(4), dk.constant(3)
MASKED = dk.constant(-1.0e30)
random = np.random.default_rng(3)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@dk.func
def shifted_exp(x: real, most: real):
    return dk.exp(x - most)


@dk.kernel
def attention(q: stacks, k: stacks, v: stacks, scale: real, out: stacks):
    """Attention without the matrix of all weights: the greatest score and the sum so far are carried along."""
    head, i = dk.tid()
    queries = dk.tile_load(q[head], shape=(QUERIES, DEPTH), offset=(i * QUERIES, 0))
    total = dk.tile_zeros(shape=(QUERIES, DEPTH), dtype=real)
    weight = dk.tile_zeros(shape=(QUERIES, 1), dtype=real)
    most = dk.tile_full(shape=(QUERIES, 1), value=MASKED, dtype=real)
    n = k.shape[1]
    for j in range((n + KEYS - 1) // KEYS):
        keys = dk.tile_load(k[head], shape=(KEYS, DEPTH), offset=(j * KEYS, 0))
        scores = dk.tile_matmul(queries, dk.tile_transpose(keys)) * scale
        for c in range(KEYS):
            if j * KEYS + c >= n:
                for r in range(QUERIES):
                    scores[r, c] = MASKED
        more = dk.tile_map(dk.max, most, dk.tile_reshape(dk.tile_max(scores, axis=1), shape=(QUERIES, 1)))
        p = dk.tile_map(shifted_exp, scores, dk.tile_broadcast(more, shape=(QUERIES, KEYS)))
        kept = dk.tile_map(shifted_exp, most, more)
        weight = weight * kept + dk.tile_reshape(dk.tile_sum(p, axis=1), shape=(QUERIES, 1))
        total = total * dk.tile_broadcast(kept, shape=(QUERIES, DEPTH))
        dk.tile_matmul(p, dk.tile_load(v[head], shape=(KEYS, DEPTH), offset=(j * KEYS, 0)), total)
        most = more
    dk.tile_store(out[head], total / dk.tile_broadcast(weight, shape=(QUERIES, DEPTH)), offset=(i * QUERIES, 0))


@dk.kernel
def log_density(a: matrices, x: vectors, out: vectors):
    """The logarithm of a normal density, up to a constant, with the covariance ``a a' + 1``."""
    half = dk.tile_load(a, shape=(DEPTH, DEPTH))
    covariance = dk.tile_matmul(half, dk.tile_transpose(half))
    for i in range(DEPTH):
        covariance[i, i] = covariance[i, i] + 1.0
    root = dk.tile_cholesky(covariance)
    z = dk.tile_lower_solve(root, dk.tile_load(x, shape=DEPTH))
    logarithm = real(0.0)
    for i in range(DEPTH):
        logarithm += dk.log(root[i, i])
    out[0] = -0.5 * dk.tile_dot(z, z)[0] - logarithm


@dk.kernel
def distortion(points: matrices, centres: matrices, loss: vectors):
    """What k-means makes small: the squared distances to the nearest centres."""
    i = dk.tid()
    point = dk.tile_load(points, shape=(1, DEPTH), offset=(i, 0))
    d = dk.tile_broadcast(point, shape=(KEYS, DEPTH)) - dk.tile_load(centres, shape=(KEYS, DEPTH))
    dk.atomic_add(loss, 0, dk.tile_min(dk.tile_sum(d * d, axis=1))[0])


def test_attention_with_a_running_maximum():
    q, k, v = (random.standard_normal((2, n, 4)) for n in (6, 7, 7))
    out = np.zeros((2, 6, 4))
    dk.launch_tiled(attention, dim=[2, 2], inputs=[q, k, v, 0.5], outputs=[out], block_dim=64)
    np.testing.assert_allclose(out, softmax(0.5 * q @ k.transpose(0, 2, 1)) @ v, rtol=1e-12)
    gradcheck(attention, dim=(2, 2), inputs=[q, k, v, 0.5], outputs=[out])


def test_density_of_a_normal_distribution():
    a, x, out = random.standard_normal((4, 4)), random.standard_normal(4), np.zeros(1)
    dk.launch_tiled(log_density, dim=1, inputs=[a, x], outputs=[out], block_dim=64)
    covariance = a @ a.T + np.eye(4)
    wanted = -0.5 * x @ np.linalg.solve(covariance, x) - 0.5 * np.log(np.linalg.det(covariance))
    np.testing.assert_allclose(out, wanted, rtol=1e-12)
    gradcheck(log_density, dim=1, inputs=[a, x], outputs=[out])


def test_distances_to_the_nearest_centre():
    points, centres, loss = random.standard_normal((9, 4)), random.standard_normal((3, 4)), np.zeros(1)
    dk.launch_tiled(distortion, dim=9, inputs=[points, centres], outputs=[loss], block_dim=64)
    squares = ((points[:, None] - centres) ** 2).sum(-1)
    np.testing.assert_allclose(loss, squares.min(axis=1).sum(), rtol=1e-12)
    gradcheck(distortion, dim=9, inputs=[points, centres], outputs=[np.zeros(1)])


@wp.kernel
def halves(a: wp.array2d[wp.float16], x: wp.array[wp.float16], out: wp.array[wp.float16]):
    i = wp.tid()
    v = wp.types.vector(length=2, dtype=wp.float16)(x[i], x[i] * wp.float16(2.0))
    z = wp.untile(wp.tile_matmul(wp.tile_load(a, shape=(2, 2)), wp.tile(v)))
    out[i] = z[0] + z[1]


def test_tiles_of_what_threads_hold_in_half_precision() -> None:
    a, x = (wp.array(np.float16(v), dtype=wp.float16, requires_grad=True) for v in ([[1, 2], [3, 4]], [1.5, 2.0]))
    out = wp.zeros(2, dtype=wp.float16, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(halves, dim=2, inputs=[a, x], outputs=[out], block_dim=1)
    assert out.numpy().tolist() == [24.0, 32.0]
    tape.backward(grads={out: wp.ones(2, dtype=wp.float16)})
    assert x.grad.numpy().tolist() == [16.0, 16.0]


@dk.kernel
def with_a_row(table: matrices, row: dk.array(dtype=dk.float32), column: vectors, out: matrices):
    t = dk.tile_load(table, shape=(4, 5))
    t[1:3] = dk.tile_load(row, shape=5)
    t[:, 3:] = dk.tile_reshape(dk.tile_load(column, shape=4), shape=(4, 1))
    dk.tile_store(out, t * t)


@dk.kernel
def every_third(x: matrices, out: matrices):
    part = dk.tile_load(x[::2], shape=(4, 13))[:, ::3]
    for k in range(5):
        dk.tile_store(out[::2, 3 * k], part[:, k] * part[:, k])


def test_a_part_takes_a_tile_that_extends_to_it() -> None:
    table, row, column = random.standard_normal((4, 5)), np.float32([1.5, 2, 3, 4, 5]), random.standard_normal(4)
    out = np.zeros((4, 5))
    dk.launch_tiled(with_a_row, dim=1, inputs=[table, row, column], outputs=[out], block_dim=32)
    wanted = table.copy()
    wanted[1:3], wanted[:, 3:] = row, column[:, None]
    np.testing.assert_allclose(out, wanted**2, rtol=1e-12)
    gradcheck(with_a_row, dim=1, inputs=[table, row, column], outputs=[np.zeros((4, 5))])


@dk.kernel
def of_two_steps(x: matrices, out: matrices, sums: matrices):
    t = dk.tile_load(x[1:6:2, 1:9:3], shape=(4, 7), offset=(0, 1))
    dk.tile_store(out[::2, ::3], t * t)
    dk.tile_atomic_add(sums[::-2, 2::3], t * t, offset=(1, 0))


@dk.kernel
def of_too_many_rows(x: matrices, out: matrices):
    dk.tile_store(out, dk.tile_load(x[::2, ::2], shape=(65, 65)))


def test_two_axes_with_steps() -> None:
    x, out, sums = random.standard_normal((8, 16)), np.zeros((8, 16)), np.zeros((8, 16))
    dk.launch_tiled(of_two_steps, dim=1, inputs=[x], outputs=[out, sums], block_dim=32)
    part, wanted = x[1:6:2, 1:9:3][:, 1:], np.zeros((4, 7))
    wanted[: part.shape[0], : part.shape[1]] = part**2
    np.testing.assert_allclose(out[::2, ::3], wanted[:, :6], rtol=1e-12)
    np.testing.assert_allclose(sums[::-2, 2::3][1:], wanted[:3, :5], rtol=1e-12)
    assert np.count_nonzero(out) == np.count_nonzero(wanted[:, :6])
    gradcheck(of_two_steps, dim=1, inputs=[x], outputs=[np.zeros((8, 16))] * 2)
    with pytest.raises(dk.KernelTypeError, match="more than 64 rows"):
        dk.launch_tiled(of_too_many_rows, dim=1, inputs=[x], outputs=[out], block_dim=32)


def test_two_axes_with_steps_as_the_remedy_says() -> None:
    x, out = random.standard_normal((8, 16)), np.zeros((8, 16))
    dk.launch_tiled(every_third, dim=1, inputs=[x], outputs=[out], block_dim=32)
    wanted = np.zeros((8, 16))
    wanted[::2, :13:3] = x[::2, :13:3] ** 2
    np.testing.assert_allclose(out, wanted, rtol=1e-12)
    gradcheck(every_third, dim=1, inputs=[x], outputs=[np.zeros((8, 16))])
