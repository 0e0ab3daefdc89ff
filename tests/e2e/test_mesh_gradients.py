"""Derivatives of queries of meshes with respect to rays, points and vertices: beside formulas of NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.surfaces import sphere

import diffkern as dk

N = 24
WEIGHTS = np.array([0.7, -1.1, 0.4, 0.3, -0.6, 0.9])


@dk.kernel
def measured(
    mesh: dk.uint64, x: dk.array(dtype=dk.vec3), d: dk.array(dtype=dk.vec3), out: dk.array(dtype=float),
    faces: dk.array2d(dtype=int),
):  # fmt: skip
    i = dk.tid()
    hit = dk.mesh_query_ray(mesh, x[i], d[i], 100.0)
    faces[i, 0] = -1
    s = 0.0
    if hit.result:
        s = 0.7 * hit.t * hit.t - 1.1 * hit.u + 0.4 * hit.v + dk.dot(hit.normal, dk.vec3(0.3, -0.6, 0.9))
        faces[i, 0] = hit.face
    near = dk.mesh_query_point_no_sign(mesh, x[i], 100.0)
    faces[i, 1] = near.face
    s += dk.length(dk.mesh_eval_position(mesh, near.face, near.u, near.v) - x[i]) + 0.5 * near.u - 0.3 * near.v
    out[i] = s


@dk.kernel
def read(mesh: dk.uint64, out: dk.array(dtype=float)):
    i = dk.tid()
    held = dk.mesh_get(mesh)
    a, b = held.points[held.indices[3 * i]], dk.mesh_get_point(mesh, 3 * i + 1)
    out[i] = dk.dot(a, b) + dk.dot(dk.mesh_eval_velocity(mesh, i, 0.2, 0.3), dk.mesh_eval_face_normal(mesh, i))


def weights_of_nearest(a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """The weights of the place of a triangle that is nearest, of candidates: inside, on the edges, at vertices."""
    candidates = []
    uv = np.linalg.lstsq(np.stack([a - c, b - c], axis=1), x - c, rcond=None)[0]
    candidates.append((uv[0], uv[1]))
    for p, q, at in ((a, b, lambda t: (1 - t, t)), (b, c, lambda t: (0.0, 1 - t)), (c, a, lambda t: (t, 0.0))):
        candidates.append(at(np.clip((x - p) @ (q - p) / ((q - p) @ (q - p)), 0, 1)))
    inside = [(u, v) for u, v in candidates if u >= -1e-12 and v >= -1e-12 and u + v <= 1 + 1e-12]
    return min(inside, key=lambda w: np.linalg.norm(w[0] * a + w[1] * b + (1 - w[0] - w[1]) * c - x))


def expected(points: np.ndarray, faces: np.ndarray, x: np.ndarray, d: np.ndarray, found: np.ndarray) -> np.ndarray:
    """What ``measured`` gives where the faces are known."""
    out = np.zeros(N)
    for i, (ray, near) in enumerate(found):
        if ray >= 0:
            a, b, c = points[faces[ray]]
            t, u, v = np.linalg.solve(np.stack([-d[i], a - c, b - c], axis=1), x[i] - c)
            n = np.cross(b - a, c - a)
            out[i] = 0.7 * t * t - 1.1 * u + 0.4 * v + n @ WEIGHTS[3:] / np.linalg.norm(n)
        a, b, c = points[faces[near]]
        u, v = weights_of_nearest(a, b, c, x[i])
        out[i] += np.linalg.norm(u * a + v * b + (1 - u - v) * c - x[i]) + 0.5 * u - 0.3 * v
    return out


def case() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    points, faces = sphere(1)
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(N, 3)) * 1.5).astype(np.float32)
    return points, faces, x, (rng.normal(size=(N, 3)) * 0.3 - x).astype(np.float32)


def vectors(a: np.ndarray, **options: Any) -> dk.array:
    return dk.array(a, dtype=dk.vec3, **options)


def test_derivatives_with_respect_to_rays_points_and_vertices():
    points, faces, x, d = case()
    given = [vectors(a, requires_grad=True) for a in (points, x, d)]
    mesh = dk.Mesh(given[0], dk.array(faces.ravel()))
    out, found = dk.zeros(N, requires_grad=True), dk.zeros((N, 2), dtype=int)
    with dk.Tape() as tape:
        dk.launch(measured, N, [mesh.id, *given[1:]], [out, found])
    tape.backward(grads={out: dk.ones(N)})
    at, which = [a.astype(float) for a in (points, x, d)], found.numpy()
    np.testing.assert_allclose(out.numpy(), expected(at[0], faces, *at[1:], which), rtol=2e-5, atol=2e-5)
    assert (which[:, 0] >= 0).sum() > 10
    rng = np.random.default_rng(4)
    for k, a in enumerate(given):
        for _ in range(3):
            along = rng.normal(size=at[k].shape)
            sides = []
            for step in (1e-6, -1e-6):
                moved = [b + step * along if k == j else b for j, b in enumerate(at)]
                sides.append(expected(moved[0], faces, *moved[1:], which).sum())
            slope = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose((a.grad.numpy() * along).sum(), slope, rtol=2e-4, atol=2e-4)


def test_vertices_in_forward_mode_and_second_order():
    points, faces, x, d = case()
    given, rng, found = [vectors(a) for a in (points, x, d)], np.random.default_rng(5), dk.zeros((N, 2), dtype=int)

    def results(points: dk.array, x: dk.array, d: dk.array) -> dk.array:
        mesh, out = dk.Mesh(points, dk.array(faces.ravel())), dk.zeros(N)
        dk.launch(measured, N, [mesh.id, x, d], [out, found])
        return out

    at, moves = [a.astype(float) for a in (points, x, d)], [rng.normal(size=a.shape) for a in (points, x, d)]
    along = [vectors(a.astype(np.float32)) for a in moves]
    _, tangent = dk.jvp(results, given, along)

    def value(step: float) -> np.ndarray:
        moved = [a + step * move for a, move in zip(at, moves, strict=True)]
        return expected(moved[0], faces, *moved[1:], found.numpy())

    np.testing.assert_allclose(tangent.numpy(), (value(1e-6) - value(-1e-6)) / 2e-6, rtol=1e-3, atol=1e-3)
    products = dk.hvp(lambda *given: results(*given).sum(), given, along)
    curved = sum((held.numpy() * move).sum() for held, move in zip(products, moves, strict=True))
    np.testing.assert_allclose(curved, (value(1e-4) + value(-1e-4) - 2.0 * value(0.0)).sum() / 1e-8, rtol=5e-3)


def test_forward_mode_has_the_derivatives_of_rays_and_points():
    points, faces, x, d = case()
    mesh = dk.Mesh(vectors(points), dk.array(faces.ravel()))
    out, found = dk.zeros(N), dk.zeros((N, 2), dtype=int)

    def launched(*given: dk.array) -> dk.array:
        dk.launch(measured, N, [mesh.id, *given, out, found])
        return out

    along = np.random.default_rng(5).normal(size=(2, N, 3)).astype(np.float32)
    _, slopes = dk.jvp(launched, [vectors(x), vectors(d)], [vectors(along[0]), vectors(along[1])])
    which, wide, x, d = found.numpy(), points.astype(float), x.astype(float), d.astype(float)
    sides = [expected(wide, faces, x + s * along[0], d + s * along[1], which) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(slopes.numpy(), (sides[0] - sides[1]) / 2e-6, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("as_parameter", [False, True])
def test_what_is_read_of_a_mesh_has_a_gradient(as_parameter):
    @dk.kernel
    def also_direct(mesh: dk.uint64, p: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i] = dk.mesh_get(mesh).points[i][0] * p[i][1]

    points, faces = sphere(0)
    velocities = np.random.default_rng(6).normal(size=points.shape).astype(np.float32)
    p, v = vectors(points, requires_grad=True), vectors(velocities, requires_grad=True)
    mesh = dk.Mesh(p, dk.array(faces.ravel()), v)
    n = len(points) if as_parameter else len(faces)
    out = dk.zeros(n, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(also_direct if as_parameter else read, n, [mesh.id, p, out] if as_parameter else [mesh.id, out])
    tape.backward(grads={out: dk.ones(n)})
    if as_parameter:
        np.testing.assert_allclose(p.grad.numpy(), points[:, [1, 0, 2]] * [1, 1, 0], rtol=1e-6)
        return

    def value(p: np.ndarray, v: np.ndarray) -> float:
        a, b, c = (p[faces[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        speed = 0.2 * v[faces[:, 0]] + 0.3 * v[faces[:, 1]] + 0.5 * v[faces[:, 2]]
        return float((a * b).sum() + (speed * normal).sum())

    along = np.random.default_rng(7).normal(size=(2, *points.shape))
    for gradient, on in ((p.grad, (1, 0)), (v.grad, (0, 1))):
        sides = [value(points + s * on[0] * along[0], velocities + s * on[1] * along[1]) for s in (1e-6, -1e-6)]
        slope = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose((gradient.numpy() * along[on[1]]).sum(), slope, rtol=1e-4)


@dk.kernel
def scaled(by: dk.array(dtype=float), p: dk.array(dtype=dk.vec3), out: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    out[i] = p[i] * by[0]


@dk.kernel
def gap(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    near = dk.mesh_query_point_no_sign(mesh, x[i], 100.0)
    dk.atomic_add(out, 0, dk.length_sq(dk.mesh_eval_position(mesh, near.face, near.u, near.v) - x[i]))


def test_gradients_go_on_to_what_the_vertices_were_computed_from():
    points, faces, x, _ = case()
    by, p = dk.array(np.float32([1.1]), requires_grad=True), vectors(points)
    mesh = dk.Mesh(vectors(points), dk.array(faces.ravel()))

    def loss_of(by: dk.array) -> dk.array:
        total = dk.zeros(1, requires_grad=True)
        for factor in (1.0, 0.5):
            moved = dk.zeros(len(points), dtype=dk.vec3)
            dk.launch(scaled, len(points), [by, vectors(points * np.float32(factor)), moved])
            mesh.points = moved
            dk.launch(gap, N, [mesh.id, vectors(x), total])
        return total

    with dk.Tape() as tape:
        total = loss_of(by)
    mesh.points = p
    tape.backward(total)
    losses = [float(loss_of(dk.array(np.float32([value]))).numpy()[0]) for value in (1.11, 1.09)]
    np.testing.assert_allclose(by.grad.numpy()[0], (losses[0] - losses[1]) / 2e-2, rtol=2e-3)


def refused(match: str, call: Any) -> None:
    with pytest.raises((dk.LaunchError, dk.AutodiffError), match=match):
        call()


def test_where_no_derivative_goes_to_the_vertices_there_is_an_error():
    points, faces, x, _ = case()
    p, x = vectors(points, requires_grad=True), vectors(x, requires_grad=True)
    mesh, loss = dk.Mesh(p, dk.array(faces.ravel())), dk.zeros(1, requires_grad=True)

    def launched(at: dk.array) -> dk.array:
        dk.launch(gap, N, [mesh.id, at, loss])
        return loss

    by_hand = {"adjoint": True, "adj_inputs": [None, dk.zeros_like(x)], "adj_outputs": [dk.ones(1)]}
    refused("outside of a tape", lambda: dk.launch(gap, N, [mesh.id, x], [loss], **by_hand))
    with dk.Tape() as tape:
        launched(x)
        p.zero_()
    refused("the points or velocities of a Mesh, was changed after launch", lambda: tape.backward(loss))

    @dk.kernel(deterministic=True)
    def ordered(mesh: dk.uint64, out: dk.array(dtype=float)):
        out[dk.tid()] = dk.mesh_get_point(mesh, 0)[0]

    with dk.Tape() as tape:
        dk.launch(ordered, 1, [mesh.id, loss])
    refused("added up in the order of threads", lambda: tape.backward(loss))

    @dk.kernel
    def writes(mesh: dk.uint64, out: dk.array(dtype=dk.vec3)):
        out[dk.tid()] = 2.0 * dk.mesh_get_point(mesh, 0)

    with dk.Tape():
        refused("writes to an array that it also looks at", lambda: dk.launch(writes, 1, [mesh.id, p]))


@dk.kernel
def summed(g: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(out, 0, dk.dot(g[i], dk.vec3(0.5, -1.0, 0.7)))


@pytest.mark.parametrize("with_gradient", [False, True])
def test_vertices_are_constants_of_a_gradient_by_points_and_no_derivative_of_it_is_lost(with_gradient):
    points, faces, x, _ = case()
    p, x = vectors(points, requires_grad=with_gradient), vectors(x)
    mesh = dk.Mesh(p, dk.array(faces.ravel()))

    def squared(at: dk.array) -> dk.array:
        loss = dk.zeros(1)
        dk.launch(gap, N, [mesh.id, at], [loss])
        return loss

    def total(_: dk.array) -> dk.array:
        loss = dk.zeros(1)
        dk.launch(summed, N, [dk.grad(squared)(x)], [loss])
        return loss

    # The gradient of the squared distance to the nearest place is twice the way from there.
    near = x.numpy() - 0.5 * dk.grad(squared)(x).numpy()
    out, found = dk.zeros(N), dk.zeros((N, 2), dtype=int)
    dk.launch(measured, N, [mesh.id, x, x], [out, found])
    corners = points[faces[found.numpy()[:, 1]]]
    weights = [weights_of_nearest(*corner, at) for corner, at in zip(corners, x.numpy(), strict=True)]
    expected_near = [u * a + v * b + (1 - u - v) * c for (u, v), (a, b, c) in zip(weights, corners, strict=True)]
    np.testing.assert_allclose(near, expected_near, atol=1e-5)
    along = vectors(np.random.default_rng(7).normal(size=points.shape).astype(np.float32))
    refused("looks at objects by their ids", lambda: dk.jvp(lambda _: dk.grad(squared)(x), (p,), (along,)))
    refused("looks at objects by their ids", lambda: dk.grad(total)(p))
    # The other order has the mixed derivative, which both of these left out.
    _, mixed = dk.hvp(lambda _, at: squared(at), (p, x), (along, dk.zeros_like(x)))
    step, sides = 1e-2, []
    for sign in (1.0, -1.0):
        mesh.points = vectors(points + np.float32(sign * step) * along.numpy())
        sides.append(dk.grad(squared)(x).numpy())
    slope = (sides[0] - sides[1]) / (2 * step)
    assert np.median(np.abs(mixed.numpy() - slope)) < 2e-3  # where the nearest face stays the same
    assert np.median(np.abs(slope)) > 0.1


def test_a_recorded_gradient_of_vertices_is_refused_by_name():
    points, faces, x, _ = case()
    p, x, loss = vectors(points, requires_grad=True), vectors(x), dk.zeros(1, requires_grad=True)
    mesh = dk.Mesh(p, dk.array(faces.ravel()))
    with dk.record(), dk.Tape() as tape:
        dk.launch(gap, N, [mesh.id, x], [loss])
        refused("adds to gradients of arrays that are found by ids", lambda: tape.backward(loss))


@dk.kernel
def moved_on(mesh: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    near = dk.mesh_query_point_no_sign(mesh, x[i], 100.0)
    out[i] = x[i] + 0.3 * (dk.mesh_eval_position(mesh, near.face, near.u, near.v) - x[i])


@pytest.mark.parametrize("with_gradient", [False, True])
def test_a_roll_out_of_a_function_loses_no_gradient_of_vertices(with_gradient):
    points, faces, x, _ = case()
    p, x = vectors(points, requires_grad=with_gradient), vectors(x)
    mesh = dk.Mesh(p, dk.array(faces.ravel()))

    def far(at: dk.array, checkpointed: bool) -> dk.array:
        here, there, loss = dk.clone(at), dk.zeros_like(at), dk.zeros(1)

        def step(_: int) -> None:
            dk.launch(moved_on, N, [mesh.id, here], [there])
            dk.copy(here, there)

        if checkpointed:
            dk.checkpoint(step, 4, 2)
        else:
            for k in range(4):
                step(k)
        dk.launch(summed, N, [here], [loss])
        return loss

    plain = dk.grad(lambda x: far(x, False))(x).numpy()
    np.testing.assert_allclose(dk.grad(lambda x: far(x, True))(x).numpy(), plain, rtol=1e-6)
    refused("in a roll-out no derivative goes that way", lambda: dk.grad(lambda _: far(x, True))(p))
    along = dk.ones_like(p)
    _, slope = dk.jvp(lambda _: far(x, True), (p,), (along,))
    np.testing.assert_allclose(slope.numpy()[0], dk.grad(lambda _: far(x, False))(p).numpy().sum(), rtol=1e-4)
