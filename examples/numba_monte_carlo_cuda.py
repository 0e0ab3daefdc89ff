"""What an option's price depends on: a Monte Carlo of Numba-CUDA in which each path takes a gradient.

The input is a market. The output is the price of an Asian call, whose payoff depends on the share's average price, and
its derivatives with respect to the share's price (delta), its volatility (vega) and the interest rate (rho), compared
with central differences on the same paths. The kernels and their launches are plain Numba-CUDA; ``payoff`` is a
diffkern func, and each thread calls ``payoff.vjp``.

Without a GPU it runs in numba's simulator: ``NUMBA_ENABLE_CUDASIM=1 python numba_monte_carlo_cuda.py --paths 64``.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numba import cuda

import diffkern as dk

DAYS = 8
STRIKE = 100.0


@dk.func
def payoff(share, volatility, rate, first, second):
    """The discounted payoff along a path that is spanned by two normal numbers."""
    dt = 1.0 / float(DAYS)
    drift = (rate - 0.5 * volatility * volatility) * dt
    price, total = share, 0.0
    for day in range(DAYS):
        angle = math.pi * (float(day) + 0.5) * dt
        shock = math.sqrt(dt) * (first + second * math.cos(angle) * math.sqrt(2.0))
        price = price * math.exp(drift + volatility * shock)
        total += price
    mean = total * dt
    return math.exp(-rate) * max(mean - STRIKE, 0.0)


@cuda.jit
def simulate(share, volatility, rate, normals, sums):
    """Add the price and its derivatives, path by path."""
    path = cuda.grid(1)
    if path < normals.shape[0]:
        first, second = normals[path, 0], normals[path, 1]
        value, (delta, vega, rho, _, _) = payoff.vjp(share, volatility, rate, first, second, 1.0)
        cuda.atomic.add(sums, 0, value)
        cuda.atomic.add(sums, 1, delta)
        cuda.atomic.add(sums, 2, vega)
        cuda.atomic.add(sums, 3, rho)


@cuda.jit
def price(share, volatility, rate, normals, total):
    """Add the price alone."""
    path = cuda.grid(1)
    if path < normals.shape[0]:
        cuda.atomic.add(total, 0, payoff(share, volatility, rate, normals[path, 0], normals[path, 1]))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", type=int, default=1 << 20)
    paths = parser.parse_args(arguments).paths

    market = (100.0, 0.2, 0.05)
    threads = min(256, paths)
    blocks = -(-paths // threads)
    normals = cuda.to_device(np.random.default_rng(7).normal(size=(paths, 2)))
    sums = cuda.to_device(np.zeros(4))
    simulate[blocks, threads](*market, normals, sums)
    value, *greeks = sums.copy_to_host() / paths
    print(f"price  {value:9.4f}   of {paths} paths")

    agree = True
    for k, (name, found) in enumerate(zip(("delta", "vega", "rho"), greeks, strict=True)):
        h = 1e-4 * market[k]
        ends = []
        for sign in (1.0, -1.0):
            total = cuda.to_device(np.zeros(1))
            moved = [x + sign * h * (j == k) for j, x in enumerate(market)]
            price[blocks, threads](*moved, normals, total)
            ends.append(total.copy_to_host()[0] / paths)
        difference = (ends[0] - ends[1]) / (2.0 * h)
        agree &= math.isclose(found, difference, rel_tol=1e-2, abs_tol=1e-4)
        print(f"{name:6} {found:9.4f}   by differences {difference:9.4f}")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
