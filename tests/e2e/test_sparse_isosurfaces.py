"""Marching cubes on given cubes and on those of an octree, and Warp's names of surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require
from support.closed_surfaces import check_manifold, distance, euler

import diffkern as dk
import diffkern.warp as wp
import diffkern.warp.geometry
from diffkern.warp.loggers import _warnings_seen

OFFSETS = np.array(dk.MarchingCubes.CUBE_CORNER_OFFSETS)


@dk.kernel
def torus_values(x: dk.array(dtype=dk.vec3), radius: dk.array(dtype=float), values: dk.array(dtype=float)):
    i = dk.tid()
    p = x[i]
    q = dk.vec2(dk.length(dk.vec2(p[0], p[2])) - radius[0], p[1])
    values[i] = dk.length(q) - 0.2


RADIUS = dk.array(np.float32([0.51]))


def torus(points: dk.array, radius: dk.array = RADIUS) -> dk.array:
    values = dk.zeros(points.size, requires_grad=radius.requires_grad)
    dk.launch(torus_values, points.size, [points, radius], [values])
    return values


def on_grid(shape: tuple[int, ...], lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    axes = [np.linspace(a, b, n) for a, b, n in zip(lower, upper, shape, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3).astype(np.float32)
    field = torus(dk.array(points, dtype=dk.vec3)).numpy().reshape(shape)
    vertices, indices = dk.MarchingCubes.extract(dk.array(field), lower=lower, upper=upper)
    return vertices.numpy(), indices.numpy().reshape(-1, 3)


def corners_of(cells: np.ndarray, field: np.ndarray, first: Any = (0, 0, 0)) -> np.ndarray:
    at = cells[:, None] + OFFSETS - np.array(first)
    return field[at[..., 0], at[..., 1], at[..., 2]]


@pytest.mark.parametrize("shape", [(33, 33, 33), (17, 9, 25), (2, 40, 21)])
def test_an_octree_gives_the_surface_of_the_grid(shape: tuple[int, ...]) -> None:
    lower, upper = (-1.0, -0.4, -0.9), (0.95, 0.43, 1.1)
    vertices, indices, stats = dk.sparse_marching_cubes(torus, *shape, lower=lower, upper=upper, return_stats=True)
    expected, faces = on_grid(shape, lower, upper)
    assert len(faces) == indices.size // 3
    assert distance(vertices.numpy(), expected) < 1e-5
    assert euler(indices.numpy().reshape(-1, 3), vertices.size) == euler(faces, len(expected))
    assert stats["requested_ncells"] == tuple(n - 1 for n in shape)
    assert stats["unique_corners"] <= np.prod(shape)


def test_an_octree_evaluates_little() -> None:
    vertices, indices, stats = dk.sparse_marching_cubes(
        torus, 129, 129, 129, lower=(-1, -1, -1), upper=(1, 1, 1), return_stats=True
    )
    faces = indices.numpy().reshape(-1, 3)
    check_manifold(faces, vertices.size, closed=True)
    assert euler(faces, vertices.size) == 0
    assert stats["field_evaluations"] < 129**3 // 15


def test_a_steep_function_needs_a_bound() -> None:
    def steep(points: dk.array) -> dk.array:
        return dk.array(4.0 * (np.linalg.norm(points.numpy(), axis=1) - 0.6).astype(np.float32))

    grid = {"lower": (-1, -1, -1), "upper": (1, 1, 1)}
    vertices, indices = dk.sparse_marching_cubes(steep, 33, 33, 33, lipschitz_bound=4.0, **grid)
    check_manifold(indices.numpy().reshape(-1, 3), vertices.size, closed=True)
    assert dk.sparse_marching_cubes(steep, 33, 33, 33, lipschitz_bound=0.1, **grid)[0].size < vertices.size


def test_cells_of_an_octree_hold_the_surface() -> None:
    cells, width = dk.lipschitz_octree(torus, (-1, -1, -1), 2.0, 4)
    assert width == 0.125
    values = torus(dk.array((np.mgrid[:17, :17, :17].reshape(3, -1).T * width - 1.0).astype(np.float32), dtype=dk.vec3))
    inside = values.numpy().reshape(17, 17, 17) < 0.0
    all_cells = np.argwhere(np.ones((16, 16, 16)))
    cut = corners_of(all_cells, inside).sum(1) % 8 != 0
    found = {tuple(c) for c in cells.numpy()}
    assert len(found) == cells.size < 16**3 // 2
    assert {tuple(c) for c in all_cells[cut]} <= found
    assert dk.lipschitz_octree(torus, (-1, -1, -1), 2.0, 4, threshold=9.0)[0].size == 0
    assert dk.lipschitz_octree(torus, (-1, -1, -1), 2.0, 0)[0].numpy().tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("first", [(0, 0, 0), (-7, 1000, 3), (1 << 26, -(1 << 26), 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_cells_of_a_grid_give_its_surface(first: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(1)
    field = np.pad(rng.normal(size=(5, 4, 6)), 1, constant_values=2.0).astype(dtype)
    cells = np.argwhere(np.ones(np.array(field.shape) - 1)) + first
    rng.shuffle(cells)
    values, width = corners_of(cells, field, first), 0.3
    origin = -np.array(first) * width
    vertices, indices = dk.sparse_marching_cubes_from_cells(cells, values, origin, width, 0.1)
    upper = (np.array(field.shape) - 1) * width
    expected, faces = dk.MarchingCubes.extract(dk.array(field), 0.1, upper=upper)
    assert vertices.numpy().dtype == dtype
    assert indices.size == faces.size
    assert distance(vertices.numpy(), expected.numpy()) < 1e-5
    check_manifold(indices.numpy().reshape(-1, 3), vertices.size, closed=True)


def test_forms_of_cells_and_values() -> None:
    field = np.random.default_rng(2).normal(size=(4, 4, 4)).astype(np.float32)
    cells = np.argwhere(np.ones((3, 3, 3))).astype(np.int32)
    values = corners_of(cells, field)
    wide = dk.array(np.repeat(values[..., None], 2, 2))[:, :, 1]
    expected = [a.numpy() for a in dk.sparse_marching_cubes_from_cells(cells.tolist(), values)]
    for given in (cells.astype(np.int64), dk.array(cells, dtype=int), dk.array(cells, dtype=dk.vec3i)):
        for of_corners in (values, dk.array(values), dk.array(values.ravel()), wide):
            found = dk.sparse_marching_cubes_from_cells(given, of_corners)
            assert all(np.array_equal(one.numpy(), other) for one, other in zip(found, expected, strict=True))


def test_shared_corners_have_one_gradient() -> None:
    field = np.random.default_rng(3).normal(size=(4, 5, 4))
    cells = np.argwhere(np.ones((3, 4, 3)))
    values = dk.array(corners_of(cells, field), requires_grad=True)
    grid = dk.array(field, requires_grad=True)
    with dk.Tape() as tape:
        vertices, _ = dk.sparse_marching_cubes_from_cells(cells, values)
        on_nodes, _ = dk.MarchingCubes.extract(grid)
    weights = [np.sin(17.0 * v.numpy()) for v in (vertices, on_nodes)]
    tape.backward(grads={v: dk.array(w, dtype=dk.vec3d) for v, w in zip((vertices, on_nodes), weights, strict=True)})
    total = np.zeros_like(field)
    at = (cells[:, None] + OFFSETS).reshape(-1, 3)
    np.add.at(total, tuple(at.T), values.grad.numpy().ravel())
    np.testing.assert_allclose(total, grid.grad.numpy(), atol=1e-12)


def test_cells_that_are_no_cells() -> None:
    cells, values = np.zeros((1, 3), np.int32), np.zeros((1, 8), np.float32)
    run = dk.sparse_marching_cubes_from_cells
    for width in (0.0, -1.0, np.nan, np.inf, None, "a", dk.ones(1)):
        with pytest.raises(ValueError, match="cell_width is positive"):
            run(cells, values, cell_width=width)
    with pytest.raises(dk.LaunchError, match="origin has three coordinates, which are numbers, not array"):
        run(cells, values, dk.zeros(3, requires_grad=True))
    with pytest.raises(ValueError, match="there are 0 cells"):
        run(np.zeros((0, 3), np.int32), np.zeros(3, np.float32))
    with pytest.raises(dk.LaunchError, match=r"integers of the shape \(N, 3\)"):
        run(np.zeros((1, 3)), values)
    with pytest.raises(dk.LaunchError, match="array of vec3i"):
        run(dk.zeros(3, dtype=int), values)
    far = np.array([[0, 0, 0], [2**31 - 2, 2**31 - 2, 2**31 - 2]])
    with pytest.raises(dk.LaunchError, match="more than their keys"):
        run(far, np.zeros((2, 8), np.float32))
    with pytest.raises(dk.LaunchError, match="cells are of int32"):
        run(np.array([[0, 0, 2**31]]), values)
    vertices, indices = run(np.zeros((0, 3), np.int32), np.zeros((0, 8), np.float32))
    assert vertices.size == indices.size == 0


def test_fields_that_are_no_fields() -> None:
    @dk.func
    def plane(x: dk.vec3):
        return x[0]

    for wrong in (plane, 42):
        with pytest.raises(TypeError, match="a function from an array of points"):
            dk.sparse_marching_cubes(wrong, 9, 9, 9)
    with pytest.raises(dk.LaunchError, match="at least 2 nodes"):
        dk.sparse_marching_cubes(torus, 9, 1, 9)
    with pytest.raises(dk.LaunchError, match="lipschitz_bound is not negative"):
        dk.sparse_marching_cubes(torus, 9, 9, 9, lipschitz_bound=-1.0)
    with pytest.raises(dk.LaunchError, match="up to 30 levels"):
        dk.lipschitz_octree(torus, (0, 0, 0), 1.0, 31)
    for threshold in (None, dk.zeros(2), dk.zeros(0), dk.zeros(1, dtype=int)):
        with pytest.raises(dk.LaunchError, match="the threshold is a number or an array"):
            dk.lipschitz_octree(torus, (0, 0, 0), 1.0, 2, threshold)
    with pytest.raises(dk.LaunchError, match="for 1 points on cpu"):
        dk.lipschitz_octree(lambda points: dk.zeros(3), (0, 0, 0), 1.0, 2)
    with pytest.raises(dk.LaunchError, match="result of the field is an array"):
        dk.lipschitz_octree(lambda points: np.zeros(points.size), (0, 0, 0), 1.0, 2)


def test_the_gradient_through_an_octree() -> None:
    shape, grid = (25, 13, 25), {"lower": (-1, -0.5, -1), "upper": (1, 0.5, 1)}
    axes = [np.linspace(a, b, n) for a, b, n in zip(*grid.values(), shape, strict=True)]
    nodes = dk.array(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3), dtype=dk.vec3)

    def mean(vertices: dk.array) -> dk.array:
        total = dk.zeros(1)
        dk.launch(squares, vertices.size, [vertices, 1.0 / vertices.size], [total])
        return total

    def sparse(radius: dk.array) -> dk.array:
        return mean(dk.sparse_marching_cubes(lambda x: torus(x, radius), *shape, **grid)[0])

    def dense(radius: dk.array) -> dk.array:
        return mean(dk.MarchingCubes.extract(torus(nodes, radius).reshape(shape), **grid)[0])

    radius = dk.array(np.float32([0.51]))
    one, other = (dk.grad(loss)(radius).numpy()[0] for loss in (sparse, dense))
    assert one == pytest.approx(other, rel=1e-4)
    assert one > 0.1


@dk.kernel
def squares(x: dk.array(dtype=dk.vec3), factor: float, total: dk.array(dtype=float)):
    i = dk.tid()
    p = x[i]
    dk.atomic_add(total, 0, (p[0] * p[0] + p[2] * p[2]) * factor)


# -- Warp's names ------------------------------------------------------------------------------------------------------


def test_warp_counts_as_much() -> None:
    warp, geometry = require("warp"), require("warp.geometry")

    def values(points: Any) -> np.ndarray:
        return (np.abs(points.numpy()).sum(1) - 0.77).astype(np.float32)

    grid = {"lower": (-1, -1, -1), "upper": (1, 1, 1), "return_stats": True, "lipschitz_bound": 1.8}
    ours = wp.geometry.sparse_marching_cubes(lambda p: wp.array(values(p)), 17, 17, 17, **grid)
    theirs = geometry.sparse_marching_cubes(lambda p: warp.array(values(p)), 17, 17, 17, **grid)
    assert ours[2] == theirs[2]
    assert distance(ours[0].numpy(), theirs[0].numpy()) < 1e-6
    assert ours[1].size == theirs[1].size


@pytest.mark.filterwarnings("always::DeprecationWarning")
def test_older_names_warn(capsys: pytest.CaptureFixture[str]) -> None:
    corners = {"domain_bounds_lower_corner": (-1, -1, -1), "domain_bounds_upper_corner": (1, 1, 1)}
    field = wp.array(np.random.default_rng(1).normal(size=(4, 4, 4)).astype(np.float32))
    _warnings_seen.clear()
    cubes = wp.MarchingCubes
    assert "wp.MarchingCubes is deprecated" in capsys.readouterr().err
    assert cubes is wp.geometry.IsoSurfaceMarchingCubes
    assert "MarchingCubes" not in wp.__all__
    made = cubes(4, 4, 4, **corners)
    assert "Use `lower` instead" in capsys.readouterr().err
    assert made.domain_bounds_upper_corner == made.upper == (1, 1, 1)
    assert "domain_bounds_upper_corner is deprecated" in capsys.readouterr().err
    made.domain_bounds_lower_corner = (-1, -1, -2)
    assert made.lower == (-1, -1, -2)
    older = cubes.extract_surface_marching_cubes(field, 0.0, *(made.lower, made.upper))
    assert "Use extract() instead" in capsys.readouterr().err
    made.surface(field, 0.0)
    for one, other in zip(older, (made.verts, made.indices), strict=True):
        assert np.array_equal(one.numpy(), other.numpy())
    with pytest.raises(TypeError, match="Cannot specify both `lower`"):
        cubes(4, 4, 4, (0, 0, 0), **corners)
    with pytest.raises(TypeError, match="no argument 'bounds'"):
        cubes(4, 4, 4, bounds=1)


def test_warps_surfaces_are_of_float32() -> None:
    for kind in (wp.geometry.IsoSurfaceMarchingCubes, wp.geometry.IsoSurfaceNets):
        with pytest.raises(TypeError, match="array of float32, not"):
            kind.extract(wp.zeros((4, 4, 4), dtype=wp.float64))
        assert issubclass(kind, wp.geometry.IsoSurfaceBase)
        vertices, indices = kind(4, 4, 4).surface(wp.zeros((4, 4, 4)), 0.0)
        assert vertices.in_warps_dialect
        assert indices.in_warps_dialect
    with pytest.raises(TypeError):
        wp.geometry.IsoSurfaceBase(4, 4, 4)
    with pytest.raises(TypeError):
        wp.geometry.lipschitz_octree(3, (0, 0, 0), 1.0, 2)
