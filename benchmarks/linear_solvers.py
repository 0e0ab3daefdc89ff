"""Compare an iteration of the solvers of ``dk.optim.linear`` with one of SciPy's, in interleaved runs.

For each system and method: a solver that was made before, and one that is made for it, beside SciPy. The times are
medians; a right-hand side, a matrix and a number of iterations are the same for all.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as theirs
from harness import (
    Row,
    Work,
    few_options,
    machine,
    measure_in_turn,
    print_machine,
    print_table,
    rounds_of,
    row_of_readings,
    save_json,
    version_of,
)

import diffkern as dk
from diffkern.optim import linear as ours

METHODS = ("cg", "bicgstab", "gmres")


@dk.kernel
def product(
    first: dk.array[dk.uint32],
    columns: dk.array[dk.uint32],
    values: dk.array[dk.float64],
    x: dk.array[dk.float64],
    y: dk.array[dk.float64],
    z: dk.array[dk.float64],
    alpha: dk.float64,
    beta: dk.float64,
):
    i = dk.tid()
    s = dk.float64(0.0)
    for k in range(first[i], first[i + 1]):
        s += values[k] * x[columns[k]]
    z[i] = alpha * s
    if beta != 0.0:
        z[i] = alpha * s + beta * y[i]


def operator(matrix: Any) -> ours.LinearOperator:
    n = matrix.shape[0]
    first, columns = (dk.array(held.astype(np.uint32)) for held in (matrix.indptr, matrix.indices))
    values = dk.array(matrix.data)
    return ours.LinearOperator(
        matrix.shape, dk.float64, "cpu",
        lambda x, y, z, alpha, beta: dk.launch(product, n, [first, columns, values, x, y, z, alpha, beta]),
        recordable=True,
    )  # fmt: skip


def systems(quick: bool) -> Iterator[tuple[str, Any, Any, int]]:
    """Name, matrix for SciPy, matrix for diffkern, iterations."""
    rng = np.random.default_rng(0)
    for n in (100,) if quick else (100, 1000):
        c = rng.normal(size=(n, n))
        dense = c @ c.T + 10.0 * np.eye(n)
        yield f"dense, {n}", dense, dk.array(dense), 100 if n == 100 else 40
    for side, iterations in ((10, 100), (100, 100), (1000, 20))[: 2 if quick else 3]:
        row = sp.diags([-np.ones(side - 1), 2.0 * np.ones(side), -np.ones(side - 1)], [-1, 0, 1])
        grid = (sp.kron(row, sp.eye(side)) + sp.kron(sp.eye(side), row) + 0.01 * sp.eye(side * side)).tocsr()
        yield f"Poisson, {side * side}", grid, operator(grid), iterations


def runs_of(system: tuple[str, Any, Any, int], method: str) -> tuple[dict[str, Callable[[], object]], int]:
    """Return what solves a system in each of the three ways, and the number of iterations."""
    _, matrix, own, iterations = system
    right = np.cos(np.arange(matrix.shape[0]) ** 1.5)
    b, x = dk.array(right), dk.array(np.zeros(matrix.shape[0]))
    count = 30 if method == "gmres" else iterations
    restart = {"restart": 30} if method == "gmres" else {}
    asked = {"tol": 0.0, "atol": 0.0, "maxiter": count, "check_every": 10, **restart}
    function, solve = getattr(ours, method), getattr(theirs, method)
    solver = function(own, b, x, run=False, **asked)
    scipy_options = {"maxiter": 1, **restart} if method == "gmres" else {"maxiter": count}

    def made_before() -> None:
        x.zero_()
        solver()

    def made_now() -> None:
        x.zero_()
        function(own, b, x, **asked)

    def of_scipy() -> None:
        solve(matrix, right, rtol=0.0, atol=0.0, **scipy_options)

    return {"made before": made_before, "made for it": made_now, "scipy": of_scipy}, count


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure the systems and methods that are asked for."""
    for system in systems(chosen.quick):
        for method in METHODS:
            name = f"{method}, {system[0]} unknowns"
            if chosen.only not in name:
                continue
            runs, count = runs_of(system, method)
            works = [Work(way, run) for way, run in runs.items()]
            rounds = rounds_of(chosen, 7, 7) if system[1].shape[0] < 100_000 else 3
            *own, others = ([t / count for t in read] for read in measure_in_turn(works, rounds, warmup=1))
            for way, read in zip(runs, own, strict=False):
                yield row_of_readings(f"{name}, solver {way}", "scipy", "diffkern", others, read, name)


def main() -> int:
    """Run the chosen systems and print the table."""
    chosen = few_options(str(__doc__)).parse_args()
    warnings.simplefilter("ignore")
    facts = {**machine(), "scipy": version_of("scipy")}
    print_machine(facts)
    rows = list(measured(chosen))
    print_table(rows)
    if chosen.json:
        save_json(chosen.json, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
