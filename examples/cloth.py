"""How stiff is this cloth? Its properties, and the wind, from the motion of a few points on it.

The input is the noisy positions of some points of a cloth that hangs from two corners and falls into the wind. The
output is the stiffness against stretching, shear and bending, the drag of the air and the wind, found with Adam from
the gradient through all time steps, and a figure. The cloth is a net of masses and springs (Provot, Graphics Interface
1995); the air pushes on each triangle along its normal. A launch is a time step, a thread a mass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

SIDE, MASS, DAMPING, GRAVITY, DT = 1.0, 0.15, 3.0e-4, 9.81, 1.0e-3  # m, kg, s of the springs, m/s2, s
NAMES = ("stretch N/m", "shear N/m", "bend N/m", "drag kg/m3", "wind x m/s", "wind y m/s", "wind z m/s")
TRUE, GUESS = np.array([60.0, 20.0, 3.0, 0.9, 1.5, 3.0, 0.4]), np.array([40.0, 30.0, 1.5, 0.5, 0.8, 0.5, 0.5])
Points, Numbers = dk.array2d(dtype=dk.vec3), dk.array(dtype=float)


@dk.func
def spring(x: Points, v: Points, i: int, j: int, a: int, b: int, stiffness: float):
    """The force on mass (i, j) of the spring to the one `a` rows and `b` columns further."""
    force = dk.vec3(0.0, 0.0, 0.0)
    n = x.shape[0]
    if 0 <= i + a < n and 0 <= j + b < n:
        rest = SIDE / float(n - 1) * dk.sqrt(float(a * a + b * b))
        off = x[i + a, j + b] - x[i, j]
        along = dk.normalize(off)
        rate = dk.dot(v[i + a, j + b] - v[i, j], along)
        force = stiffness * (dk.length(off) - rest + DAMPING * rate) * along
    return force


@dk.func
def pressure(x: Points, v: Points, i: int, j: int, a: int, b: int, drag: float, wind: dk.vec3):
    """The air's force on mass (i, j) by the triangle with its neighbours `a` rows and `b` columns further."""
    force = dk.vec3(0.0, 0.0, 0.0)
    if 0 <= i + a < x.shape[0] and 0 <= j + b < x.shape[0]:
        area = 0.5 * dk.cross(x[i + a, j] - x[i, j], x[i, j + b] - x[i, j])
        force = drag * dk.dot(wind - v[i, j], area) / (dk.length(area) + 1.0e-6) * area
    return force


@dk.kernel
def step(x: Points, v: Points, theta: Numbers, x_after: Points, v_after: Points):
    i, j = dk.tid()
    force = dk.vec3(0.0, 0.0, 0.0)
    for s in range(4):
        a, b = dk.where(s < 2, 1 - 2 * s, 0), dk.where(s < 2, 0, 5 - 2 * s)
        force += spring(x, v, i, j, a, b, theta[0]) + spring(x, v, i, j, 2 * a, 2 * b, theta[2])
        c, d = 1 - 2 * (s // 2), 1 - 2 * (s % 2)
        force += spring(x, v, i, j, c, d, theta[1])
        force += 0.5 * pressure(x, v, i, j, c, d, theta[3], dk.vec3(theta[4], theta[5], theta[6]))
    mass = MASS / float(x.size)
    w = v[i, j] + DT * (force / mass - dk.vec3(0.0, 0.0, GRAVITY))
    if i == 0 and (j == 0 or j == x.shape[1] - 1):
        w = dk.vec3(0.0, 0.0, 0.0)  # the corners that are held
    v_after[i, j], x_after[i, j] = w, x[i, j] + DT * w


@dk.kernel
def compare(x: Points, seen: Points, every: int, loss: Numbers):
    """The squared distance of a point from where it was seen."""
    i, j = dk.tid()
    off = x[every * i, every * j] - seen[i, j]
    loss[0] += dk.dot(off, off)


class Cloth:
    def __init__(self, n: int, steps: int, every: int) -> None:
        a, b = np.mgrid[0:n, 0:n] * SIDE / (n - 1)
        self.n, self.every, self.count = n, every, steps
        new = partial(dk.zeros, (n, n), dtype=dk.vec3, requires_grad=True)
        self.x, self.v = [new() for _ in range(steps + 1)], [new() for _ in range(steps + 1)]
        self.x[0].assign(np.float32(np.stack([b, a, 0.0 * a], axis=-1)))  # it is held flat, and let go

    def run(self, theta: dk.array) -> Iterator[dk.array]:
        """Yield where the masses are, 20 times in all."""
        for t in range(self.count):
            inputs, outputs = [self.x[t], self.v[t], theta], [self.x[t + 1], self.v[t + 1]]
            dk.launch(step, (self.n, self.n), inputs=inputs, outputs=outputs)
            if (t + 1) % (self.count // 20) == 0:
                yield self.x[t + 1]

    def measure(self, noise: float = 0.002) -> list[np.ndarray]:
        seen = [x.numpy()[:: self.every, :: self.every].copy() for x in self.run(dk.array(np.float32(TRUE)))]
        rng = np.random.default_rng(0)
        return [np.float32(x + rng.normal(0.0, noise, x.shape)) for x in seen]


def search(cloth: Cloth, seen: list[np.ndarray], rounds: int) -> tuple[np.ndarray, list[float]]:
    """Adam in the logarithms of the properties, which are positive."""
    sizes, loss = dk.array(np.float32(np.log(GUESS)), requires_grad=True), dk.zeros(1, requires_grad=True)
    theta, history, count = dk.array(np.float32(GUESS), requires_grad=True), [], len(seen) * seen[0][..., 0].size
    optimizer, marks = dk.optim.Adam([sizes], lr=0.1), [dk.array(s, dtype=dk.vec3) for s in seen]
    for k in trange(rounds, desc="rounds"):
        theta.assign(np.exp(sizes.numpy()))
        loss.zero_()
        with dk.Tape() as tape:
            for x, mark in zip(cloth.run(theta), marks, strict=True):
                dk.launch(compare, mark.shape, inputs=[x, mark, cloth.every], outputs=[loss])
        tape.backward(loss)
        history.append(1e3 * float(np.sqrt(float(loss) / count)))
        optimizer.lr = 0.1 * (1.0 - k / rounds)
        optimizer.step([dk.array(theta.grad.numpy() * theta.numpy())])
        tape.zero()
    return theta.numpy().copy(), history


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the distance from the points seen, in mm, and the largest relative error found."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=21, help="masses along each side")
    parser.add_argument("--steps", type=int, default=600, help="time steps")
    parser.add_argument("--every", type=int, default=4, help="every so many masses are seen")
    parser.add_argument("--rounds", type=int, default=80, help="steps of Adam")
    parser.add_argument("--out", default="cloth.png", help="where the figure goes")
    options, began, rng = parser.parse_args(arguments), time.perf_counter(), np.random.default_rng(2)
    few = [dk.array(np.float32(rng.normal(size=(3, 3, 3))), dtype=dk.vec3) for _ in range(4)]
    print(gradcheck(step, (3, 3), [*few[:2], np.float32(TRUE)], few[2:]), flush=True)
    cloth = Cloth(options.size, options.steps, options.every)
    found, history = search(cloth, seen := cloth.measure(), options.rounds)
    fig = Figure(figsize=(12.0, 3.4), layout="constrained")
    for k, t in enumerate(np.linspace(0, options.steps, 4).astype(int)[1:]):
        ax = fig.add_subplot(1, 4, k + 1, projection="3d", box_aspect=(1, 1, 1), elev=12, azim=-55)
        ax.plot_surface(*np.moveaxis(cloth.x[t].numpy(), -1, 0), cmap="viridis", lw=0.2, edgecolor="k", alpha=0.8)
        ax.scatter(*np.moveaxis(seen[max(t * 20 // options.steps - 1, 0)], -1, 0), c="r", s=5)
        ax.set(title=f"{t * DT:.2f} s", xlim=(0, 1), ylim=(0, 1), zlim=(-1, 0))
    plot = fig.add_subplot(1, 4, 4)
    plot.semilogy(history)
    plot.set(title="mm off", xlabel="rounds")
    fig.savefig(options.out, dpi=110)
    for name, true, guess, value in zip(NAMES, TRUE, GUESS, found, strict=True):
        print(f"{name:12} {true:6.2f}, guessed {guess:6.2f}, found {value:6.2f}")
    print(f"{history[0]:.1f} -> {history[-1]:.1f} mm off in {time.perf_counter() - began:.1f} s; figure: {options.out}")
    return history[-1], float(np.abs(found / TRUE - 1.0).max())


if __name__ == "__main__":
    main()
