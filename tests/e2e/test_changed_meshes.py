"""What a launch looked at by an id, and is changed or lies otherwise than kernels take for granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.effects.tape_steps import AdjointOfObjects

POINTS = np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 10]])


@dk.kernel
def of_corner(mesh: dk.uint64, out: dk.array(dtype=float)):
    p, v = dk.mesh_get_point(mesh, 1), dk.mesh_get_velocity(mesh, 1)
    out[0] = p[0] * p[0] + p[1] * v[2]


@dk.kernel
def times(mesh: dk.uint64, x: dk.array(dtype=float), out: dk.array(dtype=float)):
    dk.atomic_add(out, 0, dk.mesh_get_point(mesh, 1)[0] * x[0] * x[0])


def vectors(a: Any, **options: Any) -> dk.array:
    return dk.array(np.float32(a), dtype=dk.vec3, **options)


def recorded(mesh: dk.Mesh) -> tuple[dk.Tape, dk.array]:
    """A tape of a launch that looks at a mesh, and its result."""
    out = dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(of_corner, 1, [mesh.id], [out])
    return tape, out


def moving() -> dk.Mesh:
    points, velocities = (vectors(POINTS * k, requires_grad=True) for k in (1, 10))
    return dk.Mesh(points, dk.array([0, 1, 2], dtype=int), velocities)


def differentiated(tape: dk.Tape, out: dk.array) -> None:
    tape.backward(grads={out: dk.ones(1)})


PARTS = {
    "points or velocities": (lambda mesh: mesh.points, lambda mesh: mesh.velocities), "indices": (lambda m: m.indices,),
}  # fmt: skip


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_what_numpy_changes_after_a_launch_is_noticed(name: str, part: Callable[[dk.Mesh], dk.array], is_before: bool):
    mesh = moving()
    view = part(mesh).numpy() if is_before else None
    tape, out = recorded(mesh)
    view = part(mesh).numpy() if view is None else view
    differentiated(tape, out)  # it was only looked at
    expected = [[8, 60, 0], [0, 0, 5]]
    np.testing.assert_array_equal([mesh.points.grad.numpy()[1], mesh.velocities.grad.numpy()[1]], expected)
    view += 1
    for _ in range(2):  # and stays so
        with pytest.raises(dk.LaunchError, match=f"the {name} of a Mesh, was changed after launch 0"):
            differentiated(tape, out)


def test_a_later_launch_does_not_hide_a_change_from_an_earlier_one():
    mesh = moving()
    first, out = recorded(mesh)
    view = mesh.points.numpy()
    view *= 2
    second, other = recorded(mesh)
    differentiated(second, other)
    assert mesh.points.grad.numpy()[1, 0] == 16
    with pytest.raises(dk.LaunchError, match="was changed after launch 0"):
        differentiated(first, out)


def test_memory_that_was_numpys_from_the_beginning():
    data = POINTS.copy()
    whole = dk.array(np.concatenate([data, data]), dtype=dk.vec3, copy=False, requires_grad=True)
    data = whole.numpy()
    mesh = dk.Mesh(whole[3:], dk.array([0, 1, 2], dtype=int), vectors(POINTS))
    tape, out = recorded(mesh)
    data[1] = 0  # which the mesh does not see
    differentiated(tape, out)
    assert whole.grad.numpy()[4, 0] == 8
    data[5] = 0
    with pytest.raises(dk.LaunchError, match="was changed after launch 0"):
        differentiated(tape, out)


def test_a_step_of_a_roll_out_finds_the_points_as_it_did_at_first():
    mesh, x = dk.Mesh(vectors(POINTS), dk.array([0, 1, 2], dtype=int)), dk.array([3.0], dtype=float, requires_grad=True)

    def swept(change: Callable[[], object]) -> None:
        out = dk.zeros(1, requires_grad=True)
        with dk.Tape() as tape:
            dk.checkpoint(lambda k: dk.launch(times, 1, [mesh.id, x], [out]), steps=3, slots=2)
        change()
        differentiated(tape, out)

    swept(lambda: mesh.points.numpy().sum())
    assert x.grad.numpy()[0] == 3 * 2 * 3 * 4
    with pytest.raises(dk.LaunchError, match=r"was changed after an earlier step \(kernel 'times'\)"):
        swept(lambda: mesh.points.numpy().fill(0))


def test_a_step_does_not_look_at_what_an_earlier_step_has_built():
    mesh, x = dk.Mesh(vectors(POINTS), dk.array([0, 1, 2], dtype=int)), dk.array([3.0], dtype=float, requires_grad=True)
    out = dk.zeros(1, requires_grad=True)

    def step(k: int) -> None:
        dk.launch(times, 1, [mesh.id, x], [out])
        mesh.points = vectors(POINTS * (k + 2))

    with dk.Tape(), pytest.raises(dk.LaunchError, match="at an object that an earlier step built"):
        dk.checkpoint(step, steps=2, slots=2)


def test_a_step_builds_what_it_looks_at():
    mesh, x = dk.Mesh(vectors(POINTS), dk.array([0, 1, 2], dtype=int)), dk.array([3.0], dtype=float, requires_grad=True)
    out = dk.zeros(1, requires_grad=True)

    def step(k: int) -> None:
        mesh.points = vectors(POINTS * (k + 1))
        dk.launch(times, 1, [mesh.id, x], [out])

    with dk.Tape() as tape:
        dk.checkpoint(step, steps=3, slots=2)
    differentiated(tape, out)
    assert (out.numpy()[0], x.grad.numpy()[0]) == (9 * 4 * 6, 2 * 3 * 4 * 6)


@pytest.mark.parametrize("times_launched", [1, 2])
def test_a_tape_knows_to_which_points_a_graph_has_led_a_mesh(times_launched: int):
    points = vectors(POINTS, requires_grad=True)
    mesh = dk.Mesh(points, dk.array([0, 1, 2], dtype=int))
    with dk.ScopedCapture() as capture:
        mesh.refit()
    mesh.points = others = vectors(POINTS * 2, requires_grad=True)
    for _ in range(times_launched):
        dk.capture_launch(capture.graph)
    x, out = dk.array([3.0], dtype=float, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(times, 1, [mesh.id, x], [out])
    mesh.points = others
    differentiated(tape, out)
    assert (out.numpy()[0], x.grad.numpy()[0], points.grad.numpy()[1, 0]) == (36, 24, 9)
    assert not others.grad.numpy().any()


def test_a_sweep_that_fails_leaves_a_mesh_as_it_is(monkeypatch: pytest.MonkeyPatch):
    mesh = moving()
    tape, out = recorded(mesh)
    mesh.points = vectors(POINTS * 2)

    def fails(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdjointOfObjects, "execute", fails)
    with pytest.raises(KeyboardInterrupt):
        differentiated(tape, out)
    assert recorded(mesh)[1].numpy()[0] == 8 * 8 + 10 * 60


STRIDED = {
    "contiguous": lambda: dk.zeros(3, dtype=dk.vec3), "every other": lambda: dk.zeros(6, dtype=dk.vec3)[::2],
    "backwards": lambda: dk.zeros(6, dtype=dk.vec3)[::-2], "a column": lambda: dk.zeros((3, 2), dtype=dk.vec3)[:, 1],
}  # fmt: skip


@pytest.mark.parametrize("made", STRIDED.values(), ids=STRIDED.keys())
def test_a_gradient_that_is_not_contiguous_arrives_in_its_elements_alone(made: Callable[[], dk.array]):
    mesh = moving()
    mesh.points.grad = gradient = made()
    gradient.fill_(dk.vec3(0.5, 0.0, 0.0))
    whole = gradient._parent if gradient._parent is not None else gradient
    around = whole.numpy().copy()
    tape, out = recorded(mesh)
    for _ in range(2):
        differentiated(tape, out)
    np.testing.assert_array_equal(gradient.numpy(), [[0.5, 0, 0], [16.5, 120, 0], [0.5, 0, 0]])
    assert (whole.numpy() - around).sum() == 136


def test_points_that_are_velocities_too_in_a_transposed_gradient():
    numbers = dk.array(POINTS, dtype=float, requires_grad=True)
    numbers.grad = dk.zeros((3, 3)).transpose((1, 0))
    both = numbers.view(dk.vec3)
    tape, out = recorded(dk.Mesh(both, dk.array([0, 1, 2], dtype=int), both))
    differentiated(tape, out)
    np.testing.assert_array_equal(numbers.grad.numpy(), [[0, 0, 0], [8, 6, 5], [0, 0, 0]])


def test_indices_that_take_the_place_of_others():
    mesh = moving()
    tape, out = recorded(mesh)
    mesh.indices = dk.array([[1, 2, 0]], dtype=int)
    _, other = recorded(mesh)
    assert other.numpy()[0] == 49 + 8 * 100
    differentiated(tape, out)
    assert mesh.points.grad.numpy()[1, 0] == 8
    for match, given in (
        ("contiguous", dk.array([0, 0, 1, 0, 2, 0], dtype=int)[::2]), ("6 indices for 1 faces", dk.zeros(6, dtype=int)),
        ("array of int32", dk.zeros(3)),
    ):  # fmt: skip
        with pytest.raises(dk.LaunchError, match=match):
            mesh.indices = given
    assert mesh.indices.numpy().tolist() == [1, 2, 0]
