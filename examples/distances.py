"""A scan as signed distances: the voxels of a sparse volume are fitted to points of a surface and their normals.

The input is noisy points of a ring, and the normals there. The output is a volume of distances in tiles near the
points, the surface where they are zero, and a figure. At a point the distance shall be zero; a little before or after
it, along the normal, the slope shall be the normal, and of length one as that of any distance (the eikonal equation;
Gropp et al., ICML 2020). Samples between voxels are differentiated by their values, which Adam changes in place.
Distances from a ring are known, and so is its volume, with which that within the triangles is compared.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern.testing import gradcheck

RING, TUBE, NOISE, REACH = 0.6, 0.25, 0.005, 2.5  # radii, how far points are off; where slopes are taken, in voxels
Points, Cells, Numbers = dk.array(dtype=dk.vec3), dk.array(dtype=dk.vec3i), dk.array(dtype=dk.float64)


@dk.func
def sample(volume: dk.uint64, place: dk.vec3, voxel: float):
    """The distance at a place, in voxels, and its slope."""
    slope = dk.vec3d()
    index = dk.volume_world_to_index(volume, place)
    distance = dk.volume_sample_grad(volume, index, dk.Volume.LINEAR, slope, dtype=dk.float64)
    return distance / dk.float64(voxel), slope / dk.float64(voxel)


@dk.kernel
def compare(volume: dk.uint64, points: Points, normals: Points, voxel: float, step: int, loss: Numbers):
    """How far the distance at a point is from zero, and the slope before or after it from the normal and length one."""
    i = dk.tid()
    state, n = dk.rand_init(step, i), normals[i]
    distance, _ = sample(volume, points[i], voxel)
    _, slope = sample(volume, points[i] + REACH * voxel * dk.randf(state, -1.0, 1.0) * n, voxel)
    off = distance**2.0 + 0.1 * dk.length_sq(slope - dk.vec3d(n)) + 0.1 * (dk.length_sq(slope) - 1.0) ** 2.0
    loss[0] += off / dk.float64(points.shape[0])


@dk.kernel
def store(volume: dk.uint64, voxels: Cells, values: Numbers):
    i = dk.tid()
    dk.volume_store(volume, voxels[i][0], voxels[i][1], voxels[i][2], values[i])


@dk.kernel
def look(volume: dk.uint64, voxels: Cells, values: Numbers):
    i = dk.tid()
    values[i] = dk.volume_lookup(volume, voxels[i][0], voxels[i][1], voxels[i][2], dtype=dk.float64)


@dk.kernel
def enclose(vertices: dk.array(dtype=dk.vec3d), triangles: dk.array(dtype=int), volume: Numbers):
    """The tetrahedra between triangles and the origin."""
    t = 3 * dk.tid()
    a, b, c = vertices[triangles[t]], vertices[triangles[t + 1]], vertices[triangles[t + 2]]
    volume[0] += dk.dot(a, dk.cross(b, c)) / 6.0


def to_ring(x: np.ndarray) -> np.ndarray:
    """Signed distances from the ring, negative in it."""
    return np.hypot(np.hypot(x[..., 0], x[..., 1]) - RING, x[..., 2]) - TUBE


def scan(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on the ring, and the normals there."""
    rng = np.random.default_rng(0)
    turn, bend = rng.uniform(0.0, 2.0 * np.pi, (2, count, 1))
    out = np.concatenate([np.cos(turn), np.sin(turn), 0.0 * turn], axis=1)
    normals = np.cos(bend) * out + np.sin(bend) * [0.0, 0.0, 1.0]
    return RING * out + TUBE * normals + rng.normal(0.0, NOISE, out.shape), normals


class Distances:
    """A volume with tiles around points, whose voxels are fitted in the cells near them."""

    def __init__(self, points: np.ndarray, normals: np.ndarray, voxel: float) -> None:
        self.points, self.normals = (dk.array(np.float32(k), dtype=dk.vec3) for k in (points, normals))
        self.voxel, near = voxel, np.indices((3, 3, 3)).reshape(3, 27).T - 1
        cells = np.unique((np.floor(points / voxel)[:, None] + near).reshape(-1, 3), axis=0).astype(np.int32)
        corners = (cells[:, None] + np.int32(dk.MarchingCubes.CUBE_CORNER_OFFSETS)).reshape(-1, 3)
        voxels, self.corners = np.unique(corners, axis=0, return_inverse=True)
        self.cells, self.voxels = (dk.array(k, dtype=dk.vec3i) for k in (cells, voxels))
        self.volume = dk.Volume.allocate_by_tiles(self.voxels, voxel, np.float64(0.0), requires_grad=True)

    def loss(self, step: int = 0) -> dk.array:
        loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        dk.launch(compare, self.points.size, [self.volume.id, self.points, self.normals, self.voxel, step, loss])
        return loss

    def loss_of(self, distances: dk.array) -> dk.array:
        dk.launch(store, self.voxels.size, inputs=[self.volume.id, self.voxels, distances])
        return self.loss()

    def fit(self, steps: int) -> list[float]:
        """Adam on the values of the volume; returns how the loss falls."""
        optimizer, history = dk.optim.Adam([self.volume.values]), []
        for k in range(steps):
            with dk.Tape() as tape:
                loss = self.loss(k)
            tape.backward(loss)
            history.append(float(loss))
            optimizer.lr = 0.4 * self.voxel * (1.0 - k / steps)
            optimizer.step([self.volume.values.grad])
            tape.zero()
        return history

    def found(self) -> tuple[np.ndarray, dk.array, dk.array]:
        """The distances at the voxels, and the vertices and triangles where they are zero."""
        found = dk.zeros(self.voxels.size, dtype=dk.float64)
        dk.launch(look, self.voxels.size, inputs=[self.volume.id, self.voxels], outputs=[found])
        at_corners, width = found.numpy()[self.corners.ravel()], self.voxel
        return found.numpy(), *dk.sparse_marching_cubes_from_cells(self.cells, at_corners, cell_width=width)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Fit and draw; returns how far the surface is off, in voxels, and the volume in it, by that of the ring."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--voxel", type=float, default=0.05, help="the edge of a voxel")
    parser.add_argument("--steps", type=int, default=300, help="steps of Adam")
    parser.add_argument("--out", default="distances.png", help="where the figure goes")
    options, few = parser.parse_args(arguments), Distances(*scan(10), 0.3)
    guess = dk.array(to_ring(0.3 * few.voxels.numpy()) + np.random.default_rng(0).normal(0.0, 0.1, few.voxels.size))
    print(*str(gradcheck(few.loss_of, inputs=[guess], mode="reverse")).splitlines()[:2], sep="\n", flush=True)
    fitted = Distances(*scan(20000), voxel := options.voxel)
    history, (found, vertices, triangles) = fitted.fit(options.steps), fitted.found()
    enclosed, volume = dk.zeros(1, dtype=dk.float64), 2.0 * np.pi**2 * RING * TUBE**2
    dk.launch(enclose, triangles.size // 3, inputs=[vertices, triangles], outputs=[enclosed])
    true = to_ring(places := voxel * fitted.voxels.numpy())
    parts = (found - true)[np.abs(true) < voxel], to_ring(vertices.numpy())
    wrong, off = (float(np.sqrt(np.mean(k**2))) / voxel for k in parts)
    fig, slab = Figure(figsize=(11.5, 3.2), layout="constrained"), places[:, 2] == 0.0
    ax = fig.add_subplot(131, projection="3d", elev=45, box_aspect=(1, 1, 0.35), zticks=[], title="distance 0")
    ax.plot_trisurf(*vertices.numpy().T, triangles=triangles.numpy().reshape(-1, 3), color="tab:blue")
    ax = fig.add_subplot(132, aspect="equal", title="distances at half the height, in voxels")
    fig.colorbar(ax.scatter(*places[slab, :2].T, 9.0, found[slab] / voxel, marker="s", cmap="RdBu"), ax=ax)
    fig.add_subplot(133, title="loss", xlabel="steps", yscale="log").plot(history)
    fig.savefig(options.out, dpi=110)
    print(f"distances {wrong:.3f}, surface {off:.3f} voxels off;", end=" ")
    print(f"volume {float(enclosed):.4f}, that of the ring {volume:.4f}; figure: {options.out}")
    return off, float(enclosed) / volume


if __name__ == "__main__":
    main()
