"""Elastic robots whose muscles pull in waves learn to walk, in two dimensions and three: the material point method.

The grid is one array that every step fills again. Friction with the ground is left out: the published programs compute
it from a velocity that they have set to zero before, so that it never acts.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
import random
from abc import abstractmethod
from itertools import product

import numpy as np

import diffkern as dk

from .mpm import rotation_of, weights
from .simulation import Simulation, simulation

PI = dk.constant(math.pi)
FEWER_STEPS = {"steps = 512": "steps = 64"}
WITHOUT_PICTURES = {"iter % 10 == 0": "False"}
FIRST_WEIGHTS = {
    **FEWER_STEPS,
    "ti.types.ndarray(element_dim=1)": "ti.types.ndarray(dtype=ti.math.vec3)",
    "    losses = []\n": "    first = np.random.randn(n_actuators, n_sin_waves).astype(np.float32) * 0.01\n"
    "    weights.from_numpy(first)\n    losses = []\n",
}
WAVES, FLUID, SOLID, WALL = 4, 0, 1, 3


@dk.kernel
def muscles(amplitude, bias, act, rate, t: int):
    i = dk.tid()
    s = bias[i]
    for j in dk.static(range(WAVES)):
        s += amplitude[i, j] * dk.sin(rate * float(t) + 2.0 * PI / 4.0 * float(j))
    act[t, i] = dk.tanh(s)


@dk.func
def contraction(act, actuator, t, p):
    """Return how hard the muscle of a particle pulls; particles without a muscle do not."""
    i = actuator[p]
    return act[t, i] if i >= 0 else 0.0


@dk.kernel
def flat_to_grid(x, v, c, f, momentum, mass, kind, actuator, act, t: int):
    p = dk.tid()
    place = x[t, p] * 128.0
    bi, bj = int(place[0] - 0.5), int(place[1] - 0.5)
    fx, fy = place[0] - float(bi), place[1] - float(bj)
    wx, wy = weights(fx), weights(fy)
    new_f = f[t, p] + 1e-3 * (c[t, p] @ f[t, p])
    j = dk.determinant(new_f)
    m = 1.0
    if kind[p] == FLUID:
        m = 4.0
        new_f = dk.sqrt(j) * dk.identity(n=2, dtype=new_f.dtype)
        stress = dk.diag(dk.vector(10.0 * (j - 1.0), 1.0 * (j - 1.0)))
    else:
        pressure = 10.0 * (j - 1.0) * j
        stress = 20.0 * ((new_f - rotation_of(new_f)) @ dk.transpose(new_f))
        stress[0, 0] += pressure
        stress[1, 1] += pressure
    f[t + 1, p] = new_f
    along = new_f[:, 1]
    stress += 4.0 * contraction(act, actuator, t, p) * dk.outer(along, along)
    affine = m * c[t, p] - (1e-3 * 4.0 * 128.0 * 128.0) * stress
    for i in dk.static(range(3)):
        for k in dk.static(range(3)):
            offset = dk.vector((float(i) - fx) / 128.0, (float(k) - fy) / 128.0)
            w = wx[i] * wy[k]
            momentum[bi + i, bj + k] += w * (m * v[t, p] + affine @ offset)
            mass[bi + i, bj + k] += w * m


@dk.kernel
def flat_grid(momentum, mass, out):
    """Velocities of nodes under gravity between walls on which everything sticks."""
    i, j = dk.tid()
    n = mass.shape[0]
    w = momentum[i, j] / (mass[i, j] + 1e-10)
    w[1] -= 1e-3 * 3.8
    left, down = i < WALL and w[0] < 0.0, j < WALL and w[1] < 0.0
    right, up = i > n - WALL and w[0] > 0.0, j > n - WALL and w[1] > 0.0
    if left or right or down or up:
        w = w * 0.0
    out[i, j] = w


@dk.kernel
def flat_from_grid(x, v, c, out, t: int):
    p = dk.tid()
    place = x[t, p] * 128.0
    bi, bj = int(place[0] - 0.5), int(place[1] - 0.5)
    fx, fy = place[0] - float(bi), place[1] - float(bj)
    wx, wy = weights(fx), weights(fy)
    new_v, new_c = v[t, p] * 0.0, c[t, p] * 0.0
    for i in dk.static(range(3)):
        for k in dk.static(range(3)):
            g = wx[i] * wy[k] * out[bi + i, bj + k]
            new_v += g
            new_c += 512.0 * dk.outer(g, dk.vector(float(i) - fx, float(k) - fy))
    v[t + 1, p] = new_v
    x[t + 1, p] = x[t, p] + 1e-3 * new_v
    c[t + 1, p] = new_c


@dk.kernel
def solid_to_grid(x, v, c, f, momentum, mass, kind, actuator, act, t: int):
    p = dk.tid()
    place = x[t, p] * 64.0
    bi, bj, bk = int(place[0] - 0.5), int(place[1] - 0.5), int(place[2] - 0.5)
    fx, fy, fz = place[0] - float(bi), place[1] - float(bj), place[2] - float(bk)
    wx, wy, wz = weights(fx), weights(fy), weights(fz)
    new_f = f[t, p] + 2e-3 * (c[t, p] @ f[t, p])
    j = dk.determinant(new_f)
    m = 1.0
    if kind[p] == FLUID:
        m = 4.0
        root = dk.sqrt(j)
        new_f = dk.diag(dk.vector(root, root, 1.0))
        stress = 10.0 * (j - 1.0) * dk.identity(n=3, dtype=new_f.dtype)
    else:
        pressure = 10.0 * dk.log(j) - 10.0
        stress = 10.0 * (new_f @ dk.transpose(new_f)) + pressure * dk.identity(n=3, dtype=new_f.dtype)
    f[t + 1, p] = new_f
    along = new_f[:, 2]
    stress += 5.0 * contraction(act, actuator, t, p) * dk.outer(along, along)
    affine = m * c[t, p] - (2e-3 * 4.0 * 64.0 * 64.0) * stress
    for a in dk.static(range(3)):
        for b in dk.static(range(3)):
            for d in dk.static(range(3)):
                offset = dk.vector((float(a) - fx) / 64.0, (float(b) - fy) / 64.0, (float(d) - fz) / 64.0)
                w = wx[a] * wy[b] * wz[d]
                momentum[bi + a, bj + b, bk + d] += w * (m * v[t, p] + affine @ offset)
                mass[bi + a, bj + b, bk + d] += w * m


@dk.kernel
def solid_grid(momentum, mass, out):
    """Velocities of nodes under gravity between walls on which everything sticks."""
    i, j, k = dk.tid()
    n = mass.shape[0]
    w = momentum[i, j, k] / (mass[i, j, k] + 1e-10)
    w[1] -= 2e-3 * 10.0
    low = (i < WALL and w[0] < 0.0) or (j < WALL and w[1] < 0.0) or (k < WALL and w[2] < 0.0)
    high = (i > n - WALL and w[0] > 0.0) or (j > n - WALL and w[1] > 0.0) or (k > n - WALL and w[2] > 0.0)
    if low or high:
        w = w * 0.0
    out[i, j, k] = w


@dk.kernel
def solid_from_grid(x, v, c, out, t: int):
    p = dk.tid()
    place = x[t, p] * 64.0
    bi, bj, bk = int(place[0] - 0.5), int(place[1] - 0.5), int(place[2] - 0.5)
    fx, fy, fz = place[0] - float(bi), place[1] - float(bj), place[2] - float(bk)
    wx, wy, wz = weights(fx), weights(fy), weights(fz)
    new_v, new_c = v[t, p] * 0.0, c[t, p] * 0.0
    for a in dk.static(range(3)):
        for b in dk.static(range(3)):
            for d in dk.static(range(3)):
                g = wx[a] * wy[b] * wz[d] * out[bi + a, bj + b, bk + d]
                new_v += g
                new_c += 256.0 * dk.outer(g, dk.vector(float(a) - fx, float(b) - fy, float(d) - fz))
    v[t + 1, p] = new_v
    x[t + 1, p] = x[t, p] + 2e-3 * new_v
    c[t + 1, p] = new_c


@dk.kernel
def walked(x, kind, loss, share, t: int):
    """Add how far the solid particles are to the right, on average."""
    p = dk.tid()
    if kind[p] == SOLID:
        loss[0] -= share * x[t, p][0]


class Walker(Simulation):
    """A robot of particles in boxes, some of which are muscles, is to walk to the right."""

    size: int
    rate: float
    wave_rate: float
    kernels: tuple

    @abstractmethod
    def boxes(self):
        """Yield corner, extent, numbers of particles along the axes, muscle or -1, and kind of each box."""

    def build(self):
        places, actuator, kind, draw = [], [], [], random.Random(0)
        for corner, extent, counts, muscle, of in self.boxes():
            cells = list(product(*map(range, counts)))
            share = (
                (np.array(cells) + 0.5) / counts if of == SOLID else [[draw.random() for _ in counts] for _ in cells]
            )
            places.append(np.array(corner) + np.array(extent) * share)
            actuator += [muscle] * len(cells)
            kind += [of] * len(cells)
        start = np.concatenate(places)
        count, d = start.shape
        vec, mat = (self.vec2, self.mat22) if d == 2 else (self.vec3, self.mat33)
        steps, grid, many = self.steps, (self.size,) * d, 1 + max(actuator)
        self.x, self.v = self.field(steps, count, dtype=vec), self.field(steps, count, dtype=vec)
        self.c, self.f = self.field(steps, count, dtype=mat), self.field(steps, count, dtype=mat)
        self.momentum, self.mass, self.out = (
            self.field(*grid, dtype=vec),
            self.field(*grid),
            self.field(*grid, dtype=vec),
        )
        self.kind, self.actuator = dk.array(np.array(kind, np.int32)), dk.array(np.array(actuator, np.int32))
        self.x[0].assign(start)
        self.f[0].assign(np.broadcast_to(np.eye(d), (count, d, d)))
        self.act = self.field(steps, many)
        self.amplitude = self.parameter("weights", 0.01 * np.random.RandomState(0).randn(many, WAVES))
        self.bias = self.parameter("bias", np.zeros(many))
        self.share = self.scalar(1.0 / kind.count(SOLID))

    def forward(self):
        count, grid = self.x.shape[1], self.mass.shape
        to_grid, on_grid, from_grid = self.kernels
        for t in range(self.steps - 1):
            self.momentum.zero_()
            self.mass.zero_()
            dk.launch(
                muscles,
                dim=self.bias.size,
                inputs=[self.amplitude, self.bias, self.act, self.scalar(self.wave_rate), t],
            )
            particles = [
                self.x,
                self.v,
                self.c,
                self.f,
                self.momentum,
                self.mass,
                self.kind,
                self.actuator,
                self.act,
                t,
            ]
            dk.launch(to_grid, dim=count, inputs=particles)
            dk.launch(on_grid, dim=grid, inputs=[self.momentum, self.mass, self.out])
            dk.launch(from_grid, dim=count, inputs=[self.x, self.v, self.c, self.out, t])
        self.loss.zero_()
        dk.launch(walked, dim=count, inputs=[self.x, self.kind, self.loss, self.share, self.steps - 1])

    def descend(self):
        self.step_down(self.rate)


@simulation("diffmpm")
class FlatWalker(Walker):
    """A flat robot with four muscles in its legs."""

    published_steps, iterations, checked_steps = 1024, 100, 200
    size, rate, wave_rate, kernels = 128, 0.1, 20 * 1e-3, (flat_to_grid, flat_grid, flat_from_grid)
    changes = WITHOUT_PICTURES

    def boxes(self):
        rectangles = [(0.0, 0.1, 0.3, -1), *((x, 0.0, 0.05, k) for k, x in enumerate((0.0, 0.05, 0.2, 0.25)))]
        for x, y, w, muscle in rectangles:
            yield (0.1 + x, 0.03 + y), (w, 0.1), (int(w * 128) * 2, 24), muscle, SOLID


class SolidWalker(Walker):
    """A robot with sixteen muscles in its legs."""

    published_steps, checked_steps = 64, 40
    size, wave_rate, kernels = 64, 40 * 2e-3, (solid_to_grid, solid_grid, solid_from_grid)
    scale = "64 of 512 steps, on both sides"
    block: float

    def boxes(self):
        b = self.block
        legs = [(leg // 2 * 2 * b, leg % 2 * 2 * b) for leg in range(4)]
        for muscle, ((x, z), k) in enumerate(product(legs, range(4))):
            yield self.box((x + b / 2 * (k // 2), 0.35 * b * (k % 2), z), (b / 2, 0.35 * b, b), muscle)
        for k in range(3):
            yield self.box((b * k, 0.0, b), (b, 0.7 * b, b), -1)

    def box(self, corner, extent, muscle, kind=SOLID):
        """Return a box; three particles fit in a cell along each axis."""
        counts = tuple(int(e * 64 * 3) for e in extent)
        return tuple(a + o for a, o in zip(corner, (0.1, 0.05, 0.3), strict=True)), extent, counts, muscle, kind


@simulation("diffmpm3d")
class HeavyWalker(SolidWalker):
    """A robot of solid parts only; its weights at first are those of the flat one's kind, as Taichi draws its own."""

    iterations, block, rate = 100, 0.1, 30.0
    changes = FIRST_WEIGHTS


@simulation("liquid")
class LoadedWalker(SolidWalker):
    """A smaller robot that carries a block of water."""

    iterations, block, rate = 501, 0.08, 10.0
    changes = FEWER_STEPS

    def boxes(self):
        yield from super().boxes()
        yield self.box((0.1, 0.15, 0.1), (0.2, 0.05, 0.2), -1, FLUID)
