"""Functions, dtypes, kernels without annotations, the mathematics functions together."""

import diffkern as dk

from .cases import as32, case, doubles, scalar, signed, values, zeros

f1 = dk.array(dtype=float)
d1 = dk.array(dtype=dk.float64)
SCALE = 0.75


@dk.func
def smooth(v: float, k: float = 2.0):
    return v * v / (k + v * v)


@dk.func
def twice(v: float):
    return smooth(v) + smooth(v, k=0.5) * SCALE


@case(4, x=signed(4), y=zeros(4))
def func_defaults_and_keywords(x: f1, y: f1):
    i = dk.tid()
    y[i] = twice(x[i]) * smooth(k=x[i] * x[i], v=0.5)


@dk.func
def sincos(v: float):
    return dk.sin(v), dk.cos(v)


@case(4, x=signed(4), y=zeros(4))
def func_tuple(x: f1, y: f1):
    i = dk.tid()
    s, c = sincos(x[i])
    y[i] = s * c * c


@dk.func
def iterate(v: float, n: int):
    r = v
    for _ in range(n):
        r = r - (r * r - v) / (2.0 * r + 0.1)
    return r


@case(3, x=values(3, lo=0.6, hi=2.0), y=zeros(3), n=5)
def func_with_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    y[i] = iterate(x[i], n) * iterate(x[i] + 1.0, 2)


@case(3, x=values(3, lo=0.3, hi=0.8), y=zeros(3))
def func_in_loop(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    for k in range(3):
        v = smooth(v, 0.2) + twice(v)
    y[i] = v


@case(4, x=signed(4), y=zeros(4), a=scalar(0.3))
def no_annotations(x, y, a):
    i = dk.tid()
    v = x[i]
    for k in range(3):
        v = v * a + x[i] * x[i]
    y[i] = v


@case(3, x=doubles(3), y=lambda rng: __import__("numpy").zeros(3), n=4)
def double_kernel(x: d1, y: d1, n: int):
    i = dk.tid()
    p = dk.float64(1.0)
    for k in range(n):
        p = p * x[i] + dk.sin(p)
    y[i] = p


@case(3, x=values(3), w=doubles(3), y=zeros(3))
def mixed_precision(x: f1, w: d1, y: f1):
    i = dk.tid()
    s = dk.float64(x[i]) * w[i]
    y[i] = dk.float32(s * s)


@case(4, x=values(4, lo=0.2, hi=0.8), y=zeros(4))
def many_functions(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    a = dk.sqrt(v) + dk.exp(-v) + dk.log(v) + dk.sin(v) * dk.cos(v) + dk.tan(v)
    b = dk.asin(v) + dk.acos(v) * dk.atan(v) + dk.sinh(v) + dk.cosh(v) * dk.tanh(v)
    c = dk.atan2(v, 0.5) + dk.pow(v, 2.5) + dk.cbrt(v) + dk.rsqrt(v) + dk.log1p(v) + dk.expm1(v)
    d = dk.exp2(v) + dk.log2(v) + dk.log10(v) + dk.erf(v) * dk.erfc(v)
    y[i] = a * b + c * d


@case(4, x=values(4, lo=0.2, hi=0.8), y=zeros(4))
def gamma_functions(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    y[i] = dk.gamma(v + 0.5) * dk.lgamma(v - 1.0) + dk.digamma(v + 1.2) * dk.digamma(-0.5 * v)


@case(4, x=signed(4), y=zeros(4))
def weak_literals(x: f1, y: f1):
    i = dk.tid()
    v = x[i] * 2 + 1
    v = v**2 - x[i] ** 3
    s = 0.0
    for k in range(3):
        s += 0.5 * v
        v = v / 2
    y[i] = s / 3 + abs(v)


@case(3, x=values(3), p=values(3, lo=0.5, hi=2.5), y=zeros(3), n=3)
def powers(x: f1, p: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i] ** p[i]
    for k in range(n):
        s = s + x[i] ** k
    y[i] = s * x[i] ** -1.0


@case(
    3,
    x=lambda rng: as32([0.0, 0.0, 2.0]),
    p=lambda rng: as32([1.5, 0.5, 2.0]),
    y=zeros(3),
    numeric=False,
    expect={"p": [0.0, 0.0, 2.772588722239781]},
)
def zero_to_a_power(x: f1, p: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] ** p[i]


@case(
    4,
    x=lambda rng: as32([1.0, 2.0, 3.0, -1.0]),
    z=lambda rng: as32([1.0, 1.0, 4.0, -1.0]),
    y=zeros(4),
    numeric=False,
    expect={"x": [4.0, 3.0, 1.0, 4.0], "z": [0.0, 1.0, 3.0, 0.0]},
)
def ties_go_to_the_first(x: f1, z: f1, y: f1):
    i = dk.tid()
    y[i] = 3.0 * dk.max(x[i], z[i]) + dk.min(x[i], z[i])


@case(3, x=lambda rng: as32([0.0, 2.0, -2.0]), y=zeros(3), numeric=False, expect={"x": [0.0, 1.0, -1.0]})
def abs_at_zero(x: f1, y: f1):
    i = dk.tid()
    y[i] = dk.abs(x[i])


@case(3, x=values(3, lo=1.2, hi=6.8), y=zeros(3))
def casts_end_the_chain(x: f1, y: f1):
    i = dk.tid()
    y[i] = float(int(x[i])) * x[i] + dk.trunc(x[i]) - dk.round(x[i])


@case(4, x=values(4, lo=1.2, hi=2.8), m=scalar(0.9), y=zeros(4))
def modulo(x: f1, m: float, y: f1):
    i = dk.tid()
    y[i] = (x[i] % m) * x[i] + dk.frac(x[i])


@case(4, x=signed(4), y=zeros(4))
def interpolation(x: f1, y: f1):
    i = dk.tid()
    y[i] = dk.lerp(x[i], 2.0, x[i] * x[i]) + dk.smoothstep(-2.0, 2.0, x[i]) + dk.hypot(x[i], 0.5)


@case(3, x=values(3, lo=0.2, hi=1.0), y=zeros(3), n=4)
def where_in_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    v = x[i]
    for k in range(n):
        v = dk.where(v > 0.7, v * 0.6, v * (1.1 + x[i]))
    y[i] = v
