"""A mesh that wraps a scan: its vertices move until both surfaces are one.

The input is a scanned surface, a chess piece. The output is a mesh of rings that lies on it, moved from a ball with
Adam, and a figure. Each point of the scan asks the mesh for its nearest place, and each vertex the scan (the Chamfer
distance); the distance has a derivative by the vertices of the triangle that was found. The search is repeated in each
step, through a tree that is built again. A penalty on roughness, which becomes less with time, keeps the mesh from
folding, at a price: what sticks out is pulled in, so that the mesh ends up too small by what is printed.
"""

from __future__ import annotations

import argparse

import mesh as piece
import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

FIRST, LAST = 4.0, 0.002  # the weight of smoothness
Points, Numbers = dk.array(dtype=dk.vec3), dk.array(dtype=float)


@dk.kernel
def squared_distances(surface: dk.uint64, points: Points, loss: Numbers):
    """The mean squared distance of points from a surface."""
    i = dk.tid()
    near = dk.mesh_query_point_no_sign(surface, points[i], 10.0)
    if near.result:
        off = dk.mesh_eval_position(surface, near.face, near.u, near.v) - points[i]
        loss[0] += dk.dot(off, off) / float(points.shape[0])


class Wrap:
    def __init__(self, rings: int) -> None:
        self.rings, tilt = rings, np.linspace(-1.5, 1.5, rings)
        self.start, corners = piece.revolve(0.6 * np.sin(tilt), 0.6 * np.cos(tilt), rings)
        self.corners = dk.array(corners.ravel(), dtype=int)
        self.vertices, self.faces = piece.piece()
        self.scan = dk.Mesh(dk.array(self.vertices, dtype=dk.vec3), dk.array(self.faces.ravel(), dtype=int))
        rng = np.random.default_rng(0)
        weights = rng.dirichlet([1.0, 1.0, 1.0], 4 * len(self.faces))[:, :, None]
        self.marks = dk.array(
            np.float32((weights * np.tile(self.vertices[self.faces], (4, 1, 1))).sum(1)), dtype=dk.vec3
        )

    def distance(self, vertices: dk.array) -> dk.array:
        """The mean squared distances of the scan from the mesh, and of the vertices from the scan."""
        surface, loss = dk.Mesh(vertices, self.corners), dk.zeros(1, requires_grad=True)
        dk.launch(squared_distances, self.marks.size, inputs=[surface.id, self.marks], outputs=[loss])
        dk.launch(squared_distances, vertices.size, inputs=[self.scan.id, vertices], outputs=[loss])
        return loss

    def smooth(self, vertices: dk.array) -> dk.array:
        loss = dk.zeros(1, requires_grad=True)
        dk.launch(piece.roughness, vertices.size, inputs=[vertices, self.rings], outputs=[loss])
        return loss


def volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return abs(float((a * np.cross(b, c)).sum())) / 6.0


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the distance of the surfaces at first and in the end, in root mean square."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rings", type=int, default=24, help="of vertices on the mesh")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--out", default="wrap.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    wrap, few = Wrap(options.rings), Wrap(4)
    some = np.float32(few.start + np.random.default_rng(1).normal(0.0, 0.1, few.start.shape))
    # Differences in single precision, whose steps are so long that other triangles become the nearest meanwhile.
    report = gradcheck(few.distance, inputs=[dk.array(some, dtype=dk.vec3)], mode="reverse", atol=1e-4, rtol32=0.05)
    print(*str(report).splitlines()[:2], sep="\n", flush=True)
    vertices, history, shown = dk.array(wrap.start, dtype=dk.vec3, requires_grad=True), [], []
    optimizer = dk.optim.Adam([vertices], lr=0.01)
    for k in trange(options.steps, desc="steps"):
        with dk.Tape() as tape:
            distance = wrap.distance(vertices)
            loss = distance + (FIRST * (LAST / FIRST) ** (k / options.steps)) * wrap.smooth(vertices)
        tape.backward(loss)
        history.append(float(distance) ** 0.5)
        if k in (0, options.steps // 10, options.steps - 1):
            shown.append((f"step {k}", vertices.numpy().copy(), wrap.corners.numpy().reshape(-1, 3)))
        optimizer.lr = 0.01 * (1.0 - k / options.steps)
        optimizer.step([vertices.grad])
        tape.zero()
    fig = Figure(figsize=(12.0, 3.2), layout="constrained")
    for k, (title, x, triangles) in enumerate([*shown, ("the scan", wrap.vertices, wrap.faces)]):
        ax = fig.add_subplot(1, 5, k + 1, projection="3d", box_aspect=(1, 1, 1.4), elev=15, azim=-75)
        ax.plot_trisurf(x[:, 0], x[:, 2], x[:, 1], triangles=triangles, color="wheat", edgecolor="gray", lw=0.15)
        ax.set(title=title, xlim=(-0.6, 0.6), ylim=(-0.6, 0.6), zlim=(-0.85, 0.85), xticks=[], yticks=[], zticks=[])
    plot = fig.add_subplot(1, 5, 5)
    plot.semilogy(history)
    plot.set(title="distance", xlabel="steps")
    fig.savefig(options.out, dpi=110)
    size = volume(*shown[-1][1:]) / volume(wrap.vertices, wrap.faces) - 1.0
    print(
        f"{len(shown[-1][2])} triangles: distance {history[0]:.3f} -> {history[-1]:.4f}, volume {100 * size:+.1f} %",
        end="",
    )
    print(f"; figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
