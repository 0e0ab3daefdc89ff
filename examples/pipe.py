"""A pipe under pressure: linear elasticity on tetrahedra, differentiated by shape, load and material.

The input is a thick pipe between two smooth plates. The output is how far its outside moves under a pressure within,
how that changes with the inner radius, the pressure and both moduli, and a figure. Linear finite elements give a sparse
matrix of 3 x 3 blocks, assembled on a pattern that stays. The solution is known (Lame, 1852), and so are its
derivatives: the figure shows how their errors fall with the size of the elements. `rust.py` searches with them.
"""

from __future__ import annotations

import argparse
from itertools import permutations

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

INNER, OUTER, LENGTH, YOUNG, POISSON, PRESSURE = 0.7, 1.0, 2.0, 1.0, 0.3, 1.0
Numbers, Points, Blocks = dk.array(dtype=dk.float64), dk.array(dtype=dk.vec3d), dk.array(dtype=dk.mat33d)
Corners, UNIT, ONES = dk.array2d(dtype=int), dk.mat33d(np.eye(3)), dk.vec3d(1.0, 1.0, 1.0)


@dk.func
def face(points: Points, corners: Corners, t: int, i: int):
    """The face of a tetrahedron opposite to its corner `i`: a normal towards that corner, twice the area long."""
    a, b, c = points[corners[t, (i + 1) % 4]], points[corners[t, (i + 2) % 4]], points[corners[t, (i + 3) % 4]]
    return dk.cross(b - a, c - a) * dk.where(i % 2 == 0, dk.float64(-1.0), dk.float64(1.0))


@dk.kernel
def assemble(points: Points, corners: Corners, young: Numbers, poisson: Numbers, free: Points, entries: Blocks):
    """What a tetrahedron adds to the matrix; where `free` is 0 the displacement is 0, by a number on the diagonal."""
    t = dk.tid()
    shear = 0.5 * young[t] / (1.0 + poisson[t])
    first = 2.0 * shear * poisson[t] / (1.0 - 2.0 * poisson[t])
    six = dk.abs(dk.dot(face(points, corners, t, 0), points[corners[t, 0]] - points[corners[t, 1]]))  # volumes
    for i in range(4):
        p, a = face(points, corners, t, i), free[corners[t, i]]
        for j in range(4):
            q, b = face(points, corners, t, j), free[corners[t, j]]
            block = first * dk.outer(p, q) + shear * (dk.outer(q, p) + dk.dot(p, q) * UNIT)
            held = dk.where(i == j, dk.float64(1.0), dk.float64(0.0)) * dk.diag(ONES - a)
            entries[16 * t + 4 * i + j] = dk.cw_mul(block, dk.outer(a, b)) / (6.0 * six) + held


@dk.kernel
def push(points: Points, inside: Corners, pressure: Numbers, free: Points, load: Points):
    """The pressure on a triangle, in its corners."""
    t = dk.tid()
    a, b, c = points[inside[t, 0]], points[inside[t, 1]], points[inside[t, 2]]
    for i in range(3):
        load[inside[t, i]] += dk.cw_mul(free[inside[t, i]], pressure[t] * dk.cross(b - a, c - a) / 6.0)


@dk.kernel
def place(depth: Numbers, around: int, along: int, points: Points):
    """Nodes, counted around, along, and outwards; `depth` is what the wall lacks within."""
    k, sheet = dk.tid(), depth.shape[0]
    inner, turn = INNER + depth[k % sheet], 6.283185307179586 * dk.float64(k % around) / dk.float64(around)
    radius = inner + (OUTER - inner) * dk.float64(k // sheet) / dk.float64(points.shape[0] // sheet - 1)
    height = LENGTH * dk.float64(k % sheet // around) / dk.float64(along)
    points[k] = dk.vec3d(radius * dk.cos(turn), radius * dk.sin(turn), height)


class Pipe:
    """Tetrahedra, six for each cell on ways to the corner across, and their matrix. The ends slide on plates."""

    def __init__(self, around: int, along: int, layers: int) -> None:
        self.around, self.along, self.sheet = around, along, around * (along + 1)
        cells = np.indices((around, along, layers)).reshape(3, -1).T
        ways = [np.eye(3, dtype=int)[list(order)].cumsum(axis=0) for order in permutations(range(3))]
        i, j, k = np.moveaxis(cells[:, None, None] + np.pad(ways, ((0, 0), (1, 0), (0, 0))), -1, 0)
        corners = np.int32(i % around + around * j + self.sheet * k)
        inner, self.corners = corners[cells[:, 2] == 0], dk.array(corners := corners.reshape(-1, 4))
        self.inside = dk.array(np.concatenate([inner[:, 0, [0, 1, 2]], inner[:, 2, [1, 0, 2]]]))
        k = np.arange(self.sheet * (layers + 1), dtype=np.int32)
        ends, turn, free = (k % self.sheet // around) % along == 0, k % around, np.ones((len(k), 3))
        free[ends, 2] = 0.0
        free[ends & (turn % (around // 2) == 0), 1] = 0.0  # what is on an axis stays on it: no shift and no turn
        free[ends & ((turn + around // 4) % (around // 2) == 0), 0] = 0.0
        self.free, self.nodes, self.outside = dk.array(free, dtype=dk.vec3d), len(k), dk.array(k[-self.sheet :])
        self.matrix = sparse.bsr_zeros(self.nodes, self.nodes, dk.mat33d)
        places = dk.array(np.repeat(corners, 4, axis=1).ravel()), dk.array(np.tile(corners, 4).ravel())
        self.mapping = sparse.bsr_set_from_triplets(self.matrix, *places, None, None, False, build_mapping=True)
        self.sound, self.bare = dk.zeros(self.sheet, dtype=dk.float64), dk.zeros(self.nodes, dtype=dk.vec3d)
        self.pressure = dk.full(len(self.inside), PRESSURE, dtype=dk.float64)
        self.young, self.poisson = (dk.full(len(corners), k, dtype=dk.float64) for k in (YOUNG, POISSON))

    def points(self, depth: dk.array) -> dk.array:
        points = dk.zeros(self.nodes, dtype=dk.vec3d, requires_grad=True)
        dk.launch(place, self.nodes, inputs=[depth, self.around, self.along], outputs=[points])
        return points

    def move(self, points: dk.array, young: dk.array, poisson: dk.array, pressure: dk.array, load: dk.array):
        """The displacements of nodes under a pressure within and forces on nodes."""
        entries = dk.zeros(16 * len(young), dtype=dk.mat33d, requires_grad=True)
        pushed = dk.zeros(self.nodes, dtype=dk.vec3d, requires_grad=True)
        dk.launch(assemble, len(young), inputs=[points, self.corners, young, poisson, self.free], outputs=[entries])
        dk.launch(push, len(pressure), inputs=[points, self.inside, pressure, self.free], outputs=[pushed])
        sparse.bsr_set_values(self.matrix, self.mapping, entries)
        side = pushed + dk.map(dk.cw_mul, load, self.free)
        return dk.linear_solve(self.matrix, side, method="cg", M="block_jacobi", tol=1e-12)

    def swells(self, depth: dk.array, pressure: dk.array, young: dk.array, poisson: dk.array) -> dk.array:
        """How far the outside moves in the mean."""
        moved = self.move(self.points(depth), young, poisson, pressure, self.bare)[self.outside].contiguous()
        return dk.map(dk.length, moved).sum() / float(self.sheet)


def lame() -> np.ndarray:
    """The same in closed form, and its derivatives by inner radius, pressure and both moduli."""
    ratio = INNER**2 / (OUTER**2 - INNER**2)
    way = 2.0 * OUTER * PRESSURE * (1.0 - POISSON**2) / YOUNG * ratio
    by = 2.0 / INNER * (1.0 + ratio), 1.0 / PRESSURE, -1.0 / YOUNG, -2.0 * POISSON / (1.0 - POISSON**2)
    return way * np.array([1.0, *by])


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Solve and draw; returns the orders of the errors of the way and of its derivatives."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--layers", type=int, default=5, help="elements through the wall, on the finest mesh")
    parser.add_argument("--out", default="pipe.png", help="where the figure goes")
    options, errors, few, rng = parser.parse_args(arguments), [], Pipe(4, 1, 1), np.random.default_rng(0)
    meshes = range(1, options.layers + 1)
    some = (dk.array(k.numpy() * rng.uniform(0.9, 1.1, k.shape)) for k in (few.young, few.poisson, few.pressure))
    points, load = few.points(few.sound), dk.array(rng.normal(size=(few.nodes, 3)), dtype=dk.vec3d)
    print(*str(gradcheck(few.move, inputs=[points, *some, load], atol=1e-6)).splitlines()[:2], sep="\n", flush=True)
    for layers in meshes:
        pipe = Pipe(16 * layers, 3, layers)
        value, slopes = dk.value_and_grad(pipe.swells)(pipe.sound, pipe.pressure, pipe.young, pipe.poisson)
        errors.append(np.array([float(value), *(float(k.numpy().sum()) for k in slopes)]) / lame() - 1.0)
    orders = np.log(np.abs(errors[-2]) / np.abs(errors[-1])) / np.log(meshes[-1] / meshes[-2])
    names = "way", "by inner radius", "by pressure", "by Young's modulus", "by Poisson's ratio"
    plot = (fig := Figure(figsize=(7.5, 3.4), layout="constrained")).subplots()
    for name, error, order in zip(names, np.abs(errors).T, orders, strict=True):
        plot.loglog(1.0 / np.array(meshes), error, "o-", label=f"{name}: order {order:.2f}")
    plot.set(title="errors beside Lame's solution", xlabel="elements, by the wall")
    plot.legend(fontsize="small")
    fig.savefig(options.out, dpi=110)
    print(f"{3 * pipe.nodes} unknowns: {100 * errors[-1][0]:+.2f} % from Lame's,", end=" ")
    print("errors of order", *np.round(orders, 2), f"in the spacing; figure: {options.out}")
    return orders


if __name__ == "__main__":
    main()
