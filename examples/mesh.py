"""A shape from its outlines: a soft rasteriser of triangle meshes.

The input is the outlines of a chess piece, seen from a few sides. The output is a mesh with these outlines, deformed
from a ball with Adam, and a figure. A thread takes one pixel and adds up how much each triangle covers it: the
probability decreases smoothly with the distance from the triangle, so that all pixels near an edge pull at it (Soft
Rasterizer: Liu et al., ICCV 2019). A penalty on the differences from the average of the neighbours keeps the mesh
smooth.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

VIEWS, SOFT, SMOOTH = 6, 0.012, 0.5  # the width of an edge, of a picture 2 wide; the weight of smoothness
Camera = dk.types.matrix(shape=(2, 3), dtype=float)
Vertices, Faces, Pictures = dk.array(dtype=dk.vec3), dk.array2d(dtype=int), dk.array3d(dtype=float)
# Heights and radii of the piece, from its foot to its head.
PROFILE = [(0.0, 0.0), (0.0, 0.55), (0.1, 0.58), (0.18, 0.5), (0.25, 0.4), (0.35, 0.3), (0.55, 0.2), (0.72, 0.16)]
PROFILE += [(0.76, 0.3), (0.8, 0.31), (0.84, 0.18), (0.9, 0.24), (1.0, 0.29), (1.1, 0.26), (1.18, 0.15), (1.22, 0.0)]


@dk.func
def to_segment(p: dk.vec2, a: dk.vec2, b: dk.vec2):
    """The squared distance of a point from a segment."""
    along = b - a
    f = dk.clamp(dk.dot(p - a, along) / (dk.dot(along, along) + 1.0e-9), 0.0, 1.0)
    return dk.length_sq(p - a - f * along)


@dk.func
def side(p: dk.vec2, a: dk.vec2, b: dk.vec2):
    return dk.determinant(dk.matrix_from_cols(b - a, p - a))


@dk.kernel
def cover(cameras: dk.array(dtype=Camera), vertices: Vertices, faces: Faces, picture: Pictures):
    """How surely one of the triangles covers a pixel: 1 less the product of the chances that none does."""
    k, i, j = dk.tid()
    n = picture.shape[1]
    p = dk.vec2(2.0 * (float(j) + 0.5) / float(n) - 1.0, 1.0 - 2.0 * (float(i) + 0.5) / float(n))
    total = 0.0
    for f in range(faces.shape[0]):
        a, b = cameras[k] * vertices[faces[f, 0]], cameras[k] * vertices[faces[f, 1]]
        c = cameras[k] * vertices[faces[f, 2]]
        ab, bc, ca = side(p, a, b), side(p, b, c), side(p, c, a)
        inside = (ab > 0.0 and bc > 0.0 and ca > 0.0) or (ab < 0.0 and bc < 0.0 and ca < 0.0)
        d = dk.min(to_segment(p, a, b), dk.min(to_segment(p, b, c), to_segment(p, c, a)))
        s = dk.where(inside, d, -d) / (SOFT * SOFT)
        if s > -12.0:
            total += dk.max(s, 0.0) + dk.log(1.0 + dk.exp(-dk.abs(s)))
    picture[k, i, j] = 1.0 - dk.exp(-total)


@dk.kernel
def compare(picture: Pictures, seen: Pictures, loss: dk.array(dtype=float)):
    k, i, j = dk.tid()
    loss[0] += (picture[k, i, j] - seen[k, i, j]) ** 2.0 / float(picture.size)


@dk.kernel
def roughness(vertices: Vertices, around: int, loss: dk.array(dtype=float)):
    """How far a vertex is from the middle of its neighbours, on the ring and on the rings above and below."""
    i = dk.tid()
    ring = i // around * around
    off = 0.5 * (vertices[ring + (i + 1) % around] + vertices[ring + (i + around - 1) % around]) - vertices[i]
    if i >= around and i + around < vertices.shape[0]:
        off += 0.5 * (vertices[i - around] + vertices[i + around]) - vertices[i]
    loss[0] += SMOOTH * dk.dot(off, off) / float(vertices.shape[0])


def revolve(height: np.ndarray, radius: np.ndarray, around: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices, ring by ring, and triangles."""
    turn = 2.0 * np.pi * np.arange(around) / around
    rings = np.broadcast_arrays(np.outer(radius, np.cos(turn)), height[:, None], np.outer(radius, np.sin(turn)))
    k = np.arange((len(height) - 1) * around)
    beside = k // around * around + (k + 1) % around
    faces = np.stack([k, beside, k + around, beside, beside + around, k + around], axis=1).reshape(-1, 3)
    return np.float32(np.stack(rings, axis=-1).reshape(-1, 3)), np.int32(faces)


def piece() -> tuple[np.ndarray, np.ndarray]:
    """The chess piece, with a nose that only some of the sides show."""
    v, faces = revolve(*(np.array(PROFILE).T * [[1.4], [1.0]] - [[0.84], [0.0]]), 32)
    v[:, 0] += np.where(v[:, 0] > 0.0, 1.2 * v[:, 0] * np.exp(-(((v[:, 1] - 0.52) / 0.15) ** 2)), 0.0)
    return v, faces


def render(size: int, vertices: dk.array, faces: dk.array) -> dk.array:
    """Outlines from all around, a little from above."""
    turns = np.linspace(0.0, 2.0 * np.pi, VIEWS, endpoint=False)
    rows = [[[np.cos(a), 0, np.sin(a)], [0.34 * np.sin(a), 0.94, -0.34 * np.cos(a)]] for a in turns]
    picture = dk.zeros((VIEWS, size, size), requires_grad=True)
    dk.launch(cover, picture.shape, inputs=[dk.array(rows, dtype=Camera), vertices, faces], outputs=[picture])
    return picture


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the share of pixels that are off, at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=48, help="pixels along each side")
    parser.add_argument("--rings", type=int, default=20, help="of vertices on the mesh")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", default="mesh.png", help="where the figure goes")
    options, began = parser.parse_args(arguments), time.perf_counter()
    tilt, (v, f) = np.linspace(-1.5, 1.5, options.rings), piece()
    start, corners = revolve(0.6 * np.sin(tilt), 0.6 * np.cos(tilt), options.rings)
    given = [dk.array([np.eye(3)[:2]], dtype=Camera), dk.array(start[:20], dtype=dk.vec3), corners[:9] % 20]
    print(gradcheck(cover, (1, 5, 5), given, [dk.zeros((1, 5, 5))]), flush=True)
    seen = render(options.size, dk.array(v, dtype=dk.vec3), dk.array(f, dtype=int))
    vertices, faces = dk.array(start, dtype=dk.vec3, requires_grad=True), dk.array(corners, dtype=int)
    optimizer, loss, history, shown = dk.optim.Adam([vertices], lr=0.02), dk.zeros(1, requires_grad=True), [], []
    for k in trange(options.steps, desc="steps"):
        loss.zero_()
        with dk.Tape() as tape:
            picture = render(options.size, vertices, faces)
            dk.launch(compare, seen.shape, inputs=[picture, seen], outputs=[loss])
            dk.launch(roughness, len(start), inputs=[vertices, options.rings], outputs=[loss])
        tape.backward(loss)
        history.append(float(((picture.numpy() > 0.5) != (seen.numpy() > 0.5)).mean()))
        if k in (0, options.steps // 6, options.steps - 1):
            shown.append((f"step {k}", vertices.numpy().copy(), corners))
        optimizer.step([vertices.grad])
        tape.zero()
    fig = Figure(figsize=(13.0, 3.0), layout="constrained")
    for k, (title, x, triangles) in enumerate([*shown, ("the piece", v, f)]):
        ax = fig.add_subplot(1, 6, k + 1, projection="3d", box_aspect=(1, 1, 1), elev=15, azim=-75)
        ax.plot_trisurf(x[:, 0], x[:, 2], x[:, 1], triangles=triangles, color="wheat", edgecolor="gray", lw=0.15)
        ax.set(title=title, xlim=(-0.6, 0.6), ylim=(-0.6, 0.6), zlim=(-0.85, 0.85), xticks=[], yticks=[], zticks=[])
    ax, plot = fig.add_subplot(1, 6, 5), fig.add_subplot(1, 6, 6)
    ax.imshow(np.stack([seen.numpy()[0], picture.numpy()[0], picture.numpy()[0]], axis=-1).clip(0, 1))
    ax.set(title="outline: red, found: cyan", xticks=[], yticks=[])
    plot.plot(history)
    plot.set(title="share of pixels off", xlabel="steps", yscale="log")
    fig.savefig(options.out, dpi=110)
    print(f"{len(corners)} triangles: {100 * history[0]:.1f} -> {100 * history[-1]:.2f} % of the pixels off", end=" ")
    print(f"in {time.perf_counter() - began:.1f} s; figure: {options.out}")
    return history[0], history[-1]


if __name__ == "__main__":
    main()
