"""How springs settle: Newton's method for many nonlinear springs at once, in a loop of numba.njit(parallel=True).

The input is loads on springs that stiffen as they stretch. The output is, for each spring, the stretch at which its
force balances the load, and how that changes with the load. The energy is a diffkern func; the loop around it is plain
Numba and takes the force and its slope from ``force.vjp``, and the derivatives of the energy from ``energy.grad``.
"""

from __future__ import annotations

import argparse

import numba
import numpy as np

import diffkern as dk


@dk.func
def force(x, stiffness, hardening):
    return stiffness * x + hardening * x * x * x


@dk.func
def energy(x, stiffness, hardening):
    return 0.5 * stiffness * x * x + 0.25 * hardening * x * x * x * x


@numba.njit(parallel=True)
def settle(loads, stiffness, hardening, x, compliance):
    for k in numba.prange(loads.size):
        x[k] = 0.0
        for _ in range(30):
            pull, (slope, _, _) = force.vjp(x[k], stiffness, hardening, 1.0)
            x[k] -= (pull - loads[k]) / slope
        compliance[k] = 1.0 / force.grad(x[k], stiffness, hardening)[0]


@numba.njit(parallel=True)
def shares(x, stiffness, hardening):
    """Derivatives of the total energy with respect to the two parameters."""
    by_stiffness, by_hardening = 0.0, 0.0
    for k in numba.prange(x.size):
        _, ds, dh = energy.grad(x[k], stiffness, hardening)
        by_stiffness += ds
        by_hardening += dh
    return by_stiffness, by_hardening


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--springs", type=int, default=100_000)
    springs = parser.parse_args(arguments).springs

    stiffness, hardening = 2.0, 5.0
    loads = np.linspace(-4.0, 4.0, springs)
    x, compliance = np.empty(springs), np.empty(springs)
    settle(loads, stiffness, hardening, x, compliance)
    print(f"greatest imbalance  {np.abs(stiffness * x + hardening * x**3 - loads).max():.1e}")

    slopes = np.gradient(x, loads, edge_order=2)
    print(f"dx/dload            {compliance[0]:.6f} to {compliance.max():.6f}")
    print(f"... by differences  {slopes[0]:.6f} to {slopes.max():.6f}")

    found = shares(x, stiffness, hardening)
    exact = (0.5 * np.sum(x**2), 0.25 * np.sum(x**4))
    print(f"dE/dstiffness       {found[0]:.6f}   exactly {exact[0]:.6f}")
    print(f"dE/dhardening       {found[1]:.6f}   exactly {exact[1]:.6f}")
    return 0 if np.allclose(found, exact) and np.allclose(compliance, slopes, rtol=1e-3) else 1


if __name__ == "__main__":
    raise SystemExit(main())
