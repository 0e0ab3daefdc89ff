"""Examples of fluids, volumes and elastic solids: values beside independent programs, gradients beside differences."""

from __future__ import annotations

import importlib.util
import sys
import tracemalloc
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import require

import diffkern as dk

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def beam() -> ModuleType:
    return example("beam")


@pytest.fixture(scope="module")
def plume() -> ModuleType:
    return example("plume")


@pytest.fixture
def out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    yield str(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "gradcheck of " in printed
    assert "differences of the whole function" in printed


# -- elasticity --------------------------------------------------------------------------------------------------------


def stiffness(points: np.ndarray, triangles: np.ndarray, lame: np.ndarray) -> np.ndarray:
    """The whole matrix, by strains and Hooke's law in Voigt's notation."""
    found = np.zeros((2 * len(points),) * 2)
    for corners, (first, shear) in zip(triangles, lame, strict=True):
        edges = np.linalg.inv(np.c_[points[corners], np.ones(3)])[:2]  # the gradients of the three functions
        area = 0.5 * abs(np.linalg.det(np.c_[points[corners], np.ones(3)]))
        strain, places = np.zeros((3, 6)), np.stack([2 * corners, 2 * corners + 1], axis=1).ravel()
        strain[0, 0::2], strain[1, 1::2], strain[2, 0::2], strain[2, 1::2] = edges[0], edges[1], edges[1], edges[0]
        law = np.array([[first + 2 * shear, first, 0], [first, first + 2 * shear, 0], [0, 0, shear]])
        found[np.ix_(places, places)] += area * strain.T @ law @ strain
    return found


def random_strip(beam: ModuleType) -> tuple[dk.array, ...]:
    """A strip with moved nodes and random material, its load, and what its last section is held by."""
    strip, rng = beam.Strip(5, 3), np.random.default_rng(0)
    points = np.stack(np.meshgrid(np.arange(6.0), np.arange(4.0), indexing="ij"), axis=-1).reshape(-1, 2)
    points += rng.uniform(-0.2, 0.2, points.shape)
    lame, load = rng.uniform(0.5, 2.0, (30, 2)), rng.normal(size=(strip.unknowns, 2))
    held = np.where(np.arange(24)[:, None] < strip.unknowns, 0.0, rng.normal(size=(24, 2)))
    return strip, *(dk.array(k, dtype=dk.vec2d, requires_grad=True) for k in (points, lame, load, held))


def test_a_strip_bends_as_in_an_independent_program(beam: ModuleType) -> None:
    strip, points, lame, load, held = random_strip(beam)
    matrix = stiffness(points.numpy(), strip.triangles.numpy(), lame.numpy())
    n = 2 * strip.unknowns
    side = load.numpy().ravel() - matrix[:n] @ held.numpy().ravel()
    wanted = np.linalg.solve(matrix[:n, :n], side).reshape(-1, 2)
    np.testing.assert_allclose(strip.bend(points, lame, load, held).numpy(), wanted, rtol=1e-8, atol=1e-9)


def test_a_constant_strain_is_exact(beam: ModuleType) -> None:
    # The forces of a constant stress on the nodes follow from the whole matrix, and vanish within.
    strip, points, _, _, _ = random_strip(beam)
    lame = dk.array(np.tile([0.7, 0.4], (30, 1)), dtype=dk.vec2d)
    exact = points.numpy() @ np.array([[0.1, -0.3], [0.2, 0.05]]) + [0.5, -1.0]
    forces = (stiffness(points.numpy(), strip.triangles.numpy(), lame.numpy()) @ exact.ravel()).reshape(-1, 2)
    inner = [4 * k + i for k in range(1, 5) for i in (1, 2)]
    np.testing.assert_allclose(forces[inner], 0.0, atol=1e-13)
    held = np.where(np.arange(24)[:, None] < strip.unknowns, 0.0, exact)
    given = (dk.array(k, dtype=dk.vec2d) for k in (forces[: strip.unknowns], held))
    np.testing.assert_allclose(strip.bend(points, lame, *given).numpy(), exact[: strip.unknowns], atol=1e-8)


def test_displacements_are_differentiated_by_nodes_material_load_and_support(beam: ModuleType) -> None:
    strip, *given = random_strip(beam)
    rng, n = np.random.default_rng(1), 2 * strip.unknowns
    weights = rng.normal(size=(strip.unknowns, 2))

    def work(values: list[np.ndarray]) -> float:
        points, lame, load, held = values
        matrix = stiffness(points, strip.triangles.numpy(), lame)
        return float(weights.ravel() @ np.linalg.solve(matrix[:n, :n], load.ravel() - matrix[:n] @ held.ravel()))

    with dk.Tape() as tape:
        moved = strip.bend(*given)
    tape.backward(grads={moved: dk.array(weights, dtype=dk.vec2d)})
    values = [k.numpy() for k in given]
    for k, x in enumerate(given):
        way = rng.normal(size=values[k].shape)
        if k == 3:
            way[: strip.unknowns] = 0.0
        up, down = (work([*values[:k], values[k] + s * 1e-5 * way, *values[k + 1 :]]) for s in (1.0, -1.0))
        assert float((x.grad.numpy() * way).sum()) == pytest.approx((up - down) / 2e-5, rel=1e-6)


@pytest.mark.full
def test_the_weak_spot_of_a_beam_is_found(beam: ModuleType, out: str) -> None:
    order, worst = beam.main(["--across", "8", "--out", out])
    assert 1.7 < order < 2.1
    assert worst < 0.03


@pytest.mark.full
def test_a_hook_becomes_thick_where_it_bends(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before, after = example("hook").main(["--along", "60", "--across", "5", "--rounds", "5", "--out", out])
    sys.modules.pop("beam", None)
    assert before == pytest.approx(255.0, rel=0.05)
    assert 0.5 < after / before < 0.65


# -- elasticity in three dimensions -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pipe() -> ModuleType:
    return example("pipe")


def solid(points: np.ndarray, corners: np.ndarray, young: np.ndarray, poisson: np.ndarray) -> np.ndarray:
    """The whole matrix of tetrahedra, by strains and Hooke's law in Voigt's notation."""
    found = np.zeros((3 * len(points),) * 2)
    for nodes, modulus, ratio in zip(corners, young, poisson, strict=True):
        whole = np.c_[points[nodes], np.ones(4)]
        x, y, z, strain = *np.linalg.inv(whole)[:3], np.zeros((6, 12))
        strain[0, 0::3], strain[1, 1::3], strain[2, 2::3] = x, y, z
        strain[3, 0::3], strain[3, 1::3], strain[4, 1::3] = y, x, z
        strain[4, 2::3], strain[5, 0::3], strain[5, 2::3] = y, z, x
        law = np.diag([1.0 - 2.0 * ratio] * 3 + [0.5 - ratio] * 3)
        law[:3, :3] += ratio
        law *= modulus / (1.0 + ratio) / (1.0 - 2.0 * ratio)
        places = (3 * nodes[:, None] + np.arange(3)).ravel()
        found[np.ix_(places, places)] += abs(np.linalg.det(whole)) / 6.0 * strain.T @ law @ strain
    return found


def moved_by_numpy(pipe: object, values: list[np.ndarray]) -> np.ndarray:
    points, young, poisson, pressure, load = values
    whole, side, free = solid(points, pipe.corners.numpy(), young, poisson), load.copy(), pipe.free.numpy().ravel() > 0
    for nodes, p in zip(pipe.inside.numpy(), pressure, strict=True):
        a, b, c = points[nodes]
        side[nodes] += p * np.cross(b - a, c - a) / 6.0
    found = np.zeros(len(free))
    found[free] = np.linalg.solve(whole[np.ix_(free, free)], side.ravel()[free])
    return found.reshape(-1, 3)


def random_pipe(pipe: ModuleType) -> tuple[object, list[dk.array]]:
    """A pipe of 48 tetrahedra with moved nodes, and random material, pressure and forces."""
    few, rng = pipe.Pipe(4, 1, 2), np.random.default_rng(0)
    points = few.points(few.sound).numpy() + 0.02 * rng.normal(size=(few.nodes, 3))
    sizes = ((0.5, 2.0, few.young), (0.0, 0.45, few.poisson), (0.5, 2.0, few.pressure))
    points, load = (dk.array(k, dtype=dk.vec3d) for k in (points, rng.normal(size=(few.nodes, 3))))
    return few, [points, *(dk.array(rng.uniform(low, high, k.shape)) for low, high, k in sizes), load]


def test_a_pipe_moves_as_in_an_independent_program(pipe: ModuleType) -> None:
    few, given = random_pipe(pipe)
    wanted = moved_by_numpy(few, [k.numpy() for k in given])
    np.testing.assert_allclose(few.move(*given).numpy(), wanted, rtol=1e-9, atol=1e-10)


def test_a_pipe_is_differentiated_by_nodes_material_pressure_and_forces(pipe: ModuleType) -> None:
    few, given = random_pipe(pipe)
    rng, values = np.random.default_rng(1), [k.numpy() for k in given]
    weights = rng.normal(size=(few.nodes, 3))
    moved, slopes = dk.vjp(few.move, tuple(given), dk.array(weights, dtype=dk.vec3d))
    ways = [rng.normal(size=k.shape) for k in values]
    for k, way in enumerate(ways):
        up, down = ([*values[:k], values[k] + s * 1e-5 * way, *values[k + 1 :]] for s in (1.0, -1.0))
        change = (weights * (moved_by_numpy(few, up) - moved_by_numpy(few, down))).sum() / 2e-5
        assert float((slopes[k].numpy() * way).sum()) == pytest.approx(change, rel=1e-6)
    tangents = tuple(dk.array(way, dtype=k.dtype) for way, k in zip(ways, given, strict=True))
    forward = dk.jvp(few.move, tuple(given), tangents)[1].numpy()
    total = sum((s.numpy() * way).sum() for s, way in zip(slopes, ways, strict=True))
    assert (weights * forward).sum() == pytest.approx(total, rel=1e-9)
    assert moved.shape == (few.nodes,)


def test_a_constant_strain_of_a_pipe_is_exact(pipe: ModuleType) -> None:
    # With all nodes of the outline given, those within follow; the forces of a constant stress vanish there.
    few = pipe.Pipe(8, 2, 2)
    rng, sheet = np.random.default_rng(2), few.sheet
    points = few.points(few.sound).numpy() + 0.02 * rng.normal(size=(few.nodes, 3))
    exact = points @ rng.normal(size=(3, 3)) + rng.normal(size=3)
    few.free = dk.full(few.nodes, dk.vec3d(1.0, 1.0, 1.0), dtype=dk.vec3d)
    forces = solid(points, few.corners.numpy(), few.young.numpy(), few.poisson.numpy()) @ exact.ravel()
    free = np.zeros((few.nodes, 3))
    free[sheet + few.around : sheet + 2 * few.around] = 1.0  # nodes within the wall and between the ends
    np.testing.assert_allclose(forces.reshape(-1, 3)[free > 0.0], 0.0, atol=1e-13)
    few.free = dk.array(free, dtype=dk.vec3d)
    held = solid(points, few.corners.numpy(), few.young.numpy(), few.poisson.numpy()) @ (exact * (1.0 - free)).ravel()
    given = dk.array(points, dtype=dk.vec3d), few.young, few.poisson, dk.zeros_like(few.pressure)
    moved = few.move(*given, dk.array(-held.reshape(-1, 3), dtype=dk.vec3d)).numpy()
    np.testing.assert_allclose(moved[free > 0.0], exact[free > 0.0], atol=1e-11)


@pytest.mark.full
def test_a_pipe_comes_near_to_lames_as_do_its_derivatives(pipe: ModuleType) -> None:
    found = []
    for layers in (1, 2):
        tube = pipe.Pipe(16 * layers, 1, layers)
        value, slopes = dk.value_and_grad(tube.swells)(tube.sound, tube.pressure, tube.young, tube.poisson)
        found.append(np.array([float(value), *(float(k.numpy().sum()) for k in slopes)]))
    # An error that falls with the square of the spacing is gone in this combination.
    np.testing.assert_allclose((4.0 * found[1] - found[0]) / 3.0, pipe.lame(), rtol=0.03)


@pytest.mark.full
def test_the_errors_of_a_pipe_fall_with_the_square_of_the_spacing(pipe: ModuleType, out: str) -> None:
    orders = pipe.main(["--layers", "4", "--out", out])
    assert orders.min() > 1.6
    assert orders.max() < 2.1


@pytest.mark.full
def test_rust_is_found_from_without(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    depth, pulled = example("rust").main(["--layers", "2", "--along", "3", "--rounds", "3", "--out", out])
    sys.modules.pop("pipe", None)
    assert depth < 0.15
    assert pulled < 0.01


# -- a fluid -----------------------------------------------------------------------------------------------------------


def sampled(field: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from scipy.ndimage import map_coordinates

    return map_coordinates(field, [x, y], order=1, mode="nearest")


def smoke_of(room: object, flow: np.ndarray) -> np.ndarray:
    """The smoke in the end, by SciPy: interpolation, and a direct solver of the equation without symmetry used."""
    from scipy.sparse import diags, eye, kron
    from scipy.sparse.linalg import spsolve

    n, m, steps, nozzles = room.columns, room.rows, room.steps, room.nozzles.numpy()
    slope = [diags([-1.0, 1.0], [0, 1], shape=(k - 1, k)).tocsr() for k in (n, m + 1)]
    up = slope[1][:, :m]  # the pressure is zero above
    laplace = kron(slope[0].T @ slope[0], eye(m)) + kron(eye(n), up.T @ up)
    u, v, smoke = np.zeros((n + 1, m)), np.zeros((n, m + 1)), room.smoke.numpy().copy()
    for t in range(steps):
        x, y = np.mgrid[0.0 : n + 1, 0.0:m]
        a = sampled(u, x - u, y - sampled(v, x - 0.5, y + 0.5))
        x, y = np.mgrid[0.0:n, 0.0 : m + 1]
        b = sampled(v, x - sampled(u, x + 0.5, y - 0.5), y - v)
        b += 0.005 * (smoke + smoke[:, np.minimum(np.arange(m + 1) + 1, m)])
        a[0] = a[n] = b[:, 0] = 0.0
        for k in (0, 1):
            b[nozzles == k, 0] = np.interp(t * (flow.shape[1] - 1) / steps, np.arange(flow.shape[1]), flow[k])
        inflow = -np.diff(a, axis=0) - np.diff(b, axis=1)
        p = np.pad(spsolve(laplace.tocsc(), inflow.ravel()).reshape(n, m), ((0, 0), (0, 1)))
        a[1:n] -= np.diff(p[:, :m], axis=0)
        b[:, 1:] -= np.diff(p, axis=1)
        u, v, before = a, b, smoke.copy()
        x, y = np.mgrid[0.0:n, 1.0 : m + 1]
        smoke[:, 1:] = sampled(before, x - 0.5 * (u[:-1] + u[1:]), y - 0.5 * (v[:, :-1] + v[:, 1:]))
    return smoke


def test_smoke_is_that_of_an_independent_program(plume: ModuleType) -> None:
    require("scipy")
    room, flow = plume.Room(12, 9, 6), np.random.default_rng(0).uniform(0.3, 0.9, (2, 3))
    found = room.smokes(dk.array(flow))[-1].numpy()
    np.testing.assert_allclose(found, smoke_of(room, flow), atol=1e-9)
    u, v = (k.numpy() for k in room.velocity)
    assert np.abs(np.diff(u, axis=0) + np.diff(v)).max() < 1e-9


def test_the_gradient_of_an_inflow_keeps_no_iterations(plume: ModuleType) -> None:
    room, flow = plume.Room(12, 9, 6), np.random.default_rng(0).uniform(0.3, 0.9, (2, 3))
    weights = dk.array(np.random.default_rng(1).normal(size=(12, 10)))

    def gradient() -> tuple[np.ndarray, int]:
        x = dk.array(flow, requires_grad=True)
        tracemalloc.start()
        with dk.Tape() as tape:
            smoke = room.smokes(x)[-1]
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        tape.backward(grads={smoke: weights})
        return x.grad.numpy(), kept

    gradient()  # what is made once
    conditioned, kept = gradient()
    room.conditioner = None  # takes about four times the iterations
    plain, other = gradient()
    np.testing.assert_allclose(plain, conditioned, rtol=1e-7)
    assert other < 1.1 * kept + 20_000


@pytest.mark.full
def test_the_inflow_behind_a_plume_is_found(plume: ModuleType, out: str) -> None:
    left, off = plume.main(["--size", "16", "--out", out])
    assert left < 1e-9
    assert off < 0.05


# -- a volume ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_scan_becomes_distances(out: str) -> None:
    off, share = example("distances").main(["--voxel", "0.08", "--steps", "150", "--out", out])
    assert off < 0.08
    assert share == pytest.approx(1.0, abs=0.01)
