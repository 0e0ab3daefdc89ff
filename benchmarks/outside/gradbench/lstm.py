"""The LSTM of ``benchmarks/adbench`` for the eval's inputs and outputs."""

from __future__ import annotations

import numpy as np

from benchmarks.outside.gradbench.forms import form, real
from benchmarks.outside.gradbench.protocol import Given, Program


def _case(given: Given):
    network, text = form("lstm"), real(given["sequence"])
    network.BITS = text.shape[1]
    return network.case(
        {
            "gates": real(given["main_params"]).reshape(-1, 4, text.shape[1]),
            "ends": real(given["extra_params"]),
            "state": real(given["state"]),
            "text": text,
        }
    )


def objective(given: Given) -> Program:
    """The loss."""
    case = _case(given)
    case.derivative()
    return Program(case.forward, lambda: float(case.results()["value"][0]))


def jacobian(given: Given) -> Program:
    """Its gradient by all weights and biases."""
    case = _case(given)

    def output() -> list[float]:
        found = case.results()
        return np.concatenate([found["gates"].ravel(), found["ends"].ravel()]).tolist()

    return Program(case.derivative, output)


FUNCTIONS = {"objective": objective, "jacobian": jacobian}
