"""The cross-section that resists twisting best: Poisson's equation on triangles, with derivatives.

The input is the outline of a bar's cross-section, a square. The output is the outline that makes the bar stiffest
against torsion, for the same area, and a figure. Prandtl's stress function is zero on the outline and solves Poisson's
equation; linear finite elements give a sparse matrix whose pattern stays while its values follow the nodes. Derivatives
by shear moduli and twists are checked too. The stiffness of a square is known, and a disk is stiffest (Polya, 1948).
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

SQUARE, DISK = 0.1405770, 0.5 / np.pi  # the stiffness, divided by shear modulus and squared area
Reals, Points, Corners = dk.array(dtype=dk.float64), dk.array(dtype=dk.vec2d), dk.array2d(dtype=int)


@dk.kernel
def place(radii: Reals, rings: int, points: Points):
    """Nodes on rings between the middle and the outline, which is given by its distances from the middle."""
    k = dk.tid()
    around = radii.shape[0]
    turn = 6.283185307179586 * dk.float64((k - 1) % around) / dk.float64(around)
    out = radii[(k - 1) % around] * dk.float64((k + around - 1) // around) / dk.float64(rings)
    points[k] = out * dk.vec2d(dk.cos(turn), dk.sin(turn))


@dk.func
def side(points: Points, triangles: Corners, t: int, i: int):
    """The side of a triangle opposite to its corner `i`."""
    return points[triangles[t, (i + 2) % 3]] - points[triangles[t, (i + 1) % 3]]


@dk.kernel
def assemble(points: Points, triangles: Corners, shear: Reals, twist: Reals, entries: Reals, load: Reals, area: Reals):
    """What a triangle adds to the matrix, to the right side and to the area."""
    t = dk.tid()
    a, b = side(points, triangles, t, 0), side(points, triangles, t, 1)
    size = 0.5 * (a[0] * b[1] - a[1] * b[0])
    area[0] += size
    for i in range(3):
        load[triangles[t, i]] += 2.0 * twist[t] * size / 3.0
        for j in range(3):
            product = dk.dot(side(points, triangles, t, i), side(points, triangles, t, j))
            entries[9 * t + 3 * i + j] = product / (4.0 * size * shear[t])


class Section:
    """The mesh, and the pattern of the matrix: nodes on the outline come last, and are no unknowns."""

    def __init__(self, rings: int) -> None:
        self.rings, self.around = rings, 8 * rings
        a = 1 + np.arange(self.around)  # the first ring, and each node's neighbours on it and on the next
        b, c, d = np.roll(a, -1), a + self.around, np.roll(a, -1) + self.around
        ring = np.stack([a, c, d, a, d, b], axis=1).reshape(-1, 3)
        inner = np.stack([0 * a, a, b], axis=1)
        triangles = np.int32(np.concatenate([inner, *(ring + r * self.around for r in range(rings - 1))]))
        self.triangles, self.nodes = dk.array(triangles, dtype=int), 1 + rings * self.around
        self.unknowns = self.nodes - self.around
        rows, columns = (dk.array(np.ravel(k)) for k in (np.repeat(triangles, 3, axis=1), np.tile(triangles, 3)))
        self.matrix = sparse.bsr_zeros(self.unknowns, self.unknowns, dk.float64)
        self.mapping = sparse.bsr_set_from_triplets(
            self.matrix, rows, columns, prune_numerical_zeros=False, build_mapping=True
        )

    def square(self) -> dk.array:
        turn = 2.0 * np.pi * np.arange(self.around) / self.around
        return dk.array(0.5 / np.maximum(np.abs(np.cos(turn)), np.abs(np.sin(turn))), requires_grad=True)

    def twisted(self, radii: dk.array, shear: dk.array, twist: dk.array) -> tuple[dk.array, ...]:
        """The nodes, Prandtl's stress function in them, and the section's stiffness and area."""
        points = dk.zeros(self.nodes, dtype=dk.vec2d, requires_grad=True)
        sizes = 9 * len(shear), self.nodes, 1
        entries, load, area = (dk.zeros(n, dtype=dk.float64, requires_grad=True) for n in sizes)
        dk.launch(place, self.nodes, inputs=[radii, self.rings], outputs=[points])
        dk.launch(assemble, len(shear), inputs=[points, self.triangles, shear, twist], outputs=[entries, load, area])
        sparse.bsr_set_values(self.matrix, self.mapping, entries)
        stress = dk.linear_solve(self.matrix, load[: self.unknowns], method="cg", M="diag")
        return points, stress, (stress * load[: self.unknowns]).sum(), area

    def stiffness(self, radii: dk.array, shear: dk.array, twist: dk.array) -> dk.array:
        return self.twisted(radii, shear, twist)[2]


def search(section: Section, radii: dk.array, ones: dk.array, rounds: int) -> list[float]:
    """L-BFGS on the stiffness for an area of one; returns how it grows."""

    def closure() -> dk.array:
        radii.grad.zero_()
        with dk.Tape() as tape:
            *_, stiffness, area = section.twisted(radii, ones, ones)
            loss = -1.0 * stiffness / (area * area)
        tape.backward(loss)
        return loss

    optimizer = dk.optim.LBFGS([radii], max_iter=1, tolerance_change=0.0)
    return [-optimizer.step(closure) for _ in range(rounds)]


def draw(ax: Axes, section: Section, radii: dk.array, ones: dk.array) -> float:
    """Mesh and stress function for an area of one; returns the stiffness."""
    points, stress, stiffness, area = section.twisted(radii, ones, ones)
    mesh = (*points.numpy().T / float(area) ** 0.5, section.triangles.numpy())
    values = np.append(stress.numpy(), np.zeros(section.around)) / float(area)
    shown = ax.tripcolor(*mesh, values, shading="gouraud", vmin=0.0, vmax=0.16)
    ax.figure.colorbar(shown, ax=ax, label="stress function")
    ax.triplot(*mesh, color="w", lw=0.2, alpha=0.4)
    ax.set(title=f"stiffness {(found := float(stiffness) / float(area) ** 2):.4f}", aspect="equal")
    return found


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the order in which the square's stiffness converges, and that found, by a disk's."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rings", type=int, default=24, help="of nodes around the middle")
    parser.add_argument("--rounds", type=int, default=12, help="steps of L-BFGS")
    parser.add_argument("--out", default="torsion.png", help="where the figure goes")
    options, few, errors = parser.parse_args(arguments), Section(2), []
    given = map(dk.array, np.random.default_rng(0).uniform(0.5, 2.0, (2, few.triangles.shape[0])))
    print(*str(gradcheck(few.stiffness, inputs=[few.square(), *given])).splitlines()[:2], sep="\n", flush=True)
    for rings in (options.rings // 2, options.rings):
        section = Section(rings)
        ones = dk.full(section.triangles.shape[0], 1.0, dtype=dk.float64)
        errors.append(SQUARE - float(section.stiffness(section.square(), ones, ones)))
    order = float(np.log2(errors[0] / errors[1]))
    print(f"square: {SQUARE - errors[1]:.5f}, from the series {SQUARE:.5f}; error of order {order:.2f} in the spacing")
    fig, radii = Figure(figsize=(11.5, 3.2), layout="constrained"), section.square()
    first, last, plot = fig.subplots(1, 3)
    before = draw(first, section, radii, ones)
    history = search(section, radii, ones, options.rounds)
    after = draw(last, section, radii, ones)
    plot.plot([*history, after], label="section found")
    plot.axhline(DISK, color="k", lw=0.7, ls=":", label="disk")
    plot.set(title="stiffness for an area of one", xlabel="rounds")
    plot.legend()
    fig.savefig(options.out, dpi=110)
    print(f"{section.unknowns} unknowns: {before:.5f} -> {after:.5f}, a disk has {DISK:.5f}; figure: {options.out}")
    return order, after / DISK


if __name__ == "__main__":
    main()
