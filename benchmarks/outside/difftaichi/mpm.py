"""Elastic bodies by the material point method: a thrown block, and a walking robot."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math

import numpy as np

import diffkern as dk

from .simulation import Simulation, simulation

PI = dk.constant(math.pi)


@dk.func
def weights(f):
    """Return quadratic B-splines at three nodes."""
    return 0.5 * (1.5 - f) * (1.5 - f), 0.75 - (f - 1.0) * (f - 1.0), 0.5 * (f - 0.5) * (f - 0.5)


@dk.func
def rotation_of(f):
    """Return the rotation of the polar decomposition of a matrix of two rows."""
    a, b = f[0, 0] + f[1, 1], f[1, 0] - f[0, 1]
    s = 1.0 / dk.sqrt(a * a + b * b)
    return dk.matrix(a * s, -b * s, b * s, a * s, shape=(2, 2))


@dk.kernel
def block_to_grid(x, v, c, f, momentum, mass, t: int):
    p = dk.tid()
    place = x[t, p] * 120.0
    bi, bj = int(place[0] - 0.5), int(place[1] - 0.5)
    fx, fy = place[0] - float(bi), place[1] - float(bj)
    wx, wy = weights(fx), weights(fy)
    new_f = f[t, p] + 3e-4 * (c[t, p] @ f[t, p])
    f[t + 1, p] = new_f
    j = dk.determinant(new_f)
    pressure = 100.0 * (j - 1.0) * j
    stress = 200.0 * ((new_f - rotation_of(new_f)) @ dk.transpose(new_f))
    stress[0, 0] += pressure
    stress[1, 1] += pressure
    affine = c[t, p] - (3e-4 * 4.0 * 120.0 * 120.0) * stress
    for i in dk.static(range(3)):
        for k in dk.static(range(3)):
            offset = dk.vector((float(i) - fx) / 120.0, (float(k) - fy) / 120.0)
            w = wx[i] * wy[k]
            momentum[t, bi + i, bj + k] += w * (v[t, p] + affine @ offset)
            mass[t, bi + i, bj + k] += w


@dk.kernel
def block_grid(momentum, mass, out, t: int):
    """Velocities of nodes under gravity between walls that may be left but not entered."""
    i, j = dk.tid()
    n = mass.shape[1]
    w = momentum[t, i, j] / (mass[t, i, j] + 1e-10)
    w[1] -= 3e-4 * 9.8
    if i < 3 and w[0] < 0.0:
        w[0] = 0.0
    if i > n - 3 and w[0] > 0.0:
        w[0] = 0.0
    if j < 3 and w[1] < 0.0:
        w[1] = 0.0
    if j > n - 3 and w[1] > 0.0:
        w[1] = 0.0
    out[t, i, j] = w


@dk.kernel
def block_from_grid(x, v, c, out, t: int):
    p = dk.tid()
    place = x[t, p] * 120.0
    bi, bj = int(place[0] - 0.5), int(place[1] - 0.5)
    fx, fy = place[0] - float(bi), place[1] - float(bj)
    wx, wy = weights(fx), weights(fy)
    new_v, new_c = v[t, p] * 0.0, c[t, p] * 0.0
    for i in dk.static(range(3)):
        for k in dk.static(range(3)):
            g = wx[i] * wy[k] * out[t, bi + i, bj + k]
            new_v += g
            new_c += 480.0 * dk.outer(g, dk.vector(float(i) - fx, float(k) - fy))
    v[t + 1, p] = new_v
    x[t + 1, p] = x[t, p] + 3e-4 * new_v
    c[t + 1, p] = new_c


@dk.kernel
def throw(v, init_v):
    v[0, dk.tid()] = init_v[0]


@dk.kernel
def mean_place(x, mean, t: int):
    mean[0] += x[t, dk.tid()] / float(x.shape[1])


@dk.kernel
def distance_to_target(mean, loss):
    a, b = mean[0][0] - 0.3, mean[0][1] - 0.6
    loss[0] = 0.5 * (a * a + b * b)


@simulation("diffmpm_simple")
class ThrownBlock(Simulation):
    """The initial velocity of a block is found that brings its centre to a target; grids of all steps are kept."""

    published_steps, iterations, checked_steps = 1024, 30, 6

    def build(self):
        n, steps, side = 120, self.steps, 60
        count = side * side
        self.x, self.v = self.field(steps, count, dtype=self.vec2), self.field(steps, count, dtype=self.vec2)
        self.c, self.f = self.field(steps, count, dtype=self.mat22), self.field(steps, count, dtype=self.mat22)
        self.momentum, self.out = self.field(steps, n, n, dtype=self.vec2), self.field(steps, n, n, dtype=self.vec2)
        self.mass, self.mean = self.field(steps, n, n), self.field(1, dtype=self.vec2)
        i, j = np.mgrid[0:side, 0:side]
        self.x[0].assign(np.stack([(i * 0.7 + 10) / n, (j * 0.7 + 25) / n], axis=-1).reshape(-1, 2))
        self.f[0].assign(np.broadcast_to(np.eye(2), (count, 2, 2)))
        self.init_v = self.parameter("init_v", [[0.0, 0.0]], self.vec2)

    def forward(self):
        count, n = self.x.shape[1], self.mass.shape[1]
        for array in (self.momentum, self.mass, self.mean):
            array.zero_()
        dk.launch(throw, dim=count, inputs=[self.v, self.init_v])
        for t in range(self.steps - 1):
            dk.launch(block_to_grid, dim=count, inputs=[self.x, self.v, self.c, self.f, self.momentum, self.mass, t])
            dk.launch(block_grid, dim=(n, n), inputs=[self.momentum, self.mass, self.out, t])
            dk.launch(block_from_grid, dim=count, inputs=[self.x, self.v, self.c, self.out, t])
        dk.launch(mean_place, dim=count, inputs=[self.x, self.mean, self.steps - 1])
        dk.launch(distance_to_target, dim=1, inputs=[self.mean, self.loss])

    def descend(self):
        self.step_down(10.0)
