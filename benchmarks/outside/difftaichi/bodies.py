"""Rigid bodies on springs and joints that learn to walk; contact with the ground at its time of impact."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
import runpy

import numpy as np

import diffkern as dk

from .simulation import Simulation, simulation
from .springs import output_layer

PI = dk.constant(math.pi)
STEP, GROUND, GRAVITY, FRICTION = 0.001, 0.1, -9.8, 1.0


@dk.func
def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


@dk.func
def arm(rotation, t, i, offset):
    """Return a point of a body, relative to its centre, in the world's axes."""
    c, s = dk.cos(rotation[t, i]), dk.sin(rotation[t, i])
    return dk.vector(c * offset[0] - s * offset[1], s * offset[0] + c * offset[1])


@dk.func
def speed_at(v, omega, t, i, r):
    return v[t, i] + omega[t, i] * dk.vector(-r[1], r[0])


@dk.func
def push(v_inc, x_inc, omega_inc, rotation_inc, t, i, impulse, r, inverse_mass, inverse_inertia, toi):
    """Add an impulse at an arm; what it moves before the time of impact is taken back."""
    dv = impulse * inverse_mass
    dw = cross(r, impulse) * inverse_inertia
    since = dk.min(dk.max(0.0, toi), STEP)
    v_inc[t + 1, i] += dv
    omega_inc[t + 1, i] += dw
    x_inc[t + 1, i] -= since * dv
    rotation_inc[t + 1, i] -= since * dw


@dk.kernel
def body_controller(x, v, rotation, omega, goal, weights, bias, hidden, head: int, t: int):
    i = dk.tid()
    act = bias[i]
    for j in range(10):
        act += weights[i, j] * dk.sin(30.0 * float(t) * STEP + 2.0 * PI / 10.0 * float(j))
    n = x.shape[1]
    for j in range(n):
        offset, speed, k = x[t, j] - x[t, head], v[t, j], 10 + 6 * j
        act += 0.05 * (weights[i, k] * offset[0] + weights[i, k + 1] * offset[1])
        act += 0.05 * (weights[i, k + 2] * speed[0] + weights[i, k + 3] * speed[1])
        act += 0.05 * (weights[i, k + 4] * rotation[t, j] + weights[i, k + 5] * omega[t, j])
    act += weights[i, 6 * n + 10] * goal[0][0] + weights[i, 6 * n + 11] * goal[0][1]
    hidden[t, i] = dk.tanh(act)


@dk.kernel
def ground_contact(x, v, rotation, omega, half, inverse, v_inc, x_inc, omega_inc, rotation_inc, t: int):
    """Impulses at the corners that reach the ground within the step.

    The published program adds a penalty as well, whose variable hides the constant of its name: it is always zero.
    """
    i = dk.tid()
    mass, inertia = inverse[i, 0], inverse[i, 1]
    for k in dk.static(range(4)):
        sx, sy = dk.static(k % 2 * 2.0 - 1.0), dk.static(k // 2 * 2.0 - 1.0)
        r = arm(rotation, t, i, dk.vector(sx * half[i][0], sy * half[i][1]))
        corner = x[t, i] + r
        speed = speed_at(v, omega, t, i, r)
        speed[1] += STEP * GRAVITY
        after = corner + STEP * speed
        if speed[1] < 0.0 and after[1] < GROUND:
            normal = -speed[1] / (mass + r[0] * r[0] * inertia)
            tangent = normal * 0.0
            toi = normal * 0.0
            if normal > 0.0:
                tangent = -speed[0] / (mass + r[1] * r[1] * inertia)
                tangent = dk.min(FRICTION * normal, dk.max(-FRICTION * normal, tangent))
                if corner[1] > GROUND:
                    toi = -(corner[1] - GROUND) / dk.min(speed[1], -1e-3)
            impulse = dk.vector(tangent, normal)
            push(v_inc, x_inc, omega_inc, rotation_inc, t, i, impulse, after - x[t, i], mass, inertia, toi)


@dk.kernel
def springs_and_joints(
    x, v, rotation, omega, inverse, v_inc, x_inc, omega_inc, rotation_inc, ends, at_a, at_b, spring, act, t: int
):
    i = dk.tid()
    a, b = ends[i, 0], ends[i, 1]
    ra, rb = arm(rotation, t, a, at_a[i]), arm(rotation, t, b, at_b[i])
    pa, pb = x[t, a] + ra, x[t, b] + rb
    d = pa - pb
    now = dk.length(d) + 1e-4
    wanted = spring[i, 0] * (1.0 + spring[i, 2] * act[t, i])
    joint = spring[i, 0] == -1.0
    if joint:
        wanted = now * 0.0
    impulse = STEP * (now - wanted) * spring[i, 1] / now * d
    if joint:
        relative = speed_at(v, omega, t, a, ra) - speed_at(v, omega, t, b, rb)
        size = dk.length(relative) + 1e-1
        along = relative / size
        ca, cb = cross(along, ra), cross(along, rb)
        mobility = inverse[a, 0] + ca * ca * inverse[a, 1] + inverse[b, 0] + cb * cb * inverse[b, 1]
        impulse += size / mobility * along
    zero = now * 0.0
    push(v_inc, x_inc, omega_inc, rotation_inc, t, a, -impulse, ra, inverse[a, 0], inverse[a, 1], zero)
    push(v_inc, x_inc, omega_inc, rotation_inc, t, b, impulse, rb, inverse[b, 0], inverse[b, 1], zero)


@dk.kernel
def body_step(x, v, rotation, omega, v_inc, x_inc, omega_inc, rotation_inc, t: int):
    i = dk.tid()
    new_v = 0.9900498337491681 * v[t - 1, i] + v_inc[t, i]
    new_v[1] += STEP * GRAVITY
    new_w = 0.9900498337491681 * omega[t - 1, i] + omega_inc[t, i]
    v[t, i] = new_v
    omega[t, i] = new_w
    x[t, i] = x[t - 1, i] + STEP * new_v + x_inc[t, i]
    rotation[t, i] = rotation[t - 1, i] + STEP * new_w + rotation_inc[t, i]


@dk.kernel
def head_to_goal(x, goal, loss, head: int, t: int):
    loss[0] = dk.length(x[t, head] - goal[0])


@simulation("rigid_body")
class RigidRobot(Simulation):
    """A robot of rigid bodies is to bring its head to a goal."""

    published_steps, iterations, checked_steps = 2048, 20, 60
    arguments = ("0", "train")

    def build(self):
        objects, springs, self.head = runpy.run_path(str(self.source / "robot_config.py"))["robots"][0]()
        n, m, steps, draw = len(objects), len(springs), self.steps, np.random.RandomState(0)
        inputs = 10 + 6 * n + 2
        first = draw.randn(32, inputs) * math.sqrt(2 / (32 + inputs)) * 0.5
        second = draw.randn(m, 32) * math.sqrt(2 / (32 + m))
        self.x, self.v, self.v_inc, self.x_inc = (self.field(steps, n, dtype=self.vec2) for _ in range(4))
        self.rotation, self.omega, self.omega_inc, self.rotation_inc = (self.field(steps, n) for _ in range(4))
        self.hidden, self.act = self.field(steps, 32), self.field(steps, m)
        self.x[0].assign(np.array([o[0] for o in objects]))
        self.rotation[0].assign(np.array([float(o[2]) for o in objects]))
        half = np.array([o[1] for o in objects])
        area = 4.0 * half[:, 0] * half[:, 1]
        inverse = np.stack([1.0 / area, 3.0 / (area * (half**2).sum(axis=1))], axis=1)
        self.half, self.inverse = self.fixed(half, self.vec2), self.fixed(inverse)
        self.ends = dk.array(np.array([s[:2] for s in springs], np.int32))
        self.at = [self.fixed([s[k] for s in springs], self.vec2) for k in (2, 3)]
        self.spring = self.fixed([(s[4], s[5], s[6] or 0.05) for s in springs])
        self.goal = self.fixed([[0.9, 0.15]], self.vec2)
        self.w1, self.b1 = self.parameter("weights1", first), self.parameter("bias1", np.zeros(32))
        self.w2, self.b2 = self.parameter("weights2", second), self.parameter("bias2", np.zeros(m))

    def forward(self):
        state = [self.x, self.v, self.rotation, self.omega]
        changes = [self.v_inc, self.x_inc, self.omega_inc, self.rotation_inc]
        n, m = self.x.shape[1], self.act.shape[1]
        for array in changes:
            array.zero_()
        for t in range(self.steps - 1):
            controller = [*state, self.goal, self.w1, self.b1, self.hidden, self.head, t]
            dk.launch(body_controller, dim=32, inputs=controller)
            dk.launch(output_layer, dim=m, inputs=[self.hidden, self.w2, self.b2, self.act, t])
            dk.launch(ground_contact, dim=n, inputs=[*state, self.half, self.inverse, *changes, t])
            links = [*state, self.inverse, *changes, self.ends, *self.at, self.spring, self.act, t]
            dk.launch(springs_and_joints, dim=m, inputs=links)
            dk.launch(body_step, dim=n, inputs=[*state, *changes, t + 1])
        dk.launch(head_to_goal, dim=1, inputs=[self.x, self.goal, self.loss, self.head, self.steps - 1])

    def descend(self):
        total = sum(float((g.astype(np.float64) ** 2).sum()) for g in self.gradients().values())
        self.step_down(min(1.0, 0.2 / (total**0.5 + 1e-4)))
