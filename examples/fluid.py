"""Smoke that is to take a given shape: control of stable fluids.

The input is a round puff of smoke and a shape, by default the sign of a partial derivative. The output is the initial
velocity of the air with which the smoke flows into the shape, found with Adam, and a figure. A time step advects the
velocity, makes it divergence-free by Jacobi sweeps, and advects the smoke (Stam, SIGGRAPH 1999); the gradient goes back
through all steps (McNamara et al., ACM Trans. Graphics 23, 2004).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

# Lengths are in cells, times in time steps. Air that leaves at one edge comes in at the other.
SWEEPS = 12  # of Jacobi's method in each time step
Numbers, Velocity = dk.array2d(dtype=float), dk.array2d(dtype=dk.vec2)


@dk.func
def around(field, x: float, y: float):
    """A field between the four cells around a place."""
    n = field.shape[0]
    i, j = int(dk.floor(x)), int(dk.floor(y))
    u, v, a, b, c, d = x - float(i), y - float(j), i % n, (i + 1) % n, j % n, (j + 1) % n
    return (1.0 - u) * ((1.0 - v) * field[a, c] + v * field[a, d]) + u * ((1.0 - v) * field[b, c] + v * field[b, d])


@dk.kernel
def move(v: Velocity, field, moved):
    """What is in each cell one time step later: smoke, or the velocity itself."""
    i, j = dk.tid()
    moved[i, j] = around(field, float(i) - v[i, j][0], float(j) - v[i, j][1])


@dk.kernel
def divergence(v: Velocity, div: Numbers):
    i, j = dk.tid()
    n = v.shape[0]
    div[i, j] = 0.5 * (v[(i + 1) % n, j][0] - v[i - 1, j][0] + v[i, (j + 1) % n][1] - v[i, j - 1][1])


@dk.kernel
def relax(p: Numbers, div: Numbers, after: Numbers):
    """A sweep of Jacobi's method for the pressure."""
    i, j = dk.tid()
    n = p.shape[0]
    after[i, j] = 0.25 * (p[(i + 1) % n, j] + p[i - 1, j] + p[i, (j + 1) % n] + p[i, j - 1] - div[i, j])


@dk.kernel
def project(v: Velocity, p: Numbers, free: Velocity):
    i, j = dk.tid()
    n = v.shape[0]
    free[i, j] = v[i, j] - 0.5 * dk.vec2(p[(i + 1) % n, j] - p[i - 1, j], p[i, (j + 1) % n] - p[i, j - 1])


@dk.kernel
def compare(smoke: Numbers, wanted: Numbers, loss: dk.array(dtype=float)):
    i, j = dk.tid()
    loss[0] += (smoke[i, j] - wanted[i, j]) ** 2.0 / float(smoke.size)


class Air:
    def __init__(self, wanted: np.ndarray, steps: int) -> None:
        self.dim, self.steps, self.wanted = wanted.shape, steps, dk.array(np.float32(wanted))
        off = np.hypot(*(np.indices(self.dim) - len(wanted) / 2.0)) - np.sqrt(wanted.sum() / np.pi)
        self.puff = dk.array(np.float32(1.0 / (1.0 + np.exp(off))))  # as much smoke as the shape needs
        self.start, self.loss = self.new(dk.vec2), dk.zeros(1, requires_grad=True)

    def new(self, dtype=float) -> dk.array:
        return dk.zeros(self.dim, dtype=dtype, requires_grad=True)

    def free(self, v: dk.array, p: dk.array) -> tuple[dk.array, dk.array]:
        """The velocity without its divergence, and the pressure, from which the next step starts."""
        dk.launch(divergence, self.dim, inputs=[v], outputs=[div := self.new()])
        for _ in range(SWEEPS):
            dk.launch(relax, self.dim, inputs=[p, div], outputs=[after := self.new()])
            p = after
        dk.launch(project, self.dim, inputs=[v, p], outputs=[free := self.new(dk.vec2)])
        return free, p

    def run(self) -> list[dk.array]:
        """The smoke before and after each time step; adds to the loss."""
        smokes, (v, p) = [self.puff], self.free(self.start, self.new())
        for _ in range(self.steps):
            dk.launch(move, self.dim, inputs=[v, v], outputs=[moved := self.new(dk.vec2)])
            v, p = self.free(moved, p)
            dk.launch(move, self.dim, inputs=[v, smokes[-1]], outputs=[smoke := self.new()])
            smokes.append(smoke)
        dk.launch(compare, self.dim, inputs=[smokes[-1], self.wanted], outputs=[self.loss])
        return smokes


def shape(text: str, n: int) -> np.ndarray:
    """A text as smoke: 1 within its outline, with edges softened."""
    path = TextPath((0, 0), text, size=1.0, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    low, high = path.vertices.min(0), path.vertices.max(0)
    rows, columns = np.mgrid[0 : 3 * n, 0 : 3 * n] - 1.5 * n
    places = (low + high) / 2 + np.stack([columns, -rows], axis=-1) * (high - low).max() / (1.8 * n)
    within = sum(Path(p).contains_points(places.reshape(-1, 2)).astype(int) for p in path.to_polygons()) % 2
    return within.reshape(n, 3, n, 3).mean((1, 3))


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the misfit of the smoke that stays where it is, and of that which flows."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=64, help="cells along each side")
    parser.add_argument("--steps", type=int, default=40, help="time steps")
    parser.add_argument("--rounds", type=int, default=80, help="steps of Adam")
    parser.add_argument("--shape", default="∂", help="the text that the smoke is to become")
    parser.add_argument("--out", default="fluid.png", help="where the figure goes")
    options, began, rng = parser.parse_args(arguments), time.perf_counter(), np.random.default_rng(0)
    few = [dk.array(np.float32(rng.normal(size=(6, 6, 2))), dtype=dk.vec2), np.float32(rng.uniform(size=(6, 6)))]
    print(gradcheck(move, (6, 6), few, [dk.zeros((6, 6))]), flush=True)
    air = Air(shape(options.shape, options.size), options.steps)
    optimizer, history = dk.optim.Adam([air.start], lr=0.05), []
    for _ in trange(options.rounds, desc="rounds"):
        air.loss.zero_()
        with dk.Tape() as tape:
            smokes = air.run()
        tape.backward(air.loss)
        history.append(float(air.loss))
        optimizer.step([air.start.grad])
        tape.zero()
    fig = Figure(figsize=(13.0, 2.7), layout="constrained")
    *axes, plot = fig.subplots(1, 6)
    shown = {f"step {t}": smokes[t] for t in np.linspace(0, options.steps, 4).astype(int)} | {"wanted": air.wanted}
    for ax, (title, smoke) in zip(axes, shown.items(), strict=True):
        ax.imshow(smoke.numpy(), cmap="bone", vmin=0.0, vmax=1.0)
        ax.set(title=title, xticks=[], yticks=[])
    plot.plot(history)
    plot.set(title="misfit", xlabel="rounds", yscale="log")
    fig.savefig(options.out, dpi=110)
    print(f"misfit {history[0]:.4f} -> {history[-1]:.4f} in {time.perf_counter() - began:.1f} s; figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
