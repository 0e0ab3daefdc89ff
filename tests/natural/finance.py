"""Finance: option prices in closed form, on trees and by paths, rates, bootstrapped curves."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)

RNG = np.random.default_rng(9)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@dk.func
def normal_cdf(x: F):
    return 0.5 * (1.0 + dk.erf(x / dk.sqrt(F(2.0))))


@natural(4, s=RNG.uniform(80, 120, 4), k=RNG.uniform(80, 120, 4), vol=RNG.uniform(0.1, 0.4, 4), call=np.zeros(4),
         put=np.zeros(4), r=0.03, t=0.7)  # fmt: skip
@dk.kernel
def black_scholes(s: f1, k: f1, vol: f1, call: f1, put: f1, r: F, t: F):
    i = dk.tid()
    root = vol[i] * dk.sqrt(t)
    d1 = (dk.log(s[i] / k[i]) + (r + 0.5 * vol[i] * vol[i]) * t) / root
    d2 = d1 - root
    call[i] = s[i] * normal_cdf(d1) - k[i] * dk.exp(-r * t) * normal_cdf(d2)
    put[i] = call[i] - s[i] + k[i] * dk.exp(-r * t)


@natural(3, z=some(3, 5), w=some(3, 5), par=np.array([1.5, 0.04, 0.3, -0.6]), out=np.zeros(3), dt=0.1)
@dk.kernel
def heston(z: f2, w: f2, par: f1, out: f1, dt: F):
    i = dk.tid()
    s, v = F(1.0), F(0.04)
    rho = par[3]
    for t in range(z.shape[1]):
        positive = dk.max(v, 1e-6)
        root = dk.sqrt(positive * dt)
        s *= dk.exp(-0.5 * positive * dt + root * z[i, t])
        v += par[0] * (par[1] - positive) * dt + par[2] * root * (rho * z[i, t] + dk.sqrt(1.0 - rho * rho) * w[i, t])
    out[i] = dk.max(s - 1.0, 0.0)


@natural(2, rate=np.full((2, 5), 0.05), z=some(2, 3), vol=RNG.uniform(0.1, 0.3, 5), value=np.zeros(2), delta=0.25)
@dk.kernel
def libor_paths(rate: f2, z: f2, vol: f1, value: f1, delta: F):
    p = dk.tid()
    n = rate.shape[1]
    for step in range(z.shape[1]):
        shock = dk.sqrt(delta) * z[p, step]
        drift = F(0.0)
        for i in range(step + 1, n):
            lam = vol[i - step - 1]
            drift += delta * lam * rate[p, i] / (1.0 + delta * rate[p, i])
            rate[p, i] = rate[p, i] * dk.exp(drift * lam + lam * (shock - 0.5 * lam * delta))
    bond, swap = F(1.0), F(0.0)
    for i in range(z.shape[1], n):
        bond /= 1.0 + delta * rate[p, i]
        swap += delta * bond
    value[p] = 100.0 * dk.max(1.0 - bond - 0.04 * swap, 0.0) + bond


@natural(2, rate=np.full((4, 2, 5), 0.05), z=some(2, 3), vol=RNG.uniform(0.1, 0.3, 5), delta=0.25)
@dk.kernel
def libor_history(rate: dk.array(dtype=F, ndim=3), z: f2, vol: f1, delta: F):
    p = dk.tid()
    for step in range(z.shape[1]):
        drift = F(0.0)
        for i in range(rate.shape[2]):
            now = rate[step, p, i]
            if i > step:
                lam = vol[i - step - 1]
                drift += delta * lam * now / (1.0 + delta * now)
                now *= dk.exp(drift * lam + lam * (dk.sqrt(delta) * z[p, step] - 0.5 * lam * delta))
            rate[step + 1, p, i] = now


@natural(2, s=RNG.uniform(0.9, 1.1, 2), v=np.zeros((2, 6)), up=1.1, q=0.52, discount=0.99, n=5)
@dk.kernel
def american_put(s: f1, v: f2, up: F, q: F, discount: F, n: int):
    k = dk.tid()
    for i in range(n + 1):
        v[k, i] = dk.max(1.0 - s[k] * dk.pow(up, F(2 * i - n)), 0.0)
    for t in range(n - 1, -1, -1):
        for i in range(t + 1):
            hold = discount * (q * v[k, i + 1] + (1.0 - q) * v[k, i])
            v[k, i] = dk.max(hold, 1.0 - s[k] * dk.pow(up, F(2 * i - t)))


@natural(3, z=some(3, 5), vol=RNG.uniform(0.1, 0.3, 3), out=np.zeros(3), average=np.zeros(3), dt=0.1)
@dk.kernel
def asian_option(z: f2, vol: f1, out: f1, average: f1, dt: F):
    i = dk.tid()
    s = F(1.0)
    for t in range(z.shape[1]):
        s *= dk.exp(-0.5 * vol[i] * vol[i] * dt + vol[i] * dk.sqrt(dt) * z[i, t])
        average[i] = average[i] + s / F(z.shape[1])
    out[i] = dk.max(average[i] - 0.98, 0.0)


@natural(1, quote=RNG.uniform(0.02, 0.04, 5), d=np.zeros(5))
@dk.kernel
def yield_curve(quote: f1, d: f1):
    for i in range(quote.shape[0]):
        annuity = F(0.0)
        for j in range(i):
            annuity += d[j]
        d[i] = (1.0 - quote[i] * annuity) / (1.0 + quote[i])


@natural(1, u=RNG.uniform(0, 1, 7), a=some(7), b=RNG.uniform(4, 5, 7), c=some(7), steps=3)
@dk.kernel
def crank_nicolson(u: f1, a: f1, b: f1, c: f1, steps: int):
    n = u.shape[0]
    for _ in range(steps):
        for i in range(1, n):
            w = a[i] / b[i - 1]
            b[i] = b[i] - w * c[i - 1]
            u[i] = u[i] - w * u[i - 1]
        u[n - 1] = u[n - 1] / b[n - 1]
        for i in range(n - 2, -1, -1):
            u[i] = (u[i] - c[i] * u[i + 1]) / b[i]
        for i in range(n):
            b[i] = b[i] * b[i] / 4.0 + 3.0
