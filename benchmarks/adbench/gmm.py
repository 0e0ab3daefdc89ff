"""A Gaussian mixture with a Wishart prior: the logarithm of its posterior density, and its gradient.

In: for each component a weight, a mean, and a triangular factor of its inverse covariance, of which the logarithms of
the diagonal come first and then the columns below it; points. Out: the value, and its gradient with respect to weights,
means and factors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import Case, Data

import diffkern as dk

REAL = dk.float64
GAMMA, DEGREES = 1.0, 0


def data(size: int, components: int, points: int, seed: int = 0) -> Data:
    """Inputs drawn as the suite's generator draws them: means are uniform, the rest is normal."""
    rng = np.random.default_rng(seed)
    return {
        "weights": rng.normal(size=components),
        "means": rng.uniform(size=(components, size)),
        "factors": rng.normal(size=(components, size + size * (size - 1) // 2)),
        "points": rng.normal(size=(points, size)),
    }


def constant(size: int, components: int, points: int, sign: float = 1.0) -> float:
    """The part of the value that depends on nothing but sizes."""
    n = size + DEGREES + 1
    gammas = sum(math.lgamma(0.5 * (n - j)) for j in range(size)) + 0.25 * size * (size - 1) * math.log(math.pi)
    prior = n * size * math.log(GAMMA / math.sqrt(2.0)) - gammas
    return -0.5 * points * size * math.log(2.0 * math.pi) - sign * components * prior


@dk.kernel
def prepare(
    factors: dk.array2d[REAL], sign: REAL, diagonal: dk.array2d[REAL], volume: dk.array[REAL], value: dk.array[REAL]
):
    """The diagonal of a component's factor, the logarithm of its determinant, and the component's prior."""
    k = dk.tid()
    size = diagonal.shape[1]
    total, squares = REAL(0.0), REAL(0.0)
    for i in range(size):
        entry = dk.exp(factors[k, i])
        diagonal[k, i] = entry
        total += factors[k, i]
        squares += entry * entry
    for i in range(size, factors.shape[1]):
        squares += factors[k, i] * factors[k, i]
    volume[k] = total
    dk.atomic_add(value, 0, sign * (0.5 * GAMMA * GAMMA * squares - DEGREES * total))


def densities(size: int) -> Any:
    """The kernel for points of so many numbers: a thread is a component and a point."""

    @dk.kernel
    def density(
        weights: dk.array[REAL],
        means: dk.array2d[REAL],
        factors: dk.array2d[REAL],
        diagonal: dk.array2d[REAL],
        volume: dk.array[REAL],
        points: dk.array2d[REAL],
        term: dk.array2d[REAL],
    ):
        k, n = dk.tid()
        away = dk.zeros(size, dtype=REAL)
        for i in range(size):
            away[i] = points[n, i] - means[k, i]
        distance = REAL(0.0)
        for i in range(size):
            y = diagonal[k, i] * away[i]
            for j in range(i):
                y += factors[k, size + j * (2 * size - j - 1) // 2 + i - j - 1] * away[j]
            distance += y * y
        term[k, n] = weights[k] + volume[k] - 0.5 * distance

    return density


@dk.kernel
def mixture(term: dk.array2d[REAL], value: dk.array[REAL]):
    """The logarithm of a point's density, from those of the components."""
    n = dk.tid()
    top = term[0, n]
    for k in range(1, term.shape[0]):
        top = dk.max(top, term[k, n])
    total = REAL(0.0)
    for k in range(term.shape[0]):
        total += dk.exp(term[k, n] - top)
    dk.atomic_add(value, 0, top + dk.log(total))


@dk.kernel
def normalise(weights: dk.array[REAL], points: int, constant: REAL, value: dk.array[REAL]):
    """What makes the weights of all points add up to 1, and the constants."""
    total = REAL(0.0)
    for k in range(len(weights)):
        total += dk.exp(weights[k])
    dk.atomic_add(value, 0, constant - points * dk.log(total))


def case(given: Data, sign: float = 1.0) -> Case:
    """The kernels on given data.

    ADBench subtracts the logarithm of the prior; ``sign = -1`` adds it, which makes the value that of the posterior.
    """
    weights, means, factors = (
        dk.array(given[name], dtype=REAL, requires_grad=True) for name in ("weights", "means", "factors")
    )
    points = dk.array(given["points"], dtype=REAL)
    (components, size), count = given["means"].shape, len(given["points"])
    diagonal = dk.zeros((components, size), dtype=REAL, requires_grad=True)
    volume = dk.zeros(components, dtype=REAL, requires_grad=True)
    term = dk.zeros((components, count), dtype=REAL, requires_grad=True)
    value = dk.zeros(1, dtype=REAL, requires_grad=True)
    density = densities(size)
    with dk.record() as forward:
        value.zero_()
        dk.launch(prepare, components, [factors, sign], [diagonal, volume, value])
        dk.launch(density, (components, count), [weights, means, factors, diagonal, volume, points], [term])
        dk.launch(mixture, count, [term], [value])
        dk.launch(normalise, 1, [weights, count, constant(size, components, count, sign)], [value])
    both = forward.adjoint(value)

    def results() -> dict[str, Any]:
        return {
            "value": value.numpy(),
            "weights": weights.grad.numpy(),
            "means": means.grad.numpy(),
            "factors": factors.grad.numpy(),
        }

    return Case("diffkern", forward.replay, both.replay, results)
