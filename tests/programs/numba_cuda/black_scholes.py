"""Prices of European options."""

import math

import numpy as np
from numba import cuda

RISK_FREE = 0.02
VOLATILITY = 0.3


@cuda.jit("double(double)", device=True, inline=True)
def normal_cdf(d):
    a1 = 0.31938153
    a2 = -0.356563782
    a3 = 1.781477937
    a4 = -1.821255978
    a5 = 1.330274429
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    poly = k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5))))
    tail = 0.39894228040143267794 * math.exp(-0.5 * d * d) * poly
    if d > 0:
        tail = 1.0 - tail
    return tail


@cuda.jit("void(double[:], double[:], double[:], double[:], double[:], double, double)")
def black_scholes(call, put, price, strike, years, rate, volatility):
    i = cuda.grid(1)
    if i >= price.shape[0]:
        return
    s = price[i]
    x = strike[i]
    t = years[i]
    root = math.sqrt(t)
    d1 = (math.log(s / x) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root)
    d2 = d1 - volatility * root
    cnd1 = normal_cdf(d1)
    cnd2 = normal_cdf(d2)
    discount = math.exp(-rate * t)
    call[i] = s * cnd1 - x * discount * cnd2
    put[i] = x * discount * (1.0 - cnd2) - s * (1.0 - cnd1)


def main():
    rng = np.random.default_rng(21)
    n = 120
    price = rng.uniform(5.0, 30.0, n)
    strike = rng.uniform(1.0, 100.0, n)
    years = rng.uniform(0.25, 10.0, n)
    call, put = np.zeros(n), np.zeros(n)
    threads = 32
    blocks = math.ceil(n / threads)
    stream = cuda.stream()
    with stream.auto_synchronize():
        d_call = cuda.to_device(call, stream)
        d_put = cuda.to_device(put, stream)
        d_price = cuda.to_device(price, stream)
        d_strike = cuda.to_device(strike, stream)
        d_years = cuda.to_device(years, stream)
        black_scholes[blocks, threads, stream](d_call, d_put, d_price, d_strike, d_years, RISK_FREE, VOLATILITY)
        d_call.copy_to_host(call, stream)
        d_put.copy_to_host(put, stream)
    return call, put
