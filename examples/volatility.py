"""The changing volatility of a stock: a model fitted with a recorded launch and its recorded adjoint.

The input is the monthly prices since 1990 that ship with matplotlib. The output is, for each share, the GARCH(1, 1)
model (Bollerslev, J. Econometrics 31, 1986) of maximum likelihood: tomorrow's variance is omega + alpha * (today's
return)**2 + beta * (today's variance). One thread per share goes through the months; the adjoint goes back. The fit
runs three times, with plain launches, with records, and with one sequence for the whole step: the same numbers in less
time.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable

import numpy as np
from matplotlib import cbook

import diffkern as dk

SHARES = ("IBM", "AAPL", "MSFT", "XRX", "ADBE", "^GSPC", "^IXIC")
START = (-9.0, -2.0, 1.5)  # logarithm of omega, and what the logistic function makes alpha and beta of


@dk.func
def logistic(x: float):
    return 1.0 / (1.0 + dk.exp(-x))


@dk.kernel
def surprise(returns: dk.array2d(dtype=float), theta: dk.array2d(dtype=float), loss: dk.array(dtype=float)):
    """Mean of minus twice the logarithm of the likelihood of each month, without its constant."""
    s = dk.tid()
    omega = dk.exp(theta[s, 0])
    alpha = logistic(theta[s, 1])
    beta = (1.0 - alpha) * logistic(theta[s, 2])
    variance = omega / (1.0 - alpha - beta)
    total = 0.0
    for t in range(returns.shape[1]):
        square = returns[s, t] * returns[s, t]
        total = total + dk.log(variance) + square / variance
        variance = omega + alpha * square + beta * variance
    loss[s] = total / float(returns.shape[1])


@dk.kernel
def adam(
    theta: dk.array2d(dtype=float), gradient: dk.array2d(dtype=float), mean: dk.array2d(dtype=float),
    square: dk.array2d(dtype=float), rate: float,
):  # fmt: skip
    """One step downhill; leaves the gradient at zero for the next."""
    s, k = dk.tid()
    g = gradient[s, k]
    mean[s, k] = 0.9 * mean[s, k] + 0.1 * g
    square[s, k] = 0.99 * square[s, k] + 0.01 * g * g
    theta[s, k] = theta[s, k] - rate * mean[s, k] / (dk.sqrt(square[s, k]) + 1.0e-6)
    gradient[s, k] = 0.0


class Fit:
    """The parameters of all shares, and three ways to improve them by one step."""

    def __init__(self, returns: np.ndarray, rate: float) -> None:
        shares = len(returns)
        self.rate, self.shares = rate, shares
        self.returns = dk.array(returns, dtype=float)
        self.theta = dk.array(np.tile(np.float32(START), (shares, 1)), requires_grad=True)
        self.loss = dk.zeros(shares, requires_grad=True)
        self.mean, self.square = dk.zeros((shares, 3)), dk.zeros((shares, 3))
        self.adam = [self.theta, self.theta.grad, self.mean, self.square, rate]

    def plain(self) -> Callable[[], None]:
        def step() -> None:
            dk.launch(surprise, self.shares, inputs=[self.returns, self.theta], outputs=[self.loss])
            self.loss.grad.fill_(1.0)
            dk.launch(surprise, self.shares, inputs=[self.returns, self.theta], outputs=[self.loss], adjoint=True)
            dk.launch(adam, (self.shares, 3), inputs=self.adam)

        return step

    def recorded(self) -> Callable[[], None]:
        forward = dk.launch(
            surprise, self.shares, inputs=[self.returns, self.theta], outputs=[self.loss], record_cmd=True
        )
        backward = forward.adjoint()
        update = dk.launch(adam, (self.shares, 3), inputs=self.adam, record_cmd=True)

        def step() -> None:
            forward.launch()
            self.loss.grad.fill_(1.0)
            backward.launch()
            update.launch()

        return step

    def sequence(self) -> Callable[[], None]:
        with dk.record(run=False) as whole:
            self.plain()()
        return whole.replay


def read_returns() -> np.ndarray:
    """Return the monthly logarithmic returns, a row for each share."""
    with cbook.get_sample_data("Stocks.csv") as file:
        rows = [row for row in csv.reader(file) if not row[0].startswith("#")]
    columns = [rows[0].index(share) for share in SHARES]
    # Rows of dividends have no prices.
    prices = np.array([[float(row[c]) for c in columns] for row in rows[1:] if all(row[c] for c in columns)]).T
    returns = np.diff(np.log(prices))
    return (returns - returns.mean(axis=1, keepdims=True)).astype(np.float32)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit a model of volatility to share prices, with records.")
    parser.add_argument("--steps", type=int, default=2000, help="steps of the optimisation (default: %(default)s)")
    options = parser.parse_args(argv)
    returns = read_returns()
    print(f"{len(SHARES)} shares, {returns.shape[1]} months, {options.steps} steps")
    took, found = {}, {}
    for name in ("plain", "recorded", "sequence"):
        fit = Fit(returns, rate=0.01)
        step = getattr(fit, name)()
        warm = Fit(returns, rate=0.01)
        getattr(warm, name)()()  # compiles
        began = time.perf_counter()
        for _ in range(options.steps):
            step()
        took[name] = time.perf_counter() - began
        found[name] = fit.theta.numpy().copy(), fit.loss.numpy().copy()
        print(f"{name:9} {1e6 * took[name] / options.steps:6.1f} us a step, {took['plain'] / took[name]:4.1f} times")
    theta, loss = found["plain"]
    same = all(np.array_equal(theta, other) for other, _ in found.values())
    print("The same parameters in all three" if same else "The parameters DIFFER")
    constant = np.log(returns.var(axis=1)) + 1.0
    for share, (log_omega, a, b), now, before in zip(SHARES, theta, loss, constant, strict=True):
        alpha = 1.0 / (1.0 + np.exp(-a))
        beta = (1.0 - alpha) / (1.0 + np.exp(-b))
        level = np.sqrt(12.0 * np.exp(log_omega) / (1.0 - alpha - beta))
        gain = 0.5 * returns.shape[1] * (before - now)
        print(
            f"{share:6} alpha {alpha:.2f}  beta {beta:.2f}  {100.0 * level:5.1f} % a year, log-likelihood +{gain:.1f}"
        )
    better = bool(np.all(loss <= constant + 1.0e-3))
    return 0 if same and better else 1


if __name__ == "__main__":
    raise SystemExit(main())
