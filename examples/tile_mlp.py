"""A small neural network of tile kernels learns handwritten digits.

In: the 1797 digits of 8 x 8 pixels that come with scikit-learn (Alpaydin and Kaynak, 1998), a quarter of them kept for
the test. Out: the share of test digits that are read right, and a figure of the loss and of digits that are misread.
A block reads a few digits as a tile and takes them through both layers; the tape's adjoint of that kernel gives the
gradients of the weights, and a second kernel takes the step of Adam (Kingma and Ba, 2015).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import figure
from sklearn.datasets import load_digits
from tqdm import trange

import diffkern as dk

PIXELS, HIDDEN, CLASSES = dk.constant(64), dk.constant(64), dk.constant(10)
BATCH = dk.constant(32)  # digits per block
DECAY_MEAN, DECAY_SQUARE, TINY = 0.9, 0.999, 1.0e-8
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


@dk.kernel(enable_backward=False)
def adam(gradient: Vector, mean: Vector, square: Vector, weight: Vector, rate: float, mean_left: float,
         square_left: float):  # fmt: skip
    """A step against the gradient, which is set to zero; ``*_left`` is what the averages' start still weighs."""
    i = dk.tid()
    g = gradient[i]
    mean[i] = DECAY_MEAN * mean[i] + (1.0 - DECAY_MEAN) * g
    square[i] = DECAY_SQUARE * square[i] + (1.0 - DECAY_SQUARE) * g * g
    step = (mean[i] / (1.0 - mean_left)) / (dk.sqrt(square[i] / (1.0 - square_left)) + TINY)
    weight[i] = weight[i] - rate * step
    gradient[i] = 0.0


def blocks(digits: dk.array) -> int:
    """Tiles that cover all digits; the last one may reach beyond."""
    return -(-digits.shape[0] // int(BATCH))


def split(seed: int) -> tuple[np.ndarray, ...]:
    """Pixels from 0 to 1 and classes: for training, then for the test."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    pixels, classes = (data.data[order] / 16.0).astype(np.float32), data.target[order]
    kept = len(order) // 4
    return pixels[kept:], classes[kept:], pixels[:kept], classes[:kept]


def initial(seed: int) -> list[dk.array]:
    """Weights and biases of both layers."""
    rng = np.random.default_rng(seed)
    first = rng.normal(0.0, np.sqrt(2.0 / PIXELS), (PIXELS, HIDDEN))
    second = rng.normal(0.0, np.sqrt(2.0 / HIDDEN), (HIDDEN, CLASSES))
    values = (first, np.zeros(HIDDEN), second, np.zeros(CLASSES))
    return [dk.array(v.astype(np.float32), requires_grad=True) for v in values]


def train(pixels: np.ndarray, classes: np.ndarray, weights: list[dk.array], epochs: int, batch: int, rate: float,
          seed: int) -> list[float]:  # fmt: skip
    """Stochastic gradient descent; returns the loss of each batch."""
    rng, losses, steps = np.random.default_rng(seed), [], 0
    averages = [(dk.zeros(w.size, dtype=float), dk.zeros(w.size, dtype=float)) for w in weights]
    one_hot = np.eye(CLASSES, dtype=np.float32)[classes]
    progress = trange(epochs, desc="training", unit="epoch")
    for _ in progress:
        order = rng.permutation(len(pixels))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            digits, wanted = dk.array(pixels[chosen]), dk.array(one_hot[chosen])
            loss = dk.zeros(1, dtype=float, requires_grad=True)
            with dk.Tape() as tape:
                inputs = [digits, wanted, *weights]
                dk.launch_tiled(cross_entropy, dim=[blocks(digits)], inputs=inputs, outputs=[loss], block_dim=64)
            tape.backward(loss)
            steps += 1
            for w, (mean, square) in zip(weights, averages, strict=True):
                flat, gradient = w.flatten(), w.grad.flatten()
                left = (DECAY_MEAN**steps, DECAY_SQUARE**steps)
                dk.launch(adam, dim=w.size, inputs=[gradient, mean, square, flat, rate, *left])
            losses.append(float(loss.numpy()[0]))
        progress.set_postfix(loss=f"{np.mean(losses[-len(order) // batch :]):.4f}")
    return losses


def read(pixels: np.ndarray, weights: list[dk.array]) -> np.ndarray:
    """The class of each digit."""
    digits = dk.array(pixels)
    scores = dk.zeros((len(pixels), int(CLASSES)), dtype=float)
    dk.launch_tiled(classify, dim=[blocks(digits)], inputs=[digits, *weights], outputs=[scores], block_dim=64)
    return scores.numpy().argmax(axis=1)


def draw(losses: list[float], pixels: np.ndarray, classes: np.ndarray, found: np.ndarray, file: str) -> None:
    """The loss, and the digits of the test that were misread."""
    fig = figure.Figure(figsize=(9.0, 4.0), layout="constrained")
    curve, grid = fig.subfigures(1, 2, width_ratios=(1.2, 1.0))
    axes = curve.subplots()
    axes.semilogy(losses, lw=0.8)
    axes.set(xlabel="step", ylabel="cross entropy")
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
    parser.add_argument("--rate", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="digits.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    pixels, classes, test_pixels, test_classes = split(options.seed)
    weights = initial(options.seed)
    start = time.perf_counter()
    losses = train(pixels, classes, weights, options.epochs, options.batch, options.rate, options.seed)
    seconds = time.perf_counter() - start
    found = read(test_pixels, weights)
    accuracy = float(np.mean(found == test_classes))
    draw(losses, test_pixels, test_classes, found, options.out)
    print(f"{len(losses)} steps in {seconds:.1f} s; {accuracy:.1%} of {len(found)} test digits read right")
    print(f"figure: {options.out}")
    return accuracy


if __name__ == "__main__":
    main()
