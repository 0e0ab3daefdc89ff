"""Systems on which linear solvers are compared, and what Warp made of them.

``python tests/support/solver_systems.py`` runs Warp's solvers on them and writes ``solver_table.json``: the number of
iterations, the norm of the residual, the tolerance, and the norms that a callback was told.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_name("solver_table.json")
METHODS = ("cg", "cr", "bicgstab", "gmres")
Numbers = np.ndarray[Any, Any]


def system(kind: str, n: int) -> tuple[Numbers, Numbers]:
    """A matrix and a right-hand side, in double precision."""
    i, j = np.ogrid[:n, :n]
    a = np.exp(-np.abs(i - j) / 3.0) + np.diag(1.0 + 0.2 * np.arange(n))
    if kind == "general":
        a = a + 0.3 * np.sin(1.0 + i + 3.0 * j)
    elif kind == "hilbert":
        a = 1.0 / (i + j + 1.0)
    return a, np.cos(1.0 + 2.0 * np.arange(n))


def cases() -> dict[str, dict[str, Any]]:
    """The cases by name, with the keyword arguments of a solver and the changes that are made to the system."""
    found: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        for bits in (32, 64):
            common = {"method": method, "bits": bits, "kind": "symmetric", "n": 24, "options": {"maxiter": 100}}

            def case(name: str, common: Any = common, **changes: Any) -> None:
                options = {**common["options"], **changes.pop("options", {})}
                found[f"{common['method']}_{common['bits']}_{name}"] = {**common, **changes, "options": options}

            for every in (1, 4, 10):
                case(f"every_{every}", options={"tol": 1e-4, "check_every": every})
            case("preconditioned", ptype="diag", options={"tol": 1e-4, "check_every": 1})
            case("absolute", options={"atol": 1e-2, "tol": 1e-9, "check_every": 1})
            case("one_of_both", options={"atol": 1e-3, "check_every": 1})
            case("few", options={"maxiter": 5, "check_every": 3})
            case("zero", right=0.0)
            case("zero_from_ones", right=0.0, begin="ones", options={"tol": 1e-3, "atol": 1e-2, "check_every": 1})
            case("nan", right=math.nan, options={"maxiter": 20})
            case("converged", begin="solution", options={"tol": 1e-3})
            case("ill_conditioned", kind="hilbert", n=6, options={"tol": 1e-3, "maxiter": 6, "check_every": 1})
            if method in ("cg", "cr"):
                case("restarted", options={"tol": 1e-4, "check_every": 4, "restart": 3})
            else:
                case("general", kind="general", options={"tol": 1e-3, "check_every": 1})
                case("left", kind="general", ptype="diag", options={
                    "tol": 1e-3, "check_every": 1, "is_left_preconditioner": True})  # fmt: skip
            if method == "gmres":
                case("cycles", options={"tol": 1e-5, "restart": 4, "check_every": 9, "maxiter": 30})
    return found


def run(module: Any, linear: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Run a case with the solvers of a module that has Warp's names."""
    kind: Any = np.float32 if case["bits"] == 32 else np.float64
    a, b = system(case["kind"], case["n"])
    x = {None: np.zeros_like(b), "ones": np.ones_like(b), "solution": np.linalg.solve(a, b)}[case.get("begin")]
    matrix, right, unknown = (
        module.array(values.astype(kind), device="cpu") for values in (a, b * case.get("right", 1.0), x)
    )
    options, told = dict(case["options"]), []
    if "ptype" in case:
        options["M"] = linear.preconditioner(matrix, case["ptype"])
    found = getattr(linear, case["method"])(
        matrix, right, unknown, callback=lambda count, norm, _: told.append([int(count), float(norm)]), **options
    )
    return {"found": [float(value) for value in found], "told": told, "x": unknown.numpy().astype(float).tolist()}


if __name__ == "__main__":
    import warp
    import warp.optim.linear

    warp.config.quiet = True
    made = {name: run(warp, warp.optim.linear, case) for name, case in cases().items()}
    TABLE.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in made.items()) + "\n}\n")
