"""A small neural network of tile kernels learns handwritten digits.

The input is the 1797 digits of 8 x 8 pixels that come with scikit-learn (Alpaydin and Kaynak, 1998), a quarter of them
kept for testing. The output is the share of test digits that are classified correctly, and a figure of the loss and of
misread digits. A block loads a few digits as a tile and evaluates both layers; the tape's adjoint of that kernel
computes the gradients of the weights for Adam.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import figure
from sklearn.datasets import load_digits
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

PIXELS, HIDDEN, CLASSES = dk.constant(64), dk.constant(64), dk.constant(10)
BATCH = dk.constant(32)  # digits per block
Matrix, Vector = dk.array2d(dtype=float), dk.array1d(dtype=float)


@dk.func
def gelu(x: float):
    """The smooth step of Hendrycks and Gimpel (2016), by its approximation with tanh."""
    return 0.5 * x * (1.0 + dk.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


@dk.func
def logits(x, w1, b1, w2, b2):
    """Both layers, from a tile of digits to a tile with a number per digit and class."""
    hidden = dk.tile_map(gelu, x @ w1 + dk.tile_broadcast(b1, shape=(BATCH, HIDDEN)))
    return hidden @ w2 + dk.tile_broadcast(b2, shape=(BATCH, CLASSES))


@dk.kernel
def cross_entropy(digits: Matrix, wanted: Matrix, w1: Matrix, b1: Vector, w2: Matrix, b2: Vector, loss: Vector):
    """The mean over all digits of -log of the probability of the right class."""
    i = dk.tid()
    x = dk.tile_load(digits, shape=(BATCH, PIXELS), offset=(i * BATCH, 0), storage="shared")
    right = dk.tile_load(wanted, shape=(BATCH, CLASSES), offset=(i * BATCH, 0))
    first = dk.tile_load(w1, shape=(PIXELS, HIDDEN), storage="shared")
    second = dk.tile_load(w2, shape=(HIDDEN, CLASSES), storage="shared")
    z = logits(x, first, dk.tile_load(b1, shape=HIDDEN), second, dk.tile_load(b2, shape=CLASSES))
    greatest = dk.tile_reshape(dk.tile_max(z, axis=1), shape=(BATCH, 1))
    z = z - dk.tile_broadcast(greatest, shape=(BATCH, CLASSES))
    norm = dk.tile_map(dk.log, dk.tile_sum(dk.tile_map(dk.exp, z), axis=1))
    log_p = z - dk.tile_broadcast(dk.tile_reshape(norm, shape=(BATCH, 1)), shape=(BATCH, CLASSES))
    dk.tile_atomic_add(loss, dk.tile_sum(right * log_p) * (-1.0 / float(digits.shape[0])))


@dk.kernel(enable_backward=False)
def classify(digits: Matrix, w1: Matrix, b1: Vector, w2: Matrix, b2: Vector, scores: Matrix):
    i = dk.tid()
    x = dk.tile_load(digits, shape=(BATCH, PIXELS), offset=(i * BATCH, 0))
    first, second = dk.tile_load(w1, shape=(PIXELS, HIDDEN)), dk.tile_load(w2, shape=(HIDDEN, CLASSES))
    z = logits(x, first, dk.tile_load(b1, shape=HIDDEN), second, dk.tile_load(b2, shape=CLASSES))
    dk.tile_store(scores, z, offset=(i * BATCH, 0))


def blocks(digits: dk.array) -> int:
    """Tiles that cover all digits; the last one may reach beyond."""
    return -(-digits.shape[0] // int(BATCH))


def split() -> tuple[np.ndarray, ...]:
    """Pixels from 0 to 1 and classes: for training, then for the test."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    pixels, classes = (data.data[order] / 16.0).astype(np.float32), data.target[order]
    kept = len(order) // 4
    return pixels[kept:], classes[kept:], pixels[:kept], classes[:kept]


def initial() -> list[dk.array]:
    """Weights and biases of both layers."""
    rng = np.random.default_rng(0)
    first = rng.normal(0.0, np.sqrt(2.0 / PIXELS), (PIXELS, HIDDEN))
    second = rng.normal(0.0, np.sqrt(2.0 / HIDDEN), (HIDDEN, CLASSES))
    values = (first, np.zeros(HIDDEN), second, np.zeros(CLASSES))
    return [dk.array(v.astype(np.float32), requires_grad=True) for v in values]


def train(pixels: np.ndarray, classes: np.ndarray, weights: list[dk.array], epochs: int, batch: int) -> list[float]:
    """Stochastic gradient descent with Adam; returns the loss of each batch."""
    rng, losses, optimizer = np.random.default_rng(0), [], dk.optim.Adam(weights, lr=0.004)
    one_hot = np.eye(CLASSES, dtype=np.float32)[classes]
    for _ in trange(epochs, desc="training", unit="epoch"):
        order = rng.permutation(len(pixels))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            digits, wanted = dk.array(pixels[chosen]), dk.array(one_hot[chosen])
            inputs, loss = [digits, wanted, *weights], dk.zeros(1, dtype=float, requires_grad=True)
            with dk.Tape() as tape:
                dk.launch_tiled(cross_entropy, dim=[blocks(digits)], inputs=inputs, outputs=[loss], block_dim=64)
            tape.backward(loss)
            optimizer.step([w.grad for w in weights])
            tape.zero()
            losses.append(float(loss))
    return losses


def read(pixels: np.ndarray, weights: list[dk.array]) -> np.ndarray:
    """The class of each digit."""
    digits, scores = dk.array(pixels), dk.zeros((len(pixels), int(CLASSES)), dtype=float)
    dk.launch_tiled(classify, dim=[blocks(digits)], inputs=[digits, *weights], outputs=[scores], block_dim=64)
    return scores.numpy().argmax(axis=1)


def draw(losses: list[float], pixels: np.ndarray, classes: np.ndarray, found: np.ndarray, file: str) -> None:
    """The loss, and the digits of the test that were misread."""
    fig = figure.Figure(figsize=(9.0, 4.0), layout="constrained")
    curve, grid = fig.subfigures(1, 2, width_ratios=(1.2, 1.0))
    curve.subplots(subplot_kw={"xlabel": "step", "ylabel": "cross entropy", "yscale": "log"}).plot(losses, lw=0.8)
    wrong = np.flatnonzero(found != classes)[:12]
    for k, ax in enumerate(grid.subplots(3, 4).flat):
        ax.axis("off")
        if k < len(wrong):
            ax.imshow(pixels[wrong[k]].reshape(8, 8), cmap="gray_r")
            ax.set_title(f"{classes[wrong[k]]} read as {found[wrong[k]]}", fontsize=8)
    fig.savefig(file, dpi=150)


def main(arguments: list[str] | None = None) -> float:
    """Train, test and draw; returns the share of test digits that are read right."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", default="digits.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    pixels, classes, test_pixels, test_classes = split()
    weights, start = initial(), time.perf_counter()
    few = [pixels[:3], np.eye(CLASSES, dtype=np.float32)[classes[:3]], *weights]
    print(gradcheck(cross_entropy, 1, few, [dk.zeros(1)], max_elements=20, block_dim=64), flush=True)
    losses = train(pixels, classes, weights, options.epochs, options.batch)
    found = read(test_pixels, weights)
    accuracy = float(np.mean(found == test_classes))
    draw(losses, test_pixels, test_classes, found, options.out)
    print(f"{len(losses)} steps: loss {losses[0]:.2f} -> {losses[-1]:.4f} in {time.perf_counter() - start:.1f} s")
    print(f"{accuracy:.1%} of {len(found)} test digits read right; figure: {options.out}")
    return accuracy


if __name__ == "__main__":
    main()
