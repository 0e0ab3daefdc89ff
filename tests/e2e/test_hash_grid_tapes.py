"""Gradients through hash grids that are built again and again: every order of builds and launches on a tape.

What a launch finds follows from the last build before it, by a search through all points; numbers are small integers,
so that gradients are exact.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.selection import is_usual

import diffkern as dk
import diffkern.warp as wp
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import Use, used
from diffkern.spatial import hash_grid, kernels

DIMS = (3, 2, 4)
WAYS = {"alone": (True, 1 << 15), "blocks": (True, 3), "some blocks": (True, 6), "counted": (False, 1)}
"""How points are sorted: on a processor by one thread, by several, by one if they are few; and as on a GPU."""
N, DIST = 7, 0.5
POINTS = np.random.default_rng(5).normal(scale=2.0, size=(3, N, 3)).astype(np.float32)
GROUPS = np.int32([0, 1, 1, 0, 2, 1, 0])
PLACES = np.float32([[0, 0, 0], [1, -1, 2], [-2, 0.5, 0.1]])
EVENTS = "ABEGRQH"
"""Builds of many and few points, of none, with groups; a reservation; launches that look at all, and at a group."""


@dk.kernel
def summed(
    grid: dk.uint64, at: dk.array(dtype=dk.vec3), group: int, factor: float, x: dk.array(dtype=float),
    y: dk.array(dtype=float),
):  # fmt: skip
    i = dk.tid()
    s = 0.0
    if group < 0:
        for j in dk.hash_grid_query(grid, at[i], 0.5):
            s += x[j] * x[j]
    else:
        for j in dk.hash_grid_query(grid, at[i], 0.5, group):
            s += x[j] * x[j]
    dk.atomic_add(y, 0, factor * s)


class Events:
    """Builds and launches, and what they come to."""

    def __init__(self, number: int = 0) -> None:
        self.grid = dk.HashGrid(*DIMS)
        self.points = [dk.array(points, dtype=dk.vec3) for points in POINTS]
        self.at, self.groups = dk.array(PLACES, dtype=dk.vec3), dk.array(GROUPS)
        self.found = np.zeros((len(PLACES), 0), bool)
        self.by_group: np.ndarray | None = None
        self.slope, self.launches, self.number = np.zeros(N), 0, number

    def __call__(self, event: str, x: Any, y: Any) -> None:
        if event == "R":
            self.grid.reserve(2 * N + self.launches)
        elif event in "QH":
            group, self.launches = (-1 if event == "Q" else 1), self.launches + 1
            dk.launch(summed, len(PLACES), [self.grid.id, self.at, group, float(self.launches)], [x, y])
            self.expect(group)
        else:
            self.build(event)

    def build(self, event: str) -> None:
        kind, n, radius = {"A": (0, N, 0.5), "B": (1, 3, 1.5), "E": (0, 0, 1.0), "G": (2, N, 0.75)}[event]
        points = self.points[(kind + self.number) % 3][:n]
        self.grid.build(points, radius, groups=self.groups[:n] if event == "G" else None)
        at = points.numpy()
        self.found = np.ones((len(PLACES), n), bool)
        for k, dim in enumerate(DIMS):
            low, high = (cell_of(PLACES[:, k] + np.float32(s), radius) for s in (-DIST, DIST))
            self.found &= (cell_of(at[:, k], radius)[None, :] - low[:, None]) % dim <= (high - low)[:, None]
        self.by_group = GROUPS[:n] if event == "G" else None

    def expect(self, group: int) -> None:
        found = self.found if group < 0 or self.by_group is None else self.found & (self.by_group == group)
        self.slope[: found.shape[1]] += self.launches * found.sum(axis=0)


def cell_of(x: np.ndarray, radius: float) -> np.ndarray:
    return np.floor(x * (np.float32(1) / np.float32(radius)))


def arrays() -> tuple[Any, Any]:
    x = np.arange(1, N + 1, dtype=np.float32)
    return dk.array(x, requires_grad=True), dk.zeros(1, requires_grad=True)


def expected(slope: np.ndarray) -> list[float]:
    return (2 * slope * np.arange(1, N + 1)).tolist()


def orders(length: int) -> list[str]:
    """Orders that end with a build, which adjoints have to see past, and launch after some other build."""
    found = ["".join(events) for events in itertools.product(EVENTS, repeat=length)]
    return [events for events in found if ("Q" in events or "H" in events) and events[-1] in "ABEG"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    by_digits, block = WAYS[request.param]
    monkeypatch.setattr(hash_grid, "_BLOCK", block)
    return by_digits


def check(order: str, by_digits: bool, first: str = "") -> None:
    events, (x, y) = Events(), arrays()
    events.grid._by_digits = by_digits
    for event in first:
        events(event, x, y)
    with dk.Tape() as tape:
        for event in order:
            events(event, x, y)
    for _ in range(2):
        tape.zero()
        tape.backward(grads={y: dk.ones(1)})
        assert x.grad.numpy().tolist() == expected(events.slope), order
    # What is launched after a sweep finds the last build.
    events.slope[:] = 0.0
    with dk.Tape() as tape:
        events("Q", x, y)
    tape.zero()
    tape.backward(grads={y: dk.ones(1)})
    assert x.grad.numpy().tolist() == expected(events.slope), order


def test_every_order_of_a_few_builds_and_launches(way):
    for length in (2, 3):
        for order in orders(length):
            check(order, way)


def test_a_table_changes_to_that_of_any_other_points():
    """From any points in four cells to any others: first places that stay are not written, all others are."""
    number, sets = 5, [cells for n in range(5) for cells in itertools.combinations_with_replacement(range(4), n)]
    wanted = [[sum(c < place for c in cells) for place in range(number)] for cells in sets]
    arrays = [dk.array(np.array([*cells, 0], np.int32)) for cells in sets]
    table = dk.zeros(number + 1 + 4, dtype=int)
    random = np.random.default_rng(0)
    pairs = [*itertools.product(range(len(sets)), repeat=2)]
    for k in random.permutation(len(pairs))[:1200]:
        for which in pairs[k]:
            update = kernels.update_cells if random.random() < 0.9 else kernels.begin_cells
            held, chunk = arrays[which][: len(sets[which])], () if update is kernels.update_cells else (2,)
            dk.launch(update, 3 if chunk else 1, [held, table, number, *chunk])
            assert table.numpy()[:number].tolist() == wanted[which]


@pytest.mark.full
def test_every_order_of_more_builds_and_launches(way):
    for length in (4, 5):
        for order in orders(length):
            if length == 4 or is_usual(order, 8):
                check(order, way)


@pytest.mark.parametrize("first", ["A", "QG"])
def test_builds_before_the_tape(first, way):
    for order in orders(2):
        check(order, way, first)


def test_several_grids_and_several_tapes(way):
    """Each sweep finds the grids of its own tape, in whichever order they are swept."""
    grids = [Events(k) for k in range(2)]
    for events in grids:
        events.grid._by_digits = way
    tapes, slopes, (x, y) = [], [], arrays()
    for order in ("A0Q0B1Q1A1Q0Q1G0", "Q0B0Q0E1Q1A1H1", "G0H0H1B0H0A1"):
        with dk.Tape() as tape:
            for event, k in zip(order[::2], order[1::2], strict=True):
                grids[int(k)](event, x, y)
        tapes.append(tape)
        slopes.append([events.slope.copy() for events in grids])
        for events in grids:
            events.slope[:] = 0.0
    for k in (1, 0, 2, 0):
        tapes[k].zero()
        tapes[k].backward(grads={y: dk.ones(1)})
        assert x.grad.numpy().tolist() == expected(sum(slopes[k]))


def test_a_graph_that_builds_a_grid_after_it_was_looked_at_has_no_gradient(way):
    """Its launches find the grid of the replay before, or of the program, and not the one that was recorded."""
    events, (x, y) = Events(), arrays()
    events.grid._by_digits = way
    events("B", x, y)
    for order, is_refused in (("QA", True), ("QAQ", True), ("Q", False), ("AQBQ", False)):
        with dk.ScopedCapture(), dk.Tape() as tape:
            for event in order:
                events(event, x, y)
            if is_refused:
                with pytest.raises(dk.LaunchError, match=r"launch 0 on the tape .* built before this recording"):
                    tape.backward(grads={y: dk.ones(1)})
            else:
                tape.backward(grads={y: dk.ones(1)})


@dk.kernel
def found_in_array(
    grids: dk.array(dtype=dk.uint64), at: dk.array(dtype=dk.vec3), x: dk.array(dtype=float), y: dk.array(dtype=float)
):
    for j in dk.hash_grid_query(grids[0], at[dk.tid()], 0.5):
        dk.atomic_add(y, 0, x[j] * x[j])


@dk.kernel
def faces_in_array(
    meshes: dk.array(dtype=dk.uint64), at: dk.array(dtype=dk.vec3), x: dk.array(dtype=float), y: dk.array(dtype=float)
):
    near = dk.mesh_query_point_no_sign(meshes[0], at[dk.tid()], 9.0)
    dk.atomic_add(y, 0, x[near.face] * x[near.face])


def test_a_graph_is_refused_for_grids_by_ids_in_arrays():
    events, (x, y) = Events(), arrays()
    events("B", x, y)
    ids = dk.array(np.uint64([events.grid.id]))
    for order in ("A", "BA", ""):
        with dk.ScopedCapture(), dk.Tape() as tape:
            dk.launch(found_in_array, len(PLACES), [ids, events.at, x], [y])
            for event in order:
                events(event, x, y)
            if order:
                with pytest.raises(dk.LaunchError, match=r"launch 0 on the tape .* built before this recording"):
                    tape.backward(grads={y: dk.ones(1)})


def test_ids_in_arrays_are_those_of_objects_of_the_kinds_that_a_kernel_asks_for():
    events, (x, y) = Events(), arrays()
    events("B", x, y)
    mesh = dk.Mesh(dk.array(POINTS[0, :3], dtype=dk.vec3), dk.array(np.int32([0, 1, 2])))
    grid, faces = events.grid._resource, mesh._resource
    for kernel, meant, other in ((found_in_array, grid, faces), (faces_in_array, faces, grid)):
        launch = PackedLaunch(kernel, len(PLACES), [dk.array(np.uint64([meant.id])), events.at, x, y])
        with dk.ScopedCapture():
            found = {use.resource: use for use in used(launch.executable, launch.parts)}
        # Replays may find another one of those that it may mean.
        assert found[meant]._is_from_without
        assert not found[other]._is_from_without


@pytest.mark.parametrize("order", ["AQBQ", "AQAQGHA", "AQQEQB"])
def test_a_sweep_in_a_graph(order, way):
    """The points differ from launch to launch of the graph, and so does what its sweep finds."""
    events, (x, y) = Events(), arrays()
    events.grid._by_digits = way
    events("B", x, y)
    with dk.ScopedCapture() as capture:
        tape = dk.Tape()
        with tape:
            for event in order:
                events(event, x, y)
        tape.zero()
        tape.backward(grads={y: dk.ones(1)})
    for number in (0, 1, 2):
        for held, points in zip(events.points, np.roll(POINTS, number, axis=0), strict=True):
            held.assign(points)
        again = Events()
        again.grid._by_digits, again.points = way, events.points
        again("B", x, dk.zeros(1))
        events("B", x, dk.zeros(1))  # launches in front of a build of the graph find this one
        again.slope[:], again.launches = 0.0, 0
        for event in order:
            again(event, x, dk.zeros(1))
        dk.capture_launch(capture.graph)
        assert x.grad.numpy().tolist() == expected(again.slope), number


def test_a_function_that_sweeps_in_a_sweep(way):
    """The sweep of a function of the user's makes tables of the same grid, amid those of the sweep around it."""
    events, inner, (x, y) = Events(), Events(), arrays()
    inner.grid = events.grid
    events.grid._by_digits = way
    z = dk.array(x.numpy(), requires_grad=True)
    other = dk.Tape()
    with other:
        for event in "BQAQ":
            inner(event, z, y)

    def sweep() -> None:
        other.zero()
        other.backward(grads={y: dk.ones(1)})
        y.grad.fill_(1.0)

    with dk.Tape() as tape:
        for event in "AQQ":
            events(event, x, y)
        tape.record_func(sweep, [y])
        for event in "QGHB":
            events(event, x, y)
    tape.backward(grads={y: dk.ones(1)})
    assert z.grad.numpy().tolist() == expected(inner.slope)
    assert x.grad.numpy().tolist() == expected(events.slope)


def test_steps_of_a_roll_out(way):
    """Steps build the grid twice, between launches of the tape around them which find other builds."""
    found = []
    for plain in (True, False):
        events, (x, y) = Events(), arrays()
        events.grid._by_digits = way

        def step(k: int, events: Events = events, x: Any = x, y: Any = y) -> None:
            for event in "BQAQ":
                events(event, x, y)

        with dk.Tape() as tape:
            for event in "AQ":
                events(event, x, y)
            events.launches = 0
            if plain:
                for k in range(5):
                    events.launches = 0
                    step(k)
            else:

                def repeated(k: int, events: Events = events, step: Any = step) -> None:
                    events.launches = 0
                    step(k)

                dk.checkpoint(repeated, 5, 2)
            for event in "QGHB":
                events(event, x, y)
        last = events.found, events.by_group
        tape.backward(grads={y: dk.ones(1)})
        found.append(x.grad.numpy().tolist())
        # The steps of a roll-out have run again.
        (events.found, events.by_group), events.slope[:], events.launches = last, 0.0, 0
        with dk.Tape() as tape:
            events("Q", x, y)
        tape.zero()
        tape.backward(grads={y: dk.ones(1)})
        assert x.grad.numpy().tolist() == expected(events.slope)
    assert found[0] == found[1]


@wp.kernel
def summed_by_warp(grid: wp.uint64, at: wp.array(dtype=wp.vec3), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    for j in wp.hash_grid_query(grid, at[wp.tid()], 0.5):
        wp.atomic_add(y, 0, x[j] * x[j])


def test_the_dialect_of_warp():
    events, (x, y) = Events(), arrays()
    at, grid = wp.array(PLACES, dtype=wp.vec3), wp.HashGrid(*DIMS)
    with wp.Tape() as tape:
        for event in "AQGQEQBQ":
            if event == "Q":
                wp.launch(summed_by_warp, dim=len(PLACES), inputs=[grid.id, at, x], outputs=[y])
                events.launches = 1
                events.expect(-1)
            else:
                events.build(event)
                n = events.found.shape[1]
                points = events.points["ABG".find(event) if event in "ABG" else 0][:n]
                grid.build(points, {"A": 0.5, "B": 1.5, "E": 1.0, "G": 0.75}[event])
    grid.build(events.points[1], 0.1)
    tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert x.grad.numpy().tolist() == expected(events.slope)


@dk.kernel
def weighed(
    grid: dk.uint64, p: dk.array(dtype=dk.vec3d), q: dk.array(dtype=dk.vec3d), z: dk.array(dtype=dk.float64)
):  # fmt: skip
    i = dk.tid()
    s = dk.float64(0.0)
    for j in dk.hash_grid_query(grid, p[i], 0.75):
        s += dk.length_sq(q[i] - p[j]) * dk.sin(p[j][0])
    z[i] = z[i] * 0.5 + s * s


def test_moved_points_in_both_modes_and_to_second_order(way):
    """Points move between builds, and their derivatives go through what each launch has found."""
    points = np.random.default_rng(8).normal(size=(9, 3))
    grid, fixed = dk.HashGrid(3, 4, 2, dtype=dk.float64), dk.array(points[::-1].copy(), dtype=dk.vec3d)
    grid._by_digits = way

    def f(p: Any) -> Any:
        z = dk.zeros(9, dtype=dk.float64, requires_grad=True)
        for held, radius in ((p, 0.75), (fixed, 1.25), (p, 1.0)):
            grid.build(held, radius)
            dk.launch(weighed, 9, [grid.id, p, fixed, z])
        total = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        dk.launch(added, 9, [z, total])
        return total

    def of(values: np.ndarray) -> Any:
        return dk.array(values, dtype=dk.vec3d, requires_grad=True)

    direction = np.random.default_rng(9).normal(size=points.shape)
    e = 1e-6
    gradient = dk.grad(f)(of(points)).numpy()
    ends = [f(of(points + s * direction)).numpy()[0] for s in (e, -e)]
    slope = (ends[0] - ends[1]) / (2 * e)
    np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-6)
    _, along = dk.jvp(f, (of(points),), (of(direction),))
    np.testing.assert_allclose(along.numpy()[0], slope, rtol=1e-6)
    second = dk.hvp(f, (of(points),), (of(direction),))[0].numpy()
    ends = [dk.grad(f)(of(points + s * direction)).numpy() for s in (e, -e)]
    np.testing.assert_allclose(second, (ends[0] - ends[1]) / (2 * e), rtol=1e-5, atol=1e-5)


@dk.kernel
def added(z: dk.array(dtype=dk.float64), total: dk.array(dtype=dk.float64)):
    dk.atomic_add(total, 0, z[dk.tid()])


def test_a_tape_keeps_numbers_of_points_and_not_of_cells():
    grid, (x, y) = dk.HashGrid(40, 40, 40), arrays()
    at, points = dk.array(PLACES, dtype=dk.vec3), dk.array(POINTS[0], dtype=dk.vec3)
    seen = []
    with dk.Tape():
        for _ in range(4):
            grid.build(points, 1.0)
            dk.launch(summed, len(PLACES), [grid.id, at, -1, 1.0], [x, y])
            seen.append(Use(grid._resource).content)
    assert len(set(map(id, seen))) == 4
    assert {id(content.derived.held) for content in seen} == {id(grid._table)}
    assert all(sum(held.size for held in content.arrays) <= 3 * N for content in seen)


def test_a_table_that_was_begun_and_not_finished_is_made_again(monkeypatch):
    """A build that ends with an error leaves its table and the old words: adjoints make one of their own."""
    events, (x, y) = Events(), arrays()
    with dk.Tape() as tape:
        for event in "AQ":
            events(event, x, y)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(events.grid._resource), "lead_to", interrupted)
        with pytest.raises(KeyboardInterrupt):
            events.build("B")
    tape.backward(grads={y: dk.ones(1)})
    assert x.grad.numpy().tolist() == expected(events.slope)
