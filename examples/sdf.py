"""Inverse rendering: the scene behind four pictures, described by signed distances.

The input is pictures, from several sides, of a ball, a block and a ring that blend into one another. The output is the
position, size and colour of each, and the direction of the light, found with Adam, and a figure. One kernel marches
along the ray of each pixel (Hart, The Visual Computer 12, 1996) and is not differentiated; a differentiated one takes
the last step to the surface and computes the shading from the normal, `dk.grad` of the distance. The distance of a ray
from the surface says how much of its pixel is covered: outlines have a gradient too (cf. Vicini et al., SIGGRAPH 2022).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

MELT, MARCH, FAR = 0.15, 64, 6.0
Scene = dk.types.vector(length=27, dtype=float)
Scenes, Cameras, Loss = dk.array(dtype=Scene), dk.array(dtype=dk.mat33), dk.array(dtype=float)
Numbers, Pictures = dk.array3d(dtype=float), dk.array3d(dtype=dk.vec3)
# Ball: middle, radius; block: middle, half its edges; ring: middle, its two radii; colours; towards the light.
TRUE = np.float32([-0.55, 0, 0.1, 0.42, 0.25, 0.05, -0.15, 0.3, 0.42, 0.22, 0.1, 0.2, 0.55, 0.45, 0.12, 0.9, 0.35, 0.2,
                   0.2, 0.6, 0.85, 0.95, 0.8, 0.25, 0.5, 0.7, 0.6])  # fmt: skip
GUESS = np.float32([-0.35, 0.2, 0, 0.3, 0.1, 0.2, 0, 0.2, 0.2, 0.2, 0, 0, 0.4, 0.3, 0.2, *[0.5] * 9, 0, 1, 0.3])


@dk.func
def parts(p: dk.vec3, s: Scene):
    """The distances of a place from ball, block and ring."""
    q, r = dk.abs(p - s[4:7]) - s[7:10], p - s[10:13]
    block = dk.length(dk.max(q, dk.vec3())) + dk.min(dk.max(q), 0.0) - 0.05
    ring = dk.length(dk.vec2(dk.length(r[0:2]) - s[13], r[2])) - s[14]
    return dk.length(p - s[0:3]) - s[3], block, ring


@dk.func
def distance(p: dk.vec3, s: Scene):
    """The least of the three, melted together."""
    a, b, c = parts(p, s)
    return -MELT * dk.log(dk.exp(-a / MELT) + dk.exp(-b / MELT) + dk.exp(-c / MELT))


@dk.func
def ray(camera: dk.mat33, i: int, j: int, n: int):
    """Where the ray of a pixel begins, and its direction; a camera looks along its third row."""
    u, v = (float(j) + 0.5) / float(n) - 0.5, 0.5 - (float(i) + 0.5) / float(n)
    return -3.0 * camera[2], dk.normalize(camera[2] + 0.9 * (u * camera[0] + v * camera[1]))


@dk.kernel(enable_backward=False)
def march(cameras: Cameras, scene: Scenes, hit: Numbers, near: Numbers):
    """How far along each ray the surface is, and the place that is nearest to it or deepest below."""
    k, i, j = dk.tid()
    s = scene[0]
    start, along = ray(cameras[k], i, j, hit.shape[1])
    t, least, inside = 0.0, 1.0e9, False
    for _ in range(MARCH):
        d = distance(start + t * along, s)
        if d < least:
            least, near[k, i, j] = d, t
        inside = inside or d < 0.001
        if not inside:
            hit[k, i, j] = t + d
        t = dk.min(t + dk.max(dk.abs(d), 0.02), FAR)


@dk.kernel
def shade(cameras: Cameras, scene: Scenes, hit: Numbers, near: Numbers, seen: Pictures, picture: Pictures, loss: Loss):
    k, i, j = dk.tid()
    s, n = scene[0], hit.shape[1]
    start, along = ray(cameras[k], i, j, n)
    cover = 1.0 / (1.0 + dk.exp(2.0 * float(n) * distance(start + near[k, i, j] * along, s)))
    q = start + dk.where(cover > 0.5, hit[k, i, j], near[k, i, j]) * along
    # The step of Newton's method that is left moves the place with the scene.
    slope, _ = dk.grad(distance)(q, s)
    q = q - dk.where(cover > 0.5, distance(q, s) / dk.min(dk.dot(slope, along), -0.2), 0.0) * along
    normal, _ = dk.grad(distance)(q, s)
    bright = 0.25 + 0.75 * dk.max(dk.dot(dk.normalize(normal), dk.normalize(s[24:27])), 0.0)
    a, b, c = parts(q, s)
    wa, wb, wc = dk.exp(-a / MELT), dk.exp(-b / MELT), dk.exp(-c / MELT)
    colour = (wa * s[15:18] + wb * s[18:21] + wc * s[21:24]) / (wa + wb + wc)
    result = cover * bright * colour + (1.0 - cover) * dk.vec3(0.08, 0.08, 0.1)
    picture[k, i, j] = result
    loss[0] += dk.length_sq(result - seen[k, i, j]) / float(3 * picture.size)


class Studio:
    def __init__(self, size: int, views: int) -> None:
        self.dim, rows = (views, size, size), []
        for turn in np.linspace(0.0, 2.0 * np.pi, views, endpoint=False) + 0.3:
            forward, right = [-0.9 * np.sin(turn), -0.44, -0.9 * np.cos(turn)], [np.cos(turn), 0, -np.sin(turn)]
            rows.append([right, np.cross(right, forward), forward])
        self.cameras = dk.array(np.float32(rows), dtype=dk.mat33)
        self.seen, self.picture = (dk.zeros(self.dim, dtype=dk.vec3) for _ in range(2))
        self.hit, self.near, self.loss = dk.zeros(self.dim), dk.zeros(self.dim), dk.zeros(1, requires_grad=True)

    def render(self, scene: dk.array) -> np.ndarray:
        self.loss.zero_()
        dk.launch(march, self.dim, inputs=[self.cameras, scene], outputs=[self.hit, self.near], record_tape=False)
        given = [self.cameras, scene, self.hit, self.near, self.seen, self.picture, self.loss]
        dk.launch(shade, self.dim, given)
        return self.picture.numpy().copy()


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the largest errors of places and sizes, at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", default="sdf.png", help="where the figure goes")
    options, began = parser.parse_args(arguments), time.perf_counter()
    studio, few, history, shown = Studio(options.size, 4), Studio(6, 1), [], []
    studio.seen.assign(studio.render(dk.array([TRUE], dtype=Scene)))
    scene = dk.array([GUESS], dtype=Scene, requires_grad=True)
    few.render(scene)
    given = [few.cameras, scene, few.hit, few.near, few.seen, few.picture, few.loss]
    print(gradcheck(shade, few.dim, given), flush=True)
    optimizer = dk.optim.Adam([scene], lr=0.01)
    for k in trange(options.steps, desc="steps"):
        with dk.Tape() as tape:
            picture = studio.render(scene)
        tape.backward(studio.loss)
        history.append(float(studio.loss))
        if k in (0, options.steps // 10, options.steps - 1):
            shown.append((f"step {k}", picture))
        optimizer.lr = 0.01 * (1.0 - k / options.steps)
        optimizer.step([scene.grad])
        tape.zero()
    fig = Figure(figsize=(13.0, 4.6), layout="constrained")
    left, right = fig.subfigures(1, 2, width_ratios=(3.2, 1.0))
    for axes, (title, picture) in zip(left.subplots(2, 4).T, [*shown, ("seen", studio.seen.numpy())], strict=True):
        for ax, view in zip(axes, picture, strict=False):
            ax.imshow(view.clip(0.0, 1.0))
            ax.set(title=title, xticks=[], yticks=[])
    right.subplots(subplot_kw={"title": "mean square error against steps", "yscale": "log"}).plot(history)
    fig.savefig(options.out, dpi=110)
    guessed, found = (float(np.abs(TRUE - s)[:15].max()) for s in (GUESS, scene.numpy()[0]))
    print(f"mean square error {history[0]:.1e} -> {history[-1]:.1e}, {time.perf_counter() - began:.1f} s; ", end="")
    print(f"places and sizes at most {guessed:.2f} -> {found:.1e} off; figure: {options.out}")
    return guessed, found


if __name__ == "__main__":
    main()
