"""The best bracket of a given weight: topology optimisation of a cantilever.

The input is a wall, a force at some distance from it, and how much material there is. The output is where to put the
material so that the force moves as little as possible, and a figure. Each square cell has a density, and a stiffness
that grows with its third power, so that half-full cells do not pay (Bendsoe and Sigmund, 1999). A sparse matrix of
2 x 2 blocks is assembled on a pattern that stays, and its solution differentiated by the densities. These follow the
criterion of optimality: all material works equally hard.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

POISSON, VOID, POWER, REACH, SHARE = 0.3, 1.0e-6, 3.0, 1.8, 0.4  # the reach of the filter is in cells
Cells, Blocks, Vectors = dk.array2d(dtype=dk.float64), dk.array(dtype=dk.mat22d), dk.array(dtype=dk.vec2d)


@dk.kernel
def smooth(design: Cells, density: Cells):
    """The mean of the cells around a cell, by their distance: no part is thinner than the reach of the filter."""
    i, j = dk.tid()
    total, weight = dk.float64(0.0), dk.float64(0.0)
    for a in range(-2, 3):
        for b in range(-2, 3):
            if 0 <= i + a < design.shape[0] and 0 <= j + b < design.shape[1]:
                w = dk.max(REACH - dk.sqrt(dk.float64(a * a + b * b)), dk.float64(0.0))
                total += w * design[i + a, j + b]
                weight += w
    density[i, j] = total / weight


@dk.kernel
def assemble(density: Cells, unit: Blocks, entries: Blocks):
    """The stiffness of a cell: 16 blocks, between its four corners."""
    i, j = dk.tid()
    first = 16 * (i * density.shape[1] + j)
    modulus = VOID + (1.0 - VOID) * density[i, j] ** POWER
    for k in range(16):
        entries[first + k] = modulus * unit[k]


def stiffness_of_a_cell() -> np.ndarray:
    """The stiffness of a square of bilinear displacements in plane stress, by 2 x 2 Gauss points: 16 blocks."""
    law = np.array([[1.0, POISSON, 0.0], [POISSON, 1.0, 0.0], [0.0, 0.0, (1.0 - POISSON) / 2.0]]) / (1.0 - POISSON**2)
    x, y, found = np.array([-1.0, 1.0, 1.0, -1.0]), np.array([-1.0, -1.0, 1.0, 1.0]), np.zeros((8, 8))
    for a, b in zip(x / 3.0**0.5, y / 3.0**0.5, strict=True):
        by_x, by_y = x * (1.0 + b * y) / 2.0, y * (1.0 + a * x) / 2.0
        strain = np.zeros((3, 8))
        strain[0, 0::2], strain[1, 1::2], strain[2, 0::2], strain[2, 1::2] = by_x, by_y, by_y, by_x
        found += strain.T @ law @ strain / 4.0
    return found.reshape(4, 2, 4, 2).swapaxes(1, 2).reshape(16, 2, 2)


class Cantilever:
    """Cells in columns, counted from the force to the wall: so the nodes at the wall come last, and are no unknowns."""

    def __init__(self, columns: int, rows: int) -> None:
        self.shape = columns, rows
        self.unknowns = columns * (rows + 1)
        i, j = (k.ravel() for k in np.indices(self.shape))
        corners = (np.stack([i + 1, i, i, i + 1], 1) * (rows + 1) + np.stack([j, j, j + 1, j + 1], 1)).astype(np.int32)
        places = dk.array(np.repeat(corners, 4, axis=1).ravel()), dk.array(np.tile(corners, 4).ravel())
        self.matrix = sparse.bsr_zeros(self.unknowns, self.unknowns, dk.mat22d)
        self.mapping = sparse.bsr_set_from_triplets(
            self.matrix, *places, prune_numerical_zeros=False, build_mapping=True
        )
        self.unit = dk.array(stiffness_of_a_cell(), dtype=dk.mat22d)
        force = np.zeros((self.unknowns, 2))
        force[rows // 2, 1] = -1.0
        self.force = dk.array(force, dtype=dk.vec2d)

    def density(self, design: dk.array) -> dk.array:
        density = dk.zeros(self.shape, dtype=dk.float64, requires_grad=True)
        dk.launch(smooth, self.shape, inputs=[design], outputs=[density])
        return density

    def compliance(self, design: dk.array) -> dk.array:
        """How far the force moves."""
        entries = dk.zeros(16 * design.size, dtype=dk.mat22d, requires_grad=True)
        dk.launch(assemble, self.shape, inputs=[self.density(design), self.unit], outputs=[entries])
        sparse.bsr_set_values(self.matrix, self.mapping, entries)
        moved = dk.linear_solve(self.matrix, self.force, method="cg", M="diag")
        return dk.map(dk.dot, self.force, moved).sum()


def update(design: np.ndarray, slope: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Densities by the criterion of optimality: the factor that makes the weight right is found by bisection."""
    low, high = 0.0, 1.0e9
    while high - low > 1.0e-10 * high:
        factor = 0.5 * (low + high)
        wanted = design * np.sqrt(np.maximum(-slope, 0.0) / (factor * cost))
        found = np.clip(wanted, np.maximum(design - 0.2, 0.0), np.minimum(design + 0.2, 1.0))
        low, high = (factor, high) if np.sum(cost * found) > SHARE * design.size else (low, factor)
    return found


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns how far the force moves at first and in the end, by a beam of all material there is."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--columns", type=int, default=80, help="cells between the wall and the force")
    parser.add_argument("--rows", type=int, default=40, help="cells along the wall")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--out", default="cantilever.png", help="where the figure goes")
    options, few = parser.parse_args(arguments), Cantilever(6, 4)
    some = dk.array(np.random.default_rng(0).uniform(0.2, 1.0, few.shape))
    print(*str(gradcheck(few.compliance, inputs=[some])).splitlines()[:2], sep="\n", flush=True)
    bracket = Cantilever(options.columns, options.rows)
    rise = dk.value_and_grad(bracket.compliance)
    full = float(bracket.compliance(dk.full(bracket.shape, 1.0, dtype=dk.float64)))
    weight = dk.grad(lambda design: bracket.density(design).sum())
    design, history, shown = dk.full(bracket.shape, SHARE, dtype=dk.float64), [], []
    cost = weight(design).numpy()
    for k in trange(options.rounds, desc="rounds"):
        value, slope = rise(design)
        history.append(float(value) / full)
        design = dk.array(update(design.numpy(), slope.numpy(), cost))
        if k in (5, options.rounds - 1):
            shown.append((f"round {k}", bracket.density(design).numpy()))
    fig = Figure(figsize=(11.5, 2.6), layout="constrained")
    *axes, plot = fig.subplots(1, 3)
    for ax, (title, density) in zip(axes, shown, strict=True):
        ax.imshow(density.T[:, ::-1], cmap="gray_r", vmin=0.0, vmax=1.0, origin="lower")
        ax.plot([options.columns - 1], [options.rows / 2], "rv")
        ax.set(title=title, xticks=[], yticks=[])
    plot.plot(history)
    plot.set(title="displacement, by that of the solid beam", xlabel="rounds", ylim=(0.0, None))
    fig.savefig(options.out, dpi=110)
    print(f"{2 * bracket.unknowns} unknowns, {100 * SHARE:.0f} % of the material:", end=" ")
    print(f"the force moves {history[0]:.2f} -> {history[-1]:.3f} times as far as with all; figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
