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
