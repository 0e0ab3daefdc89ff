"""Trees and meshes on a GPU: queries and gradients are those of the processor."""

from __future__ import annotations

import numpy as np
import pytest
from support.surfaces import sphere

import diffkern as dk

G = "cuda:0"
N = 12


@dk.kernel
def boxes(tree: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=int)):
    i = dk.tid()
    query, j = dk.bvh_query_sphere(tree, x[i], 0.4), 0
    while dk.bvh_query_next(query, j):
        out[i] += 1 + j


@dk.kernel
def surface(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    near = dk.mesh_query_point(mesh, x[i], 100.0)
    out[i] = near.sign * dk.length(dk.mesh_eval_position(mesh, near.face, near.u, near.v) - x[i])


@dk.kernel
def depth(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, x[i], -x[i], 100.0)
    if hit.result:
        out[i] = hit.t * hit.u


def places() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(N, 3)).astype(np.float32)


def test_trees_are_built_and_refit_for_a_gpu(driver):
    low = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
    counts = []
    for device in ("cpu", G):
        x, out = dk.array(places(), dtype=dk.vec3, device=device), dk.zeros(N, dtype=int, device=device)
        lowers, uppers = (dk.array(a, dtype=dk.vec3, device=device) for a in (low, low + np.float32(0.3)))
        for leaf_size in (1, 4):
            tree = dk.Bvh(lowers, uppers, leaf_size=leaf_size)
            dk.launch(boxes, N, [tree.id, x, out], device=device)
            lowers.assign(low - 0.2)
            tree.refit()
            dk.launch(boxes, N, [tree.id, x, out], device=device)
            lowers.assign(low)
        counts.append(out.numpy())
    assert counts[0].any()
    np.testing.assert_array_equal(*counts)


@pytest.mark.parametrize("kernel", [depth, pytest.param(surface, marks=pytest.mark.full)], ids=lambda k: k.name)
def test_queries_of_meshes_and_their_gradients_are_those_of_the_processor(kernel, driver):
    points, faces = sphere(1)
    found = []
    for device in ("cpu", G):
        p, x = (dk.array(a, dtype=dk.vec3, device=device, requires_grad=True) for a in (points, places()))
        out = dk.zeros(N, device=device, requires_grad=True)
        mesh = dk.Mesh(p, dk.array(faces.ravel(), dtype=int, device=device))
        with dk.Tape() as tape:
            dk.launch(kernel, N, [mesh.id, x], [out], device=device)
        tape.backward(grads={out: dk.ones(N, device=device)})
        found.append((out.numpy(), x.grad.numpy(), p.grad.numpy()))
    for one, other in zip(*found, strict=True):
        assert one.any()
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
