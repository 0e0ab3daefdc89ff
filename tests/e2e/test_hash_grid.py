"""Hash grids: which points queries find, how loops go through them, and gradients through what is found."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.testing import gradcheck
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import Interpreted

N = 60
RADIUS = 0.8


@dk.kernel
def found(grid: dk.uint64, at: dk.array(dtype=dk.Any), dist: dk.Any, times: dk.array2d(dtype=int)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, at[i], dist):
        times[i, j] += 1


@dk.kernel
def found_by_next(grid: dk.uint64, at: dk.array(dtype=dk.Any), dist: dk.Any, times: dk.array2d(dtype=int)):
    i = dk.tid()
    query = dk.hash_grid_query(grid, at[i], dist)
    j = 0
    while dk.hash_grid_query_next(query, j):
        times[i, j] += 1


@dk.kernel
def found_of_group(grid: dk.uint64, at: dk.array(dtype=dk.Any), dist: dk.Any, group: int, times: dk.array2d(dtype=int)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, at[i], dist, group):
        times[i, j] += 1


@dk.kernel
def order(grid: dk.uint64, out: dk.array(dtype=int)):
    i = dk.tid()
    out[i] = dk.hash_grid_point_id(grid, i)


def candidates(points: np.ndarray, at: np.ndarray, dims: tuple[int, ...], radius: float, dist: float) -> np.ndarray:
    """Whether a point is in a cell that meets the box around a place, in the precision of the points."""
    number = np.float64 if points.dtype == np.float64 else np.float32
    inverse = number(1) / number(radius)
    cells = np.floor(points.astype(number) * inverse).astype(np.int64) % dims
    low = np.floor((at.astype(number) - number(dist)) * inverse).astype(np.int64)
    high = np.floor((at.astype(number) + number(dist)) * inverse).astype(np.int64)
    behind = (cells[None] - low[:, None]) % dims
    return (behind <= (high - low)[:, None]).all(axis=-1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("dims", [(3, 4, 5), (16, 1, 2)])
def test_all_points_of_the_cells_around_a_place_are_found_once(dtype, dims):
    rng = np.random.default_rng(3)
    points, at = (rng.normal(scale=3, size=(n, 3)).astype(dtype) for n in (N, 7))
    vec = dk.types.vector(3, dk.dtype_from_numpy(dtype))
    grid = dk.HashGrid(*dims, dtype=dk.dtype_from_numpy(dtype))
    for radius, dist in ((0.75, 0.6), (0.75, 2.9), (2.0, 0.0)):
        grid.build(dk.array(points, dtype=vec), radius)
        for kernel in (found, found_by_next):
            times = dk.zeros((7, N), dtype=int)
            dk.launch(kernel, 7, [grid.id, dk.array(at, dtype=vec), vec(dist)[0], times])
            assert (times.numpy() == candidates(points, at, dims, radius, dist)).all()
        places = dk.zeros(N, dtype=int)
        dk.launch(order, N, [grid.id, places])
        assert (np.sort(places.numpy()) == np.arange(N)).all()


def test_a_group_is_looked_for_alone():
    rng = np.random.default_rng(4)
    points, dims = rng.normal(size=(N, 3)).astype(np.float32), (4, 3, 2)
    groups = rng.choice(np.int32([-(2**31), -1, 0, 7, 2**31 - 1]), N)
    x, grid = dk.array(points, dtype=dk.vec3), dk.HashGrid(*dims)
    for given in (groups, None):
        grid.build(x, RADIUS, groups=None if given is None else dk.array(given))
        near = candidates(points, points, dims, RADIUS, RADIUS)
        for group in (-(2**31), -1, 0, 7, 2**31 - 1, 5):
            times = dk.zeros((N, N), dtype=int)
            dk.launch(found_of_group, N, [grid.id, x, RADIUS, group, times])
            assert (times.numpy() == near * (True if given is None else groups == group)).all(), group
        times = dk.zeros((N, N), dtype=int)
        dk.launch(found, N, [grid.id, x, RADIUS, times])
        assert (times.numpy() == near).all()


def test_the_order_of_a_crowded_cell_is_that_of_groups_and_indices():
    groups = np.random.default_rng(5).integers(0, 9, 300).astype(np.int32)
    grid, places = dk.HashGrid(4, 4, 4), dk.zeros(300, dtype=int)
    for given in (groups, None):
        grid.build(dk.zeros(300, dtype=dk.vec3), 1.0, groups=None if given is None else dk.array(given))
        dk.launch(order, 300, [grid.id, places])
        expected = np.arange(300) if given is None else np.argsort(groups, kind="stable")
        assert (places.numpy() == expected).all()


def test_points_have_any_axes_and_strides():
    points = np.random.default_rng(6).normal(size=(N, 3)).astype(np.float32)
    whole = dk.array(np.repeat(points, 2, axis=0), dtype=dk.vec3)
    for x in (whole[::2], dk.array(points, dtype=dk.vec3).reshape((3, 4, 5)), whole.reshape((N, 2))[:, :1]):
        grid, times = dk.HashGrid(4, 4, 4), dk.zeros((N, N), dtype=int)
        grid.build(x, RADIUS)
        dk.launch(found, N, [grid.id, dk.array(points, dtype=dk.vec3), RADIUS, times])
        assert (times.numpy() == candidates(points, points, (4, 4, 4), RADIUS, RADIUS)).all()


def count(grid: int) -> int:
    times = dk.zeros((1, 100), dtype=int)
    dk.launch(found, 1, [grid, dk.zeros(1, dtype=dk.vec3), 1.0, times])
    return int(times.numpy().sum())


def test_a_grid_without_points_and_what_is_no_grid_find_nothing():
    grid = dk.HashGrid(2, 2, 2)
    assert count(grid.id) == 0
    grid.build(dk.zeros(3, dtype=dk.vec3), 1.0)
    assert count(grid.id) == 3
    grid.build(dk.zeros(0, dtype=dk.vec3), 1.0)
    assert count(grid.id) == 0
    grid.build(dk.zeros(2, dtype=dk.vec3), 1.0)
    gone = grid.id
    assert count(0) == 0
    wrong = (12345, gone & (2**48 - 1), gone ^ (1 << 48), gone)
    del grid
    gc.collect()
    for number in wrong:
        with pytest.raises(dk.LaunchError, match=r"'found' is given the id .* no object with it"):
            count(number)
    other = dk.HashGrid(2, 2, 2)
    other.build(dk.zeros(3, dtype=dk.vec3), 1.0)
    assert count(other.id) == 3
    with pytest.raises(dk.LaunchError, match=r"'found' is given the id .* no object with it"):
        count(gone)


def test_debug_programs_say_what_is_no_grid():
    @dk.kernel(mode="debug")
    def kernel(grid: dk.uint64, k: int, out: dk.array(dtype=int)):
        out[0] = dk.hash_grid_point_id(grid, k)
        for _ in dk.hash_grid_query(grid, dk.vec3(0.0, 0.0, 0.0), 1.0):
            out[1] += 1

    grid, out = dk.HashGrid(2, 2, 2), dk.zeros(2, dtype=int)
    grid.build(dk.zeros(3, dtype=dk.vec3), 1.0)
    dk.launch(kernel, 1, [grid.id, 2, out])
    assert list(out.numpy()) == [2, 3]
    with pytest.raises(dk.KernelRuntimeError, match=r"(?s)kernel.*the id is that of no HashGrid.*hash_grid_point_id"):
        dk.launch(kernel, 1, [7, 2, out])
    with pytest.raises(dk.KernelRuntimeError, match="the HashGrid has no point of that number"):
        dk.launch(kernel, 1, [grid.id, 3, out])


def refused(match: str, call: Any) -> None:
    with pytest.raises(dk.LaunchError, match=match):
        call()


def test_what_does_not_fit_is_refused():
    grid, x = dk.HashGrid(2, 2, 2), dk.zeros(3, dtype=dk.vec3)
    refused("at least one cell", lambda: dk.HashGrid(2, 0, 2))
    refused("cell count exceeds supported limit", lambda: dk.HashGrid(1291, 1291, 1291))
    refused("float16, float32 or float64", lambda: dk.HashGrid(2, 2, 2, dtype=dk.int32))
    for radius in (0.0, -1.0, float("nan"), float("inf")):
        refused("positive number", lambda r=radius: grid.build(x, r))
    refused("too small", lambda: grid.build(x, 1e-42))
    refused("are vec3<float32>", lambda: grid.build(dk.zeros(3, dtype=dk.vec3d), 1.0))
    refused("are an array", lambda: grid.build(np.zeros((3, 3)), 1.0))
    refused("2 groups for 3 points", lambda: grid.build(x, 1.0, groups=dk.zeros(2, dtype=int)))
    refused("groups of this HashGrid are int32", lambda: grid.build(x, 1.0, groups=dk.zeros(3, dtype=float)))
    refused("-1 points", lambda: grid.reserve(-1))
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        grid.__reduce_ex__(2)


def test_a_query_has_no_length_for_enumerate():
    @dk.kernel
    def kernel(grid: dk.uint64, out: dk.array(dtype=int)):
        for k, j in enumerate(dk.hash_grid_query(grid, dk.vec3(0.0, 0.0, 0.0), 1.0)):
            out[k] = j

    with pytest.raises(dk.KernelTypeError, match="no number of items that is known beforehand"):
        dk.launch(kernel, 1, [0, dk.zeros(1, dtype=int)])


# -- gradients ---------------------------------------------------------------------------------------------------------


@dk.func
def weight(r: dk.vec3d, h: dk.float64):
    q = h * h - dk.dot(r, r)
    return dk.where(q > 0.0, q * q * q, dk.float64(0.0))


@dk.kernel
def density(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in dk.hash_grid_query(grid, x[i], h):
        s += weight(x[i] - x[j], h)
    rho[i] = s


@dk.kernel
def left_early(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s, count, last = dk.float64(0.0), 0, -1
    for j in dk.hash_grid_query(grid, x[i], h):
        if j == i:
            continue
        if count >= 5:
            break
        w = weight(x[i] - x[j], h)
        if w > 0.0:
            s = s * 1.25 + w
            count += 1
            last = j
    else:
        s += x[i][0]
    rho[i] = s
    if last >= 0:
        rho[i] += 0.5 * dk.length(x[last])


@dk.func
def first_near(query: dk.HashGridQuery[dk.float64], x: dk.array(dtype=dk.vec3d), i: int, h: dk.float64):
    for j in query:
        if j != i and weight(x[i] - x[j], h) > 0.05:
            return weight(x[i] - x[j], h)
    return dk.float64(0.0)


@dk.kernel
def by_func(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    query = dk.hash_grid_query(grid, x[i], h)
    if i % 2 == 0:
        query = dk.hash_grid_query(grid, 0.5 * x[i], 2.0 * h)
    rho[i] = first_near(query, x, i, h)


@dk.kernel
def by_next(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s, j = dk.float64(0.0), 0
    query = dk.hash_grid_query(grid, x[i], h)
    while dk.hash_grid_query_next(query, j):
        s += s * weight(x[i] - x[j], h) + weight(x[i] - 0.5 * x[j], h)
    rho[i] = s


@dk.kernel
def pairs(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], h):
        for k in dk.hash_grid_query(grid, x[j], 0.5 * h):
            rho[i] += weight(x[i] - x[j], h) * weight(x[j] - x[k], 0.5 * h)


@pytest.mark.parametrize("kernel", [density, left_early, by_func, by_next, pairs], ids=lambda k: k.name)
def test_gradients_through_what_is_found(kernel):
    points = np.random.default_rng(7).normal(size=(N, 3))
    grid = dk.HashGrid(3, 4, 2, dtype=dk.float64)
    grid.build(dk.array(points, dtype=dk.vec3d), RADIUS)
    report = gradcheck(kernel, N, [grid.id, points, RADIUS, np.zeros(N)])
    assert not report.kinks, report
    vjp = Vjp(Compilation(kernel.func, kernel.argument_types()).forward)
    given = [np.uint64(grid.id), points, RADIUS, np.zeros(N)]
    weights = vjp.weights(given, np.random.default_rng(0))
    expected = vjp.gradients((N,), given, weights)
    if kernel is not pairs:
        for i, gradient in vjp.running(Interpreted, Interpreted).gradients((N,), given, weights).items():
            np.testing.assert_allclose(gradient, expected[i], rtol=1e-9, atol=1e-12)


def test_density_is_that_of_all_pairs():
    points = np.random.default_rng(8).normal(size=(N, 3))
    grid, rho = dk.HashGrid(3, 4, 2, dtype=dk.float64), dk.zeros(N, dtype=dk.float64)
    grid.build(dk.array(points, dtype=dk.vec3d), RADIUS)
    dk.launch(density, N, [grid.id, dk.array(points, dtype=dk.vec3d), RADIUS, rho])
    square = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(rho.numpy(), (np.maximum(RADIUS**2 - square, 0.0) ** 3).sum(axis=1), rtol=1e-12)


@dk.kernel
def moved(grid: dk.uint64, x: dk.array(dtype=dk.vec3d), h: dk.float64, y: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    force = dk.vec3d(0.0, 0.0, 0.0)
    for j in dk.hash_grid_query(grid, x[i], h):
        r = x[i] - x[j]
        force += weight(r, h) * r
    y[i] = x[i] + 0.4 * force


@dk.kernel
def total(y: dk.array(dtype=dk.vec3d), loss: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(loss, 0, dk.length_sq(y[i] - dk.vec3d(1.0, 2.0, 3.0)))


def simulated(points: np.ndarray, steps: int, tape: dk.Tape | None = None, once_more: bool = False) -> Any:
    grid = dk.HashGrid(3, 4, 2, dtype=dk.float64)
    states = [dk.array(points, dtype=dk.vec3d, requires_grad=True)]
    states += [dk.zeros(len(points), dtype=dk.vec3d, requires_grad=True) for _ in range(steps)]
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    if tape is None:
        tape = dk.Tape()
    with tape:
        for x, y in itertools.pairwise(states):
            grid.build(x, RADIUS)
            dk.launch(moved, len(points), [grid.id, x, RADIUS, y])
        dk.launch(total, len(points), [states[-1], loss])
    if once_more:
        grid.build(dk.zeros(5, dtype=dk.vec3d), 0.1)
    return states, loss, grid


@pytest.mark.parametrize("once_more", [False, True])
def test_each_step_on_a_tape_has_the_grid_of_its_time(once_more):
    points, steps = np.random.default_rng(9).normal(size=(N, 3)), 4
    tape = dk.Tape()
    states, loss, grid = simulated(points, steps, tape, once_more)
    there = grid.id
    del grid
    for _ in range(3):  # the third is a compiled form of the sweep where there is one
        tape.zero()
        tape.backward(loss)
        gradient = states[0].grad.numpy().copy()
        direction = np.random.default_rng(10).normal(size=points.shape)
        ends = [simulated(points + e * direction, steps)[1].numpy()[0] for e in (1e-6, -1e-6)]
        np.testing.assert_allclose((gradient * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    if once_more:
        assert count(there) == 5, "the sweep leaves the grid as it is"


def test_an_array_of_ids_counts_as_well():
    @dk.kernel
    def kernel(
        grids: dk.array(dtype=dk.uint64), x: dk.array(dtype=dk.vec3d), h: dk.float64, rho: dk.array(dtype=dk.float64)
    ):
        i = dk.tid()
        for g in range(2):
            for j in dk.hash_grid_query(grids[g], x[i], h):
                rho[i] += weight(x[i] - x[j], h)

    points = np.random.default_rng(11).normal(size=(N, 3))
    x = dk.array(points, dtype=dk.vec3d, requires_grad=True)
    rho = dk.zeros(N, dtype=dk.float64, requires_grad=True)
    grids = [dk.HashGrid(3, 4, 2, dtype=dk.float64) for _ in range(2)]
    for grid in grids:
        grid.build(x, RADIUS)
    ids = dk.array(np.array([grid.id for grid in grids], np.uint64))
    gradients = []
    for rebuilt in (False, True):
        with dk.Tape() as tape:
            rho.zero_()
            dk.launch(kernel, N, [ids, x, RADIUS, rho])
        if rebuilt:
            grids[1].build(dk.zeros(3, dtype=dk.vec3d), 1.0)
        tape.backward(grads={rho: np.ones(N)})
        gradients.append(x.grad.numpy().copy())
        tape.zero()
    assert (gradients[0] == gradients[1]).all()
    assert gradients[0].any()


def test_a_graph_that_builds_the_grid_anew_ends_what_a_tape_knows():
    points = np.random.default_rng(12).normal(size=(N, 3))
    x = dk.array(points, dtype=dk.vec3d, requires_grad=True)
    rho, grid = dk.zeros(N, dtype=dk.float64, requires_grad=True), dk.HashGrid(3, 4, 2, dtype=dk.float64)
    with dk.ScopedCapture() as capture:
        grid.build(x, RADIUS)
    assert count(grid.id) == 0
    dk.capture_launch(capture.graph)
    with dk.Tape() as tape:
        dk.launch(density, N, [grid.id, x, RADIUS, rho])
    dk.capture_launch(capture.graph)
    with pytest.raises(dk.LaunchError, match=r"launch 0 on the tape \(kernel 'density'\)"):
        tape.backward(grads={rho: np.ones(N)})


def test_a_graph_follows_the_points():
    x, times = dk.zeros(2, dtype=dk.vec3), dk.zeros((1, 2), dtype=int)
    grid = dk.HashGrid(8, 8, 8)
    with dk.ScopedCapture() as capture:
        times.zero_()
        grid.build(x, 1.0)
        dk.launch(found, 1, [grid.id, dk.zeros(1, dtype=dk.vec3), 0.5, times])
    for points, expected in (([[0, 0, 0], [0, 0, 0]], 2), ([[0, 0, 0], [4, 4, 4]], 1)):
        x.assign(np.float32(points))
        dk.capture_launch(capture.graph)
        assert times.numpy().sum() == expected
        grid.build(dk.zeros(50, dtype=dk.vec3), 1.0)  # takes other memory, which is not the graph's
        assert count(grid.id) == 50


def test_memory_stays_where_it_is():
    grid = dk.HashGrid(4, 4, 4)
    for room in (100, 200):
        grid.reserve(room, with_groups=True)
        first = grid._next
        for n in (10, room, 50):
            grid.build(dk.zeros(n, dtype=dk.vec3), 1.0, groups=dk.zeros(n, dtype=int))
            assert grid._resource.content is first
        grid.build(dk.zeros(room + 1, dtype=dk.vec3), 1.0)
        assert grid._resource.content is not first


def test_a_grid_made_while_a_graph_is_captured_is_there_at_once():
    with dk.ScopedCapture() as capture:
        grid, x = dk.HashGrid(4, 4, 4), dk.zeros(2, dtype=dk.vec3)
        grid.build(x, 1.0)
    assert count(grid.id) == 0
    grid.build(dk.zeros(3, dtype=dk.vec3), 1.0)
    assert count(grid.id) == 3
    dk.capture_launch(capture.graph)
    assert count(grid.id) == 2


@pytest.mark.parametrize(("kernel", "adjoint"), [(left_early, False), (left_early, True), (by_next, True)])
def test_they_compile_for_cuda(kernel, adjoint):
    made = dk.compile(kernel, target="sm_90", adjoint=adjoint)
    assert ".entry" in made.ptx
    assert "ld.global.nc" in made.ptx


def test_they_compile_by_numba_cuda():
    require("numba.cuda")
    assert ".entry" in dk.compile(dk.kernel(compiler="numba")(density.func), target="sm_90", adjoint=True).ptx


@dk.kernel
def summed(grid: dk.uint64, x: dk.array(dtype=float), y: dk.array(dtype=float)):
    for j in dk.hash_grid_query(grid, dk.vec3(0.5, 0.5, 0.5), 0.4):
        y[0] += x[0] * x[0] * float(j + 1)


def test_a_graph_builds_a_grid_that_tapes_look_at():
    at = np.float32([[0.5, 0.5, 0.5], [5, 5, 5], [9, 9, 9]])
    points, grid = dk.array(at, dtype=dk.vec3), dk.HashGrid(16, 16, 16)
    grid.build(points, 1.0)

    def recorded() -> tuple[dk.Tape, dk.array, dk.array]:
        x, y = dk.ones(1, requires_grad=True), dk.zeros(1, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(summed, 1, [grid.id, x], [y])
        return tape, x, y

    def launched(order: list[int]) -> None:
        points.assign(at[order])
        dk.capture_launch(capture.graph)

    first = recorded()
    with dk.ScopedCapture() as capture:
        grid.build(points, 1.0)
    second = recorded()  # with the grid as it still is
    launched([1, 0, 2])
    third = recorded()
    grid.build(dk.array(at[[1, 2, 0]], dtype=dk.vec3), 1.0)
    fourth = recorded()
    for number, (tape, x, y) in enumerate((first, second, third, fourth)):
        tape.backward(grads={y: dk.ones(1)})
        assert (y.numpy()[0], x.grad.numpy()[0]) == ((1, 2), (1, 2), (2, 4), (3, 6))[number]
    launched([1, 0, 2])
    tape, _, y = recorded()
    launched([0, 1, 2])
    with pytest.raises(dk.LaunchError, match="a graph or a record of launches built the object again"):
        tape.backward(grads={y: dk.ones(1)})


def test_the_arrays_of_a_grid_stay_until_a_graph_is_launched():
    at = np.float32([[0.5, 0.5, 0.5], [5, 5, 5]])
    grid, y = dk.HashGrid(16, 16, 16), dk.zeros(1)
    grid.build(dk.array(at, dtype=dk.vec3), 1.0)
    before = weakref.ref(grid._resource.content.arrays[0])
    with dk.ScopedCapture() as capture:
        grid.build(dk.array(np.repeat(at, 50, axis=0), dtype=dk.vec3), 1.0)
    gc.collect()
    assert before() is not None
    dk.launch(summed, 1, [grid.id, dk.ones(1)], [y])
    assert y.numpy()[0] == 1
    dk.capture_launch(capture.graph)
    dk.launch(summed, 1, [grid.id, dk.ones(1)], [y])
    assert y.numpy()[0] == 1 + 50 * 51 / 2
