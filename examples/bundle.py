"""Aerial triangulation: where were the photographs taken, and how does the ground lie? Bundle adjustment.

The input is points of the terrain that ships with matplotlib (Jacksboro fault, Tennessee), seen with half a pixel of
noise in photographs from an aircraft that knows its position to a few metres and its attitude to a degree. The output
is cameras and points, found with the Levenberg-Marquardt method, and a figure. A thread projects one point into one
photograph. Its adjoint, launched for each of the two coordinates, is the Jacobian: two rows for each observation. The
normal equations are reduced to those of the cameras (Triggs et al., Vision Algorithms, 1999).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure

import diffkern as dk
from diffkern.testing import gradcheck

FOCAL, HALF, BEND, HEIGHT = 4000.0, 3000.0, 0.02, 4000.0  # pixels, pixels, of the lens, m above the ground
PIXEL, PLACE, DEGREES, DX, DY = 0.5, 5.0, 1.0, 74.4, 92.6  # noise; m of a cell of the terrain
Vectors = dk.array(dtype=dk.vec3d)


@dk.kernel
def project(turn: Vectors, place: Vectors, point: Vectors, pixel: dk.array(dtype=dk.vec2d)):
    """Where a camera that looks down sees a point. `turn` is half its rotation: the vector part over the real one."""
    i = dk.tid()
    attitude = dk.normalize(dk.quatd(turn[i], dk.float64(1.0)))
    seen = dk.quat_rotate_inv(attitude, point[i] - place[i])
    x, y = -seen[0] / seen[2], -seen[1] / seen[2]
    pixel[i] = FOCAL * (1.0 + BEND * (x * x + y * y)) * dk.vec2d(x, y)


class Flight:
    """Photographs that overlap, points of the ground, and which point is seen where."""

    def __init__(self, lines: int, shots: int, points: int) -> None:
        rng = np.random.default_rng(0)
        ground = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(float)
        middle = np.array(ground.shape) * (DY, DX) / 2.0
        across, along = (1.4 * HEIGHT * (np.arange(n) - (n - 1) / 2.0) * f for n, f in ((lines, 0.6), (shots, 0.36)))
        y, x = (g.ravel() for g in np.meshgrid(across + middle[0], along + middle[1], indexing="ij"))
        self.place = np.stack([x, y, ground.mean() + HEIGHT + rng.normal(0.0, 60.0, x.size)], axis=1)
        self.turn = rng.normal(0.0, 0.02, self.place.shape)
        spots = np.stack([rng.uniform(v.min() - 1000.0, v.max() + 1000.0, points) for v in (x, y)], axis=1)
        column, row = (spots / (DX, DY)).astype(int).T.clip(0, np.array(ground.shape)[::-1, None] - 1)
        self.point = np.column_stack([spots, ground[row, column]])
        c, p = (g.ravel() for g in np.indices((len(x), points)))
        pixel = observe(self.turn[c], self.place[c], self.point[p])
        hit = (np.abs(pixel) < HALF).all(1)
        hit &= np.bincount(p[hit], minlength=points)[p] >= 3  # of these a wrong one would be noticed
        kept, self.which = np.unique(p[hit], return_inverse=True)
        self.point, self.camera = self.point[kept], c[hit]
        self.pixel = pixel[hit] + rng.normal(0.0, PIXEL, (hit.sum(), 2))
        self.known = self.place + rng.normal(0.0, PLACE, self.place.shape)
        self.guess = self.turn + rng.normal(0.0, np.radians(DEGREES) / 2.0, self.turn.shape)
        self.flat = self.point * (1, 1, 0) + rng.normal(0.0, 100.0, self.point.shape) + (0, 0, ground.mean())


def observe(*given: np.ndarray) -> np.ndarray:
    arrays, pixel = [dk.array(g, dtype=dk.vec3d) for g in given], dk.zeros(len(given[0]), dtype=dk.vec2d)
    dk.launch(project, pixel.shape, inputs=arrays, outputs=[pixel])
    return pixel.numpy()


def jacobian(*given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each observation: its two numbers, and their derivatives by the nine that they depend on."""
    arrays, n = [dk.array(g, dtype=dk.vec3d, requires_grad=True) for g in given], len(given[0])
    pixel, rows = dk.zeros(n, dtype=dk.vec2d, requires_grad=True), []
    for k in range(2):
        with dk.Tape() as tape:
            dk.launch(project, n, inputs=arrays, outputs=[pixel])
        tape.backward(grads={pixel: dk.array(np.tile(np.eye(2)[k], (n, 1)), dtype=dk.vec2d)})
        rows.append(np.concatenate([a.grad.numpy() for a in arrays], axis=1))
        tape.zero()
    return pixel.numpy(), np.stack(rows, axis=1)


def cost(flight: Flight, pixel: np.ndarray, place: np.ndarray) -> float:
    return float(((pixel - flight.pixel) ** 2).sum() / PIXEL**2 + ((place - flight.known) ** 2).sum() / PLACE**2)


def adjust(flight: Flight, steps: int) -> tuple[list[np.ndarray], list[float]]:
    """Levenberg and Marquardt's method; points are eliminated, because each has three numbers of its own."""
    now, c, p = [flight.guess, flight.known, flight.flat], flight.camera, flight.which
    cameras, points, damping, history = len(now[0]), len(now[2]), 1e-3, []
    for _ in range(steps):
        pixel, rows = jacobian(now[0][c], now[1][c], now[2][p])
        history.append(cost(flight, pixel, now[1]))
        off, rows = (pixel - flight.pixel) / PIXEL, rows / PIXEL
        a, b, left, right = rows[:, :, :6], rows[:, :, 6:], np.zeros((cameras, 6)), np.zeros((points, 3))
        u, v, w = np.zeros((cameras, 6, 6)), np.zeros((points, 3, 3)), np.zeros((cameras, 6, points, 3))
        np.add.at(u, c, np.einsum("nki,nkj->nij", a, a))
        np.add.at(v, p, np.einsum("nki,nkj->nij", b, b))
        w[c, :, p, :] = np.einsum("nki,nkj->nij", a, b)
        np.add.at(left, c, np.einsum("nki,nk->ni", a, off))
        np.add.at(right, p, np.einsum("nki,nk->ni", b, off))
        u[:, 3:, 3:] += np.eye(3) / PLACE**2
        left[:, 3:] += (now[1] - flight.known) / PLACE**2
        u, v = u * (1.0 + damping * np.eye(6)), v * (1.0 + damping * np.eye(3))
        inverse = np.linalg.inv(v)
        reduced = -np.einsum("aipk,pkl,bjpl->aibj", w, inverse, w, optimize=True)
        reduced[range(cameras), :, range(cameras), :] += u
        seen = left - np.einsum("aipk,pkl,pl->ai", w, inverse, right, optimize=True)
        x = np.linalg.solve(reduced.reshape(6 * cameras, -1), -seen.ravel()).reshape(cameras, 6)
        y = -np.einsum("pkl,pl->pk", inverse, right + np.einsum("aipk,ai->pk", w, x))
        trial = [now[0] + x[:, :3], now[1] + x[:, 3:], now[2] + y]
        better = cost(flight, observe(trial[0][c], trial[1][c], trial[2][p]), trial[1]) < history[-1]
        now, damping = (trial, damping / 10.0) if better else (now, damping * 10.0)
    return now, history


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Adjust and draw; returns how far heights are off, at first and in the end, in metres."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--lines", type=int, default=4, help="of flight")
    parser.add_argument("--shots", type=int, default=7, help="photographs along a line")
    parser.add_argument("--points", type=int, default=1500, help="of the ground")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", default="bundle.png", help="where the figure goes")
    options, began = parser.parse_args(arguments), time.perf_counter()
    flight = Flight(options.lines, options.shots, options.points)
    few = [a[:3] for a in (flight.turn, flight.place, flight.flat)]
    print(gradcheck(project, 3, few, [np.zeros((3, 2))]), flush=True)
    (turn, place, point), history = adjust(flight, options.steps)
    fig = Figure(figsize=(12.0, 3.8), layout="constrained")
    axes = fig.subplots(1, 3, width_ratios=(1.0, 1.0, 0.8))
    for ax, off, title in ((axes[0], flight.flat, "at first"), (axes[1], point, "in the end")):
        error = (off - flight.point)[:, 2]
        dots = ax.scatter(*flight.point[:, :2].T / 1e3, c=error, s=4, cmap="RdBu", vmin=-9, vmax=9)
        ax.plot(*flight.place[:, :2].T / 1e3, "k^", ms=4)
        ax.set(title=f"{title}: {np.sqrt((error**2).mean()):.2f} m off", xlabel="km", aspect="equal")
    fig.colorbar(dots, ax=axes[:2], label="error of the height, m")
    axes[2].semilogy(np.array(history) / flight.pixel.size, "o-")
    axes[2].set(title="sum of squares per observation", xlabel="steps")
    fig.savefig(options.out, dpi=110)
    before, after = (float(np.sqrt(((q - flight.point)[:, 2] ** 2).mean())) for q in (flight.flat, point))
    angle = np.degrees(2.0 * np.sqrt(((turn - flight.turn) ** 2).sum(1).mean()))
    print(f"{len(place)} photographs, {len(point)} points, {len(flight.pixel)} observations: ", end="")
    print(f"sum of squares {history[0]:.3g} -> {history[-1]:.3g} in {time.perf_counter() - began:.1f} s")
    print(f"heights {before:.1f} -> {after:.2f} m off, attitudes {angle:.4f} degrees; figure: {options.out}")
    return before, after


if __name__ == "__main__":
    main()
