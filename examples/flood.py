"""A flood run backwards: find the rain from the water it left.

The input is the elevation model of the Jacksboro fault (Tennessee) that ships with matplotlib. Unknown rain falls on
it for 20 minutes and runs off downhill. The output is that rain, found from the final depth of water by gradient
descent through every time step; a gradient check; a figure. A step is the local inertial form of the shallow-water
equations (Bates, Horritt & Fewtrell, J. Hydrology 387, 2010). It writes new arrays, so that the tape has all states.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import cbook, colors, figure
from tqdm import trange

import diffkern as dk

GRAVITY, FRICTION = 9.81, 9.81 / 15.0**2  # m/s2; Chezy's law with a coefficient of 15: rough ground
DX, DY, DT = 74.4, 92.6, 12.0  # m, 3 arc seconds at 36.6 degrees north; s, below DX / sqrt(GRAVITY * 3 m of water)
MM_PER_HOUR, GUESS = 1.0 / 3.6e6, 20.0  # m/s; mm/h, everywhere: all that is known of the rain at the start
SPACING, SHALLOW = 12, 0.02  # cells between knots of the rain; m, a wrong centimetre counts for more on a hillside
Field = dk.array2d(dtype=float)


@dk.kernel
def spread(knots: Field, rain: Field):
    """Rain per cell, from its logarithm (so that it is positive) at the four knots around."""
    i, j = dk.tid()
    r, c = i // SPACING, j // SPACING
    v, u = float(i - r * SPACING) / float(SPACING), float(j - c * SPACING) / float(SPACING)
    upper, lower = dk.lerp(knots[r, c], knots[r, c + 1], u), dk.lerp(knots[r + 1, c], knots[r + 1, c + 1], u)
    rain[i, j] = MM_PER_HOUR * dk.exp(dk.lerp(upper, lower, v))


@dk.func
def discharge(q: float, here: float, there: float, rise: float, length: float):
    """Flow per metre of side, a step later, to a neighbour with ground `rise` higher; friction is implicit in it."""
    depth = dk.max(dk.max(here, there + rise) - dk.max(rise, 0.0), 0.0)
    free = q + GRAVITY * DT * depth * (here - there - rise) / length  # found + FRICTION*DT*found*|found|/depth**2
    found = 2.0 * depth * free / (depth + dk.sqrt(depth * depth + 4.0 * FRICTION * DT * dk.abs(free) + 1.0e-9))
    return dk.clamp(found, -0.25 * length * there / DT, 0.25 * length * here / DT)  # four sides share a cell's water


@dk.kernel
def flow(ground: Field, h: Field, qx: Field, qy: Field, qx_new: Field, qy_new: Field):
    i, j = dk.tid()
    if i + 1 < h.shape[0] and j + 1 < h.shape[1]:
        qx_new[i, j] = discharge(qx[i, j], h[i, j], h[i, j + 1], ground[i, j + 1] - ground[i, j], DX)
        qy_new[i, j] = discharge(qy[i, j], h[i, j], h[i + 1, j], ground[i + 1, j] - ground[i, j], DY)


@dk.kernel
def advance(h: Field, qx: Field, qy: Field, rain: Field, h_new: Field):
    """Depth after the step. The cells at the border stay dry: what reaches them has left the map."""
    i, j = dk.tid()
    if i > 0 and j > 0 and i + 1 < h.shape[0] and j + 1 < h.shape[1]:
        gain = (qx[i, j - 1] - qx[i, j]) / DX + (qy[i - 1, j] - qy[i, j]) / DY
        h_new[i, j] = dk.max(h[i, j] + DT * (rain[i, j] + gain), 0.0)


@dk.kernel
def mismatch(h: Field, seen: Field, loss: dk.array(dtype=dk.float64)):
    i, j = dk.tid()
    loss[0] += dk.float64((h[i, j] - seen[i, j]) ** 2.0 / ((seen[i, j] + SHALLOW) * float(h.size)))


def run(ground: dk.array, rain: dk.array, steps: int) -> dk.array:
    """Depth of the water after `steps`, on ground that is dry at first."""
    h, qx, qy = (dk.zeros(ground.shape, dtype=float) for _ in range(3))
    for _ in range(steps):
        qx_new, qy_new, h_new = (dk.zeros(ground.shape, dtype=float, requires_grad=True) for _ in range(3))
        dk.launch(flow, h.shape, inputs=[ground, h, qx, qy], outputs=[qx_new, qy_new])
        dk.launch(advance, h.shape, inputs=[h, qx_new, qy_new, rain], outputs=[h_new])
        h, qx, qy = h_new, qx_new, qy_new
    return h


def gradient(ground: dk.array, guess: np.ndarray, seen: dk.array, steps: int) -> tuple[float, np.ndarray, np.ndarray]:
    """How far the flood of a guess is from the flood seen; the derivative for each knot; the guessed rain per cell."""
    knots = dk.array(guess, dtype=float, requires_grad=True)
    rain, loss = dk.zeros(ground.shape, requires_grad=True), dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(spread, rain.shape, inputs=[knots], outputs=[rain])
        dk.launch(mismatch, rain.shape, inputs=[run(ground, rain, steps), seen], outputs=[loss])
    tape.backward(loss)
    return float(loss), knots.grad.numpy(), rain.numpy() / MM_PER_HOUR


def check(ground: dk.array, guess: np.ndarray, seen: dk.array, steps: int, size: float = 0.01) -> float:
    """Largest error along random directions, in norms of the gradient; float32 depths leave 3 digits or so."""
    slopes, errors = gradient(ground, guess, seen, steps)[1], []
    for direction in np.random.default_rng(7).standard_normal((3, *guess.shape)):
        above, below = (gradient(ground, guess + step * direction, seen, steps)[0] for step in (size, -size))
        slope, difference = np.sum(slopes * direction), (above - below) / (2.0 * size)
        print(f"Gradient check: adjoint {slope:+.4e}, central differences {difference:+.4e}")
        errors.append(abs(slope - difference) / np.linalg.norm(slopes))
    return max(errors)


def true_rain(cells: tuple[int, ...]) -> np.ndarray:  # mm/h, four storm cells over a drizzle
    y, x = (np.arange(n) / n for n in cells)
    storms = [(0.2, 0.25, 0.12, 70), (0.6, 0.55, 0.16, 55), (0.3, 0.8, 0.1, 80), (0.85, 0.15, 0.1, 50)]
    return 6.0 + sum(r * np.exp(-((y[:, None] - v) ** 2 + (x - u) ** 2) / (2 * s * s)) for v, u, s, r in storms)


def draw(path: str, ground: np.ndarray, seen: np.ndarray, rain: np.ndarray, found: np.ndarray, losses: list) -> None:
    *maps, last = (page := figure.Figure(figsize=(15, 8.6), layout="constrained")).subplots(2, 3).flat
    for ax, title, values, cmap, norm in (
        (maps[0], "Elevation (m)", ground, "gist_earth", None),
        (maps[1], "True rain (mm/h)", rain, "turbo", colors.Normalize(0, rain.max())),
        (maps[2], "Rain found from the water alone (mm/h)", found, "turbo", colors.Normalize(0, rain.max())),
        (maps[3], "Water that is seen (mm)", np.maximum(1000 * seen, 1), "Blues", colors.LogNorm(2, 200)),
        (maps[4], "Found less fallen (mm/h)", found - rain, "RdBu", colors.Normalize(-10, 10)),
    ):
        ax.imshow(colors.LightSource(315, 40).hillshade(ground, vert_exag=4, dx=DX, dy=DY), cmap="gray")
        page.colorbar(ax.imshow(values, cmap=cmap, norm=norm, alpha=0.7), ax=ax, shrink=0.8)
        ax.set(title=title, xticks=[], yticks=[])
    last.set(title="Loss", xlabel="iteration")
    last.semilogy(losses)
    page.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="diffkern demo", description="Find the rain from the flood it left.")
    parser.add_argument("--out", default="flood.png", help="figure to write (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a corner of the map and fewer steps: done in seconds")
    options, began = parser.parse_args(argv), time.perf_counter()
    dem = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
    dem, steps = (dem[:96, :112].copy(), 40) if options.quick else (dem, 100)
    ground, rain = dk.array(dem), true_rain(dem.shape)
    seen = run(ground, dk.array((MM_PER_HOUR * rain).astype(np.float32)), steps)
    knots = dk.full([n // SPACING + 2 for n in dem.shape], float(np.log(GUESS)), dtype=float)
    error = check(ground, knots.numpy(), seen, steps)
    print(f"Gradient check: largest error {100.0 * error:.2f} % of the norm; {'good' if error < 0.01 else 'BAD'}")
    optimizer, losses = dk.optim.Adam([knots], lr=0.3, betas=(0.7, 0.95), eps=1.0e-12), []  # with a short memory
    for _ in trange(24, desc="Finding the rain"):
        loss, slopes, found = gradient(ground, knots.numpy(), seen, steps)
        losses.append(loss)
        optimizer.step([dk.array(slopes)])
    draw(options.out, dem, seen.numpy(), rain, found, losses)
    print(f"Rain: off by {np.abs(GUESS - rain).mean():.1f} mm/h at the start, {np.abs(found - rain).mean():.1f} now")
    print(f"Loss: {losses[0]:.1e} -> {losses[-1]:.1e} in {time.perf_counter() - began:.0f} s; figure: {options.out}")
    return 0 if error < 0.01 and losses[0] >= 50.0 * losses[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())
