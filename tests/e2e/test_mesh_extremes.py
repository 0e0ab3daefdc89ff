"""Searches in meshes at what is hard for boxes: NaN, axes, planes of boxes, scales, sizes of leaves; beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.surfaces import closest, hits, sphere

import diffkern as dk

FAR = 1.0e30


@dk.kernel(enable_backward=False)
def found(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), d: dk.array(dtype=dk.vec3), far: float, out: dk.array2d()):
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, x[i], d[i], far)
    out[i, 0] = hit.t if hit.result else -1.0
    out[i, 1] = float(dk.mesh_query_ray_anyhit(mesh, x[i], d[i], far))
    out[i, 2] = float(dk.mesh_query_ray_count_intersections(mesh, x[i], d[i]))
    near = dk.mesh_query_point_no_sign(mesh, x[i], far)
    out[i, 3] = -1.0
    if near.result:
        out[i, 3] = dk.length(dk.mesh_eval_position(mesh, near.face, near.u, near.v) - x[i])


def vectors(values: np.ndarray) -> dk.array:
    return dk.array(np.asarray(values, np.float32), dtype=dk.vec3)


def mesh_of(points: np.ndarray, faces: np.ndarray, **more: object) -> dk.Mesh:
    return dk.Mesh(vectors(points), dk.array(faces.ravel().astype(np.int32)), **more)


def results(mesh: dk.Mesh, x: np.ndarray, d: np.ndarray, far: float = FAR) -> np.ndarray:
    out = dk.zeros((len(x), 4))
    dk.launch(found, len(x), [mesh.id, vectors(x), vectors(d), far, out])
    return out.numpy()


def by_all_faces(points: np.ndarray, faces: np.ndarray, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    t = hits(points, faces, x, d)
    first = t.min(1)
    columns = np.where(np.isfinite(first), first, -1.0), np.isfinite(first), np.isfinite(t).sum(1)
    return np.stack([*columns, closest(points, faces, x).min(1)], 1)


def ball(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, d = rng.normal(size=(2, n, 3)).astype(np.float32)
    return *sphere(2), x, d


@pytest.mark.parametrize("leaf_size", [1, 3, 4, 500])
@pytest.mark.parametrize("constructor", ["sah", "median"])
def test_the_size_of_leaves_and_the_way_of_building_do_not_change_what_is_found(leaf_size, constructor):
    points, faces, x, d = ball()
    mesh = mesh_of(points, faces, bvh_leaf_size=leaf_size, bvh_constructor=constructor)
    expected = by_all_faces(points, faces, x, d)
    np.testing.assert_allclose(results(mesh, x, d), expected, rtol=1e-4, atol=1e-5)
    moved = points * np.float32([-2.0, 0.5, 1.5])
    mesh.points = vectors(moved)
    np.testing.assert_allclose(results(mesh, x, d), by_all_faces(moved, faces, x, d), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_small_and_large_scales(scale):
    points, faces, x, d = ball()
    mesh = mesh_of(points * np.float32(scale), faces)
    expected = by_all_faces(points, faces, x, d)
    is_hit = expected[:, 1] > 0.0
    expected[is_hit, 0] *= scale
    expected[:, 3] *= scale
    np.testing.assert_allclose(results(mesh, x * scale, d), expected, rtol=1e-3, atol=0.0)
    # Other lengths of the direction count t in other units.
    longer = results(mesh, x * scale, d * np.float32(scale))[:, 0]
    np.testing.assert_allclose(longer[is_hit], expected[is_hit, 0] / scale, rtol=1e-3)


def test_no_ray_and_no_point_with_a_nan_finds_anything():
    points, faces, x, d = ball(9)
    mesh, clear = mesh_of(points, faces), results(mesh_of(points, faces), np.zeros_like(x), d)
    assert (clear[:, :3] > 0.0).all()
    for k in range(3):
        for spoiled, n in ((np.zeros_like(x), 4), (d.copy(), 3)):
            spoiled[:, k] = np.nan
            out = results(mesh, spoiled if n == 4 else np.zeros_like(x), d if n == 4 else spoiled)
            assert np.array_equal(out[:, :n], np.tile([-1.0, 0.0, 0.0, -1.0][:n], (9, 1)))
    assert np.array_equal(results(mesh, np.zeros_like(x), d, np.nan)[:, [0, 1, 3]], np.tile([-1.0, 0.0, -1.0], (9, 1)))
    still = results(mesh, np.zeros_like(x), np.zeros_like(d))
    assert not still[:, 1:3].any()


@pytest.mark.parametrize("leaf_size", [1, 4])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_faces_with_a_vertex_that_is_none_hide_no_others(leaf_size, value):
    points, faces, x, d = ball()
    rng = np.random.default_rng(6)
    spoiled = np.unique(rng.integers(0, len(points), 6))
    given = points.copy()
    # One coordinate alone, so that the other two still are those of a box.
    given[spoiled, rng.integers(0, 3, len(spoiled))] = value
    whole = faces[~np.isin(faces, spoiled).any(1)]
    assert 0 < len(whole) < len(faces)
    out = results(mesh_of(given, faces, bvh_leaf_size=leaf_size), x, d)
    np.testing.assert_allclose(out, by_all_faces(points, whole, x, d), rtol=1e-4, atol=1e-5)


def test_rays_along_axes_in_planes_of_boxes():
    # A checked floor of unit squares at z = 0 and another at z = 2, whose boxes end at whole numbers.
    u, v = np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")
    flat = np.stack([u, v, np.zeros_like(u)], -1).reshape(-1, 3)
    points = np.vstack([flat, flat + [0, 0, 2]]).astype(np.float32)
    at = np.arange(81).reshape(9, 9)
    a, b, c, e = at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]
    one = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, e], -1).reshape(-1, 3)])
    mesh = mesh_of(points, np.concatenate([one, one + 81]))
    x = np.stack([*np.meshgrid(np.arange(0.0, 8.5, 0.5), np.arange(0.0, 8.5, 0.5)), np.ones((17, 17))], -1)
    x = x.reshape(-1, 3).astype(np.float32)
    for zero in (0.0, -0.0):
        for z in (-1.0, 1.0):
            out = results(mesh, x, np.tile(np.float32([zero, zero, z]), (len(x), 1)))
            # No ray slips through an edge or a vertex, those of the border included.
            assert np.array_equal(out[:, :2], np.ones((len(x), 2)))
        # In the plane of a floor nothing is hit, and beside it neither.
        flat_rays = np.tile(np.float32([1.0, zero, zero]), (len(x), 1))
        assert np.array_equal(results(mesh, x, flat_rays)[:, 0], np.full(len(x), -1.0))
