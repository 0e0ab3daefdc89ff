"""Every query of trees and meshes as a GPU runs it: executed PTX, forward and adjoint, beside the processor."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from support.surfaces import sphere

import diffkern as dk

require("cuda.bindings.nvjitlink", "nvidia")

G, N = "cuda:0", 10
Vectors, Rows = dk.array(dtype=dk.vec3), dk.array2d(dtype=float)


@dk.func
def put(mesh: dk.uint64, x: Vectors, found: dk.MeshQueryPoint, out: Rows):
    i = dk.tid()
    if found.result:
        p = dk.mesh_eval_position(mesh, found.face, found.u, found.v)
        v = dk.mesh_eval_velocity(mesh, found.face, found.u, found.v)
        n = dk.mesh_eval_face_normal(mesh, found.face)
        out[i, 0], out[i, 1], out[i, 2] = dk.length(p - x[i]), found.sign, dk.dot(v, n)
        out[i, 3], out[i, 4] = found.u * found.u, found.v


def point(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_point(mesh, x[dk.tid()], 100.0), out)


def point_no_sign(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_point_no_sign(mesh, x[dk.tid()], 100.0), out)


def point_sign_normal(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_point_sign_normal(mesh, x[dk.tid()], 100.0), out)


def point_sign_parity(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_point_sign_parity(mesh, x[dk.tid()], 100.0, 3, 0.3), out)


def point_sign_winding_number(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_point_sign_winding_number(mesh, x[dk.tid()], 100.0), out)


def furthest_point(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    put(mesh, x, dk.mesh_query_furthest_point_no_sign(mesh, x[dk.tid()], 0.0), out)


def ray(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, x[i], d[i], 100.0)
    if hit.result:
        out[i, 0], out[i, 1], out[i, 2] = hit.t, hit.sign, dk.dot(hit.normal, d[i])
        out[i, 3], out[i, 4] = hit.u * hit.v, float(hit.face)


def ray_anyhit_and_count(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i = dk.tid()
    if dk.mesh_query_ray_anyhit(mesh, x[i], d[i], 1.5):
        out[i, 0] = x[i][0] * x[i][1]
    out[i, 1] = float(dk.mesh_query_ray_count_intersections(mesh, x[i], d[i])) * d[i][2]


def faces_in_box_and_sphere(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i, face = dk.tid(), 0
    half = dk.vec3(0.4, 0.3, 0.5)
    for j in dk.mesh_query_aabb(mesh, x[i] - half, x[i] + half):
        out[i, 0] += dk.dot(dk.mesh_eval_position(mesh, j, 0.3, 0.3), d[i])
    inside = dk.mesh_query_sphere(mesh, x[i], 0.5)
    while dk.mesh_query_next(inside, face):
        out[i, 1] += float(face) * x[i][0]


def boxes_in_box_and_sphere(tree: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i, j, k = dk.tid(), 0, 0
    half = dk.vec3(0.4, 0.3, 0.5)
    query = dk.bvh_query_aabb(tree, x[i] - half, x[i] + half)
    while dk.bvh_query_next(query, j):
        out[i, 0] += float(j) * x[i][1]
    near = dk.bvh_query_sphere(tree, x[i], 0.5)
    while dk.bvh_query_next(near, k):
        out[i, 1] += float(k) * d[i][1]


def boxes_along_ray_and_capsule(tree: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i, j, k = dk.tid(), 0, 0
    root = dk.bvh_get_group_root(tree, i % 2)
    query = dk.bvh_query_ray(tree, x[i], d[i], root)
    while dk.bvh_query_next(query, j):
        out[i, 0] += float(j) * x[i][1]
    wide = dk.bvh_query_capsule(tree, x[i], d[i], 0.2)
    while dk.bvh_query_next(wide, k, 1.0):
        out[i, 1] += float(k) * d[i][1]


def parts_of_a_mesh(mesh: dk.uint64, x: Vectors, d: Vectors, out: Rows):
    i, m = dk.tid(), dk.mesh_get(mesh)
    out[i, 0] = dk.dot(m.points[m.indices[3 * i]], x[i]) + dk.dot(m.velocities[i], d[i])
    out[i, 1] = dk.dot(dk.mesh_get_point(mesh, i), d[i]) * float(dk.mesh_get_index(mesh, i))
    out[i, 2] = dk.dot(dk.mesh_get_velocity(mesh, i), x[i])


def results(kernel: dk.Kernel, device: str, of_tree: bool) -> list[np.ndarray]:
    """What a launch writes, and its gradients by points, directions, vertices and velocities."""
    rng, (points, faces) = np.random.default_rng(3), sphere(1)
    arrays = rng.normal(size=(N, 3)), rng.normal(size=(N, 3)), points, rng.normal(size=points.shape)
    x, d, p, v = (dk.array(np.float32(k), dtype=dk.vec3, device=device, requires_grad=True) for k in arrays)
    out = dk.zeros((N, 5), device=device, requires_grad=True)
    if of_tree:
        low, groups = np.float32(rng.normal(size=(30, 3))), np.int32(np.arange(30) % 2)
        boxes = (dk.array(k, dtype=dk.vec3, device=device) for k in (low, low + np.float32(0.4)))
        found = dk.Bvh(*boxes, groups=dk.array(groups, device=device))
    else:
        corners = dk.array(faces.ravel(), dtype=int, device=device)
        found = dk.Mesh(p, corners, velocities=v, support_winding_number=True)
    with dk.Tape() as tape:
        dk.launch(kernel, N, [found.id, x, d], [out], device=device)
    tape.backward(grads={out: dk.array(rng.normal(size=(N, 5)).astype(np.float32), device=device)})
    return [out.numpy(), *(k.grad.numpy() for k in (x, d, p, v))]


CASES = [
    point,
    point_no_sign,
    point_sign_normal,
    point_sign_parity,
    point_sign_winding_number,
    furthest_point,
    ray,
    ray_anyhit_and_count,
    faces_in_box_and_sphere,
    boxes_in_box_and_sphere,
    boxes_along_ray_and_capsule,
    parts_of_a_mesh,
]


@pytest.mark.full
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_query_and_its_adjoint_are_those_of_the_processor(function):
    kernel, of_tree = dk.kernel(function), function.__name__.startswith("boxes")
    expected = results(kernel, "cpu", of_tree)
    assert expected[0].any()
    with fake_cuda(run="ptx"):
        for found, wanted in zip(results(kernel, G, of_tree), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
