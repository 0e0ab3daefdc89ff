"""Hash grids on a GPU: built there, in streams and graphs, and kept by tapes."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

G = "cuda:0"


@dk.kernel
def density(grid: dk.uint64, x: dk.array(dtype=dk.vec3), rho: dk.array(dtype=float)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], 1.0):
        q = 1.0 - dk.length_sq(x[i] - x[j])
        if q > 0.0:
            rho[i] += q * q


def expected(points: np.ndarray) -> np.ndarray:
    square = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    return (np.maximum(1.0 - square, 0.0) ** 2).sum(axis=1)


def points(seed: int, n: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


def test_built_and_asked_where_it_lies(driver):
    x, rho = dk.array(points(1), dtype=dk.vec3, device=G), dk.zeros(20, device=G)
    grid = dk.HashGrid(4, 5, 3, device=G)
    stream = dk.Stream(G)
    with dk.ScopedStream(stream):
        grid.build(x, 1.0)
        dk.launch(density, 20, [grid.id, x, rho])
    stream.synchronize()
    np.testing.assert_allclose(rho.numpy(), expected(points(1)), rtol=1e-5)
    with pytest.raises(dk.LaunchError, match="the points must live on the same device as the HashGrid"):
        grid.build(dk.zeros(3, dtype=dk.vec3, device="cpu"), 1.0)
    with pytest.raises(
        dk.LaunchError, match="'density' runs on cpu, and an object whose id it is given lies on cuda:0"
    ):
        dk.launch(density, 20, [grid.id, dk.zeros(20, dtype=dk.vec3, device="cpu"), dk.zeros(20, device="cpu")])
    captured = grid.id

    @dk.kernel
    def first(out: dk.array(dtype=int)):
        out[0] = dk.hash_grid_point_id(dk.uint64(captured), 0)

    with pytest.raises(dk.LaunchError, match="'first' runs on cpu, and an object whose id it captures lies on cuda:0"):
        dk.launch(first, 1, [dk.zeros(1, dtype=int, device="cpu")])


def test_a_graph_follows_the_points(driver):
    x, rho = dk.array(points(1), dtype=dk.vec3, device=G), dk.zeros(20, device=G)
    grid = dk.HashGrid(4, 5, 3, device=G)
    grid.build(x, 1.0)
    with dk.ScopedCapture(G) as capture:
        rho.zero_()
        grid.build(x, 1.0)
        dk.launch(density, 20, [grid.id, x, rho])
    for seed in (2, 3):
        x.assign(points(seed))
        dk.capture_launch(capture.graph)
        np.testing.assert_allclose(rho.numpy(), expected(points(seed)), rtol=1e-5)
        grid.build(dk.zeros(50, dtype=dk.vec3, device=G), 1.0)


def test_a_tape_has_the_grid_of_its_time(driver):
    gradients = []
    for device, again in (("cpu", False), (G, False), (G, True)):
        x = dk.array(points(4), dtype=dk.vec3, device=device, requires_grad=True)
        rho = dk.zeros(20, device=device, requires_grad=True)
        grid = dk.HashGrid(4, 5, 3, device=device)
        grid.build(x, 1.0)
        with dk.Tape() as tape:
            dk.launch(density, 20, [grid.id, x, rho])
        if again:
            grid.build(dk.zeros(3, dtype=dk.vec3, device=device), 1.0)
        tape.backward(grads={rho: np.arange(20, dtype=np.float32)})
        gradients.append(x.grad.numpy().copy())
    for gradient in gradients[1:]:
        np.testing.assert_allclose(gradient, gradients[0], rtol=1e-5, atol=1e-5)
