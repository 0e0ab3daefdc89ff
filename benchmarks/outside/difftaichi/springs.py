"""Masses and springs: a triangle whose rest lengths are found, and a robot with a neural controller."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
import runpy

import numpy as np

import diffkern as dk

from .simulation import Simulation, SteppedSimulation, simulation

PI = dk.constant(math.pi)


@dk.kernel
def triangle_springs(x, force, ends, length, t: int):
    i = dk.tid()
    a, b = ends[i, 0], ends[i, 1]
    d = x[t - 1, a] - x[t - 1, b]
    now = dk.length(d) + 1e-4
    f = (now - length[i]) * 10.0 * d / now
    force[t, a] -= f
    force[t, b] += f


@dk.kernel
def triangle_step(x, v, force, t: int):
    """A damped step with a wall on the right that brakes with friction."""
    i = dk.tid()
    new_v = 0.9801986733067553 * v[t - 1, i] + 0.001 * force[t, i]
    new_x = x[t - 1, i] + 0.001 * new_v
    if new_x[0] > 0.4 and new_v[0] > 0.0:
        if new_v[1] > 0.0:
            new_v[1] -= dk.min(new_v[1], 0.01 * new_v[0])
        if new_v[1] < 0.0:
            new_v[1] += dk.min(-new_v[1], 0.01 * new_v[0])
        new_v[0] = 0.0
    v[t, i] = new_v
    x[t, i] = new_x


@dk.kernel
def triangle_loss(x, loss, t: int):
    p, q = x[t, 0] - x[t, 1], x[t, 0] - x[t, 2]
    e = dk.abs(0.5 * (p[0] * q[1] - p[1] * q[0])) - 0.1
    loss[0] = e * e


@simulation("mass_spring_simple")
class SpringTriangle(SteppedSimulation):
    """The rest lengths of a triangle are changed until its area is 0.1."""

    published_steps, iterations, checked_steps = 1024, 25, 60

    def build(self):
        n = self.steps
        self.x, self.v, self.force = (self.field(n, 3, dtype=self.vec2) for _ in range(3))
        self.x[0].assign(np.array([[0.3, 0.5], [0.3, 0.4], [0.4, 0.4]]))
        self.ends = dk.array(np.array([[0, 1], [1, 2], [2, 0]], np.int32))
        self.length = self.parameter("spring_length", [0.1, 0.1, 0.1 * 2**0.5])

    def begin(self):
        self.force.zero_()

    def advance(self, t):
        dk.launch(triangle_springs, dim=3, inputs=[self.x, self.force, self.ends, self.length, t])
        dk.launch(triangle_step, dim=3, inputs=[self.x, self.v, self.force, t])

    def measure(self, t):
        dk.launch(triangle_loss, dim=1, inputs=[self.x, self.loss, t])

    def descend(self):
        self.step_down(5.0)


@dk.kernel
def centre_of(x, centre, t: int):
    c = x[t, 0]
    for i in range(1, x.shape[1]):
        c += x[t, i]
    centre[t] = c / float(x.shape[1])


@dk.kernel
def hidden_layer(x, v, centre, goal, weights, bias, hidden, t: int):
    """The controller's inputs: waves of time, offsets and velocities of all masses, the goal."""
    i = dk.tid()
    act = bias[i]
    for j in range(10):
        act += weights[i, j] * dk.sin(10.0 * float(t) * 0.004 + 2.0 * PI / 10.0 * float(j))
    n = x.shape[1]
    for j in range(n):
        offset, speed = x[t, j] - centre[t], v[t, j]
        k = 10 + 4 * j
        act += weights[i, k] * offset[0] * 0.05 + weights[i, k + 1] * offset[1] * 0.05
        act += weights[i, k + 2] * speed[0] * 0.05 + weights[i, k + 3] * speed[1] * 0.05
    act += weights[i, 4 * n + 10] * (goal[0][0] - centre[t][0]) + weights[i, 4 * n + 11] * (goal[0][1] - centre[t][1])
    hidden[t, i] = dk.tanh(act)


@dk.kernel
def output_layer(hidden, weights, bias, act, t: int):
    i = dk.tid()
    s = bias[i]
    for j in range(hidden.shape[1]):
        s += weights[i, j] * hidden[t, j]
    act[t, i] = dk.tanh(s)


@dk.kernel
def robot_springs(x, v_inc, ends, length, stiffness, actuation, act, t: int):
    i = dk.tid()
    a, b = ends[i, 0], ends[i, 1]
    d = x[t, a] - x[t, b]
    now = dk.length(d) + 1e-4
    wanted = length[i] * (1.0 + actuation[i] * act[t, i])
    impulse = 0.004 * (now - wanted) * stiffness[i] / now * d
    v_inc[t + 1, a] -= impulse
    v_inc[t + 1, b] += impulse


@dk.kernel
def robot_step(x, v, v_inc, t: int):
    """A step that stops a mass on the ground at its time of impact."""
    i = dk.tid()
    old_v = 0.9417645335842487 * v[t - 1, i] + v_inc[t, i]
    old_v[1] -= 0.004 * 4.8
    old_x = x[t - 1, i]
    new_v = old_v
    toi = old_v[0] * 0.0
    if old_x[1] + 0.004 * old_v[1] < 0.1 and old_v[1] < -1e-4:
        toi = -(old_x[1] - 0.1) / old_v[1]
        new_v = old_v * 0.0
    v[t, i] = new_v
    x[t, i] = old_x + toi * old_v + (0.004 - toi) * new_v


@dk.kernel
def run_right(x, loss, t: int):
    loss[0] = -x[t, 0][0]


@simulation("mass_spring")
class SpringRobot(Simulation):
    """A robot of springs learns to run to the right; contact with the ground at its time of impact."""

    arguments = ("1", "train")
    published_steps, iterations, checked_steps = 682, 100, 60

    def build(self):
        objects, springs = runpy.run_path(str(self.source / "mass_spring_robot_config.py"))["robots"][1]()
        n, m, steps, waves = len(objects), len(springs), self.steps, 10
        state = np.random.RandomState(0)
        inputs = waves + 4 * n + 2
        first = state.randn(32, inputs) * math.sqrt(2 / (32 + inputs)) * 2
        second = state.randn(m, 32) * math.sqrt(2 / (32 + m)) * 3
        self.x, self.v, self.v_inc = (self.field(steps, n, dtype=self.vec2) for _ in range(3))
        self.x[0].assign(np.array(objects))
        self.centre, self.hidden, self.act = (
            self.field(steps, dtype=self.vec2),
            self.field(steps, 32),
            self.field(steps, m),
        )
        self.ends = dk.array(np.array([s[:2] for s in springs], np.int32))
        self.springs = [dk.array(np.array([s[k] for s in springs], self.real)) for k in (2, 3, 4)]
        self.goal = dk.array(np.array([[0.9, 0.2]], self.real), dtype=self.vec2)
        self.w1, self.b1 = self.parameter("weights1", first), self.parameter("bias1", np.zeros(32))
        self.w2, self.b2 = self.parameter("weights2", second), self.parameter("bias2", np.zeros(m))

    def forward(self):
        self.v_inc.zero_()
        n, m = self.x.shape[1], self.act.shape[1]
        for t in range(1, self.steps):
            dk.launch(centre_of, dim=1, inputs=[self.x, self.centre, t - 1])
            layer = [self.x, self.v, self.centre, self.goal, self.w1, self.b1, self.hidden, t - 1]
            dk.launch(hidden_layer, dim=32, inputs=layer)
            dk.launch(output_layer, dim=m, inputs=[self.hidden, self.w2, self.b2, self.act, t - 1])
            dk.launch(robot_springs, dim=m, inputs=[self.x, self.v_inc, self.ends, *self.springs, self.act, t - 1])
            dk.launch(robot_step, dim=n, inputs=[self.x, self.v, self.v_inc, t])
        dk.launch(run_right, dim=1, inputs=[self.x, self.loss, self.steps - 1])

    def descend(self):
        total = sum(float((g.astype(np.float64) ** 2).sum()) for g in self.gradients().values())
        self.step_down(0.2 / (total**0.5 + 1e-6))
