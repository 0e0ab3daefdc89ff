"""Programs of tiles as users write them: their values against NumPy, their gradients against differences."""

from __future__ import annotations

import numpy as np

import diffkern as dk
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
