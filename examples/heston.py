"""A market of options, and the Heston model behind it: calibration by Monte Carlo with launch records.

Prices of call options come from Heston's formula (Rev. Financial Studies 6, 1993). The output is its parameters,
recovered from the prices, the error as one of volatility, and a figure. A thread simulates a path of the share and its
variance. One recorded launch computes all prices, and its recorded adjoint a row of the Jacobian for the method of
Levenberg and Marquardt. All steps draw the same numbers, so the objective is smooth.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import figure

import diffkern as dk
from diffkern.testing import gradcheck

NAMES = ("reversion", "long variance", "vol of variance", "correlation", "variance today")
TRUE, GUESS = np.array([2.0, 0.06, 0.5, -0.7, 0.04]), np.array([1.0, 0.09, 0.3, -0.3, 0.06])
STRIKES, STEPS, QUARTER = np.linspace(0.8, 1.2, 5), 13, 0.25  # steps of a week
Numbers, Table = dk.array(dtype=dk.float64), dk.array2d(dtype=dk.float64)


@dk.kernel
def prices(theta: Numbers, strikes: Numbers, seed: int, paths: int, price: Table):
    """Adds a path's payoffs, divided by the number of paths; a path and the next one are mirror images."""
    i = dk.tid()
    kappa, level, xi, rho = theta[0], theta[1], theta[2], theta[3]
    state, sign = dk.rand_init(seed, i // 2), 1.0 - 2.0 * float(i % 2)
    dt = QUARTER / float(STEPS)
    log_share, variance = 0.0, theta[4]
    for m in range(price.shape[0]):
        for _ in range(STEPS):
            z = sign * dk.randn(state)
            w = rho * z + dk.sqrt(1.0 - rho * rho) * sign * dk.randn(state)
            v = dk.max(variance, 1.0e-6)
            root = dk.sqrt(v * dt)
            log_share += root * z - 0.5 * v * dt
            variance += kappa * (level - v) * dt + xi * root * w
        share = dk.exp(log_share)
        for k in range(strikes.shape[0]):
            dk.atomic_add(price, m, k, dk.max(share - strikes[k], 0.0) / float(paths))


def by_formula(theta: np.ndarray, strikes: np.ndarray, maturities: np.ndarray) -> np.ndarray:
    """Prices by the characteristic function, integrated (Lewis, Option Valuation under Stochastic Volatility, 2000)."""
    kappa, level, xi, rho, v0 = theta
    h, t, u = 0.01, maturities[:, None], (np.arange(20000) + 0.5) * 0.01 - 0.5j
    beta = kappa - 1j * rho * xi * u
    d = np.sqrt(beta**2 + xi**2 * (1j * u + u**2))
    g = (beta - d) / (beta + d)
    e = np.exp(-d * t)
    mean = kappa * level / xi**2 * ((beta - d) * t - 2.0 * np.log((1.0 - g * e) / (1.0 - g)))
    phi = np.exp(mean + v0 / xi**2 * (beta - d) * (1.0 - e) / (1.0 - g * e))
    waves = np.exp(-1j * u.real * np.log(strikes)[:, None])
    return 1.0 - np.sqrt(strikes) / np.pi * (waves * (phi / (u.real**2 + 0.25))[:, None]).real.sum(-1) * h


def vegas(strikes: np.ndarray, maturities: np.ndarray, volatility: float) -> np.ndarray:
    """How much a price changes with volatility, by the formula of Black and Scholes."""
    spread = volatility * np.sqrt(maturities)[:, None]
    return np.sqrt(maturities / (2.0 * np.pi))[:, None] * np.exp(-0.5 * (spread / 2 - np.log(strikes) / spread) ** 2)


class Model:
    """The recorded launch, and its adjoint."""

    def __init__(self, paths: int, maturities: int) -> None:
        self.theta = dk.array(GUESS, requires_grad=True)
        self.price = dk.zeros((maturities, len(STRIKES)), dtype=dk.float64, requires_grad=True)
        arguments = [self.theta, dk.array(STRIKES), 7, paths]
        self.forward = dk.launch(prices, paths, inputs=arguments, outputs=[self.price], record_cmd=True)
        self.backward = self.forward.adjoint()

    def prices(self, theta: np.ndarray) -> np.ndarray:
        self.theta.assign(theta)
        self.price.zero_()
        self.forward.launch()
        return self.price.numpy().copy()

    def jacobian(self) -> np.ndarray:
        """The derivatives of each price with respect to each parameter."""
        rows = []
        for k in range(self.price.size):
            self.theta.grad.zero_()
            self.price.grad.assign(np.eye(1, self.price.size, k).reshape(self.price.shape))
            self.backward.launch()
            rows.append(self.theta.grad.numpy().copy())
        return np.array(rows)


def calibrate(model: Model, market: np.ndarray, scale: np.ndarray, steps: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Least squares in the logarithms of the parameters; the damping grows until a step is an improvement."""
    signs, sizes = np.sign(GUESS), np.log(np.abs(GUESS))
    damping, history = 1e-2, [(model.prices(GUESS) - market) / scale]
    for step in range(steps):
        model.prices(theta := signs * np.exp(sizes))
        jacobian = model.jacobian() / scale.reshape(-1, 1) * theta
        normal, off = jacobian.T @ jacobian, history[-1]
        for _ in range(8):
            move = np.linalg.solve(normal + damping * np.trace(normal) * np.eye(5), -jacobian.T @ off.ravel())
            trial = np.minimum(sizes + np.clip(move, -1.0, 1.0), np.log([10.0, 1.0, 3.0, 0.95, 1.0]))
            found = (model.prices(signs * np.exp(trial)) - market) / scale
            if (found**2).sum() < (off**2).sum():
                sizes, off, damping = trial, found, damping * 0.1
                break
            damping *= 10.0
        history.append(off)
        print(f"step {step}: {100.0 * np.sqrt((off**2).mean()):.3f} points of volatility off", flush=True)
    return signs * np.exp(sizes), history


def draw(file: str, market: np.ndarray, fitted: np.ndarray, history: list[np.ndarray]) -> None:
    fig = figure.Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = fig.subplots(1, 2)
    for m, (dots, line) in enumerate(zip(market, fitted, strict=True)):
        left.plot(STRIKES, line, f"C{m}-", label=f"{3 * (m + 1)} months")
        left.plot(STRIKES, dots, f"C{m}o")
    left.legend(title="market: dots, model: lines")
    right.semilogy([100.0 * np.sqrt((off**2).mean()) for off in history], "o-")
    right.set(title="error in points of volatility", xlabel="steps")
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Calibrate and draw; returns the errors of the fit and of the simulation, in points of volatility."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--paths", type=int, default=20000)
    parser.add_argument("--maturities", type=int, default=4, help="quarters of a year")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", default="heston.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    maturities = QUARTER * np.arange(1, options.maturities + 1)
    market, scale = by_formula(TRUE, STRIKES, maturities), vegas(STRIKES, maturities, float(np.sqrt(TRUE[1])))
    print(gradcheck(prices, 4, [TRUE, STRIKES, 7, 4], [np.zeros((1, len(STRIKES)))]), flush=True)
    model = Model(options.paths, options.maturities)
    apart = 100.0 * float(np.abs((model.prices(TRUE) - market) / scale).max())
    print(f"simulation and formula differ by at most {apart:.2f} points of volatility")
    theta, history = calibrate(model, market, scale, options.steps)
    draw(options.out, market, model.prices(theta), history)
    for name, true, guess, value in zip(NAMES, TRUE, GUESS, theta, strict=True):
        print(f"{name:16} {true:6.3f}, guessed {guess:6.3f}, found {value:6.3f}")
    print(f"figure: {options.out}")
    return 100.0 * float(np.sqrt((history[-1] ** 2).mean())), apart


if __name__ == "__main__":
    main()
