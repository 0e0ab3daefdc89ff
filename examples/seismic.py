"""What lies under the ground, from how waves come through it: seismic full-waveform inversion in two dimensions.

The input is noisy seismograms, simulated for a known ground. The output is the speed of sound in each cell, found with
Adam from the gradient through all time steps, and a figure. A launch is a time step of all shots; a tape records it.
Acoustic waves of constant density (Tarantola, Geophysics 49, 1984), Ricker wavelets, absorbing edges (Cerjan et al.,
Geophysics 50, 1985).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

CELL, DT, PEAK = 0.02, 0.003, 6.0  # km, s, Hz
Field, Fields = dk.array2d(dtype=float), dk.array3d(dtype=float)


@dk.kernel
def step(
    speed: Field, damping: Field, shots: dk.array2d(dtype=int), dt: float, pulse: float,
    before: Fields, now: Fields, after: Fields,
):  # fmt: skip
    """One time step of one cell of one shot; `pulse` is what its source adds."""
    s, i, j = dk.tid()
    n, m = speed.shape[0], speed.shape[1]
    u = 0.0
    if 0 < i < n - 1 and 0 < j < m - 1:
        bent = now[s, i - 1, j] + now[s, i + 1, j] + now[s, i, j - 1] + now[s, i, j + 1] - 4.0 * now[s, i, j]
        c = speed[i, j] * dt / CELL
        u = damping[i, j] * (2.0 * now[s, i, j] - damping[i, j] * before[s, i, j] + c * c * bent)
        if i == shots[s, 0] and j == shots[s, 1]:
            u += pulse
    after[s, i, j] = u


@dk.kernel
def compare(now: Fields, places: dk.array2d(dtype=int), seen: Fields, t: int, loss: dk.array(dtype=float)):
    """Half the squared difference of one sample of one seismogram."""
    s, r = dk.tid()
    off = now[s, places[r, 0], places[r, 1]] - seen[t, s, r]
    loss[0] += 0.5 * off * off


def ricker(t: float) -> float:
    a = (np.pi * PEAK * (t - 1.2 / PEAK)) ** 2
    return float((1.0 - 2.0 * a) * np.exp(-a))


class Survey:
    """Shots along the surface; receivers along it and down two wells."""

    def __init__(self, n: int, shots: int, steps: int) -> None:
        self.n = n
        depth, along = np.mgrid[0:n, 0:n] / n
        self.layers = np.float32(1.6 + 1.0 * depth)
        salt = ((along - 0.55) / 0.22) ** 2 + ((depth - 0.55) / 0.12) ** 2 < 1.0
        gas = ((along - 0.25) / 0.1) ** 2 + ((depth - 0.35) / 0.06) ** 2 < 1.0
        self.truth = np.float32(self.layers + 0.4 * salt - 0.25 * gas)
        edge = np.minimum.reduce([along, 1.0 - along, 1.0 - depth]) * n
        self.damping = dk.array(np.float32(np.exp(-((0.015 * np.maximum(12.0 - edge, 0.0)) ** 2))))
        across = np.linspace(0.15, 0.85, shots) * n
        self.shots = dk.array(np.stack([np.full(shots, 2), across.astype(int)], axis=1), dtype=int)
        line = np.arange(n // 8, n - n // 8)
        wells = [(line, 0 * line + k) for k in (n // 8, n - n // 8)]
        places = [np.stack(pair, axis=1) for pair in ((0 * line + 3, line), *wells)]
        self.places = dk.array(np.concatenate(places), dtype=int)
        self.fields = [dk.zeros((shots, n, n), requires_grad=True) for _ in range(steps + 2)]

    def run(self, speed: dk.array) -> Iterator[dk.array]:
        """Yield the waves of all shots after each time step."""
        dim = self.fields[0].shape
        for t, (before, now, after) in enumerate(zip(self.fields, self.fields[1:], self.fields[2:], strict=False)):
            pulse = ricker(t * DT)
            dk.launch(step, dim, inputs=[speed, self.damping, self.shots, DT, pulse, before, now], outputs=[after])
            yield after

    def measure(self) -> np.ndarray:
        """The seismograms of the true ground, with noise: time steps, shots, receivers."""
        rows, columns = self.places.numpy().T
        seen = np.stack([u.numpy()[:, rows, columns] for u in self.run(dk.array(self.truth))])
        return np.float32(seen + np.random.default_rng(0).normal(0.0, 0.02 * seen.std(), seen.shape))

    def misfit(self, speed: dk.array, seen: dk.array, loss: dk.array) -> None:
        for t, now in enumerate(self.run(speed)):
            dk.launch(compare, seen.shape[1:], inputs=[now, self.places, seen, t], outputs=[loss])


def invert(survey: Survey, seen: dk.array, rounds: int) -> tuple[np.ndarray, list[float]]:
    speed, loss = dk.array(survey.layers, requires_grad=True), dk.zeros(1, requires_grad=True)
    optimizer, history = dk.optim.Adam([speed], lr=0.02), []
    for _ in trange(rounds, desc="rounds"):
        loss.zero_()
        with dk.Tape() as tape:
            survey.misfit(speed, seen, loss)
        tape.backward(loss)
        history.append(float(loss))
        speed.grad[:6].zero_()  # beside the sources the gradient is great and says little
        optimizer.step([speed.grad])
        tape.zero()
    return speed.numpy().copy(), history


def draw(path: str, survey: Survey, found: np.ndarray, seen: np.ndarray, history: list[float]) -> None:
    fig, kilometres = Figure(figsize=(13.0, 3.4), layout="constrained"), survey.n * CELL
    axes = fig.subplots(1, 5)
    for ax, speed, title in zip(axes, (survey.truth, survey.layers, found), ("true", "guess", "found"), strict=False):
        image = ax.imshow(speed, vmin=1.5, vmax=2.8, extent=(0, kilometres, kilometres, 0), cmap="viridis")
        ax.set(title=title, xlabel="km")
    fig.colorbar(image, ax=axes[:3], label="km/s")
    axes[3].imshow(seen[:, 0], aspect="auto", cmap="gray", vmin=-0.1, vmax=0.1)
    axes[3].set(title="seismograms of a shot", xlabel="receiver", ylabel="time step")
    axes[4].semilogy(history)
    axes[4].set(title="misfit", xlabel="rounds")
    fig.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Invert and draw; returns how much less the misfit is, and the error of the speed, against the first guess."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=96, help="cells along each side")
    parser.add_argument("--shots", type=int, default=6)
    parser.add_argument("--steps", type=int, default=500, help="time steps")
    parser.add_argument("--rounds", type=int, default=60, help="steps of Adam")
    parser.add_argument("--out", default="seismic.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    survey = Survey(options.size, options.shots, options.steps)
    rng = np.random.default_rng(1)
    speed, *waves = (np.float32(rng.uniform(1.5, 2.5, dim)) for dim in ((6, 6), (2, 6, 6), (2, 6, 6)))
    small = [speed, np.ones((6, 6), np.float32), np.int32([[2, 2], [3, 3]]), DT, 0.1, *waves]
    print(gradcheck(step, (2, 6, 6), small, [np.zeros((2, 6, 6), np.float32)]), flush=True)
    measured = survey.measure()
    found, history = invert(survey, dk.array(measured), options.rounds)
    draw(options.out, survey, found, measured, history)
    off, guess = (float(np.sqrt(((c - survey.truth)[6:] ** 2).mean())) for c in (found, survey.layers))
    print(f"misfit {history[0]:.2e} -> {history[-1]:.2e}; figure: {options.out}")
    print(f"speed off by {1e3 * off:.0f} m/s, the guess by {1e3 * guess:.0f} m/s")
    return history[0] / history[-1], off / guess


if __name__ == "__main__":
    main()
