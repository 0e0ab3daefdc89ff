"""A photograph made of coloured spots: Gaussian splatting in two dimensions.

The input is the photograph of Grace Hopper that comes with matplotlib. The output is positions, shapes and colours of
spots whose sum looks like it, found with Adam, and a figure. A thread renders one pixel: a hash grid finds the nearby
spots and is rebuilt after each step. Spots are added, not sorted (GaussianImage: Zhang et al., ECCV 2024).
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure
from matplotlib.image import imread
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

Colours = dk.array(dtype=dk.vec3)


@dk.kernel
def render(
    grid: dk.uint64, reach: float, place: Colours, shape: Colours, colour: Colours,
    photo: dk.array2d(dtype=dk.vec3), picture: dk.array2d(dtype=dk.vec3), loss: dk.array(dtype=float),
):  # fmt: skip
    """One pixel. `shape` holds the triangular root of a spot's precision, in pixels."""
    i, j = dk.tid()
    here = dk.vec3(float(j), float(i), 0.0)
    seen = dk.vec3(0.0, 0.0, 0.0)
    for k in dk.hash_grid_query(grid, here, reach):
        off, root = here - place[k], shape[k]
        a, b = root[0] * off[0] + root[1] * off[1], root[2] * off[1]
        seen += dk.exp(-0.5 * (a * a + b * b)) * colour[k]
    picture[i, j] = seen
    error = seen - photo[i, j]
    loss[0] += dk.dot(error, error) / float(3 * photo.shape[0] * photo.shape[1])


class Spots:
    """Spots of different sizes at random places, in the colours that the photograph has there."""

    def __init__(self, photo: np.ndarray, count: int) -> None:
        self.photo, (height, width, _) = dk.array(photo, dtype=dk.vec3), photo.shape
        rng = np.random.default_rng(0)
        x, y = rng.uniform(0, width - 1, count), rng.uniform(0, height - 1, count)
        self.size = np.sqrt(height * width / count)  # pixels between neighbours
        root = np.stack([np.ones(count), np.zeros(count), np.ones(count)], axis=1) / (0.7 * self.size)
        starts = (np.stack([x, y, 0 * x], axis=1), root, 0.3 * photo[y.round().astype(int), x.round().astype(int)])
        self.numbers = [dk.array(np.float32(s), dtype=dk.vec3, requires_grad=True) for s in starts]
        # A step moves places by a tenth of a pixel, and the others by a hundredth of what they are.
        rates = (0.1, 0.02 / self.size, 0.01)
        self.optimizers = [dk.optim.Adam([a], lr=lr) for a, lr in zip(self.numbers, rates, strict=True)]
        self.picture, self.loss = dk.zeros_like(self.photo), dk.zeros(1, requires_grad=True)
        self.grid, self.reach = dk.HashGrid(64, 64, 1), float(4.0 * self.size)

    def render(self) -> float:
        place, shape, colour = self.numbers
        self.grid.build(place, self.reach)
        self.loss.zero_()
        inputs = [self.grid.id, self.reach, place, shape, colour, self.photo]
        dk.launch(render, self.photo.shape, inputs=inputs, outputs=[self.picture, self.loss])
        return float(self.loss)

    def improve(self) -> float:
        with dk.Tape() as tape:
            found = self.render()
        tape.backward(self.loss)
        for optimizer, numbers in zip(self.optimizers, self.numbers, strict=True):
            optimizer.step([numbers.grad])
        tape.zero()
        shape = self.numbers[1].numpy()
        least = 3.0 / self.reach  # no spot is seen beyond the reach
        shape[:, [0, 2]] = np.maximum(shape[:, [0, 2]], least)
        shape[:, 1] = np.clip(shape[:, 1], -2 * least, 2 * least)
        return found


def decibels(loss: float) -> float:
    return float(-10.0 * np.log10(loss))


def draw(path: str, photo: np.ndarray, shown: list[tuple[str, np.ndarray]], history: list[float]) -> None:
    fig = Figure(figsize=(3.2 * (len(shown) + 2), 3.9), layout="constrained")
    *axes, plot = fig.subplots(1, len(shown) + 2)
    for ax, (title, picture) in zip(axes, [("photograph", photo), *shown], strict=True):
        ax.imshow(picture.clip(0.0, 1.0))
        ax.set(title=title, xticks=[], yticks=[])
    plot.plot([decibels(loss) for loss in history])
    plot.set(title="signal to noise, decibels", xlabel="steps")
    fig.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Fit and draw; returns the signal-to-noise ratio at the first and the last step, in decibels."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--every", type=int, default=2, help="take every so many pixels of the photograph")
    parser.add_argument("--spots", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", default="splats.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        photo = np.float32(imread(file, format="jpg")[:: options.every, :: options.every] / 255.0)
    few = Spots(np.ascontiguousarray(photo[:6, :6]), 5)
    few.grid.build(few.numbers[0], few.reach)
    given = [few.grid.id, few.reach, *few.numbers, few.photo]
    print(gradcheck(render, (6, 6), given, [dk.zeros((6, 6), dtype=dk.vec3), dk.zeros(1)]), flush=True)
    spots, history, shown = Spots(photo, options.spots), [], []
    for k in trange(options.steps, desc="steps"):
        history.append(spots.improve())
        if k in (0, options.steps // 8):
            shown.append((f"{k} steps", spots.picture.numpy().copy()))
    history.append(spots.render())
    shown.append((f"{options.steps} steps", spots.picture.numpy()))
    draw(options.out, photo, shown, history)
    first, last = decibels(history[0]), decibels(history[-1])
    pixels = f"{photo.shape[1]} x {photo.shape[0]} pixels"
    print(f"{pixels}, {options.spots} spots: {first:.1f} -> {last:.1f} decibels; figure: {options.out}")
    return first, last


if __name__ == "__main__":
    main()
