"""The path of a torch over a plate, from a few thermometers: an inverse problem of heat conduction.

The input is noisy temperatures at 64 points of a steel plate, while a torch moves over it on an unknown path. The
output is the path, as knots between which the torch moves at constant speed, and the power of the torch, found with
Adam from the gradient through all time steps; a figure or, if its name ends in .gif, an animation. A launch is a time
step of the heat equation with a moving source (Rosenthal, Welding Journal 20, 1941) and heat loss to the air.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

SIDE, DIFFUSIVITY, COOLING, SPOT = 0.2, 1.2e-5, 0.004, 0.012  # m, m2/s of steel, 1/s, m
DURATION, POWER, GUESS = 40.0, 12.0, 8.0  # s; degrees per second under the torch: what it is, and a guess
Field, Numbers = dk.array2d(dtype=float), dk.array(dtype=float)


@dk.kernel
def step(u: Field, knots: dk.array(dtype=dk.vec2), power: Numbers, at: float, dt: float, after: Field):
    """One time step of one cell; `at` is the time, counted in knots. The edges let no heat through."""
    i, j = dk.tid()
    n = u.shape[0]
    cell = SIDE / float(n)
    up, down, left, right = dk.max(i - 1, 0), dk.min(i + 1, n - 1), dk.max(j - 1, 0), dk.min(j + 1, n - 1)
    bent = (u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4.0 * u[i, j]) / (cell * cell)
    k = dk.min(int(at), knots.shape[0] - 2)
    f = at - float(k)
    torch = (1.0 - f) * knots[k] + f * knots[k + 1]
    off = (dk.vec2(float(j) + 0.5, float(i) + 0.5) / float(n) - torch) * (SIDE / SPOT)
    heat = power[0] * dk.exp(-0.5 * dk.dot(off, off))
    after[i, j] = u[i, j] + dt * (DIFFUSIVITY * bent - COOLING * u[i, j] + heat)


@dk.kernel
def compare(u: Field, places: dk.array2d(dtype=int), seen: Field, t: int, loss: Numbers):
    """The squared difference of one thermometer at one time, in degrees, averaged over all."""
    s = dk.tid()
    off = u[places[s, 0], places[s, 1]] - seen[t, s]
    loss[0] += off * off / float(seen.shape[0] * seen.shape[1])


class Plate:
    """A plate of n x n cells with thermometers on it, and the torch's path over it."""

    def __init__(self, n: int, steps: int, knots: int) -> None:
        self.dt, self.knots = DURATION / steps, knots
        self.states = [dk.zeros((n, n), requires_grad=True) for _ in range(steps + 1)]
        line = ((np.arange(8) + 0.5) / 8 * n).astype(int)
        self.places = dk.array(np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2), dtype=int)
        turn = np.linspace(0.0, 2.0 * np.pi, knots)[:, None]
        self.path = 0.5 + 0.33 * np.sin(turn * [1.0, 2.0] + [0.4, 0.0])

    def run(self, knots: dk.array, power: dk.array) -> Iterator[dk.array]:
        """Yield the temperatures, above the air's, after each time step."""
        steps = len(self.states) - 1
        for t, (u, after) in enumerate(zip(self.states, self.states[1:], strict=False)):
            at = t / steps * (self.knots - 1)
            dk.launch(step, u.shape, inputs=[u, knots, power, at, self.dt], outputs=[after])
            yield after

    def measure(self, noise: float = 0.1) -> np.ndarray:
        """What the thermometers show: time steps, thermometers."""
        rows, columns = self.places.numpy().T
        run = self.run(dk.array(np.float32(self.path), dtype=dk.vec2), dk.array([POWER], dtype=float))
        seen = np.stack([u.numpy()[rows, columns] for u in run])
        return np.float32(seen + np.random.default_rng(0).normal(0.0, noise, seen.shape))


def search(plate: Plate, seen: dk.array, rounds: int) -> tuple[np.ndarray, float, list[float]]:
    """Start amid the thermometers that get warmer, and descend."""
    warmer = np.maximum(np.gradient(seen.numpy(), axis=0), 0.0) ** 2
    guess = warmer / warmer.sum(1, keepdims=True) @ plate.places.numpy()[:, ::-1] / plate.states[0].shape[0]
    guess = np.stack([part.mean(0) for part in np.array_split(guess, plate.knots)])
    knots = dk.array(np.float32(guess), dtype=dk.vec2, requires_grad=True)
    power, loss = dk.array([GUESS], dtype=float, requires_grad=True), dk.zeros(1, requires_grad=True)
    path, strength, history = dk.optim.Adam([knots], lr=0.01), dk.optim.Adam([power], lr=0.1), []
    for k in trange(rounds, desc="rounds"):
        loss.zero_()
        with dk.Tape() as tape:
            for t, u in enumerate(plate.run(knots, power)):
                dk.launch(compare, plate.places.shape[0], inputs=[u, plate.places, seen, t], outputs=[loss])
        tape.backward(loss)
        history.append(float(loss))
        path.lr = 0.01 * (1.0 - k / rounds)
        path.step([knots.grad])
        strength.step([power.grad])
        tape.zero()
    return knots.numpy().copy(), float(power), history


def draw(path: str, plate: Plate, found: np.ndarray, history: list[float]) -> None:
    """Temperatures with the torch's path; a frame for every few time steps if the file is a GIF."""
    states, n = plate.states, plate.states[0].shape[0]
    fig = Figure(figsize=(8.4, 3.9), layout="constrained")
    left, right = fig.subplots(1, 2, width_ratios=(1.3, 1.0))
    image = left.imshow(states[-1].numpy(), cmap="inferno", vmin=0, vmax=1.3 * states[-1].numpy().max())
    fig.colorbar(image, ax=left, label="degrees above the air")
    left.plot(*(plate.path * n - 0.5).T, "w-", lw=4, alpha=0.35, label="true path")
    (line,) = left.plot(*(found * n - 0.5).T, "c.-", lw=1, label="found")
    left.plot(*plate.places.numpy().T[::-1], "w+", ms=4)
    left.legend(loc="upper left", fontsize=7)
    left.set(xticks=[], yticks=[])
    right.set(title="misfit, square degrees", xlabel="rounds", yscale="log")
    right.plot(history)

    def show(t: int) -> None:
        image.set_data(states[t].numpy())
        line.set_data(*(found[: 2 + int((plate.knots - 1) * t / len(states))] * n - 0.5).T)

    if path.endswith(".gif"):
        FuncAnimation(fig, show, range(1, len(states), max(len(states) // 25, 1))).save(path, PillowWriter(8), dpi=60)
    else:
        show(len(states) - 1)
        fig.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns how far the path found is off, in metres, and the power's relative error."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=64, help="cells along each side")
    parser.add_argument("--steps", type=int, default=320, help="time steps")
    parser.add_argument("--knots", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=100, help="steps of Adam")
    parser.add_argument("--out", default="heat.png", help="where the figure goes; an animation if it ends in .gif")
    options, began = parser.parse_args(arguments), time.perf_counter()
    u, knots = (np.float32(np.random.default_rng(1).uniform(size=shape)) for shape in ((6, 6), (4, 2)))
    given = [u, dk.array(knots, dtype=dk.vec2), np.float32([2.0]), 1.3, 0.1]
    print(gradcheck(step, (6, 6), given, [0.0 * u]), flush=True)
    plate = Plate(options.size, options.steps, options.knots)
    found, power, history = search(plate, dk.array(plate.measure()), options.rounds)
    draw(options.out, plate, found, history)
    off = SIDE * float(np.hypot(*(found - plate.path)[1:-1].T).mean())
    print(f"misfit {history[0]:.3g} -> {history[-1]:.3g} square degrees in {time.perf_counter() - began:.1f} s")
    print(f"path off by {1e3 * off:.1f} mm, power {power:.2f} of {POWER:.0f} degrees a second; figure: {options.out}")
    return off, abs(power / POWER - 1.0)


if __name__ == "__main__":
    main()
