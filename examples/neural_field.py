"""A photograph in the weights of a small network: a neural field with tables of features.

The input is the photograph of a flower that comes with scikit-learn. The output is a function from position to colour,
trained on random positions with Adam, and a figure; the function has fewer parameters than the photograph has numbers.
A position looks up features in grids from coarse to fine, interpolated between four corners that are hashed into a
table (Müller et al., ACM Trans. Graphics 41, 2022), and a network of three layers maps them to a colour. A thread
evaluates one position.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

LEVELS, COARSEST, GROWTH, WIDTH = dk.constant(8), 8.0, 1.6, dk.constant(16)
Tables, Layers, Photo = dk.array2d(dtype=dk.vec2), dk.array3d(dtype=float), dk.array2d(dtype=dk.vec3)


@dk.func
def corner(tables: Tables, level: int, i: int, j: int):
    """The features of a corner; corners of fine grids share them."""
    hashed = (dk.uint32(i) * dk.uint32(2654435761)) ^ (dk.uint32(j) * dk.uint32(805459861))
    return tables[level, int(hashed % dk.uint32(tables.shape[1]))]


@dk.func
def colour(tables: Tables, layers: Layers, u: float, v: float):
    """The field itself: features, two layers that cut off below zero, and one that makes a colour."""
    x, y, cells = dk.zeros(shape=WIDTH, dtype=float), dk.zeros(shape=WIDTH, dtype=float), COARSEST
    for level in range(LEVELS):
        i, j = int(u * cells), int(v * cells)
        a, b = u * cells - float(i), v * cells - float(j)
        upper = (1.0 - b) * corner(tables, level, i, j) + b * corner(tables, level, i, j + 1)
        lower = (1.0 - b) * corner(tables, level, i + 1, j) + b * corner(tables, level, i + 1, j + 1)
        found = (1.0 - a) * upper + a * lower
        x[2 * level], x[2 * level + 1] = found[0], found[1]
        cells *= GROWTH
    for layer in range(3):
        for r in range(WIDTH):
            total = 0.0
            for c in range(WIDTH):
                total += layers[layer, r, c] * x[c]
            y[r] = total
        for r in range(WIDTH):
            x[r] = dk.max(y[r], 0.0)
    return dk.vec3(y[0] + 0.5, y[1] + 0.5, y[2] + 0.5)


@dk.kernel
def train(tables: Tables, layers: Layers, photo: Photo, seed: int, places: int, loss: dk.array(dtype=float)):
    """The squared difference at one random place."""
    state = dk.rand_init(seed, dk.tid())
    i, j = dk.randi(state, 0, photo.shape[0]), dk.randi(state, 0, photo.shape[1])
    n = float(photo.shape[1])
    off = colour(tables, layers, (float(i) + 0.5) / n, (float(j) + 0.5) / n) - photo[i, j]
    loss[0] += dk.dot(off, off) / float(3 * places)


@dk.kernel(enable_backward=False)
def render(tables: Tables, layers: Layers, picture: Photo):
    i, j = dk.tid()
    n = float(picture.shape[1])
    picture[i, j] = colour(tables, layers, (float(i) + 0.5) / n, (float(j) + 0.5) / n)


class Field:
    """The tables and the layers, and their optimiser."""

    def __init__(self, entries: int) -> None:
        rng = np.random.default_rng(0)
        tables = np.float32(rng.uniform(-1e-2, 1e-2, (int(LEVELS), entries, 2)))
        layers = np.float32(rng.normal(0.0, np.sqrt(2.0 / WIDTH), (3, int(WIDTH), int(WIDTH))))
        self.weights = [dk.array(tables, dtype=dk.vec2, requires_grad=True), dk.array(layers, requires_grad=True)]
        self.optimizer, self.loss = dk.optim.Adam(self.weights, lr=0.01), dk.zeros(1, requires_grad=True)

    def improve(self, photo: dk.array, seed: int, places: int) -> float:
        self.loss.zero_()
        with dk.Tape() as tape:
            dk.launch(train, places, inputs=[*self.weights, photo, seed, places], outputs=[self.loss])
        tape.backward(self.loss)
        self.optimizer.step([w.grad for w in self.weights])
        tape.zero()
        return float(self.loss)

    def render(self, height: int, width: int) -> np.ndarray:
        picture = dk.zeros((height, width), dtype=dk.vec3)
        dk.launch(render, (height, width), inputs=self.weights, outputs=[picture])
        return picture.numpy().clip(0.0, 1.0)


def decibels(picture: np.ndarray, photo: np.ndarray) -> float:
    return float(-10.0 * np.log10(((picture - photo) ** 2).mean()))


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Train and draw; returns the signal-to-noise ratio at first and in the end, in decibels."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--every", type=int, default=2, help="take every so many pixels of the photograph")
    parser.add_argument("--entries", type=int, default=2048, help="of the table of each grid")
    parser.add_argument("--places", type=int, default=8192, help="in a step")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="neural_field.png", help="where the figure goes")
    options, began = parser.parse_args(arguments), time.perf_counter()
    photo = np.float32(load_sample_image("flower.jpg")[:: options.every, :: options.every] / 255.0)
    few, given = Field(16), dk.array(photo, dtype=dk.vec3)
    print(gradcheck(train, 5, [*few.weights, given, 3, 5], [few.loss]), flush=True)
    field, history, shown = Field(options.entries), [], []
    for k in trange(options.steps, desc="steps"):
        if k in (0, options.steps // 20):
            shown.append((f"{k} steps", field.render(*photo.shape[:2])))
        field.optimizer.lr = 0.01 * (1.0 - k / options.steps)
        history.append(field.improve(given, k, options.places))
    shown.append((f"{options.steps} steps", field.render(*photo.shape[:2])))
    fig = Figure(figsize=(14.0, 2.6), layout="constrained")
    *axes, plot = fig.subplots(1, 5)
    for ax, (title, picture) in zip(axes, [("photograph", photo), *shown], strict=True):
        ax.imshow(picture)
        ax.set(title=title, xticks=[], yticks=[])
    plot.plot(-10.0 * np.log10(history))
    plot.set(title="signal to noise, decibels", xlabel="steps")
    fig.savefig(options.out, dpi=110)
    first, last = (decibels(shown[k][1], photo) for k in (0, -1))
    count = sum(w.numpy().size for w in field.weights)
    print(f"{photo.size} numbers of the photograph in {count}: {first:.1f} -> {last:.1f} decibels ", end="")
    print(f"in {time.perf_counter() - began:.1f} s; figure: {options.out}")
    return first, last


if __name__ == "__main__":
    main()
