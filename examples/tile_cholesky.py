"""Many small systems at once: each block factors a matrix, solves, and takes part in one gradient.

The data are random symmetric positive definite matrices. The output is the largest error compared with NumPy, and a
check of the gradient of a functional of all solutions against the formula of the adjoint method.
"""

from __future__ import annotations

import argparse

import numpy as np

import diffkern as dk

N = dk.constant(16)
Matrices, Rows, Vector = dk.array3d(dtype=float), dk.array2d(dtype=float), dk.array1d(dtype=float)


@dk.kernel
def solve(matrices: Matrices, right: Rows, solutions: Rows):
    i = dk.tid()
    factor = dk.tile_cholesky(dk.tile_load(matrices[i], shape=(N, N)))
    dk.tile_store(solutions[i], dk.tile_cholesky_solve(factor, dk.tile_load(right[i], shape=N)))


@dk.kernel
def squares(solutions: Rows, total: Vector):
    x = dk.tile_load(solutions[dk.tid()], shape=N)
    dk.tile_atomic_add(total, dk.tile_dot(x, x))


def systems(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices with eigenvalues from 1 on, and right sides."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(count, N, N)) / np.sqrt(N)
    return (a @ a.transpose(0, 2, 1) + np.eye(N)).astype(np.float32), rng.normal(size=(count, N)).astype(np.float32)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Solve and differentiate; returns the errors of the solutions and of the gradient."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    a, b = systems(options.count, options.seed)
    matrices, right = dk.array(a), dk.array(b, requires_grad=True)
    solutions = dk.zeros(b.shape, dtype=float, requires_grad=True)
    total = dk.zeros(1, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(solve, dim=[options.count], inputs=[matrices, right], outputs=[solutions], block_dim=32)
        dk.launch_tiled(squares, dim=[options.count], inputs=[solutions], outputs=[total], block_dim=32)
    tape.backward(total)
    expected = np.linalg.solve(a.astype(np.float64), b.astype(np.float64)[..., None])[..., 0]
    gradient = 2.0 * np.linalg.solve(a.astype(np.float64), expected[..., None])[..., 0]
    errors = (
        float(np.abs(solutions.numpy() - expected).max() / np.abs(expected).max()),
        float(np.abs(right.grad.numpy() - gradient).max() / np.abs(gradient).max()),
    )
    print(f"{options.count} systems of {int(N)} unknowns: error {errors[0]:.1e}, of the gradient {errors[1]:.1e}")
    return errors


if __name__ == "__main__":
    main()
