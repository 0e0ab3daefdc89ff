"""A flood run backwards: find the rain from the water it left.

In: the elevation model of the Jacksboro fault (Tennessee, 344 x 403 cells) that ships with matplotlib. A rain that is
then kept secret falls on it for 20 minutes, and the water runs off downhill. Out: that rain, found again from the depth
of water at the end alone, by gradient descent through every step of the flow; a gradient check; a figure.
A step is the local inertial form of the shallow-water equations (Bates, Horritt & Fewtrell, J. Hydrology 387, 2010) in
three kernels. It writes arrays of its own, so that the tape finds all the states that the gradient needs.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
from matplotlib import cbook, colors, figure
from tqdm import trange

import diffkern as dk

GRAVITY, FRICTION = 9.81, 9.81 / 15.0**2  # m/s2; Chezy's law with a coefficient of 15: rough ground
DX, DY = 74.4, 92.6  # m, a cell of 3 arc seconds at 36.6 degrees north
DT = 12.0  # s, below DX / sqrt(GRAVITY * depth) for the 3 m that gather in the valleys
MM_PER_HOUR, GUESS = 1.0 / 3.6e6, 20.0  # m/s; mm/h, everywhere: all that is known of the rain at the start
SPACING, SHALLOW = 12, 0.02  # cells between knots of the rain; m, a wrong centimetre counts for more on a hillside
Field = dk.array2d(dtype=float)


@dk.kernel
def spread(knots: Field, rain: Field):
    """Rain per cell, from its logarithm (so that it is positive) at the four knots around."""
    i, j = dk.tid()
    r, c = i // SPACING, j // SPACING
    v, u = float(i - r * SPACING) / float(SPACING), float(j - c * SPACING) / float(SPACING)
    upper = (1.0 - u) * knots[r, c] + u * knots[r, c + 1]
    lower = (1.0 - u) * knots[r + 1, c] + u * knots[r + 1, c + 1]
    rain[i, j] = MM_PER_HOUR * dk.exp((1.0 - v) * upper + v * lower)


@dk.func
def discharge(q: float, here: float, there: float, rise: float, length: float):
    """Flow per metre of side, one time step later, from a cell to its neighbour, whose ground lies `rise` higher."""
    depth = dk.max(dk.max(here, there + rise) - dk.max(rise, 0.0), 0.0)
    pushed = q + GRAVITY * DT * depth * (here - there - rise) / length
    # Friction is that of the flow to be found, for stability: q + FRICTION * DT * q * |q| / depth**2 = pushed.
    return 2.0 * depth * pushed / (depth + dk.sqrt(depth * depth + 4.0 * FRICTION * DT * dk.abs(pushed) + 1.0e-9))


@dk.kernel
def flow(ground: Field, h: Field, qx: Field, qy: Field, qx_new: Field, qy_new: Field):
    i, j = dk.tid()
    if j + 1 < h.shape[1]:
        qx_new[i, j] = discharge(qx[i, j], h[i, j], h[i, j + 1], ground[i, j + 1] - ground[i, j], DX)
    if i + 1 < h.shape[0]:
        qy_new[i, j] = discharge(qy[i, j], h[i, j], h[i + 1, j], ground[i + 1, j] - ground[i, j], DY)


@dk.kernel
def ration(h: Field, qx: Field, qy: Field, share: Field):
    """The share of its outflow that a cell has the water for."""
    i, j = dk.tid()
    if i > 0 and j > 0:
        out_x = (dk.max(qx[i, j], 0.0) - dk.min(qx[i, j - 1], 0.0)) / DX
        out_y = (dk.max(qy[i, j], 0.0) - dk.min(qy[i - 1, j], 0.0)) / DY
        share[i, j] = h[i, j] / dk.max(h[i, j], DT * (out_x + out_y) + 1.0e-9)


@dk.kernel
def advance(h: Field, qx: Field, qy: Field, share: Field, rain: Field, h_new: Field):
    """Depth after the step. The cells at the border stay dry: what reaches them has left the map."""
    i, j = dk.tid()
    if i > 0 and j > 0 and i + 1 < h.shape[0] and j + 1 < h.shape[1]:
        west = dk.max(qx[i, j - 1], 0.0) * share[i, j - 1] + dk.min(qx[i, j - 1], 0.0) * share[i, j]
        east = dk.max(qx[i, j], 0.0) * share[i, j] + dk.min(qx[i, j], 0.0) * share[i, j + 1]
        north = dk.max(qy[i - 1, j], 0.0) * share[i - 1, j] + dk.min(qy[i - 1, j], 0.0) * share[i, j]
        south = dk.max(qy[i, j], 0.0) * share[i, j] + dk.min(qy[i, j], 0.0) * share[i + 1, j]
        h_new[i, j] = dk.max(h[i, j] + DT * (rain[i, j] + (west - east) / DX + (north - south) / DY), 0.0)


@dk.kernel
def mismatch(h: Field, seen: Field, loss: dk.array(dtype=float)):
    i, j = dk.tid()
    loss[0] += (h[i, j] - seen[i, j]) ** 2.0 / ((seen[i, j] + SHALLOW) * float(h.size))


class Flood:
    """The state of every step (depth `h`, flow east `qx` and south `qy`, `share`), and the search for the rain."""

    def __init__(self, ground: np.ndarray, steps: int) -> None:
        field = partial(dk.zeros, dtype=float, requires_grad=True)
        self.cells, self.steps, self.ground = ground.shape, steps, dk.array(ground, dtype=float)
        self.h, self.qx, self.qy, self.share = ([field(self.cells) for _ in range(steps + 1)] for _ in range(4))
        self.rain, self.loss, self.knots = (field(n) for n in (self.cells, 1, [n // SPACING + 2 for n in self.cells]))
        self.knots.fill_(float(np.log(GUESS)))

    def run(self, rain: dk.array) -> dk.array:
        h, qx, qy, share, cells = self.h, self.qx, self.qy, self.share, self.cells
        for t in range(self.steps):
            dk.launch(flow, cells, inputs=[self.ground, h[t], qx[t], qy[t]], outputs=[qx[t + 1], qy[t + 1]])
            dk.launch(ration, cells, inputs=[h[t], qx[t + 1], qy[t + 1]], outputs=[share[t]])
            dk.launch(advance, cells, inputs=[h[t], qx[t + 1], qy[t + 1], share[t], rain], outputs=[h[t + 1]])
        return h[self.steps]

    def run_guess(self) -> dk.array:
        dk.launch(spread, self.cells, inputs=[self.knots], outputs=[self.rain])
        return self.run(self.rain)

    def gradient(self, seen: dk.array) -> tuple[float, np.ndarray]:
        self.loss.zero_()
        with dk.Tape() as tape:
            dk.launch(mismatch, self.cells, inputs=[self.run_guess(), seen], outputs=[self.loss])
        tape.backward(self.loss)
        gradient = self.knots.grad.numpy().copy()
        tape.zero()
        return float(self.loss), gradient

    def descend(self, seen: dk.array, iterations: int) -> list[float]:
        optimizer, losses = dk.optim.Adam([self.knots], betas=(0.7, 0.95), eps=1.0e-12), []  # with a short memory
        for k in trange(iterations, desc="Finding the rain"):
            loss, gradient = self.gradient(seen)
            optimizer.lr = 0.2 * (1.0 + np.cos(np.pi * k / iterations))
            optimizer.step([dk.array(gradient)])
            losses.append(loss)
        return losses

    def check(self, seen: np.ndarray, size: float = 0.01) -> float:
        """Largest error along random directions, in norms of the gradient; float32 depths leave 3 digits or so."""
        gradient, start, errors = self.gradient(dk.array(seen))[1], self.knots.numpy().copy(), []
        for direction in np.random.default_rng(7).standard_normal((3, *start.shape)):
            slope, difference = np.sum(gradient * direction), 0.0
            for step in (size, -size):
                self.knots.assign((start + step * direction).astype(np.float32))
                misfit = (self.run_guess().numpy() - seen) ** 2 / (seen + SHALLOW)
                difference += np.mean(misfit, dtype=float) / (2.0 * step)
            print(f"Gradient check: adjoint {slope:+.4e}, central differences {difference:+.4e}")
            errors.append(abs(slope - difference) / np.linalg.norm(gradient))
        self.knots.assign(start)
        return float(max(errors))


def storm(cells: tuple[int, ...]) -> np.ndarray:
    """The secret: rain in mm/h, four storm cells over a drizzle."""
    y, x = (np.arange(n) / n for n in cells)
    storms = [(0.2, 0.25, 0.12, 70), (0.6, 0.55, 0.16, 55), (0.3, 0.8, 0.1, 80), (0.85, 0.15, 0.1, 50)]
    return 6.0 + sum(r * np.exp(-((y[:, None] - v) ** 2 + (x - u) ** 2) / (2 * s * s)) for v, u, s, r in storms)


def draw(ground: np.ndarray, seen: np.ndarray, rain: np.ndarray, found: np.ndarray, losses: list) -> figure.Figure:
    shade = colors.LightSource(azdeg=315, altdeg=40).hillshade(ground, vert_exag=4, dx=DX, dy=DY)
    *maps, last = (page := figure.Figure(figsize=(15, 8.6), layout="constrained")).subplots(2, 3).flat
    for ax, title, values, cmap, style in zip(
        maps,
        ("Elevation (m)", "Rain that fell, kept secret (mm/h)", "Rain found from the water alone (mm/h)",
         "Water that is seen (mm)", "Found less fallen (mm/h)"),
        (ground, rain, found, np.maximum(1000 * seen, 1), found - rain),
        ("gist_earth", "turbo", "turbo", "Blues", "RdBu"),
        ({}, *2 * [{"vmin": 0, "vmax": rain.max()}], {"norm": colors.LogNorm(2, 200)}, {"vmin": -10, "vmax": 10}),
        strict=True,
    ):  # fmt: skip
        ax.imshow(shade, cmap="gray")
        page.colorbar(ax.imshow(values, cmap=cmap, alpha=0.7, **style), ax=ax, shrink=0.8)
        ax.set(title=title, xticks=[], yticks=[])
    last.set(title="Loss", xlabel="iteration", yscale="log")
    last.plot(losses)
    return page


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="diffkern demo", description="Find the rain from the flood it left.")
    parser.add_argument("--out", default="flood.png", help="figure to write (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a corner of the map and fewer steps: done in seconds")
    options, began = parser.parse_args(argv), time.perf_counter()
    ground = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
    ground, steps = (ground[:96, :112].copy(), 40) if options.quick else (ground, 100)
    flood, rain = Flood(ground, steps), storm(ground.shape)
    seen = flood.run(dk.array((MM_PER_HOUR * rain).astype(np.float32))).numpy().copy()
    error = flood.check(seen)
    print(f"Gradient check: largest error {100.0 * error:.2f} % of the norm; {'good' if error < 0.01 else 'BAD'}")
    losses = flood.descend(dk.array(seen), iterations=18)
    found = flood.rain.numpy() / MM_PER_HOUR
    draw(ground, seen, rain, found, losses).savefig(options.out, dpi=110)
    print(f"Loss: {losses[0]:.1e} at the start, {losses[-1]:.1e} at the end, {losses[0] / losses[-1]:.0f} times less")
    print(f"Rain: off by {np.abs(GUESS - rain).mean():.1f} mm/h at the start, {np.abs(found - rain).mean():.1f} now")
    print(f"Figure: {options.out} ({time.perf_counter() - began:.0f} s in all)")
    return 0 if error < 0.01 and losses[0] >= 50.0 * losses[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())
