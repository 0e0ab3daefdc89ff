"""The bundle adjustment of ``benchmarks/adbench`` for the eval's inputs, and its Jacobian as compressed rows."""

from __future__ import annotations

import numpy as np

from benchmarks.outside.gradbench.forms import form, real
from benchmarks.outside.gradbench.protocol import Given, Program


def _case(given: Given):
    count, turn = given["p"], np.arange(given["p"])
    return form("bundle").case(
        {
            "cameras": np.tile(real(given["cam"]), (given["n"], 1)),
            "points": np.tile(real(given["x"]), (given["m"], 1)),
            "weights": np.full(count, given["w"]),
            "features": np.tile(real(given["feat"]), (count, 1)),
            "seen": np.stack([turn % given["n"], turn % given["m"]], axis=1).astype(np.int32),
        }
    )


def objective(given: Given) -> Program:
    """The errors, of which the eval wants the first ones and their number."""
    case = _case(given)
    case.forward()
    case.derivative()

    def output() -> Given:
        errors, weights = (np.asarray(each) for each in list(case.results().values())[:2])
        return {
            "reproj_error": {"elements": errors.ravel()[:2].tolist(), "repeated": len(errors)},
            "w_err": {"element": float(weights[0]), "repeated": len(weights)},
        }

    return Program(case.forward, output)


def jacobian(given: Given) -> Program:
    """The sparse Jacobian, of which the eval wants the first 30 numbers and the last one."""
    case = _case(given)
    return Program(case.derivative, lambda: _compressed(given, case.results()))


def _compressed(given: Given, found: Given) -> Given:
    """Return the beginning and the end of its rows, columns and values."""
    n, m, p = (given[name] for name in "nmp")
    blocks, last = (np.asarray(each) for each in list(found.values())[-2:])
    per_row = blocks.shape[-1]
    ends = [*range(0, 2 * p * per_row + 1, per_row), *range(2 * p * per_row + 1, 2 * p * per_row + p + 1)]
    columns = []
    for i in range(3):  # which have more than 30 numbers
        own = [*range(11 * (i % n), 11 * (i % n) + 11)]
        own += [*range(11 * n + 3 * (i % m), 11 * n + 3 * (i % m) + 3), 11 * n + 3 * m + i]
        columns += 2 * own
    columns.append(11 * n + 3 * m + p - 1)
    values = np.append(blocks.reshape(-1)[:30], np.asarray(last).ravel()[-1])
    return {
        "rows": [*ends[:30], ends[-1]],
        "cols": [*columns[:30], columns[-1]],
        "vals": [float(value) for value in values],
    }


FUNCTIONS = {"objective": objective, "jacobian": jacobian}
