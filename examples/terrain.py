"""Where was this picture taken? A terrain of noise, lit by a low sun, and the gradient of its picture.

The picture is a shaded relief, rendered for a given position, view direction, roughness and direction of the sun. The
output is these six numbers, found again by gradient descent from a guess, and a figure. The normals of the terrain are
the derivative of its height, ``dk.grad(height)``; the gradient of the picture is a derivative of that.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

SEED, OCTAVES, EXTENT = 42, 5, 1.5
NAMES = ("east", "north", "heading", "roughness", "azimuth", "elevation")
TRUE = (3.30, 1.70, 0.40, 0.42, 2.20, 0.60)
GUESS = (3.41, 1.61, 0.52, 0.30, 1.60, 0.90)
Numbers, Picture = dk.array(dtype=float), dk.array2d(dtype=float)


@dk.func
def height(x: float, y: float, roughness: float):
    """Octaves of noise: each has twice the frequency of the last one and ``roughness`` times its amplitude."""
    state = dk.rand_init(SEED)
    total, amplitude = 0.0, 0.5
    for k in range(OCTAVES):  # unrolled: static uses k
        total += amplitude * dk.noise(state, dk.vec2(x, y) * dk.static(2.0**k))
        amplitude *= roughness
    return total


@dk.func
def shade(view: Numbers, u: float, v: float):
    """How bright the terrain is where the picture has the coordinates u and v; 0 in the shade."""
    c, s = dk.cos(view[2]), dk.sin(view[2])
    slope_x, slope_y, _ = dk.grad(height)(view[0] + c * u - s * v, view[1] + s * u + c * v, view[3])
    normal = dk.normalize(dk.vec3(-slope_x, -slope_y, 1.0))
    level = dk.cos(view[5])
    sun = dk.vec3(level * dk.cos(view[4]), level * dk.sin(view[4]), dk.sin(view[5]))
    return dk.max(dk.dot(normal, sun), 0.0)


@dk.kernel
def render(view: Numbers, picture: Picture):
    i, j = dk.tid()
    n = float(picture.shape[0])
    picture[i, j] = shade(view, EXTENT * (2.0 * float(j) / n - 1.0), EXTENT * (2.0 * float(i) / n - 1.0))


@dk.kernel
def compare(view: Numbers, seen: Picture, loss: Numbers):
    """The mean squared difference between the picture of a view and the one that was seen."""
    i, j = dk.tid()
    n = float(seen.shape[0])
    off = shade(view, EXTENT * (2.0 * float(j) / n - 1.0), EXTENT * (2.0 * float(i) / n - 1.0)) - seen[i, j]
    dk.atomic_add(loss, 0, off * off / (n * n))


def pictures(views: list[np.ndarray], n: int) -> list[np.ndarray]:
    found = []
    for view in views:
        picture = dk.zeros((n, n))
        dk.launch(render, (n, n), inputs=[dk.array(np.float32(view))], outputs=[picture])
        found.append(picture.numpy())
    return found


def draw(file: str, seen: np.ndarray, shown: list[np.ndarray], history: np.ndarray) -> None:
    fig = figure.Figure(figsize=(11.0, 3.2), layout="constrained")
    axes = fig.subplots(1, 4)
    for a, picture, title in zip(axes, (seen, *shown), ("seen", "first guess", "found"), strict=False):
        a.imshow(picture, cmap="gray", origin="lower", vmin=0.0, vmax=1.0)
        a.set(title=title, xticks=[], yticks=[])
    axes[3].plot(history - np.float32(TRUE), label=NAMES)
    axes[3].set(title="error of each number", xlabel="steps of Adam")
    axes[3].legend(fontsize=7)
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> float:
    """Find the view and draw; returns the greatest error of the six numbers."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=192, help="rows and columns of the picture")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="terrain.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    n = options.size
    noise = np.random.default_rng(0).normal(0.0, 0.02, (n, n)).astype(np.float32)
    seen_host = pictures([np.float32(TRUE)], n)[0] + noise
    view, seen = dk.array(np.float32(GUESS), requires_grad=True), dk.array(seen_host)
    loss = dk.zeros(1, requires_grad=True)
    small = [np.float32(TRUE) + np.float32(0.01), seen_host[:8, :8].copy()]
    print(gradcheck(compare, (8, 8), small, [np.zeros(1, np.float32)]), flush=True)
    forward = dk.launch(compare, (n, n), inputs=[view, seen], outputs=[loss], record_cmd=True)
    backward = forward.adjoint()
    optimizer, history = dk.optim.Adam([view], lr=0.01), []
    for step in trange(options.steps, desc="steps"):
        optimizer.lr = 0.01 * (1.0 - step / options.steps)
        history.append(view.numpy().copy())
        loss.zero_()
        forward.launch()
        view.grad.zero_()
        loss.grad.fill_(1.0)
        backward.launch()
        optimizer.step([view.grad])
    found = view.numpy()
    draw(options.out, seen_host, pictures([np.float32(GUESS), found], n), np.array(history))
    for name, true, guess, value in zip(NAMES, TRUE, GUESS, found, strict=True):
        print(f"{name:10} {true:6.3f}, guessed {guess:6.3f}, found {value:7.4f}")
    worst = float(np.abs(found - np.float32(TRUE)).max())
    print(f"{n} x {n} pixels, {options.steps} steps: at most {worst:.1e} off; figure: {options.out}")
    return worst


if __name__ == "__main__":
    main()
