"""Kernels that are there for the machine code they become: wide loads, arrays only read, float64, uniform sums."""

import diffkern as dk

from .cases import case, doubles, ints, scalar, signed, spread, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
d1 = dk.array(dtype=dk.float64)
i1 = dk.array(dtype=int)
v3 = dk.array(dtype=dk.vec3)
v4 = dk.array(dtype=dk.vec4)


@case(6, x=signed(6), y=signed(6), a=scalar(0.7))
def sine(x: f1, y: f1, a: float):
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) + y[i]


@case(5, x=signed(5, 4), y=zeros(5, 4), a=scalar(1.5))
def four_at_once(x: v4, y: v4, a: float):
    i = dk.tid()
    v = x[i]
    y[i] = v * a + v * dk.dot(v, v)


@case(4, x=signed(5, 4), idx=ints(3, 0, 3, 1), y=zeros(4))
def four_gathered(x: v4, idx: i1, y: f1):
    i = dk.tid()
    y[i] = dk.length(x[idx[i]]) * x[i][2]


@case(6, x=doubles(6), y=lambda rng: rng.uniform(0.3, 1.4, 6), loss=lambda rng: rng.uniform(0.3, 1.4, 1))
def double_loss(x: d1, y: d1, loss: d1):
    i = dk.tid()
    d = dk.exp(x[i]) - y[i] * y[i]
    dk.atomic_add(loss, 0, d * d)


@case(6, x=spread(6), y=zeros(6), n=6)
def read_only_in_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        s += dk.abs(x[j] - x[i]) * x[j]
    y[i] = s


@case(3, 4, x=signed(3, 4), k=signed(3, 3), y=zeros(3, 4))
def convolve(x: f2, k: f2, y: f2):
    i, j = dk.tid()
    s = 0.0
    for a in range(3):
        for b in range(3):
            row = i + a - 1
            column = j + b - 1
            if row >= 0 and row < x.shape[0] and column >= 0 and column < x.shape[1]:
                s += k[a, b] * x[row, column]
    y[i, j] = s


@case(4, x=signed(4, 3), v=signed(4, 3), inv=values(4), g=lambda rng: dk.vec3(0.0, -9.5, 0.25), dt=scalar(0.125))
def particles(x: v3, v: v3, inv: f1, g: dk.vec3, dt: float):
    i = dk.tid()
    vel = v[i] + (g - 0.5 * v[i]) * inv[i] * dt
    x[i] = x[i] + vel * dt
    v[i] = vel


@case(4, x=values(4), strike=scalar(1.25), rate=scalar(0.05), vol=scalar(0.3), price=zeros(4))
def option_price(x: f1, strike: float, rate: float, vol: float, price: f1):
    i = dk.tid()
    d1 = (dk.log(x[i] / strike) + rate + 0.5 * vol * vol) / vol
    d2 = d1 - vol
    price[i] = x[i] * dk.erfc(-0.7071 * d1) - strike * dk.exp(-rate) * dk.erfc(-0.7071 * d2)


@case(3, logits=signed(3, 5), target=ints(4, 0, 2), loss=zeros(1))
def softmax_loss(logits: f2, target: i1, loss: f1):
    i = dk.tid()
    n = logits.shape[1]
    m = logits[i, 0]
    for k in range(1, n):
        m = dk.max(m, logits[i, k])
    s = 0.0
    for k in range(n):
        s += dk.exp(logits[i, k] - m)
    dk.atomic_add(loss, 0, dk.log(s) + m - logits[i, target[i]])
