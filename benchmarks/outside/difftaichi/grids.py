"""Fields on grids: waves whose initial heights are found, and smoke whose initial velocity is found."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

import diffkern as dk

from .pictures import picture, resized
from .simulation import Simulation, simulation

WAVES, SMOKE, SWEEPS = 256, 128, 10
COURANT = 1.0 / 3.0


@dk.func
def height(p, t, i, j):
    """Return the height of a cell, zero outside."""
    n = p.shape[1]
    return p[t, i, j] if 0 <= i < n and 0 <= j < n else 0.0


@dk.func
def curvature(p, t, i, j):
    return (
        height(p, t, i, j - 1)
        + height(p, t, i, j + 1)
        + height(p, t, i + 1, j)
        + height(p, t, i - 1, j)
        - 4.0 * p[t, i, j]
    )


@dk.kernel
def begin(p, initial):
    i, j = dk.tid()
    p[0, i, j] = initial[i, j]


@dk.kernel
def wave_step(p, t: int):
    i, j = dk.tid()
    p[t, i, j] = 2.0 * p[t - 1, i, j] + COURANT * curvature(p, t - 1, i, j) - p[t - 2, i, j]


@dk.kernel
def squared_distance(p, target, loss, t: int, weight):
    i, j = dk.tid()
    d = target[i, j] - p[t, i, j]
    loss[0] += weight * d * d


@simulation("wave")
class Wave(Simulation):
    """The initial heights of water are found that make a picture after 256 steps."""

    published_steps, iterations, checked_steps = 256, 200, 12
    rate, size = 1.0, WAVES

    def build(self):
        n = self.size
        image = picture(self.source / "taichi.png")[:, :, 0] / 255.0
        image -= image.mean()
        self.target = dk.array(resized(image, n, n).astype(self.real))
        self.p = self.field(self.steps, n, n)
        self.initial = self.parameter("initial", np.zeros((n, n)))

    def forward(self):
        n = self.size
        self.loss.zero_()
        dk.launch(begin, dim=(n, n), inputs=[self.p, self.initial])
        for t in range(2, self.steps):
            dk.launch(wave_step, dim=(n, n), inputs=[self.p, t])
        measured = [self.p, self.target, self.loss, self.steps - 1, self.scalar(1.0 / n**2)]
        dk.launch(squared_distance, dim=(n, n), inputs=measured)

    def descend(self):
        self.step_down(self.rate)


@dk.kernel
def divergence(v, div, t: int):
    y, x = dk.tid()
    n = div.shape[1]
    down, right = v[t, (y + 1) % n, x] - v[t, (y + n - 1) % n, x], v[t, y, (x + 1) % n] - v[t, y, (x + n - 1) % n]
    div[t, y, x] = -0.5 / float(SMOKE) * (down[0] + right[1])


@dk.kernel
def relax(p, div, t: int, a: int):
    y, x = dk.tid()
    n = div.shape[1]
    around = p[a, (y + n - 1) % n, x] + p[a, (y + 1) % n, x] + p[a, y, (x + n - 1) % n] + p[a, y, (x + 1) % n]
    p[a + 1, y, x] = (div[t, y, x] + around) / 4.0


@dk.kernel
def project(v, advected, p, t: int, a: int):
    y, x = dk.tid()
    n = v.shape[1]
    new = advected[t, y, x]
    new[0] -= 0.5 * (p[a, (y + 1) % n, x] - p[a, (y + n - 1) % n, x]) * float(SMOKE)
    new[1] -= 0.5 * (p[a, y, (x + 1) % n] - p[a, y, (x + n - 1) % n]) * float(SMOKE)
    v[t, y, x] = new


@dk.func
def carried(field, v, t, s, y, x):
    """Return a field at the place that the flow comes from, interpolated; the grid is periodic."""
    n = field.shape[1]
    speed = v[s, y, x]
    # The published program subtracts in this order too: the floor of the difference is what both round.
    from_y, from_x = float(y) - speed[0], float(x) - speed[1]
    top, left = int(dk.floor(from_y)), int(dk.floor(from_x))
    u, w = from_y - float(top), from_x - float(left)
    y0, x0 = top % n, left % n
    y1, x1 = (y0 + 1) % n, (x0 + 1) % n
    low = (1.0 - w) * field[t, y0, x0] + w * field[t, y0, x1]
    high = (1.0 - w) * field[t, y1, x0] + w * field[t, y1, x1]
    return (1.0 - u) * low + u * high


@dk.kernel
def carry_velocity(v, out, t: int):
    y, x = dk.tid()
    out[t, y, x] = carried(v, v, t - 1, t - 1, y, x)


@dk.kernel
def carry_smoke(smoke, v, t: int):
    y, x = dk.tid()
    smoke[t, y, x] = carried(smoke, v, t - 1, t, y, x)


@simulation("smoke")
class Smoke(Simulation):
    """The initial velocity is found that carries a chessboard of smoke into a picture."""

    published_steps, iterations, checked_steps = 100, 240, 5

    def build(self):
        n, steps = SMOKE, self.steps
        i, j = np.mgrid[0:n, 0:n]
        self.target = dk.array((resized(picture(self.source / "taichi.png"), n, n)[:, :, 0] / 255.0).astype(self.real))
        self.p, self.div, self.smoke = (
            self.field(steps * (SWEEPS + 1), n, n),
            self.field(steps, n, n),
            self.field(steps, n, n),
        )
        self.advected = self.field(steps, n, n, dtype=self.vec2)
        self.v = self.field(steps, n, n, dtype=self.vec2)
        self.initial = self.parameter("v0", np.zeros((n, n, 2)), self.vec2)
        self.smoke[0].assign(((i // 16 + j // 16) % 2).astype(self.real))

    def forward(self):
        n = SMOKE
        self.loss.zero_()
        dk.launch(begin, dim=(n, n), inputs=[self.v, self.initial])
        for t in range(1, self.steps):
            dk.launch(carry_velocity, dim=(n, n), inputs=[self.v, self.advected, t])
            dk.launch(divergence, dim=(n, n), inputs=[self.advected, self.div, t])
            for k in range(SWEEPS):
                dk.launch(relax, dim=(n, n), inputs=[self.p, self.div, t, k + t * SWEEPS])
            dk.launch(project, dim=(n, n), inputs=[self.v, self.advected, self.p, t, SWEEPS * t - 1])
            dk.launch(carry_smoke, dim=(n, n), inputs=[self.smoke, self.v, t])
        measured = [self.smoke, self.target, self.loss, self.steps - 1, self.scalar(1.0 / n**2)]
        dk.launch(squared_distance, dim=(n, n), inputs=measured)

    def descend(self):
        self.step_down(400.0)
