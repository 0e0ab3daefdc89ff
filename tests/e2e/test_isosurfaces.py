"""Surfaces of fields on grids: closed and two-sided, as Warp's and as analytic ones, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require
from support.closed_surfaces import area, border, check_manifold, distance, euler, volume
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.spatial import cube_cases

BOTH = pytest.mark.parametrize("kind", [dk.MarchingCubes, dk.SurfaceNets])
REAL = (np.float32, np.float64)


def random_field(rng: np.random.Generator, closed: bool = True, most: int = 7) -> np.ndarray:
    """A field of noise, at times of few values; with `closed` the border is outside."""
    shape = tuple(rng.integers(2, most, 3))
    inner = rng.normal(size=shape) if rng.random() < 0.5 else rng.integers(-2, 3, shape).astype(float)
    return np.pad(inner, 1, constant_values=5.0) if closed else inner


def surface(kind: Any, field: np.ndarray, threshold: float = 0.0, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    vertices, indices = kind.extract(dk.array(field), threshold, **options)
    return vertices.numpy(), indices.numpy().reshape(-1, 4 if options.get("topology") == "quad" else 3)


def ball(shape: tuple[int, ...], radius: float, lower: Any = (-1, -1, -1), upper: Any = (1, 1, 1)) -> np.ndarray:
    axes = [np.linspace(a, b, n) for a, b, n in zip(lower, upper, shape, strict=True)]
    return np.linalg.norm(np.stack(np.meshgrid(*axes, indexing="ij"), -1), axis=-1) - radius


# -- the cases of a cube -----------------------------------------------------------------------------------------------


def test_loops_have_each_cut_edge_once() -> None:
    for case in range(256):
        cut = {
            e for e, (a, b) in enumerate(cube_cases.EDGE_TO_CORNERS) if (case >> a & 1) != (case >> b & 1)
        }  # fmt: skip
        for separated in range(-1, 6):
            assert sorted(e for loop in cube_cases.loops(case, separated) for e in loop) == sorted(cut)


def test_triangles_fill_the_loops_without_sides_on_faces() -> None:
    begins, corners = cube_cases.triangle_table()
    assert (len(begins), len(corners) // 3) == (257, 820)  # as many triangles as other tables of marching cubes have
    for case in range(256):
        triangles = np.array(corners[begins[case] : begins[case + 1]]).reshape(-1, 3)
        loops = cube_cases.loops(case)
        outer = {(loop[k], loop[(k + 1) % len(loop)]) for loop in loops for k in range(len(loop))}
        sides = [(int(t[k]), int(t[(k + 1) % 3])) for t in triangles for k in range(3)]
        assert len(triangles) == sum(len(loop) - 2 for loop in loops)
        assert outer <= set(sides)
        inner = set(sides) - outer
        assert all((b, a) in inner for a, b in inner)
        for a, b in inner:
            assert not any(faces >> a & 1 and faces >> b & 1 for faces in cube_cases.EDGES_OF_FACES)


def test_separated_corners_split_a_loop() -> None:
    found = [case for case in range(256) if cube_cases.split_face(case) >= 0]
    assert len(found) == 36
    for case in found:
        face = cube_cases.split_face(case)
        assert [f for f in range(6) if cube_cases.is_ambiguous(case, f)] == [face]
        assert len(cube_cases.loops(case, face)) == len(cube_cases.loops(case)) + 1


# -- how faces meet ----------------------------------------------------------------------------------------------------


@BOTH
def test_surfaces_of_random_fields_are_closed(kind: Any) -> None:
    rng = np.random.default_rng(5)
    for _ in range(150):
        points, faces = surface(kind, random_field(rng))
        check_manifold(faces, len(points), closed=True)
        assert np.isfinite(points).all()


@BOTH
def test_surfaces_of_much_noise_are_closed(kind: Any) -> None:
    rng = np.random.default_rng(6)
    for values in (rng.normal(size=(30, 31, 32)), rng.integers(0, 2, (30, 31, 32)) - 0.5):
        points, faces = surface(kind, np.pad(values, 1, constant_values=1.0))
        check_manifold(faces, len(points), closed=True)
        assert volume(points, faces) > 0.0


@BOTH
def test_surfaces_that_leave_the_grid(kind: Any) -> None:
    rng = np.random.default_rng(7)
    borders = 0
    for _ in range(100):
        points, faces = surface(kind, random_field(rng, closed=False))
        check_manifold(faces, len(points), closed=False)
        borders += border(faces, len(points)) if len(points) else 0
    assert borders > 500


def test_borders_lie_on_the_border_of_the_grid() -> None:
    field = np.random.default_rng(8).normal(size=(5, 6, 7))
    points, faces = surface(dk.MarchingCubes, field)
    sides = {(int(f[k]), int(f[(k + 1) % 3])) for f in faces for k in range(3)}
    last = np.array(field.shape) - 1.0
    for a, b in sides:
        if (b, a) not in sides:
            on = [(points[a][k] == points[b][k]) and points[a][k] in (0.0, last[k]) for k in range(3)]
            assert any(on)


# -- against Warp ------------------------------------------------------------------------------------------------------


def test_surfaces_are_warps() -> None:
    warp = require("warp")
    geometry = require("warp.geometry")
    rng = np.random.default_rng(9)
    bounds = {"lower": (-1.0, 0.5, 2.0), "upper": (2.0, 1.5, 7.0)}
    for trial in range(9):
        field = random_field(rng, closed=trial % 3 > 0, most=10).astype(np.float32)
        theirs = [a.numpy() for a in geometry.IsoSurfaceMarchingCubes.extract(warp.array(field), 0.25, **bounds)]
        points, faces = surface(dk.MarchingCubes, field, 0.25, **bounds)
        assert len(faces) == len(theirs[1]) // 3
        assert distance(points, theirs[0]) < 3e-6
        theirs[1] = theirs[1].reshape(-1, 3)
        # Triangles of a cube may divide a loop along other diagonals; which edges are joined is the same.
        assert euler(faces, len(points)) == euler(theirs[1], len(points))
        theirs = [
            a.numpy() for a in geometry.IsoSurfaceNets.extract(warp.array(field), 0.25, topology="quad", **bounds)
        ]
        points, faces = surface(dk.SurfaceNets, field, 0.25, topology="quad", **bounds)
        assert distance(points, theirs[0]) < 3e-6
        ours, quads = (p[q.reshape(-1, 4)].reshape(-1, 12) for p, q in ((points, faces), theirs))
        # Quadrilaterals come in the same order, with the same first vertex.
        np.testing.assert_allclose(ours, quads, atol=2e-6)


def test_area_and_volume_are_nearly_warps() -> None:
    warp, geometry = require("warp"), require("warp.geometry")
    field = np.random.default_rng(3).normal(size=(12, 12, 12))
    field = np.pad(field, 1, constant_values=3.0).astype(np.float32)
    theirs = [a.numpy() for a in geometry.IsoSurfaceMarchingCubes.extract(warp.array(field), 0.1)]
    points, faces = surface(dk.MarchingCubes, field, 0.1)
    theirs[1] = theirs[1].reshape(-1, 3)
    assert area(points, faces) == pytest.approx(area(*theirs), rel=0.03)
    assert volume(points, faces) == pytest.approx(volume(*theirs), rel=0.06)


# -- against analytic surfaces -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("dtype", REAL)
def test_balls(kind: Any, dtype: Any) -> None:
    lower, upper = (-1.0, -1.2, -0.9), (1.0, 1.3, 1.1)
    errors = []
    for shape in ((21, 25, 19), (41, 49, 37)):
        field = ball(shape, 0.6, lower, upper).astype(dtype)
        points, faces = surface(kind, field, lower=lower, upper=upper)
        assert points.dtype == dtype
        check_manifold(faces, len(points), closed=True)
        assert euler(faces, len(points)) == 2
        errors.append(abs(volume(points, faces) - 4 / 3 * np.pi * 0.6**3))
    assert errors[1] < 0.35 * errors[0]  # of second order in the width of a cell
    assert area(points, faces) == pytest.approx(4 * np.pi * 0.36, rel=0.01)


@BOTH
def test_a_torus(kind: Any) -> None:
    x, y, z = np.mgrid[-1:1:33j, -1:1:34j, -1:1:35j]
    field = np.hypot(np.hypot(x, y) - 0.6, z)
    points, faces = surface(kind, field, 0.25, lower=(-1, -1, -1), upper=(1, 1, 1))
    assert euler(faces, len(points)) == 0
    assert volume(points, faces) == pytest.approx(2 * np.pi**2 * 0.6 * 0.25**2, rel=0.03)


# -- unusual fields ----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("dtype", REAL)
def test_no_surface(kind: Any, dtype: Any) -> None:
    for value in (-1.0, 0.0, 1.0, np.nan, np.inf):
        points, indices = kind.extract(dk.array(np.full((3, 4, 2), value, dtype)), 0.0)
        assert points.shape == indices.shape == (0,)
    field = dk.array(np.ones((3, 3, 3), dtype), requires_grad=True)
    with dk.Tape() as tape:
        points, _ = kind.extract(field)
    tape.backward(grads={points: dk.empty_like(points)})
    assert not field.grad.numpy().any()


def test_nodes_on_the_surface_are_outside() -> None:
    field = np.ones((3, 3, 3))
    field[1, 1, 1] = -1.0
    field[2, 1, 1] = 0.0
    points, faces = surface(dk.MarchingCubes, field)
    assert [2.0, 1.0, 1.0] in points.tolist()
    check_manifold(faces, 6, closed=True)
    # Vertices fall together where a node is on the surface; they remain several.
    field = np.zeros((5, 3, 3))
    field[1, 1, 1] = field[3, 1, 1] = -1.0
    points, faces = surface(dk.MarchingCubes, field)
    check_manifold(faces, len(points), closed=True)
    assert len(np.unique(points, axis=0)) < len(points)


def test_nan_and_infinite_nodes() -> None:
    field = np.full((3, 3, 3), 1.0)
    field[1, 1, 1] = -1.0
    field[0, 1, 1] = np.nan
    field[2, 1, 1] = np.inf
    points, faces = surface(dk.MarchingCubes, field)
    check_manifold(faces, 6, closed=True)
    nan = np.isnan(points).any(1)
    assert nan.sum() == 1  # on the edge that ends at the NaN
    assert [1.0, 1.0, 1.0] in points.tolist()  # at the finite end
    field[1, 1, 1], field[0, 1, 1], field[2, 1, 1] = -np.inf, 0.5, 0.5
    points, _ = surface(dk.MarchingCubes, field)
    assert sorted(points.tolist())[0] == [0.0, 1.0, 1.0]


def test_great_and_small_fields() -> None:
    field = np.float32(ball((9, 9, 9), 0.6))
    expected, faces = surface(dk.MarchingCubes, field)
    for factor in (1e-36, 1e36, 1.5e38):
        points, same = surface(dk.MarchingCubes, field * np.float32(factor))
        np.testing.assert_allclose(points, expected, atol=1e-5)
        assert np.array_equal(faces, same)
    for inside, outside in ((-3e38, 1e38), (-1e38, 3e38), (-3e38, 3e38)):  # whose difference is infinite in float32
        steps = np.where(field < 0.0, inside, outside)
        points, same = surface(dk.MarchingCubes, np.float32(steps))
        np.testing.assert_allclose(points, surface(dk.MarchingCubes, steps)[0], rtol=1e-6)
        assert np.array_equal(faces, same)


def test_the_smallest_grid() -> None:
    field = np.ones((2, 2, 2), np.float32)
    field[0, 0, 0] = -1.0
    points, faces = surface(dk.MarchingCubes, field, lower=(1, 1, 1), upper=(3, 5, 9))
    assert sorted(points.tolist()) == [[1.0, 1.0, 5.0], [1.0, 3.0, 1.0], [2.0, 1.0, 1.0]]
    assert faces.shape == (1, 3)
    assert surface(dk.SurfaceNets, field)[0].size == 0  # no edge has four cubes


@BOTH
def test_views_of_fields(kind: Any) -> None:
    rng = np.random.default_rng(4)
    whole = rng.normal(size=(6, 10, 7))
    a, b = kind.extract(dk.array(whole)[:, ::2, 1:]), kind.extract(dk.array(whole[:, ::2, 1:].copy()))
    for one, other in zip(a, b, strict=True):
        assert np.array_equal(one.numpy(), other.numpy())


def test_an_object_takes_other_sizes() -> None:
    cubes = dk.MarchingCubes(8, 9, 10, (-1, -1, -1), (1, 1, 1))
    assert cubes.verts is None
    assert cubes.indices is None
    first = cubes.surface(dk.array(ball((8, 9, 10), 0.5)), 0.0)
    assert (cubes.verts, cubes.indices) == first
    with pytest.raises(dk.LaunchError, match=r"the grid has \(8, 9, 10\) nodes"):
        cubes.surface(dk.zeros((9, 9, 9)), 0.0)
    cubes.resize(9, 9, 9)
    vertices, _ = cubes.surface(dk.array(ball((9, 9, 9), 0.5)), 0.1)
    assert np.abs(np.linalg.norm(vertices.numpy(), axis=1) - 0.6).max() < 0.02


@BOTH
def test_mistakes(kind: Any) -> None:
    for shape in ((1, 4, 4), (4, 1, 4), (4, 4, 1), (0, 4, 4)):
        with pytest.raises(ValueError, match="at least 2 nodes on each axis"):
            kind.extract(dk.zeros(shape))
    with pytest.raises(dk.LaunchError, match="three axes"):
        kind.extract(dk.zeros((4, 4)))
    with pytest.raises(TypeError, match="float32 or float64, not"):
        kind.extract(dk.zeros((4, 4, 4), dtype=int))
    with pytest.raises(TypeError, match="float32 or float64, not"):
        kind.extract(np.zeros((4, 4, 4)))
    with pytest.raises(dk.LaunchError, match="one element of float32"):
        kind.extract(dk.zeros((4, 4, 4)), dk.zeros(2))
    for threshold in (None, "1", 1j, np.zeros(2)):
        with pytest.raises(dk.LaunchError, match="the threshold is a number or an array"):
            kind.extract(dk.zeros((4, 4, 4)), threshold)
    for corner in ((0, 0), 1.0, "abc", (0, None, 1), np.zeros((3, 2))):
        with pytest.raises(dk.LaunchError, match="lower has three coordinates"):
            kind.extract(dk.zeros((4, 4, 4)), lower=corner)
    with pytest.raises(dk.LaunchError, match="topology 'triangles'"):
        dk.SurfaceNets.extract(dk.zeros((4, 4, 4)), topology="triangles")
    with pytest.raises(dk.LaunchError, match="topology 'quads'"):
        dk.SurfaceNets(4, 4, 4, topology="quads")


@BOTH
def test_they_are_not_recorded(kind: Any) -> None:
    field = dk.array(ball((5, 5, 5), 0.5))
    for options in ({}, {"allow_reads": True}):
        with pytest.raises(dk.LaunchError, match="the same sizes in each replay"), dk.record(**options):
            kind.extract(field)


# -- derivatives -------------------------------------------------------------------------------------------------------


@dk.kernel
def energy(x: dk.array(dtype=dk.vec3d), indices: dk.array(dtype=int), e: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a, b, c = x[indices[3 * i]], x[indices[3 * i + 1]], x[indices[3 * i + 2]]
    dk.atomic_add(e, 0, dk.dot(a, dk.cross(b, c)) + dk.dot(a, b) * dk.dot(c, c))


def energy_of(found: tuple[Any, Any]) -> Any:
    points, indices = found
    e = dk.zeros(1, dtype=dk.float64)
    dk.launch(energy, indices.size // 3, [points, indices], [e])
    return e


def on_grid(kind: Any) -> Any:
    return lambda field, threshold: energy_of(kind.extract(field, threshold, lower=(0, 1, 2), upper=(3, 3, 3)))


CELLS = np.argwhere(np.ones((4, 3, 4))).astype(np.int32)


def on_cells(field: Any, threshold: Any) -> Any:
    values = dk.zeros((len(CELLS), 8), dtype=dk.float64)
    dk.launch(gather, values.shape, [field, dk.array(CELLS, dtype=dk.vec3i), offsets()], [values])
    return energy_of(dk.sparse_marching_cubes_from_cells(CELLS, values, (0, 1, 2), 0.5, threshold))


@dk.kernel
def gather(
    field: dk.array3d(dtype=dk.float64),
    cells: dk.array(dtype=dk.vec3i),
    offsets: dk.array(dtype=dk.vec3i),
    values: dk.array2d(dtype=dk.float64),
):
    c, k = dk.tid()
    x = cells[c] + offsets[k]
    values[c, k] = field[x[0], x[1], x[2]]


def offsets() -> dk.array:
    return dk.array(np.array(dk.MarchingCubes.CUBE_CORNER_OFFSETS, np.int32), dtype=dk.vec3i)


DERIVED = pytest.mark.parametrize(
    "loss", [on_grid(dk.MarchingCubes), on_grid(dk.SurfaceNets), on_cells], ids=["cubes", "nets", "cells"]
)


def arguments() -> tuple[np.ndarray, np.ndarray]:
    field = np.random.default_rng(1).normal(size=(5, 4, 5))
    assert np.abs(field - 0.1).min() > 1e-3  # no difference changes which edges are cut
    return field, np.array([0.1])


@DERIVED
def test_gradients_are_differences(loss: Any) -> None:
    field, threshold = arguments()
    x, t = dk.array(field, requires_grad=True), dk.array(threshold, requires_grad=True)
    with dk.Tape() as tape:
        e = loss(x, t)
    tape.backward(e)
    h = 1e-5

    def value(f: np.ndarray, s: float = 0.1) -> float:
        return float(loss(dk.array(f), s).numpy()[0])

    expected = np.zeros_like(field)
    for index in np.ndindex(field.shape):
        up, down = field.copy(), field.copy()
        up[index] += h
        down[index] -= h
        expected[index] = (value(up) - value(down)) / (2 * h)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-6 * scale)
    slope = (value(field, 0.1 + h) - value(field, 0.1 - h)) / (2 * h)
    np.testing.assert_allclose(t.grad.numpy(), slope, rtol=1e-6)
    # Functions, and the forward mode.
    of_field, of_threshold = dk.grad(loss)(dk.array(field), dk.array(threshold))
    np.testing.assert_allclose(of_field.numpy(), x.grad.numpy(), atol=1e-12 * scale)
    np.testing.assert_allclose(of_threshold.numpy(), t.grad.numpy(), rtol=1e-12)
    direction = np.random.default_rng(2).normal(size=field.shape)
    _, along = dk.jvp(loss, (dk.array(field), dk.array(threshold)), (dk.array(direction), dk.array([0.3])))
    np.testing.assert_allclose(along.numpy(), (expected * direction).sum() + 0.3 * slope, rtol=1e-6)


@DERIVED
def test_second_derivatives_are_differences(loss: Any) -> None:
    field, threshold = arguments()
    direction, h = np.random.default_rng(3).normal(size=field.shape), 1e-5
    primals = dk.array(field), dk.array(threshold)
    of_field, of_threshold = dk.hvp(loss, primals, (dk.array(direction), dk.array([0.5])))

    def gradient(s: float) -> tuple[Any, Any]:
        return dk.grad(loss)(dk.array(field + s * direction), dk.array(threshold + 0.5 * s))

    (up, up_t), (down, down_t) = gradient(h), gradient(-h)
    expected = (up.numpy() - down.numpy()) / (2 * h)
    np.testing.assert_allclose(of_field.numpy(), expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(of_threshold.numpy(), (up_t.numpy() - down_t.numpy()) / (2 * h), rtol=1e-5)


@DERIVED
def test_nodes_on_the_surface_have_derivatives(loss: Any) -> None:
    # Nodes at the threshold are outside, and so is a node a little above it: the derivatives are nearly the same.
    field = np.random.default_rng(6).integers(-1, 2, (5, 4, 5)).astype(float)
    threshold = np.array([0.0])
    assert (field == 0.0).sum() > 20

    def derivatives(nodes: np.ndarray) -> list[np.ndarray]:
        x, t, along = dk.array(nodes), dk.array(threshold), dk.array(np.cos(np.arange(100.0)).reshape(5, 4, 5))
        _, change = dk.jvp(loss, (x, t), (along, dk.array([0.5])))
        return [a.numpy() for a in (*dk.grad(loss)(x, t), change, *dk.hvp(loss, (x, t), (along, dk.array([0.5]))))]

    found, near = derivatives(field), derivatives(np.where(field == 0.0, 1e-9, field))
    for one, other in zip(found, near, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())


@BOTH
def test_corners_have_no_derivative(kind: Any) -> None:
    field, corner = (
        dk.array(a, requires_grad=True) for a in (np.random.default_rng(1).normal(size=(4, 4, 4)), [1.0] * 3)
    )
    for options in ({"lower": corner}, {"upper": corner}):
        with pytest.raises(dk.LaunchError, match="three coordinates, which are numbers, not array"):
            dk.grad(lambda x, _, options=options: energy_of(kind.extract(x, **options)))(field, corner)


def test_numbers_of_torch_would_lose_their_gradient() -> None:
    torch = require("torch")
    place = torch.ones(3, requires_grad=True)
    for options in ({"threshold": place[:1]}, {"lower": place}, {"upper": tuple(place)}):
        with pytest.raises(dk.LaunchError, match="number"):
            dk.MarchingCubes.extract(dk.zeros((4, 4, 4)), **options)


@BOTH
def test_tangents_of_vertices_beside_indices(kind: Any) -> None:
    field = np.random.default_rng(1).normal(size=(5, 4, 5))
    up, down = (kind.extract(dk.array(field + h))[0].numpy() for h in (1e-6, -1e-6))
    (_, indices), (along, nothing) = dk.jvp(kind.extract, (dk.array(field),), (dk.array(np.ones_like(field)),))
    assert indices.size > 0
    assert nothing is None
    np.testing.assert_allclose(along.numpy(), (up - down) / 2e-6, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_a_radius() -> None:
    @dk.kernel
    def fill(radius: dk.array(dtype=dk.float64), field: dk.array3d(dtype=dk.float64)):
        i, j, k = dk.tid()
        n = dk.float64(field.shape[0] - 1)
        x = dk.vec3d(dk.float64(i), dk.float64(j), dk.float64(k)) * (dk.float64(2.0) / n) - dk.vec3d(1.0, 1.0, 1.0)
        field[i, j, k] = dk.length(x) - radius[0]

    @dk.kernel
    def volumes(x: dk.array(dtype=dk.vec3d), indices: dk.array(dtype=int), v: dk.array(dtype=dk.float64)):
        i = dk.tid()
        a, b, c = x[indices[3 * i]], x[indices[3 * i + 1]], x[indices[3 * i + 2]]
        dk.atomic_add(v, 0, dk.dot(a, dk.cross(b, c)) / dk.float64(6.0))

    def enclosed(radius: dk.array) -> dk.array:
        field, v = dk.zeros((40, 40, 40), dtype=dk.float64), dk.zeros(1, dtype=dk.float64)
        dk.launch(fill, field.shape, [radius], [field])
        points, indices = dk.MarchingCubes.extract(field, lower=(-1, -1, -1), upper=(1, 1, 1))
        dk.launch(volumes, indices.size // 3, [points, indices], [v])
        return v

    gradient = dk.grad(enclosed)(dk.array([0.7]))
    assert gradient.numpy()[0] == pytest.approx(4 * np.pi * 0.49, rel=0.01)


@dk.kernel
def relax(field: dk.array3d(dtype=dk.float64), rate: dk.array(dtype=dk.float64)):
    i, j, k = dk.tid()
    field[i, j, k] = field[i, j, k] * rate[0] + dk.float64(0.05)


def test_steps_that_are_run_again() -> None:
    def run(slots: int | None) -> list[np.ndarray]:
        field = dk.array(np.random.default_rng(0).normal(size=(5, 5, 5)), requires_grad=True)
        rate, e = dk.array(np.array([0.9]), requires_grad=True), dk.zeros(1, dtype=dk.float64, requires_grad=True)

        def step(number: int) -> None:
            dk.launch(relax, field.shape, [field, rate])
            points, indices = dk.MarchingCubes.extract(field)
            dk.launch(energy, indices.size // 3, [points, indices], [e])

        with dk.Tape() as tape:
            if slots is None:
                for number in range(6):
                    step(number)
            else:
                dk.checkpoint(step, 6, slots)
        tape.backward(e)
        return [a.numpy() for a in (e, rate.grad, field.grad)]

    for one, other in zip(run(2), run(None), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def test_executed_ptx() -> None:
    field, threshold = np.random.default_rng(2).normal(size=(3, 3, 3)).astype(np.float32), np.float32([0.1])
    cells = np.argwhere(np.ones((2, 2, 2))).astype(np.int32)
    corners = cells[:, None] + np.array(dk.MarchingCubes.CUBE_CORNER_OFFSETS)
    values = field[corners[..., 0], corners[..., 1], corners[..., 2]]

    def results(device: str) -> list[np.ndarray]:
        found = []
        for kind in (dk.MarchingCubes, dk.SurfaceNets):
            x, t = (dk.array(a, device=device, requires_grad=True) for a in (field, threshold))
            with dk.Tape() as tape:
                points, indices = kind.extract(x, t)
            tape.backward(grads={points: dk.ones(points.size, dtype=dk.vec3, device=device)})
            found += [a.numpy() for a in (points, indices, x.grad, t.grad)]
        sparse = dk.sparse_marching_cubes_from_cells(cells, dk.array(values, device=device), threshold=0.1)
        return [*found, *(a.numpy() for a in sparse)]

    expected = results("cpu")
    with fake_cuda(run="ptx"):
        for one, other in zip(results("cuda:0"), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
