"""The weak spot of a beam: linear elasticity on triangles, differentiated by material, shape and load.

The input is how far points on the outline of a bent beam have moved, measured with an error. The output is the modulus
of each part of the beam, found with Gauss and Newton's method, and a figure. Linear finite elements in plane strain
give a sparse matrix of 2 x 2 blocks, assembled on a pattern that stays; a column of the Jacobian is one more system.
How far the free end of a sound beam moves is known (Timoshenko and Goodier, 1951), and so is the error of the mesh.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

YOUNG, POISSON, LENGTH, NOISE = 1.0, 0.3, 4.0, 1.0e-4  # the height and the force are 1; the noise is a part of the way
FIRST, SHEAR = (
    YOUNG * POISSON / (1.0 + POISSON) / (1.0 - 2.0 * POISSON),
    0.5 * YOUNG / (1.0 + POISSON),
)  # Lame's numbers
TRUE = np.array([1.0, 1.0, 0.9, 1.0, 0.6, 0.5, 1.1, 1.0])  # the moduli of parts, by that of the sound beam
Points, Corners, Numbers = dk.array(dtype=dk.vec2d), dk.array2d(dtype=int), dk.array(dtype=dk.float64)
Blocks, UNIT = dk.array(dtype=dk.mat22d), dk.mat22d(1.0, 0.0, 0.0, 1.0)


@dk.func
def slope(points: Points, triangles: Corners, t: int, i: int):
    """The gradient of what is 1 in corner `i` of a triangle and 0 in the others, times twice the area."""
    side = points[triangles[t, (i + 2) % 3]] - points[triangles[t, (i + 1) % 3]]
    return dk.vec2d(-side[1], side[0])


@dk.kernel
def assemble(points: Points, triangles: Corners, lame: Points, held: Points, entries: Blocks, push: Points):
    """What a triangle adds to the matrix, and to the forces that come of displacements that are given."""
    t = dk.tid()
    a, b = slope(points, triangles, t, 0), slope(points, triangles, t, 1)
    double = a[0] * b[1] - a[1] * b[0]
    for i in range(3):
        for j in range(3):
            p, q = slope(points, triangles, t, i), slope(points, triangles, t, j)
            block = lame[t][0] * dk.outer(p, q) + lame[t][1] * (dk.outer(q, p) + dk.dot(p, q) * UNIT)
            entries[9 * t + 3 * i + j] = block / (2.0 * double)
            push[triangles[t, i]] -= block * held[triangles[t, j]] / (2.0 * double)


class Strip:
    """A strip of triangles, and the pattern of the matrix: the last section is held, its nodes are no unknowns."""

    def __init__(self, along: int, across: int) -> None:
        k, self.across, self.unknowns = np.arange(along * (across + 1)), across, along * (across + 1)
        a = k[k % (across + 1) < across, None]
        triangles = np.int32(np.add(a, [0, across + 1, across + 2, 0, across + 2, 1])).reshape(-1, 3)
        self.triangles, self.nodes = dk.array(triangles, dtype=int), self.unknowns + across + 1
        rows, columns = (dk.array(np.ravel(k)) for k in (np.repeat(triangles, 3, axis=1), np.tile(triangles, 3)))
        self.matrix = sparse.bsr_zeros(self.unknowns, self.unknowns, dk.mat22d)
        options = {"prune_numerical_zeros": False, "build_mapping": True}
        self.mapping = sparse.bsr_set_from_triplets(self.matrix, rows, columns, **options)
        self.lame = dk.array(np.tile([FIRST, SHEAR], (len(triangles), 1)), dtype=dk.vec2d)

    def bend(self, points: dk.array, lame: dk.array, load: dk.array, held: dk.array) -> dk.array:
        """The displacements of the unknown nodes under forces on them, with those of all others given."""
        sizes = (9 * len(lame), dk.mat22d), (self.nodes, dk.vec2d)
        entries, push = (dk.zeros(size, dtype=dtype, requires_grad=True) for size, dtype in sizes)
        dk.launch(assemble, len(lame), inputs=[points, self.triangles, lame, held], outputs=[entries, push])
        sparse.bsr_set_values(self.matrix, self.mapping, entries)
        return dk.linear_solve(self.matrix, load + push[: self.unknowns], method="cg", M="ic0")


@dk.kernel
def fill(moduli: Numbers, lame: Points):
    """Lame's numbers of triangles, of which as many belong to each part."""
    t = dk.tid()
    lame[t] = moduli[t * moduli.shape[0] // lame.shape[0]] * dk.vec2d(FIRST, SHEAR)


class Beam(Strip):
    """A beam, whose end is held by Timoshenko's solution and whose other end is loaded."""

    def __init__(self, along: int, across: int) -> None:
        super().__init__(along, across)
        y, load = np.linspace(-0.5, 0.5, across + 1), np.zeros((self.unknowns, 2))
        # The shear stress at the end is a parabola, whose product with a linear function Simpson's rule integrates.
        at, middle = 1.5 - 6.0 * y**2, 1.5 - 6.0 * (y[1:] - 0.5 / across) ** 2
        load[:across, 1] += (at[:-1] + 2.0 * middle) / (6.0 * across)
        load[1 : across + 1, 1] += (at[1:] + 2.0 * middle) / (6.0 * across)
        young, poisson, held = YOUNG / (1.0 - POISSON**2), POISSON / (1.0 - POISSON), np.zeros((self.nodes, 2))
        held[self.unknowns :, 0] = (2.0 * y**3 - 1.5 * y) / SHEAR - 2.0 * poisson * y**3 / young
        held[self.unknowns :, 1] = 6.0 * poisson * LENGTH * y**2 / young
        points = np.stack(np.meshgrid(np.linspace(0.0, LENGTH, along + 1), y, indexing="ij"), axis=-1).reshape(-1, 2)
        self.points, self.load, self.held = (dk.array(k, dtype=dk.vec2d) for k in (points, load, held))
        self.outline = dk.array(np.int32(np.arange(along)[:, None] * (across + 1) + [0, across]).ravel(), dtype=int)
        self.bends = 4.0 * LENGTH**3 / young  # how far the middle of the free end moves

    def bent(self, moduli: dk.array) -> dk.array:
        lame = dk.zeros(len(self.lame), dtype=dk.vec2d, requires_grad=True)
        dk.launch(fill, len(lame), inputs=[moduli], outputs=[lame])
        return self.bend(self.points, lame, self.load, self.held)

    def seen(self, moduli: dk.array) -> dk.array:
        return self.bent(moduli)[self.outline].contiguous()


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the order of the error of the free end's way, and the largest error of a modulus."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--across", type=int, default=16, help="elements across the beam, a multiple of 4")
    parser.add_argument("--out", default="beam.png", help="where the figure goes")
    options, few, rng, errors = parser.parse_args(arguments), Beam(4, 2), np.random.default_rng(0), []
    given = (k.numpy() for k in (few.points, few.lame, few.load, few.held))
    given = [dk.array(k + 0.02 * rng.normal(size=k.shape), dtype=dk.vec2d) for k in given]
    print(*str(gradcheck(few.bend, inputs=given, atol=1e-6)).splitlines()[:2], sep="\n", flush=True)
    for across in (options.across // 2, options.across):
        beam, sound = Beam(4 * across, across), dk.full(len(TRUE), 1.0, dtype=dk.float64)
        errors.append(1.0 - beam.bent(sound).numpy()[across // 2, 1] / beam.bends)
    order = float(np.log2(errors[0] / errors[1]))
    print(f"sound beam: {100 * errors[1]:.2f} % from Timoshenko's, an error of order {order:.2f} in the spacing")
    seen, guess, history = beam.seen(dk.array(TRUE)).numpy(), np.zeros(len(TRUE)), []
    seen = seen + rng.normal(0.0, NOISE * np.abs(seen).max(), seen.shape)
    for _ in range(6):
        off = beam.seen(moduli := dk.array(np.exp(guess))).numpy() - seen
        slopes = dk.jacobian(beam.seen, moduli, mode="forward").reshape(-1, len(guess)) * np.exp(guess)
        history.append(float(np.sqrt((off**2).mean())))
        change = np.linalg.lstsq(slopes, off.ravel(), rcond=None)[0]
        guess -= change / max(1.0, np.abs(change).max())
    found, off = np.exp(guess), np.pad(beam.bent(moduli).numpy(), ((0, beam.across + 1), (0, 0)))
    worst = float(np.abs(found / TRUE - 1.0).max())
    fig = Figure(figsize=(11.5, 2.6), layout="constrained")
    ax, plot = fig.subplots(1, 2, width_ratios=(2.0, 1.0))
    mesh = *(beam.points.numpy() + off * 0.8 / np.abs(off).max()).T, beam.triangles.numpy()
    shown = ax.tripcolor(*mesh, np.repeat(found, len(mesh[2]) // len(found)), edgecolors="face", lw=0.1)
    fig.colorbar(shown, ax=ax, label="modulus found")
    ax.set(title="the bent beam", aspect="equal")
    plot.stairs(TRUE, label="true", fill=True, color="0.85")
    plot.stairs(found, label="found")
    plot.set(title="moduli of the parts", xlabel="from the free end")
    plot.legend(loc="lower left")
    fig.savefig(options.out, dpi=110)
    print(f"{2 * beam.unknowns} unknowns: {history[0]:.1f} -> {history[-1]:.3f} off in root mean square,", end=" ")
    print(f"moduli at most {100 * worst:.1f} % off; figure: {options.out}")
    return order, worst


if __name__ == "__main__":
    main()
