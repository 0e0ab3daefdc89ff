"""A dam breaks: smoothed particle hydrodynamics on a hash grid, and its gradient through steps that rebuild the grid.

A column of water, twice as high as wide, collapses in a tank (weakly compressible SPH: Monaghan, Rep. Prog. Phys. 68,
2005; Wendland's kernel), and its front is compared with the experiment of Martin and Moyce (Phil. Trans. R. Soc. A 244,
1952). The gradient of the final positions of the water with respect to the initial velocity of each particle is checked
against differences: each step on the tape has the grid of its time.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk

GRAVITY, DENSITY, VISCOSITY, WIDTH, TANK = 9.81, 1000.0, 0.05, 1.0, 4.2
SOUND = 10.0 * np.sqrt(2.0 * GRAVITY * 2.0 * WIDTH)  # ten times the fastest that the water gets
# Martin and Moyce, column of ratio 2: times in units of sqrt(width / 2 g), positions of the front in widths.
TIMES = (0.84, 1.19, 1.43, 1.63, 1.83, 1.98, 2.20, 2.32, 2.51, 2.65, 2.83, 2.98, 3.11)
FRONTS = (1.22, 1.44, 1.67, 1.89, 2.11, 2.33, 2.56, 2.78, 3.00, 3.22, 3.44, 3.67, 3.89)
Points, Numbers = dk.array(dtype=dk.vec3d), dk.array(dtype=dk.float64)


@dk.kernel
def density(grid: dk.uint64, x: Points, h: dk.float64, mass: dk.float64, rho: Numbers):
    """Add up the masses around each particle; where too few are near, at the surface, water has its own density."""
    i = dk.tid()
    s = dk.float64(0.0)
    for j in dk.hash_grid_query(grid, x[i], 2.0 * h):
        q = dk.min(dk.length(x[i] - x[j]) / h, 2.0)
        s += (1.0 - 0.5 * q) ** 4 * (2.0 * q + 1.0)
    rho[i] = dk.max(mass * s * 7.0 / (4.0 * dk.PI * h * h), DENSITY)


@dk.kernel
def accelerate(grid: dk.uint64, x: Points, v: Points, rho: Numbers, h: dk.float64, mass: dk.float64, a: Points):
    """Pressure, viscosity between particles that approach one another, and gravity."""
    i = dk.tid()
    total = dk.vec3d(0.0, -GRAVITY, 0.0)
    pressure = SOUND * SOUND * (rho[i] - DENSITY) / (rho[i] * rho[i])
    for j in dk.hash_grid_query(grid, x[i], 2.0 * h):
        r = x[i] - x[j]
        q = dk.sqrt(dk.dot(r, r) + 1.0e-12 * h * h) / h
        if q < 2.0:
            term = pressure + SOUND * SOUND * (rho[j] - DENSITY) / (rho[j] * rho[j])
            approach = dk.min(dk.dot(v[i] - v[j], r), 0.0)
            term -= 2.0 * VISCOSITY * SOUND * h * approach / ((q * q + 0.01) * h * h * (rho[i] + rho[j]))
            total += term * mass * 35.0 / (4.0 * dk.PI * h**4) * (1.0 - 0.5 * q) ** 3 * r
    a[i] = total


@dk.kernel
def advance(x: Points, v: Points, a: Points, dt: dk.float64, water: int, x_next: Points, v_next: Points):
    i = dk.tid()
    w = v[i] + dt * a[i] if i < water else dk.vec3d(0.0, 0.0, 0.0)
    v_next[i], x_next[i] = w, x[i] + dt * w


class Tank:
    """Water and walls, made of particles at the same distance from one another; the water's come first."""

    def __init__(self, columns: int) -> None:
        d, wide = WIDTH / columns, round(TANK * columns / WIDTH)
        i, j = np.meshgrid(np.arange(-3, wide + 3), np.arange(-3, 3 * columns), indexing="ij")
        wall, water = (i < 0) | (j < 0) | (i >= wide), (i >= 0) & (i < columns) & (j >= 0) & (j < 2 * columns)
        places = [np.stack([i[which], j[which], 0 * i[which]], axis=1) for which in (water, wall)]
        self.start = (np.concatenate(places) + np.array([0.5, 0.5, 0.0])) * d
        self.water, self.count, self.grid = len(places[0]), len(self.start), dk.HashGrid(128, 128, 1, dtype=dk.float64)
        self.h, self.mass, self.dt = 1.3 * d, DENSITY * d * d, 0.25 * 1.3 * d / SOUND

    def step(self, x: dk.array, v: dk.array) -> tuple[dk.array, dk.array]:
        n, grid, rho = self.count, self.grid, dk.empty(self.count, dtype=dk.float64)
        a, x_next, v_next = (dk.empty_like(x) for _ in range(3))
        grid.build(x, 2.0 * self.h)
        dk.launch(density, n, inputs=[grid.id, x, self.h, self.mass], outputs=[rho])
        dk.launch(accelerate, n, inputs=[grid.id, x, v, rho, self.h, self.mass], outputs=[a])
        dk.launch(advance, n, inputs=[x, v, a, self.dt, self.water], outputs=[x_next, v_next])
        return x_next, v_next


def collapse(tank: Tank) -> tuple[np.ndarray, np.ndarray, list[tuple[float, np.ndarray, np.ndarray]]]:
    """Times and positions of the front in the experiment's units, and pictures: time, positions, speeds."""
    unit = np.sqrt(WIDTH / (2.0 * GRAVITY))
    x, v = dk.array(tank.start, dtype=dk.vec3d), dk.zeros(tank.count, dtype=dk.vec3d)
    times, fronts, pictures = [], [], []
    for k in range(int(TIMES[-1] * unit / tank.dt) + 1):
        times.append(k * tank.dt / unit)
        fronts.append(x.numpy()[: tank.water, 0].max() / WIDTH)
        if times[-1] >= len(pictures):
            pictures.append((k * tank.dt, x.numpy().copy(), np.linalg.norm(v.numpy(), axis=1)))
        x, v = tank.step(x, v)
    return np.array(times), np.array(fronts), pictures


def gradient_error(columns: int, steps: int) -> float:
    """The gradient of the water's place after some steps, for the velocities before: how far from differences."""
    tank, rng = Tank(columns), np.random.default_rng(1)
    began, direction, seed = rng.normal(size=(3, *tank.start.shape)) * [1.0, 1.0, 0.0]

    def run(v: dk.array) -> dk.array:
        x = dk.array(tank.start, dtype=dk.vec3d)
        for _ in range(steps):
            x, v = tank.step(x, v)
        return x

    first = dk.array(began, dtype=dk.vec3d, requires_grad=True)
    with dk.Tape() as tape:
        last = run(first)
    tape.backward(grads={last: seed})
    up, down = ((run(dk.array(began + e * direction, dtype=dk.vec3d)).numpy() * seed).sum() for e in (1e-6, -1e-6))
    return float(abs((first.grad.numpy() * direction).sum() / ((up - down) / 2e-6) - 1.0))


def draw(path: str, times: np.ndarray, fronts: np.ndarray, pictures: list) -> None:
    figure = Figure(figsize=(9, 1.9 * len(pictures) + 2.8), layout="constrained")
    *axes, plot = figure.subplots(len(pictures) + 1, 1)
    for ax, (t, x, speed) in zip(axes, pictures, strict=True):
        ax.scatter(*x[:, :2].T, s=3, c=speed, cmap="viridis", vmin=0.0, vmax=6.0)
        ax.set(title=f"{t:.2f} s", aspect="equal", ylim=(-0.2, 2.1), xlim=(-0.2, TANK + 0.2))
    plot.plot(times, fronts, label="diffkern")
    plot.plot(TIMES, FRONTS, "o", label="Martin and Moyce, 1952")
    plot.set(xlabel="time in units of sqrt(width / 2 g)", ylabel="front / width")
    plot.legend()
    figure.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A dam breaks, in particles on a hash grid.")
    parser.add_argument("--columns", type=int, default=32, help="particles across the column (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=30, help="steps of the gradient (default: %(default)s)")
    parser.add_argument("--out", default="dam_break.png", help="the picture (default: %(default)s)")
    options = parser.parse_args(argv)
    tank = Tank(options.columns)
    print(f"{tank.water} particles of water, {tank.count - tank.water} of walls, steps of {1e6 * tank.dt:.0f} us")
    times, fronts, pictures = collapse(tank)
    off = np.interp(TIMES, times, fronts) / FRONTS - 1.0
    print(
        f"Front: off by {100 * np.abs(off).mean():.1f} % of the experiment on average, {100 * off[-1]:+.1f} % at last"
    )
    error = gradient_error(min(options.columns, 10), options.steps)
    draw(options.out, times, fronts, pictures)
    print(f"Gradient through {options.steps} steps: off by {error:.1e} of differences\nFigure: {options.out}")
    return 0 if np.abs(off).mean() < 0.15 and error < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
