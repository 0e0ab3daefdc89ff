"""Rust within a pipe: elasticity on tetrahedra, inverted for what cannot be seen.

The input is how far marks on the outside of a pipe have moved when it was put under pressure, while a cable of unknown
tension pulls at it. The output is how deep the wall has rusted from within, in each place, and the pull, found with
Gauss and Newton's method, and a figure. The finite elements are those of `pipe.py`; a column of the Jacobian is one
more system with the same matrix, and both the matrix and the forces of the pressure follow the depths.
"""

from __future__ import annotations

import argparse

import numpy as np
import pipe
from matplotlib.figure import Figure
from pipe import LENGTH, OUTER, Numbers, Points

import diffkern as dk
from diffkern.testing import gradcheck

NOISE, PULL = 1.0e-3, np.array([0.15, -0.1, 0.2])  # the noise is a part of the way
Weights = dk.array2d(dtype=dk.float64)


@dk.kernel
def spread(depths: Numbers, hats: Weights, depth: Numbers):
    """Depths at nodes from those at a few places."""
    k, total = dk.tid(), dk.float64(0.0)
    for i in range(hats.shape[1]):
        total += hats[k, i] * depths[i]
    depth[k] = total


@dk.kernel
def pull(force: Numbers, share: Numbers, load: Points):
    k = dk.tid()
    load[k] = share[k] * dk.vec3d(force[0], force[1], force[2])


class Rusted(pipe.Pipe):
    """A pipe whose depth is known in a few places, as many around as twice those along, and interpolated."""

    def __init__(self, layers: int, along: int) -> None:
        super().__init__(12 * layers, 4 * layers, layers)
        self.turn, self.height = self.places(self.around, self.along)
        turn, height = self.places(3 * along, along - 1)
        self.spots, size = np.stack([turn, height], axis=1), LENGTH / (along - 1)
        near = np.exp(-(self.away(*self.spots.T[:, None]) ** 2).sum(axis=0) / size**2)
        self.hats = dk.array(near / near.sum(axis=1, keepdims=True))
        share = np.exp(-20.0 * (self.away(np.pi, 0.5 * LENGTH) ** 2).sum(axis=0)).ravel()
        self.share = dk.array(np.append(np.zeros(self.nodes - self.sheet), share / share.sum()))

    @staticmethod
    def places(around: int, along: int) -> tuple[np.ndarray, np.ndarray]:
        """Angles and heights of a grid."""
        k = np.arange(around * (along + 1))
        return 2.0 * np.pi * (k % around) / around, LENGTH * (k // around) / along

    def away(self, turn: np.ndarray | float, height: np.ndarray | float) -> np.ndarray:
        """How far nodes are from a place, around and along."""
        around = (self.turn[:, None] - turn + np.pi) % (2.0 * np.pi) - np.pi
        return np.stack(np.broadcast_arrays(OUTER * around, self.height[:, None] - height))

    def seen(self, unknown: dk.array) -> dk.array:
        """How far the outside moves, by depths at the places, and the pull."""
        depth, load = (
            dk.zeros(n, dtype=t, requires_grad=True) for n, t in ((self.sheet, dk.float64), (self.nodes, dk.vec3d))
        )
        dk.launch(spread, self.sheet, inputs=[unknown[:-3], self.hats], outputs=[depth])
        dk.launch(pull, self.nodes, inputs=[unknown[-3:], self.share], outputs=[load])
        moved = self.move(self.points(depth), self.young, self.poisson, self.pressure, load)
        return moved[self.outside].contiguous()


def search(rusted: Rusted, seen: np.ndarray, noise: float, rounds: int) -> tuple[np.ndarray, list[float]]:
    """Depths and pull by Gauss and Newton's method, and the misfit by the noise; depths are some 0.05."""
    count, history = len(rusted.spots), []
    unknown, prior = np.zeros(count + 3), np.append(np.full(count, 1.0 / 0.05), np.ones(3))
    for _ in range(rounds):
        at = dk.array(unknown)
        off = (rusted.seen(at).numpy() - seen).ravel() / noise
        slopes = dk.jacobian(rusted.seen, at, mode="forward").reshape(-1, count + 3) / noise
        history.append(float(np.sqrt((off**2).mean())))
        rows = np.concatenate([slopes, np.diag(prior)])
        unknown = unknown - np.linalg.lstsq(rows, np.append(off, prior * unknown), rcond=None)[0]
    return unknown, history


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the error of the depth by the deepest, and that of the pull."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--layers", type=int, default=3, help="elements through the wall")
    parser.add_argument("--along", type=int, default=4, help="places of unknown depth along the pipe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="rust.png", help="where the figure goes")
    options, few = parser.parse_args(arguments), Rusted(1, 2)
    some = dk.array(np.random.default_rng(0).uniform(0.0, 0.1, len(few.spots) + 3))
    print(*str(gradcheck(few.seen, inputs=[some])).splitlines()[:2], sep="\n", flush=True)
    rusted, true, depth = Rusted(options.layers, options.along), Rusted(options.layers, 4 * options.layers + 1), []
    for deep, size, turn, height in ((0.12, 0.4, 1.6, 0.7), (0.09, 0.25, 4.4, 1.3)):
        off = np.stack([(true.spots[:, 0] - turn) * OUTER, true.spots[:, 1] - height])
        depth.append(deep * np.exp(-(off**2).sum(axis=0) / size**2))
    seen = true.seen(dk.array(np.append(sum(depth), PULL))).numpy()
    noise = NOISE * np.abs(seen).max()
    seen = seen + np.random.default_rng(1).normal(0.0, noise, seen.shape)
    unknown, history = search(rusted, seen, noise, options.rounds)
    depths = true.hats.numpy() @ sum(depth), rusted.hats.numpy() @ unknown[:-3]
    off, pulled = float(np.sqrt(((depths[1] - depths[0]) ** 2).mean())), float(np.abs(unknown[-3:] - PULL).max())
    fig = Figure(figsize=(11.5, 2.8), layout="constrained")
    *axes, last = fig.subplots(1, 3)
    for ax, depth, title in zip(axes, depths, ("rust within", "found from the outside"), strict=True):
        shown = ax.imshow(depth.reshape(-1, rusted.around), extent=(0, 360, 0, LENGTH), origin="lower", aspect="auto")
        shown.set_clim(0.0, depths[0].max())
        ax.set(title=title, xlabel="degrees around", ylabel="along")
    fig.colorbar(shown, ax=axes, label="depth")
    last.semilogy(range(1, 1 + len(history)), history, "o-")
    last.set(title="misfit, by the noise", xlabel="rounds")
    fig.savefig(options.out, dpi=110)
    print(f"{3 * rusted.nodes} unknowns: misfit {history[0]:.0f} -> {history[-1]:.2f} times the noise, depth", end=" ")
    print(f"{off:.4f} off of {depths[0].max():.3f}, pull {pulled:.4f} off; figure: {options.out}")
    return off / float(depths[0].max()), pulled


if __name__ == "__main__":
    main()
