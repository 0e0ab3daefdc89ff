"""The Gaussian mixture of ``benchmarks/adbench`` for the eval's inputs and outputs."""

from __future__ import annotations

import numpy as np

from benchmarks.outside.gradbench.forms import form, real
from benchmarks.outside.gradbench.protocol import Given, Program


def _case(given: Given):
    mixture = form("gmm")
    if (given["m"], given["gamma"]) != (mixture.DEGREES, mixture.GAMMA):
        raise ValueError(f"the prior is that of m = {mixture.DEGREES}, gamma = {mixture.GAMMA}")
    factors = np.concatenate([real(given["q"]), real(given["l"]).reshape(given["k"], -1)], axis=1)
    inputs = {
        "weights": real(given["alpha"]),
        "means": real(given["mu"]),
        "factors": factors,
        "points": real(given["x"]),
    }
    return mixture.case(inputs, sign=-1.0)


def objective(given: Given) -> Program:
    """The logarithm of the posterior density."""
    case = _case(given)
    case.derivative()
    return Program(case.forward, lambda: float(case.results()["value"][0]))


def jacobian(given: Given) -> Program:
    """Its gradient."""
    case = _case(given)
    size = given["d"]

    def output() -> Given:
        found = case.results()
        factors = found["factors"]
        return {
            "alpha": (found["weights"]).tolist(),
            "mu": (found["means"]).tolist(),
            "q": (factors[:, :size]).tolist(),
            "l": (factors[:, size:]).tolist(),
        }

    return Program(case.derivative, output)


FUNCTIONS = {"objective": objective, "jacobian": jacobian}
