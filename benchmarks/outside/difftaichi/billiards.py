"""Billiard balls that collide at their time of impact; the cue ball's start is found."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

import diffkern as dk

from .simulation import SteppedSimulation, simulation

LAYERS, RADIUS, STEP, ELASTICITY = 4, 0.03, 0.003, 0.8


@dk.kernel
def collide(x, v, impulse, x_inc, t: int):
    """Impulses on ball i, and how far they move it since the time of impact within the step."""
    i = dk.tid()
    for j in range(x.shape[1]):
        if i != j:
            d = (x[t, i] + STEP * v[t, i]) - (x[t, j] + STEP * v[t, j])
            distance = dk.length(d)
            if distance < 2.0 * RADIUS:
                direction = d / (distance + 1e-6)
                closing = dk.dot(direction, v[t, i] - v[t, j])
                if closing < 0.0:
                    push = -(1.0 + ELASTICITY) * 0.5 * closing * direction
                    toi = (distance - 2.0 * RADIUS) / dk.min(-1e-3, closing)
                    x_inc[t + 1, i] += dk.min(toi - STEP, 0.0) * push
                    impulse[t + 1, i] += push


@dk.kernel
def advance(x, v, impulse, x_inc, t: int):
    i = dk.tid()
    v[t, i] = v[t - 1, i] + impulse[t, i]
    x[t, i] = x[t - 1, i] + STEP * v[t, i] + x_inc[t, i]


@dk.kernel
def put_cue(x, v, init_x, init_v):
    x[0, 0] = init_x[0]
    v[0, 0] = init_v[0]


@dk.kernel
def miss(x, loss, t: int):
    p = x[t, x.shape[1] - 1]
    loss[0] = (p[0] - 0.9) * (p[0] - 0.9) + (p[1] - 0.75) * (p[1] - 0.75)


@simulation("billiards")
class Billiards(SteppedSimulation):
    """The last ball of a triangle is to reach a goal."""

    published_steps, iterations, checked_steps = 1024, 200, 900

    def build(self):
        n = 1 + (1 + LAYERS) * LAYERS // 2
        self.x, self.v, self.impulse, self.x_inc = (self.field(self.steps, n, dtype=self.vec2) for _ in range(4))
        rack = [
            (i * 2 * RADIUS + 0.5, j * 2 * RADIUS + 0.5 - i * RADIUS * 0.7) for i in range(LAYERS) for j in range(i + 1)
        ]
        self.x[0].assign(np.array([(0.0, 0.0), *rack]))
        self.init_x = self.parameter("init_x", [[0.1, 0.5]], self.vec2)
        self.init_v = self.parameter("init_v", [[0.3, 0.0]], self.vec2)

    def begin(self):
        self.impulse.zero_()
        self.x_inc.zero_()
        dk.launch(put_cue, dim=1, inputs=[self.x, self.v, self.init_x, self.init_v])

    def advance(self, t):
        n = self.x.shape[1]
        dk.launch(collide, dim=n, inputs=[self.x, self.v, self.impulse, self.x_inc, t - 1])
        dk.launch(advance, dim=n, inputs=[self.x, self.v, self.impulse, self.x_inc, t])

    def measure(self, t):
        dk.launch(miss, dim=1, inputs=[self.x, self.loss, t])

    def descend(self):
        self.step_down(0.01)
