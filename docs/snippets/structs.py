import numpy as np

import diffkern as dk


@dk.struct
class Particle:
    pos: dk.vec2
    vel: dk.vec2
    mass: float = 1.0


@dk.struct
class Air:
    drag: float
    wind: dk.array(dtype=dk.vec2)


@dk.func
def moved(p: Particle, force: dk.vec2, dt: float):
    p.vel += force * (dt / p.mass)
    p.pos = p.pos + p.vel * dt
    return p


@dk.kernel
def advance(before: dk.array(dtype=Particle), air: Air, after: dk.array(dtype=Particle)):
    i = dk.tid()
    p = before[i]
    p = moved(p, (air.wind[i] - p.vel) * air.drag, 0.5)
    if p.pos.y < 0.0:
        p.vel[1] = -p.vel[1]
    after[i] = p


@dk.kernel
def distance(particles: dk.array(dtype=Particle), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, dk.length(particles[i].pos))


air = Air(drag=0.5, wind=dk.array([[1, 0], [0, 2]], dtype=dk.vec2, requires_grad=True))
start = dk.array([Particle(vel=(0, 1)), Particle(pos=(3, 4), mass=2.0)], requires_grad=True)
end = dk.zeros(2, dtype=Particle, requires_grad=True)
total = dk.zeros(1, requires_grad=True)

with dk.Tape() as tape:
    advance[2](start, air, end)
    distance[2](end, total)
tape.backward(total)

print(end[0])
with np.printoptions(precision=3, suppress=True):
    print(end.numpy()["pos"])
    print(start.grad.numpy()["pos"])
    print(start.grad.field("mass"))
    print(air.wind.grad)
