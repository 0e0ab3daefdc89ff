"""Queries that the threads of a block share, on a processor and as executed PTX, compared with all boxes."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np
import pytest
from support.ptx.programs import PtxProgram
from support.seeds import run_seed
from support.surfaces import sphere

import diffkern as dk
import diffkern.warp as wp
from diffkern.compiler.compilation import Compilation
from diffkern.library.bvhs import WORDS
from diffkern.library.meshes import WORDS as MESH_WORDS

A1 = dk.array(dtype=int)
V1 = dk.array(dtype=dk.vec3)


@dk.kernel
def in_boxes(tree: dk.uint64, low: V1, high: V1, n: dk.array2d(dtype=int), rounds: A1):
    i, lane = dk.tid()
    query = dk.tile_bvh_query_aabb(tree, low[i], high[i])
    count = 0
    while dk.tile_query_valid(query):
        j = dk.untile(dk.tile_bvh_query_next(query))
        count += 1
        if j >= 0:
            dk.atomic_add(n, i, j, 1)
    if lane == 0:
        rounds[i] = count


@dk.kernel
def along_rays(tree: dk.uint64, start: V1, dir: V1, n: dk.array2d(dtype=int), rounds: A1):
    i, _lane = dk.tid()
    query = dk.tile_bvh_query_ray(tree, start[i], dir[i])
    while dk.tile_query_valid(query):
        found = dk.tile_bvh_query_next(query)
        some = dk.tile_max(found)
        j = dk.untile(found)
        if j >= 0:
            dk.atomic_add(n, i, j, 1)
        if some[0] >= 0:
            rounds[i] = some[0]


@dk.func
def counted(query: dk.MeshQueryAABBTiled, i: int, n: dk.array2d(dtype=int)):
    while dk.tile_query_valid(query):
        j = dk.untile(dk.tile_mesh_query_aabb_next(query))
        if j >= 0:
            dk.atomic_add(n, i, j, 1)


@dk.kernel
def of_a_mesh(mesh: dk.uint64, low: V1, high: V1, n: dk.array2d(dtype=int), rounds: A1):
    i, _lane = dk.tid()
    counted(dk.tile_mesh_query_aabb(mesh, low[i], high[i]), i, n)


def memory_of(tree: dk.Bvh | dk.Mesh) -> list[np.ndarray]:
    """The memory that a program reads of a tree."""
    words = (ctypes.c_uint64 * (MESH_WORDS if isinstance(tree, dk.Mesh) else WORDS)).from_address(tree.id % 2**48)
    own = [np.frombuffer(words, dtype=np.uint64), *(a.numpy() for a in tree._resource.content.arrays)]
    return own + (memory_of(tree._bvh) if isinstance(tree, dk.Mesh) else [])


def run(kernel: Any, tree: dk.Bvh | dk.Mesh, given: list[np.ndarray], size: int, threads: int) -> Any:
    """Run a kernel on a processor, or as PTX by some threads; return how often each box was found, and rounds."""
    n, rounds = np.zeros((len(given[0]), max(size, 1)), np.int32), np.zeros(len(given[0]), np.int32)
    if threads == 0:
        held, out = [dk.array(a, dtype=dk.vec3) for a in given], [dk.array(a) for a in (n, rounds)]
        dk.launch_tiled(kernel, dim=[len(n)], inputs=[tree.id, *held, *out], block_dim=32)
        return tuple(a.numpy() for a in out)
    variant = dataclasses.replace(kernel.variant, target="sm_90", block_dim=threads)
    fn = Compilation(kernel.func, kernel.argument_types(), variant).forward
    PtxProgram(fn, block_dim=threads).run((len(n), threads), [tree.id, *given, n, rounds], memory=memory_of(tree))
    return n, rounds


def random_boxes(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(run_seed() + size)
    low = rng.uniform(-1, 1, (size, 3)).astype(np.float32)
    return low, low + rng.uniform(0, 0.3, (size, 3)).astype(np.float32)


def asked() -> tuple[np.ndarray, np.ndarray]:
    """Small boxes, large ones, and one outside of all."""
    low = np.random.default_rng(run_seed()).uniform(-1, 0.5, (4, 3)).astype(np.float32)
    return low + np.float32([[0], [0], [0], [9]]), low + np.float32([[0.1], [0.6], [2], [9.1]])


@pytest.mark.parametrize("threads", [0, 32, 96])
@pytest.mark.parametrize(("size", "leaf_size"), [(0, 1), (1, 1), (2, 4), (37, 1), (150, 1), (150, 7), (150, 60)])
def test_each_box_is_found_by_one_thread(size: int, leaf_size: int, threads: int) -> None:
    low, high = random_boxes(size)
    tree = dk.Bvh(dk.array(low, dtype=dk.vec3), dk.array(high, dtype=dk.vec3), leaf_size=leaf_size)
    a, b = asked()
    found, rounds = run(in_boxes, tree, [a, b], size, threads)
    expected = ((low <= b[:, None]) & (high >= a[:, None])).all(axis=2)
    np.testing.assert_array_equal(found[:, :size], expected)
    if threads and size == 150 and leaf_size == 1:  # a round has the boxes of many threads
        assert expected[2].sum() > 2 * rounds[2] > 0


@pytest.mark.parametrize("threads", [0, 32])
def test_boxes_along_a_ray(threads: int) -> None:
    low, high = random_boxes(100)
    tree = dk.Bvh(dk.array(low, dtype=dk.vec3), dk.array(high, dtype=dk.vec3))
    start = np.float32([[-2, *(low[3, 1:] + 0.01)], [0.1, 0.1, 0.1], [0, 0, 5]])
    along = np.float32([[3, 0, 0], [0.5, -0.5, 1], [0, 0, 1]])
    found, _ = run(along_rays, tree, [start, along], 100, threads)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [(c - start[:, None]) / along[:, None] for c in (low, high)]
    inside = (low <= start[:, None]) & (high >= start[:, None])
    near = np.where(along[:, None] == 0, np.where(inside, -np.inf, np.inf), np.minimum(*ends)).max(axis=2)
    far = np.where(along[:, None] == 0, np.where(inside, np.inf, -np.inf), np.maximum(*ends)).min(axis=2)
    expected = (near <= far) & (far >= 0)
    np.testing.assert_array_equal(found, expected)
    assert expected.any(axis=1).tolist() == [True, True, False]


@pytest.mark.parametrize("threads", [0, 64])
def test_faces_in_boxes(threads: int) -> None:
    points, faces = sphere(2)
    mesh = dk.Mesh(dk.array(points, dtype=dk.vec3), dk.array(faces.reshape(-1), dtype=int))
    a, b = asked()
    found, _ = run(of_a_mesh, mesh, [a, b], len(faces), threads)
    corners = points[faces]
    low, high = corners.min(axis=1), corners.max(axis=1)
    np.testing.assert_array_equal(found, ((low <= b[:, None]) & (high >= a[:, None])).all(axis=2))
    assert found.any()


@wp.kernel
def by_older_names(tree: wp.uint64, mesh: wp.uint64, n: wp.array(dtype=int)):
    a, b = wp.vec3(-9.0, -9.0, -9.0), wp.vec3(9.0, 9.0, 9.0)
    boxes = wp.bvh_query_aabb_tiled(tree, a, b)
    while wp.tile_query_valid(boxes):
        if wp.untile(wp.bvh_query_next_tiled(boxes)) >= 0:
            wp.atomic_add(n, 0, 1)
    rays = wp.bvh_query_ray_tiled(tree, a, b - a)
    while wp.tile_query_valid(rays):
        if wp.untile(wp.bvh_query_next_tiled(rays)) >= 0:
            wp.atomic_add(n, 1, 1)
    faces = wp.mesh_query_aabb_tiled(mesh, a, b)
    while wp.tile_query_valid(faces):
        if wp.untile(wp.mesh_query_aabb_next_tiled(faces)) >= 0:
            wp.atomic_add(n, 2, 1)


def test_names_that_warp_had_before() -> None:
    points, faces = sphere(1)
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces.reshape(-1), dtype=int))
    low = wp.array(np.float32([[0, 0, 0], [1, 0, 0]]), dtype=wp.vec3)
    tree, n = wp.Bvh(low, low), wp.zeros(3, dtype=int)
    wp.launch_tiled(by_older_names, dim=[1], inputs=[tree.id, mesh.id, n], block_dim=8)
    assert n.numpy().tolist() == [2, 1, len(faces)]
    assert wp.BvhQueryTiled is dk.BvhQueryTiled


@dk.kernel
def squares_of_what_is_found(tree: dk.uint64, low: V1, high: V1, x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i, _lane = dk.tid()
    query = dk.tile_bvh_query_aabb(tree, low[i], high[i])
    total = 0.0
    while dk.tile_query_valid(query):
        j = dk.untile(dk.tile_bvh_query_next(query))
        if j >= 0:
            total += x[j] * x[j]
    dk.atomic_add(y, i, total)


def test_what_is_read_at_results_is_differentiated() -> None:
    low, high = random_boxes(40)
    tree = dk.Bvh(dk.array(low, dtype=dk.vec3), dk.array(high, dtype=dk.vec3))
    a, b = asked()
    x = dk.array(np.arange(40, dtype=np.float32), requires_grad=True)
    y = dk.zeros(4, requires_grad=True)
    held = [dk.array(corner, dtype=dk.vec3) for corner in (a, b)]
    with dk.Tape() as tape:
        dk.launch_tiled(squares_of_what_is_found, dim=[4], inputs=[tree.id, *held, x], outputs=[y], block_dim=32)
    tape.backward(grads={y: np.float32([1, 2, 3, 4])})
    met = ((low <= b[:, None]) & (high >= a[:, None])).all(axis=2)
    np.testing.assert_allclose(y.numpy(), met @ x.numpy() ** 2, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * (np.float32([1, 2, 3, 4]) @ met), rtol=1e-6)
