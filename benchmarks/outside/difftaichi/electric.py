"""A charge that follows a goal in the field of eight electrodes, steered by a neural network."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import random

import numpy as np

import diffkern as dk

from .simulation import Simulation, simulation
from .springs import output_layer

ELECTRODES = np.array([(0.1, 0.1), (0.1, 0.9), (0.9, 0.9), (0.9, 0.1), (0.5, 0.9), (0.5, 0.1), (0.1, 0.5), (0.9, 0.5)])


@dk.kernel
def electric_inputs(x, v, goal, goal_v, weights, bias, hidden, t: int):
    i = dk.tid()
    act = bias[i]
    for c in dk.static(range(2)):
        act += (x[t][c] - 0.5) * weights[c, i] + v[t][c] * weights[2 + c, i]
        act += (goal[t][c] - 0.5) * weights[4 + c, i] + (goal_v[t][c] - 0.5) * weights[6 + c, i]
    hidden[t, i] = dk.tanh(act)


@dk.kernel
def electric_step(x, v, place, charge, goal, loss, t: int):
    force = x[t - 1] * 0.0
    for i in range(place.shape[0]):
        r = x[t - 1] - place[i]
        d = dk.max(dk.length(r), 1e-1)
        force += 1e-3 * charge[t, i] / (d * d * d) * r
    new_v = v[t - 1] * 0.9940179640539353 + 0.03 * force
    new_x = x[t - 1] + 0.03 * new_v
    v[t] = new_v
    x[t] = new_x
    loss[0] += 0.03 * dk.length_sq(new_x - goal[t])


@simulation("electric")
class Electric(Simulation):
    """The published program draws its weights and goals at random; both sides draw them from the seed 0.

    The controller reads the place at a time before the step writes it, so that it sees what the previous iteration has
    left. That breaks Taichi's rule for data that gradients need, so that the two descents differ after the first steps.
    """

    published_steps, iterations, checked_steps = 512, 100, 60

    def build(self):
        steps, draw = self.steps, random.Random(0)
        [draw.random() for _ in range(40)]
        first = [[(draw.random() - 0.5) * 0.3 for _ in range(64)] for _ in range(8)]
        second = [[(draw.random() - 0.5) * 0.3 for _ in range(8)] for _ in range(64)]
        self.draw = draw
        self.x, self.v = self.field(steps, dtype=self.vec2), self.field(steps, dtype=self.vec2)
        self.goal, self.goal_v = self.field(steps, dtype=self.vec2), self.field(steps, dtype=self.vec2)
        self.hidden, self.charge = self.field(steps, 64), self.field(steps, 8)
        self.place = dk.array(ELECTRODES.astype(self.real), dtype=self.vec2)
        self.w1, self.b1 = self.parameter("weights1", first), self.parameter("bias1", np.zeros(64))
        self.w2, self.b2 = self.parameter("weights2", np.array(second).T), self.parameter("bias2", np.zeros(8))
        self.another_goal()
        self.forward()
        self.another_goal()

    def another_goal(self):
        """Draw the three corners of the goal's path."""
        corner = np.array([[0.2 + self.draw.random() * 0.6 for _ in range(2)] for _ in range(3)])
        s = np.minimum(np.arange(self.steps) // 256, 1)
        j = (np.arange(self.steps) % 256)[:, None] / 256.0
        self.goal.assign((1.0 - j) * corner[s] + j * corner[s + 1])
        self.goal_v.assign(corner[s + 1] - corner[s])
        self.x[0:1].assign(corner[:1])

    def reset(self):
        """The controller reads the place that the previous iteration has left at its time, as published."""
        self.x[1:].zero_()
        self.v[1:].zero_()

    def forward(self):
        self.loss.zero_()
        for t in range(1, self.steps):
            first = [self.x, self.v, self.goal, self.goal_v, self.w1, self.b1, self.hidden, t]
            dk.launch(electric_inputs, dim=64, inputs=first)
            dk.launch(output_layer, dim=8, inputs=[self.hidden, self.w2, self.b2, self.charge, t])
            dk.launch(electric_step, dim=1, inputs=[self.x, self.v, self.place, self.charge, self.goal, self.loss, t])

    def descend(self):
        self.step_down(2e-2)
        self.another_goal()
