"""The hand of ``benchmarks/adbench`` for the eval's inputs and outputs."""

from __future__ import annotations

import numpy as np

from benchmarks.outside.gradbench.forms import form, real
from benchmarks.outside.gradbench.protocol import Given, Program


def _case(given: Given):
    data, hand = given["data"], form("hand")
    model, weights = data["model"], real(data["model"]["weights"])
    belongs = np.array(data["correspondences"], dtype=np.int32)
    nearest = np.argsort(-weights, axis=1, kind="stable")[:, : hand.NEAREST]
    if np.count_nonzero(weights, axis=1).max() > hand.NEAREST:
        raise ValueError(f"a vertex is moved by more than {hand.NEAREST} bones")
    inputs = {
        "rest": real(model["base_relatives"]),
        "inverse": real(model["inverse_base_absolutes"]),
        "vertices": real(model["base_positions"]),
        "bones": nearest.astype(np.int32),
        "weights": np.take_along_axis(weights, nearest, axis=1),
        "pose": real(given["theta"]),
        "points": real(data["points"]),
        "belongs": np.repeat(belongs[:, None], 3, axis=1),
    }
    if given["us"]:
        inputs["belongs"] = np.array(model["triangles"], dtype=np.int32)[belongs]
        inputs["places"] = real(given["us"])
    return hand.case(inputs)


def objective(given: Given) -> Program:
    """The errors of all points."""
    case = _case(given)
    case.derivative()
    return Program(case.forward, lambda: case.results()["value"].ravel().tolist())


def jacobian(given: Given) -> Program:
    """Their derivatives."""
    case = _case(given)

    def output() -> list[list[float]]:
        rows = case.results()["rows"]
        return rows.reshape(-1, rows.shape[-1]).tolist()

    return Program(case.derivative, output)


FUNCTIONS = {"objective": objective, "jacobian": jacobian}
