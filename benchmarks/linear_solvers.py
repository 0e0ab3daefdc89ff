"""Microseconds per iteration of the solvers of ``dk.optim.linear`` and of SciPy, in interleaved runs.

``python benchmarks/linear_solvers.py [--quick]`` prints, for each system and method, the median of a solver that was
made before, of one that is made for it, and of SciPy.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as theirs

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


def main() -> None:
    quick = "--quick" in sys.argv
    warnings.simplefilter("ignore")
    for name, matrix, own, iterations in systems(quick):
        n = matrix.shape[0]
        right = np.cos(np.arange(n) ** 1.5)
        b, x = dk.array(right), dk.array(np.zeros(n))
        for method in METHODS:
            count = 30 if method == "gmres" else iterations
            options = {"restart": 30} if method == "gmres" else {}
            asked = {"tol": 0.0, "atol": 0.0, "maxiter": count, "check_every": 10, **options}
            function = getattr(ours, method)
            solver = function(own, b, x, run=False, **asked)
            scipy_options = {"maxiter": 1, **options} if method == "gmres" else {"maxiter": count}

            def made_before(solver: Any = solver, x: Any = x) -> None:
                x.zero_()
                solver()

            def made_now(function: Any = function, own: Any = own, b: Any = b, x: Any = x, asked: Any = asked) -> None:
                x.zero_()
                function(own, b, x, **asked)

            solve = getattr(theirs, method)

            def of_scipy(
                solve: Any = solve, matrix: Any = matrix, right: Any = right, given: Any = scipy_options
            ) -> None:
                solve(matrix, right, rtol=0.0, atol=0.0, **given)

            runs = (made_before, made_now, of_scipy)
            for run in runs:
                run()
            taken: list[list[float]] = [[], [], []]
            for _ in range(7 if n < 100_000 else 3):
                for k, run in enumerate(runs):
                    begin = time.perf_counter()
                    run()
                    taken[k].append((time.perf_counter() - begin) / count * 1e6)
            before, now, scipy = map(median, taken)
            print(f"{name:20s} {method:9s} {before:10.2f} {now:10.2f}   SciPy {scipy:10.2f}", flush=True)


if __name__ == "__main__":
    main()
