"""Gradients through structs against central differences: by value, nested, in arrays, through funcs and loops."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import AutodiffError
from diffkern.testing import gradcheck


@dk.struct
class Spring:
    k: dk.float64 = 3.0
    rest: dk.float64 = 0.5
    tag: int


@dk.struct
class Particle:
    pos: dk.vec3d
    vel: dk.vec3d
    mass: dk.float64
    spring: Spring
    id: int


@dk.struct
class World:
    gravity: dk.vec3d
    drag: dk.float64
    wind: dk.array(dtype=dk.vec3d)
    spring: Spring


@dk.func
def force(p: Particle, w: World, i: int):
    stretch = dk.length(p.pos) - p.spring.rest
    return w.gravity * p.mass - p.vel * w.drag + w.wind[i] - p.pos * (p.spring.k * stretch * w.spring.k)


@dk.func
def moved(p: Particle, f: dk.vec3d, dt: dk.float64):
    q = p
    q.vel += f * (dt / p.mass)
    q.pos = q.pos + q.vel * dt
    q.spring.rest *= 1.0 + dt
    return q


@dk.kernel
def advance(ps: dk.array(dtype=Particle), w: World, steps: int, out: dk.array(dtype=Particle)):
    i = dk.tid()
    p = ps[i]
    for _ in range(steps):
        p = moved(p, force(p, w, i), dk.float64(0.1))
        if p.pos[0] > 0.4:
            p.vel[0] = -0.5 * p.vel[0]
    out[i] = p


@dk.kernel
def in_place(ps: dk.array(dtype=Particle), w: World):
    i = dk.tid()
    ps[i].vel += w.gravity * ps[i].mass
    ps[i].pos[1] = ps[i].pos[1] * ps[i].vel[2]
    ps[i].spring.k *= w.wind[i][0]
    ps[i].id += 1


@dk.kernel
def gather(ps: dk.array(dtype=Particle), e: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s = Spring(rest=ps[i].mass)
    s.k += ps[i].spring.k
    if i == 1:
        s = ps[i].spring
    d = ps[i].pos - ps[(i + 1) % ps.shape[0]].pos
    dk.atomic_add(e, 0, s.k * dk.dot(d, d) + s.rest * dk.dot(ps[i].vel, ps[i].vel))


N = 3


def particles(seed=0):
    rng = np.random.default_rng(seed)
    data = np.zeros(N, dtype=dk.zeros(1, dtype=Particle).numpy().dtype)
    data["pos"], data["vel"] = rng.uniform(0.2, 1.0, (2, N, 3))
    data["mass"], data["spring"]["k"], data["spring"]["rest"] = rng.uniform(0.5, 1.5, (3, N))
    data["id"] = np.arange(N)
    return data


def world(wind):
    return World(gravity=(0.1, -0.9, 0.3), drag=0.2, wind=wind, spring=Spring(k=0.7))


FIELDS = [("pos",), ("vel",), ("mass",), ("spring", "k"), ("spring", "rest")]


def at(data, path):
    for name in path:
        data = data[name]
    return data


def differences(loss, values, h=1e-6):
    out = np.zeros(values.shape)
    for index in np.ndindex(values.shape):
        before = values[index]
        values[index] = before + h
        high = loss()
        values[index] = before - h
        low = loss()
        values[index] = before
        out[index] = (high - low) / (2 * h)
    return out


def run(data, wind, tape=None):
    ps = dk.array(data, dtype=Particle, requires_grad=True)
    air = dk.array(wind, dtype=dk.vec3d, requires_grad=True)
    mid, e = dk.zeros(N, dtype=Particle, requires_grad=True), dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with tape if tape is not None else dk.Tape():
        advance[N](ps, world(air), 4, mid)
        in_place[N](mid, world(air))
        gather[N](mid, e)
    return ps, air, e


def test_arrays_of_structs_and_arrays_in_structs():
    data, wind = particles(), np.random.default_rng(5).uniform(0.5, 1.0, (N, 3))
    tape = dk.Tape()
    ps, air, e = run(data, wind, tape)
    tape.backward(e)

    def loss():
        return float(run(data, wind)[2].numpy()[0])

    for path in FIELDS:
        np.testing.assert_allclose(at(ps.grad.numpy(), path), differences(loss, at(data, path)), rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(air.grad.numpy(), differences(loss, wind), rtol=2e-5, atol=1e-7)
    assert ps.grad.numpy()["id"].tolist() == [0] * N
    assert set(tape.gradients) >= {ps, air}


def test_seeded_with_structs():
    data, wind = particles(1), np.full((N, 3), 0.7)
    seed = particles(2)
    ps, air = dk.array(data, dtype=Particle, requires_grad=True), dk.array(wind, dtype=dk.vec3d, requires_grad=True)
    out = dk.zeros(N, dtype=Particle, requires_grad=True)
    with dk.Tape() as tape:
        advance[N](ps, world(air), 2, out)
    tape.backward(grads={out: seed})

    def loss():
        result = dk.zeros(N, dtype=Particle)
        advance[N](data, world(dk.array(wind, dtype=dk.vec3d)), 2, result)
        return sum(float(np.sum(at(result.numpy(), path) * at(seed, path))) for path in FIELDS)

    for path in FIELDS:
        np.testing.assert_allclose(at(ps.grad.numpy(), path), differences(loss, at(data, path)), rtol=1e-5, atol=1e-8)
    with pytest.raises(dk.LaunchError, match="array of one number"):
        tape.backward(dk.zeros(1, dtype=Particle))


def test_fields_given_by_value_have_gradients():
    data, wind = particles(3), dk.array(np.full((N, 3), 0.7), dtype=dk.vec3d, requires_grad=True)
    w = world(wind)
    out, seed = dk.zeros(N, dtype=Particle), dk.array(particles(4), dtype=Particle)
    advance[N](data, w, 3, out)
    given = {
        "drag": dk.zeros(1, dtype=dk.float64), "spring.k": dk.zeros(1, dtype=dk.float64),
        "gravity": dk.zeros(1, dtype=dk.vec3d),
    }  # fmt: skip
    weights = particles(4)
    adjoint = {"inputs": [data, w, 3], "outputs": [out], "adj_outputs": [seed], "adjoint": True}
    dk.launch(advance, N, adj_inputs=[None, given, None], **adjoint)

    def loss(**changed):
        v = world(wind)
        for name, value in changed.items():
            setattr(v, name, value)
        result = dk.zeros(N, dtype=Particle)
        advance[N](data, v, 3, result)
        return sum(float(np.sum(at(result.numpy(), path) * at(weights, path))) for path in FIELDS)

    h = 1e-6
    assert given["drag"].numpy()[0] == pytest.approx((loss(drag=0.2 + h) - loss(drag=0.2 - h)) / (2 * h), rel=1e-6)
    slope = (loss(spring=Spring(k=0.7 + h)) - loss(spring=Spring(k=0.7 - h))) / (2 * h)
    assert given["spring.k"].numpy()[0] == pytest.approx(slope, rel=1e-6)
    for axis in range(3):
        step = h * np.eye(3)[axis]
        slope = (loss(gravity=w.gravity + step) - loss(gravity=w.gravity - step)) / (2 * h)
        assert given["gravity"].numpy()[0, axis] == pytest.approx(slope, rel=1e-6)
    assert np.abs(wind.grad.numpy()).max() > 0.0
    with pytest.raises(dk.LaunchError, match=r"'drags', which is no field"):
        dk.launch(advance, N, adj_inputs=[None, {"drags": None}, None], **adjoint)
    with pytest.raises(dk.LaunchError, match="gradient of a struct cannot be"):
        dk.launch(advance, N, adj_inputs=[None, dk.zeros(1), None], **adjoint)
    with pytest.raises(dk.LaunchError, match=r"'w.spring.tag'.*no gradient"):
        dk.launch(advance, N, adj_inputs=[None, {"spring.tag": dk.zeros(1, dtype=int)}, None], **adjoint)


@dk.kernel
def scaled(s: Spring, x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s.k = s.k * x[i]
    y[i] = s.k * s.rest


def test_cotangent_of_a_struct_by_value_is_an_array_of_one():
    x, y = dk.array([1.0, 2.0, 4.0]), dk.zeros(3, dtype=dk.float64)
    s = Spring(k=3.0, rest=0.5)
    scaled[3](s, x, y)
    ct = dk.zeros(1, dtype=Spring)
    ct_y = dk.array([1.0, 1.0, 1.0])
    dk.launch(scaled, 3, [s, x], [y], [ct, None], [ct_y], adjoint=True)
    assert (ct[0].k, ct[0].rest) == (0.5 * 7.0, 3.0 * 7.0)
    assert s.k == 3.0


def test_fields_of_one_array_do_not_overlap():
    @dk.kernel
    def between(a: dk.array(dtype=Spring), b: dk.array(dtype=Spring)):
        i = dk.tid()
        b[i].k = a[i].rest * 2.0

    springs = dk.array([Spring(rest=1.0), Spring(rest=2.0)], requires_grad=True)
    with dk.Tape() as tape:
        between[2](springs, springs)
    springs.grad.field("k").fill_(1.0)
    tape.backward()
    assert springs.grad.numpy()["rest"].tolist() == [2.0, 2.0]
    assert springs.grad.numpy()["k"].tolist() == [0.0, 0.0]

    @dk.kernel
    def onto_itself(a: dk.array(dtype=Spring), b: dk.array(dtype=Spring)):
        i = dk.tid()
        b[i].k = a[1 - i].k * 2.0

    with dk.Tape() as tape:
        onto_itself[2](springs, springs)
    springs.grad.field("k").fill_(1.0)
    with pytest.raises(AutodiffError, match=r"thread 1 reads a\.k\[0\] here, which thread 0 writes"):
        tape.backward()


def test_private_and_atomic_accumulation_into_fields():
    @dk.kernel
    def uniform(s: dk.array(dtype=Spring), index: dk.array(dtype=int), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = s[index[i]].k * s[0].rest

    n = 5000
    index = np.arange(n) % 3
    springs = dk.array([Spring(k=1.0, rest=2.0), Spring(k=2.0), Spring(k=3.0)], requires_grad=True)
    y = dk.zeros(n, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        uniform[n](springs, index.astype(np.int32), y)
    y.grad.fill_(1.0)
    tape.backward()
    counts = np.bincount(index)
    np.testing.assert_allclose(springs.grad.numpy()["k"], counts * 2.0)
    assert springs.grad.numpy()["rest"][0] == pytest.approx(np.dot(counts, [1.0, 2.0, 3.0]))


def test_atomics_and_views_of_fields():
    @dk.kernel
    def collect(ps: dk.array(dtype=Particle), x: dk.array(dtype=dk.float64)):
        i = dk.tid()
        mass = ps.mass
        dk.atomic_add(ps.spring.k, 0, x[i] * mass[i])

    ps = dk.array(particles(), dtype=Particle, requires_grad=True)
    before = particles()
    x = dk.array([1.0, 2.0, 3.0], requires_grad=True)
    with dk.Tape() as tape:
        collect[3](ps, x)
    assert ps.numpy()["spring"]["k"][0] == pytest.approx(before["spring"]["k"][0] + np.dot(before["mass"], [1, 2, 3]))
    ps.grad.field("spring.k").assign([1.0, 0.0, 0.0])
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), before["mass"])
    np.testing.assert_allclose(ps.grad.numpy()["mass"], [1.0, 2.0, 3.0])


def test_gradcheck_takes_structs():
    data, wind = particles(6), dk.array(np.full((N, 3), 0.7), dtype=dk.vec3d)
    report = gradcheck(advance, N, [data, world(wind), 2], [dk.zeros(N, dtype=Particle)])
    assert {"ps.pos", "ps.spring.k", "w.gravity", "w.drag", "w.wind", "w.spring.k", "out.vel"} <= set(report.parameters)
