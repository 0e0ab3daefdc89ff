"""The suite's LSTM, whose weight matrices are diagonal: the loss of predicting a text bit by bit, and its gradient.

In: for each layer and each of four gates a weight and a bias for every bit, weights and biases of input and output, the
state before the text, and the text as rows of bits. Out: the mean loss of a bit, and its gradient with respect to all
weights and biases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case, Data

import diffkern as dk

REAL = dk.float64
BITS = 14


def data(layers: int, characters: int, seed: int = 0) -> Data:
    """Inputs of the suite's form, with uniform parameters and states, and a text of random characters."""
    rng = np.random.default_rng(seed)
    text = rng.integers(32, 1 << BITS, characters)
    return {
        "gates": rng.random((2 * layers, 4, BITS)),
        "ends": rng.random((3, BITS)),
        "state": rng.random((2 * layers, BITS)),
        "text": ((text[:, None] >> np.arange(BITS)) & 1).astype(np.float64),
    }


@dk.func
def sigmoid(x: REAL):
    """The logistic function."""
    return 1.0 / (1.0 + dk.exp(-x))


def network(layers: int) -> Any:
    """The kernel of a number of layers: a thread follows a bit through the text."""

    @dk.kernel
    def predict(
        gates: dk.array3d[REAL],
        ends: dk.array2d[REAL],
        state: dk.array2d[REAL],
        text: dk.array2d[REAL],
        predicted: dk.array2d[REAL],
    ):
        j = dk.tid()
        hidden = dk.zeros(layers, dtype=REAL)
        cell = dk.zeros(layers, dtype=REAL)
        for k in range(layers):
            hidden[k] = state[2 * k, j]
            cell[k] = state[2 * k + 1, j]
        for t in range(predicted.shape[0]):
            x = text[t, j] * ends[0, j]
            for k in range(layers):
                forget = sigmoid(x * gates[2 * k, 0, j] + gates[2 * k + 1, 0, j])
                enter = sigmoid(hidden[k] * gates[2 * k, 1, j] + gates[2 * k + 1, 1, j])
                leave = sigmoid(x * gates[2 * k, 2, j] + gates[2 * k + 1, 2, j])
                change = dk.tanh(hidden[k] * gates[2 * k, 3, j] + gates[2 * k + 1, 3, j])
                cell[k] = cell[k] * forget + enter * change
                hidden[k] = leave * dk.tanh(cell[k])
                x = hidden[k]
            predicted[t, j] = x * ends[1, j] + ends[2, j]

    return predict


@dk.kernel
def mismatch(predicted: dk.array2d[REAL], text: dk.array2d[REAL], loss: dk.array[REAL]):
    """The loss of a character's bits."""
    t = dk.tid()
    bits = predicted.shape[1]
    total = REAL(2.0)
    for j in range(bits):
        total += dk.exp(predicted[t, j])
    level = dk.log(total)
    part = REAL(0.0)
    for j in range(bits):
        part += text[t + 1, j] * (predicted[t, j] - level)
    dk.atomic_add(loss, 0, -part / (predicted.shape[0] * bits))


def case(given: Data) -> Case:
    """The kernels on given data."""
    gates, ends = (dk.array(given[name], dtype=REAL, requires_grad=True) for name in ("gates", "ends"))
    state, text = (dk.array(given[name], dtype=REAL) for name in ("state", "text"))
    predicted = dk.zeros((len(given["text"]) - 1, BITS), dtype=REAL, requires_grad=True)
    loss = dk.zeros(1, dtype=REAL, requires_grad=True)
    predict = network(len(given["state"]) // 2)
    with dk.record() as forward:
        loss.zero_()
        dk.launch(predict, BITS, [gates, ends, state, text], [predicted])
        dk.launch(mismatch, predicted.shape[0], [predicted, text], [loss])
    both = forward.adjoint(loss)

    def results() -> dict[str, Any]:
        return {"value": loss.numpy(), "gates": gates.grad.numpy(), "ends": ends.grad.numpy()}

    return Case("diffkern", forward.replay, both.replay, results)
