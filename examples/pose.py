"""Where is this thing, and how does it lie? Its pose from depth images.

The input is a mesh, and noisy depth images of it by two cameras. The output is the position and orientation of the
mesh, found with Gauss and Newton's method, and a figure. Each pixel is a ray through a tree of triangles; the depth has
a derivative with respect to the ray, and so to the pose. Pixels that only one of the two images shows at the border of
the thing have none: they are left out, as are those whose depths differ much.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern.testing import gradcheck

WIDE, NOISE, LIMIT = 0.55, 0.002, 0.25  # half the width of an image at distance 1, m, m
TRUE, GUESS = (0.1, -0.15, 0.05, 0.9, -0.5, 1.2), (0.0, 0.0, 0.0, 0.6, -0.2, 0.8)  # m; a rotation vector
Images = dk.array3d(dtype=float)


@dk.func
def moved(change: dk.array(dtype=float)):
    """A small displacement and rotation."""
    turn = dk.quat(0.5 * change[3], 0.5 * change[4], 0.5 * change[5], 1.0)
    return dk.transform(dk.vec3(change[0], change[1], change[2]), dk.normalize(turn))


@dk.kernel
def look(mesh: dk.uint64, cameras: dk.array(dtype=dk.transform), pose: dk.array(dtype=dk.transform),
         change: dk.array(dtype=float), depth: Images):  # fmt: skip
    """The depth of a pixel; 0 where there is nothing. The ray is moved, not the mesh."""
    k, i, j = dk.tid()
    n = float(depth.shape[1])
    ray = dk.vec3((2.0 * float(j) + 1.0) / n - 1.0, 1.0 - (2.0 * float(i) + 1.0) / n, -1.0 / WIDE)
    back = dk.transform_inverse(pose[0] * moved(change)) * cameras[k]
    start, along = dk.transform_get_translation(back), dk.transform_vector(back, dk.normalize(ray))
    hit = dk.mesh_query_ray(mesh, start, along, 10.0)
    if hit.result:
        depth[k, i, j] = hit.t


@dk.kernel
def step(pose: dk.array(dtype=dk.transform), change: dk.array(dtype=float), after: dk.array(dtype=dk.transform)):
    after[0] = pose[0] * moved(change)


def thing(n: int) -> dk.Mesh:
    """A ball with bumps, no two of its sides alike."""
    tilt, turn = (
        k.ravel() for k in np.meshgrid(np.linspace(0.0, np.pi, n), 2 * np.pi * np.arange(n) / n, indexing="ij")
    )
    way = np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)], axis=1)
    bumps = np.random.default_rng(5).normal(size=(9, 3))
    near = way @ (bumps / np.linalg.norm(bumps, axis=1, keepdims=True)).T
    radius = 0.35 + 0.25 * np.exp(12.0 * (near - 1.0)).sum(1)
    a = np.arange((n - 1) * n)
    b = a // n * n + (a + 1) % n
    faces = np.stack([a, a + n, b, b, a + n, b + n], axis=1).reshape(-1)
    return dk.Mesh(dk.array(np.float32(radius[:, None] * way), dtype=dk.vec3), dk.array(np.int32(faces), dtype=int))


def placed(vector: tuple[float, ...]) -> dk.array:
    """A pose from a displacement and a rotation vector."""
    angle = float(np.linalg.norm(vector[3:]))
    axis = np.array(vector[3:]) / angle
    return dk.array(np.float32([[*vector[:3], *(np.sin(angle / 2) * axis), np.cos(angle / 2)]]), dtype=dk.transform)


def off(pose: dk.array) -> tuple[float, float]:
    """How far a pose is from the true one: mm, degrees."""
    found, true = pose.numpy()[0], placed(TRUE).numpy()[0]
    turn = 2.0 * np.degrees(np.arccos(min(abs(float(found[3:] @ true[3:])), 1.0)))
    return 1e3 * float(np.linalg.norm(found[:3] - true[:3])), float(turn)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns how far the pose found is off, in mm and in degrees."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--rounds", type=int, default=15, help="steps of Gauss and Newton's method")
    parser.add_argument("--out", default="pose.png", help="where the figure goes")
    options, mesh, history = parser.parse_args(arguments), thing(80), []
    half = 0.5**0.5
    cameras = dk.array(np.float32([[0, 0, 2, 0, 0, 0, 1], [2, 0, 0, 0, half, 0, half]]), dtype=dk.transform)
    zeros = dk.zeros(6)

    def view(pose: dk.array, change: dk.array, size: int = options.size) -> dk.array:
        depth = dk.zeros((2, size, size), requires_grad=True)
        dk.launch(look, depth.shape, inputs=[mesh.id, cameras, pose, change], outputs=[depth])
        return depth

    pose = placed(GUESS)
    few = partial(view, pose, size=5)
    print(*str(gradcheck(few, inputs=[zeros])).splitlines()[:2], sep="\n", flush=True)
    seen = view(placed(TRUE), zeros).numpy()
    seen += np.random.default_rng(0).normal(0.0, NOISE, seen.shape) * (seen > 0.0)
    first = view(pose, zeros).numpy()
    for _ in range(options.rounds):
        history.append(off(pose))
        depth = view(pose, zeros).numpy()
        both = (depth > 0.0) & (seen > 0.0) & (np.abs(depth - seen) < LIMIT)
        slopes = dk.jacobian(partial(view, pose), zeros, mode="forward")[both]
        change = np.linalg.lstsq(slopes, (seen - depth)[both], rcond=None)[0]
        change *= min(1.0, 0.3 / np.linalg.norm(change))
        dk.launch(
            step, 1, inputs=[pose, dk.array(np.float32(change))], outputs=[after := dk.zeros(1, dtype=dk.transform)]
        )
        pose = after
    history.append(off(pose))
    fig = Figure(figsize=(12.0, 3.0), layout="constrained")
    *axes, plot = fig.subplots(1, 4)
    shown = {"seen": seen[0], "guess, m off": first[0] - seen[0], "found, m off": depth[0] - seen[0]}
    for ax, (title, image) in zip(axes, shown.items(), strict=True):
        limits = {"cmap": "viridis_r"} if title == "seen" else {"cmap": "RdBu", "vmin": -0.1, "vmax": 0.1}
        fig.colorbar(ax.imshow(np.where(image == 0.0, np.nan, image), **limits), ax=ax)
        ax.set(title=title, xticks=[], yticks=[])
    plot.semilogy(history, ".-", label=["mm", "degrees"])
    plot.set(title="pose off", xlabel="rounds")
    plot.legend()
    fig.savefig(options.out, dpi=110)
    (mm, degrees), (mm_after, degrees_after) = history[0], history[-1]
    print(f"{mm:.0f} mm and {degrees:.1f} degrees off at first,", end=" ")
    print(f"{mm_after:.2f} mm and {degrees_after:.3f} degrees in the end; figure: {options.out}")
    return history[-1]


if __name__ == "__main__":
    main()
