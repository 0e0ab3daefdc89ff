"""Triangle meshes: what queries find, beside a search through all faces by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.surfaces import closest, hits, sphere

import diffkern as dk

N = 60
FAR = 1.0e6


@dk.kernel
def nearest(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), far: float, out: dk.array2d(dtype=float)):
    i = dk.tid()
    found = dk.mesh_query_point(mesh, x[i], far)
    if found.result:
        out[i, 0] = dk.length(dk.mesh_eval_position(mesh, found.face, found.u, found.v) - x[i])
        out[i, 1] = found.sign
    out[i, 2] = float(found.result)


@dk.kernel
def signs(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array2d(dtype=float)):
    i = dk.tid()
    out[i, 0] = dk.mesh_query_point_sign_normal(mesh, x[i], 1.0e6).sign
    out[i, 1] = dk.mesh_query_point_sign_parity(mesh, x[i], 1.0e6, 3).sign
    out[i, 2] = dk.mesh_query_point_sign_winding_number(mesh, x[i], 1.0e6).sign
    out[i, 3] = dk.mesh_query_point_no_sign(mesh, x[i], 1.0e6).sign


@dk.kernel
def furthest(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    found = dk.mesh_query_furthest_point_no_sign(mesh, x[i], 1.5)
    if found.result:
        out[i] = dk.length(dk.mesh_eval_position(mesh, found.face, found.u, found.v) - x[i])


@dk.kernel
def first(
    mesh: dk.uint64, x: dk.array(dtype=dk.vec3), d: dk.array(dtype=dk.vec3), far: float, group: int,
    out: dk.array2d(dtype=float),
):  # fmt: skip
    i = dk.tid()
    root = dk.mesh_get_group_root(mesh, group)
    hit = dk.mesh_query_ray(mesh, x[i], d[i], far, root)
    if hit.result:
        out[i, 0] = hit.t
        out[i, 1] = hit.sign
        out[i, 2] = dk.length(dk.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - (x[i] + hit.t * d[i]))
        out[i, 3] = dk.length(dk.mesh_eval_face_normal(mesh, hit.face) - hit.normal)
        out[i, 4] = dk.dot(hit.normal, d[i])
    out[i, 5] = float(dk.mesh_query_ray_anyhit(mesh, x[i], d[i], far, root))
    out[i, 6] = float(dk.mesh_query_ray_count_intersections(mesh, x[i], d[i], root))
    t, u, v, sign, normal, face = 0.0, 0.0, 0.0, 0.0, dk.vec3(0.0, 0.0, 0.0), 0
    if dk.mesh_query_ray(mesh, x[i], d[i], far, t, u, v, sign, normal, face, root):
        out[i, 7] = t


@dk.kernel
def listed(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), radius: float, out: dk.array3d(dtype=int)):
    i = dk.tid()
    r = dk.vec3(radius, radius, radius)
    query, face = dk.mesh_query_aabb(mesh, x[i] - r, x[i] + r), 0
    while dk.mesh_query_next(query, face):
        out[0, i, face] += 1
    query = dk.mesh_query_aabb(mesh, x[i] - r, x[i] + r)
    while dk.mesh_query_aabb_next(query, face):
        out[0, i, face] += 100
    for k in dk.bvh_query_aabb(dk.mesh_get_bvh(mesh), x[i] - r, x[i] + r):
        out[0, i, k] += 10
    for k in dk.mesh_query_sphere(mesh, x[i], radius):
        out[1, i, k] += 1


@dk.kernel
def contents(mesh: dk.uint64, out: dk.array(dtype=dk.vec3), n: dk.array(dtype=int)):
    held = dk.mesh_get(mesh)
    n[0], n[1], n[2] = held.points.shape[0], held.indices.shape[0], held.velocities.shape[0]
    for k in range(held.points.shape[0]):
        out[0] += held.points[k]
    n[3] = dk.mesh_get_index(mesh, 4) - held.indices[4]
    out[1] = dk.mesh_get_point(mesh, 4) - held.points[held.indices[4]]
    out[2] = dk.mesh_get_velocity(mesh, 4)
    out[3] = dk.mesh_eval_velocity(mesh, 1, 0.25, 0.25)


def vectors(a: np.ndarray, **options: Any) -> dk.array:
    return dk.array(a, dtype=dk.vec3, **options)


def made(points: np.ndarray, faces: np.ndarray, **options: Any) -> dk.Mesh:
    return dk.Mesh(vectors(points), dk.array(faces.ravel(), dtype=int), **options)


def places(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.3, 1.3, (N, 3)).astype(np.float32), rng.normal(size=(N, 3)).astype(np.float32)


def asked(kernel: Any, shape: tuple[int, ...], mesh: dk.Mesh, *given: Any, dtype: Any = float) -> np.ndarray:
    out = dk.zeros(shape, dtype=dtype)
    dk.launch(kernel, N, [mesh.id, *given, out])
    return out.numpy()


def is_inside(points: np.ndarray, faces: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (np.isfinite(hits(points, faces, x, np.full((N, 3), [0.3, 0.5, 0.8]))).sum(axis=1) % 2) == 1


def check_places(mesh: dk.Mesh, points: np.ndarray, faces: np.ndarray, x: np.ndarray) -> None:
    distance = closest(points, faces, x).min(axis=1)
    out = asked(nearest, (N, 3), mesh, vectors(x), FAR)
    np.testing.assert_allclose(out[:, 0], distance, atol=2e-6)
    assert (out[:, 1] == np.where(is_inside(points, faces, x), -1.0, 1.0)).all()
    near = asked(nearest, (N, 3), mesh, vectors(x), 0.2)
    assert (near[:, 2] == (distance < 0.2)).all()
    most = np.linalg.norm(points[None] - x[:, None], axis=-1).max(axis=1)
    far = asked(furthest, (N,), mesh, vectors(x))
    np.testing.assert_allclose(far, np.where(most > 1.5, most, 0.0), atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("supported", [False, True])
def test_all_ways_to_find_the_inside_agree(supported):
    points, faces = sphere(2)
    x, _ = places()
    out = asked(signs, (N, 4), made(points, faces, support_winding_number=supported), vectors(x))
    for column in range(3):
        assert (out[:, column] == np.where(is_inside(points, faces, x), -1.0, 1.0)).all(), column
    assert not out[:, 3].any()


@dk.kernel
def behind(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), epsilon: float, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = dk.mesh_query_point_sign_normal(mesh, x[i], 1.0e6, epsilon).sign


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_a_narrow_epsilon_leaves_the_face_that_was_found(shift):
    # The place is rounded, by more than so small an epsilon says.
    points, faces = sphere(2)
    points = points + np.float32(shift)
    a, b, c = (points[faces[:N, k]] for k in range(3))
    normals, side = np.cross(b - a, c - a), np.where(np.arange(N) % 2, -1.0, 1.0)
    x = 0.5 * a + 0.3 * b + 0.2 * c
    x = (x + 0.02 * side[:, None] * normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)
    mesh, right = made(points, faces), np.where(is_inside(points, faces, x), -1.0, 1.0)
    for epsilon in (0.0, 1e-7, 1e-3):
        assert (asked(behind, (N,), mesh, vectors(x), epsilon) == right).all(), epsilon


@pytest.mark.parametrize("options", [{}, {"support_winding_number": True, "bvh_leaf_size": 1}])
def test_the_nearest_and_the_furthest_place(options):
    points, faces = sphere(2)
    x, _ = places()
    mesh = made(points, faces, **options)
    check_places(mesh, points, faces, x)
    moved = (points * [1.1, 0.7, 0.9]).astype(np.float32)
    mesh.points.assign(moved)
    mesh.refit()
    check_places(mesh, moved, faces, x)
    mesh.points = vectors(points)
    check_places(mesh, points, faces, x)


def test_rays_hit_the_first_face_of_a_group():
    points, faces = sphere(2)
    x, d = places()
    groups = np.random.default_rng(2).integers(0, 3, len(faces)).astype(np.int32)
    mesh = made(points, faces, groups=dk.array(groups))
    for group in (-1, 1):
        t = hits(points, faces[groups == group] if group >= 0 else faces, x, d)
        for far in (FAR, 0.8):
            out = asked(first, (N, 8), mesh, vectors(x), vectors(d), far, group)
            at = t.min(axis=1)
            expected = np.where(at < far, at, 0.0)
            np.testing.assert_allclose(out[:, 0], expected, atol=1e-5)
            np.testing.assert_allclose(out[:, 7], expected, atol=1e-5)
            assert (out[:, 5] == (at < far)).all()
            assert (out[:, 6] == np.isfinite(t).sum(axis=1)).all()
            np.testing.assert_allclose(out[:, 2:4], 0.0, atol=1e-5)
            assert (out[:, 1] == -np.sign(out[:, 4])).all()


def test_faces_in_boxes_and_spheres():
    points, faces = sphere(2)
    x, _ = places()
    out = asked(listed, (2, N, len(faces)), made(points, faces), vectors(x), 0.3, dtype=int)
    low, high = points[faces].min(axis=1), points[faces].max(axis=1)
    r = np.float32(0.3)
    boxes = ((low[None] <= x[:, None] + r) & (high[None] >= x[:, None] - r)).all(axis=-1)
    assert (out[0] == 111 * boxes).all()
    assert (out[1] == (closest(points, faces, x) <= 0.3)).all()


def test_kernels_read_what_a_mesh_holds():
    points, faces = sphere(1)
    velocities = np.random.default_rng(3).normal(size=points.shape).astype(np.float32)
    for given in (velocities, None):
        mesh = made(points, faces, velocities=None if given is None else vectors(given))
        out, n = dk.zeros(4, dtype=dk.vec3), dk.zeros(4, dtype=int)
        dk.launch(contents, 1, [mesh.id, out, n])
        v = np.zeros_like(points) if given is None else given
        assert n.numpy().tolist() == [len(points), faces.size, 0 if given is None else len(points), 0]
        one, two, three = v[faces[1]]
        expected = [points.sum(axis=0), np.zeros(3), v[faces.ravel()[4]], one / 4 + two / 4 + three / 2]
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)
        if given is not None:
            mesh.velocities = vectors(2 * given)
            dk.launch(contents, 1, [mesh.id, out, n])
            np.testing.assert_allclose(out.numpy()[2], 2 * expected[2], rtol=1e-6)


def test_meshes_without_faces_and_what_is_no_mesh_find_nothing():
    x, d = places()
    empty = dk.Mesh(dk.zeros(3, dtype=dk.vec3), dk.zeros(0, dtype=int), support_winding_number=True)
    empty.refit()
    gone = dk.Mesh(vectors(sphere(0)[0]), dk.array(sphere(0)[1].ravel()))
    wrong = gone.id ^ (1 << 48)
    with pytest.raises(dk.LaunchError, match=r"'nearest' is given the id .* no object with it"):
        dk.launch(nearest, N, [wrong, vectors(x), FAR, dk.zeros((N, 3))])
    for mesh in (empty.id, 0):
        for kernel, given, width in ((nearest, [FAR], 3), (first, [vectors(d), FAR, -1], 8)):
            out = dk.zeros((N, width))
            dk.launch(kernel, N, [mesh, vectors(x), *given, out])
            assert not out.numpy().any()
        out = dk.zeros((2, N, 1), dtype=int)
        dk.launch(listed, N, [mesh, vectors(x), 1.0, out])
        assert not out.numpy().any()


def test_faces_without_area_and_vertices_that_are_no_numbers():
    points, faces = sphere(1)
    x, d = places()
    flat = np.concatenate([points, [[0.5, 0, 0], [0.6, 0, 0], [0.7, 0, 0], [np.nan] * 3]]).astype(np.float32)
    n = len(points)
    extra = np.int32([[n, n, n], [n, n + 1, n + 2], [n, n + 1, n + 3]])
    mesh = made(flat, np.concatenate([faces, extra]))
    near = [asked(nearest, (N, 3), m, vectors(x), FAR) for m in (mesh, made(points, faces))]
    np.testing.assert_array_equal(near[0], near[1])
    rays = [asked(first, (N, 8), m, vectors(x), vectors(d), FAR, -1) for m in (mesh, made(points, faces))]
    np.testing.assert_array_equal(rays[0], rays[1])
    out = asked(
        listed, (2, N, len(faces) + 3), mesh, vectors(np.tile(np.float32([0.65, 0, 0]), (N, 1))), 0.08, dtype=int
    )
    assert out[1, :, len(faces) :].tolist() == [[0, 1, 0]] * N


def test_rays_through_edges_and_vertices_miss_nothing():
    points, faces = sphere(1)
    middles = ((points[faces] + points[faces[:, [1, 2, 0]]]) / 2).reshape(-1, 3)
    ends = np.concatenate([points, middles])[:N].astype(np.float32)
    mesh, start = made(points, faces), np.zeros((N, 3), np.float32)
    out = asked(first, (N, 8), mesh, vectors(start), vectors(ends), FAR, -1)
    np.testing.assert_allclose(out[:, 0], 1.0, rtol=1e-5)


def test_rays_along_the_border_of_a_flat_mesh():
    """A square in the plane z = 0: the box around it is flat, and rays from its sides run along faces of the box."""
    points = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], np.float32)
    side = [[2, 1, 1], [0, 1, 1], [1, 2, 1], [1, 0, 1], [0, 0, 1], [2, 2, 1], [3, 1, 1], [1, -1, 1]]
    start = np.resize(np.array(side, np.float32), (N, 3))
    ends = np.tile(np.array([0.0, 0.0, -1.0], np.float32), (N, 1))
    for constructor in ("sah", "median", "lbvh"):
        mesh = dk.Mesh(vectors(points), dk.array([0, 1, 2, 0, 2, 3], dtype=int), bvh_constructor=constructor)
        out = asked(first, (N, 8), mesh, vectors(start), vectors(ends), FAR, -1)
        np.testing.assert_array_equal(out[:8, [0, 5]], [[1.0, 1.0]] * 6 + [[0.0, 0.0]] * 2)
        assert (out[:6, 6] >= 1.0).all()
        assert not out[6:8, 6].any()


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e4, 1e9])
def test_scales(scale):
    points, faces = sphere(2)
    x, d = places()
    mesh = made((points * scale).astype(np.float32), faces)
    out = asked(nearest, (N, 3), mesh, vectors((x * scale).astype(np.float32)), FAR * scale)
    np.testing.assert_allclose(out[:, 0] / scale, closest(points, faces, x).min(axis=1), atol=2e-6)
    rays = asked(first, (N, 8), mesh, vectors((x * scale).astype(np.float32)), vectors(d), FAR * scale, -1)
    t = hits(points, faces, x, d).min(axis=1)
    np.testing.assert_allclose(rays[:, 0] / scale, np.where(np.isfinite(t), t, 0.0), atol=1e-5)


def test_what_does_not_fit_is_refused():
    points, indices = dk.zeros(3, dtype=dk.vec3), dk.zeros(3, dtype=int)
    for match, call in (
        ("three for each face", lambda: dk.Mesh(points, dk.zeros(4, dtype=int))),
        ("2 velocities for 3 points", lambda: dk.Mesh(points, indices, dk.zeros(2, dtype=dk.vec3))),
        ("indices of a Mesh are an array of int32", lambda: dk.Mesh(points, dk.zeros(3))),
        ("points of a Mesh are an array of vec3", lambda: dk.Mesh(dk.zeros(3), indices)),
        ("contiguous", lambda: dk.Mesh(dk.zeros(6, dtype=dk.vec3)[::2], indices)),
        ("4 points for 3 points", lambda: setattr(dk.Mesh(points, indices), "points", dk.zeros(4, dtype=dk.vec3))),
    ):
        with pytest.raises(dk.LaunchError, match=match):
            call()


@pytest.mark.parametrize("vertex", [3, -1, 2**31 - 1, -(2**31)])
def test_a_vertex_that_there_is_not_is_refused_with_its_face(vertex):
    points, right = dk.zeros(3, dtype=dk.vec3), [0, 1, 2, 0, 1, 2]
    wrong = dk.array(np.array([*right[:4], vertex, 2], np.int32))
    mesh = dk.Mesh(points, dk.array(np.array(right, np.int32)))
    for call in (lambda: dk.Mesh(points, wrong), lambda: setattr(mesh, "indices", wrong)):
        with pytest.raises(dk.LaunchError, match=f"face 1 of the Mesh has the vertex {vertex}, and there are 3 points"):
            call()
    np.testing.assert_array_equal(mesh.indices.numpy(), right)  # it stays as it was
    with pytest.raises(dk.LaunchError, match="there are 0 points"):
        dk.Mesh(dk.zeros(0, dtype=dk.vec3), dk.zeros(3, dtype=int))


# -- pairs -------------------------------------------------------------------------------------------------------------


@dk.kernel
def pairs(p: dk.array2d(dtype=dk.vec3d), out: dk.array(dtype=dk.vec3d), n: dk.array(dtype=int)):
    i = dk.tid()
    out[i] = dk.closest_point_edge_edge(p[i, 0], p[i, 1], p[i, 2], p[i, 3], 1e-12)
    n[i] = dk.intersect_tri_tri(p[i, 0], p[i, 1], p[i, 2], p[i, 3], p[i, 4], p[i, 5])


def test_two_edges_and_two_triangles():
    p = np.random.default_rng(4).normal(size=(12, 6, 3))
    p[0, 3:] = p[0, :3] + [0.0, 0.0, 1e-3]
    p[:4, :, 2] = 0.0
    p[5, 1] = p[5, 0]
    p[6, 2:4] = p[6, :2] + [0.0, 1.0, 0.0]
    out, n = dk.zeros(12, dtype=dk.vec3d), dk.zeros(12, dtype=int)
    dk.launch(pairs, 12, [dk.array(p, dtype=dk.vec3d), out, n])
    s, t, distance = out.numpy().T
    grid = np.linspace(0.0, 1.0, 201)
    one = p[:, 0, None] + grid[:, None] * (p[:, 1] - p[:, 0])[:, None]
    two = p[:, 2, None] + grid[:, None] * (p[:, 3] - p[:, 2])[:, None]
    least = np.linalg.norm(one[:, :, None] - two[:, None], axis=-1).min(axis=(1, 2))
    at = p[:, 0] + s[:, None] * (p[:, 1] - p[:, 0]), p[:, 2] + t[:, None] * (p[:, 3] - p[:, 2])
    np.testing.assert_allclose(np.linalg.norm(at[0] - at[1], axis=-1), distance, atol=1e-12)
    assert (distance <= least + 1e-12).all()
    np.testing.assert_allclose(distance, least, atol=0.03)
    weights = np.random.default_rng(5).dirichlet(np.ones(3), 800)
    inside = [np.einsum("wk,nkc->nwc", weights, p[:, k : k + 3]) for k in (0, 3)]
    gap = np.array([np.linalg.norm(a[:, None] - b[None], axis=-1).min() for a, b in zip(*inside, strict=True)])
    assert (gap[n.numpy() == 1] < 0.1).all()
    assert (n.numpy()[gap < 1e-3] == 1).all()
    assert 0 < n.numpy().sum() < 12
