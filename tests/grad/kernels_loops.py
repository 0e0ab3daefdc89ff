"""Loops: carried scalars, products, iterations, trip counts known only at run time."""

import diffkern as dk

from .cases import as32, case, ints, scalar, signed, spread, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
i1 = dk.array(dtype=int)


@case(3, x=signed(3, 5), y=zeros(3), n=5)
def sum_of_squares(x: f2, y: f1, n: int):
    i = dk.tid()
    s = 0.0
    for k in range(n):
        s += x[i, k] * x[i, k]
    y[i] = s


@case(3, x=signed(3, 5), y=zeros(3), n=5)
def product(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        p = p * x[i, k]
    y[i] = p


@case(2, x=lambda rng: as32([[0.5, 0.0, 1.25, -0.5], [0.75, 2.0, 0.0, 0.0]]), y=zeros(2), n=4)
def product_with_zeros(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        p *= x[i, k]
    y[i] = p


@case(3, a=values(3, lo=0.8, hi=3.0), y=zeros(3), n=6)
def newton_sqrt(a: f1, y: f1, n: int):
    i = dk.tid()
    r = a[i]
    for _ in range(n):
        r = 0.5 * (r + a[i] / r)
    y[i] = r


@case(3, a=values(3, lo=1.2, hi=3.0), y=zeros(3), n=5)
def newton_reciprocal(a: f1, y: f1, n: int):
    i = dk.tid()
    r = 0.25
    for _k in range(n):
        r = r * (2.0 - a[i] * r)
    y[i] = r


@case(3, c=signed(6), x=signed(3), y=zeros(3), n=6)
def horner(c: f1, x: f1, y: f1, n: int):
    i = dk.tid()
    p = 0.0
    for k in range(n):
        p = p * x[i] + c[k]
    y[i] = p


@case(3, x=spread(3, 6), y=zeros(3), n=6)
def running_max(x: f2, y: f1, n: int):
    i = dk.tid()
    m = -100.0
    for k in range(n):
        m = dk.max(m, x[i, k])
    y[i] = m * m


@case(2, x=spread(2, 5), y=zeros(2), n=5)
def running_max_sum(x: f2, y: f1, n: int):
    i = dk.tid()
    m = x[i, 0]
    total = 0.0
    for k in range(n):
        if x[i, k] > m:
            m = x[i, k]
        total += m * x[i, k]
    y[i] = total


@case(2, x=signed(2, 3), w=signed(3, 4), y=zeros(2), n=3, m=4)
def nested_state(x: f2, w: f2, y: f1, n: int, m: int):
    i = dk.tid()
    s = 1.0
    for j in range(n):
        t = x[i, j]
        for k in range(m):
            t = t * w[j, k] + 0.5 * s
        s = s + dk.sin(t) * x[i, j]
    y[i] = s


@case(2, x=signed(2), y=zeros(2), n=3, m=2, q=3)
def nested_three_deep(x: f1, y: f1, n: int, m: int, q: int):
    i = dk.tid()
    s = x[i]
    for a in range(n):
        for b in range(m):
            u = s
            for c in range(q):
                u = u * 0.7 + dk.cos(s) * 0.1
            s = s * 0.5 + u * x[i]
    y[i] = s


@case(2, x=signed(2, 5), y=zeros(2), n=5)
def triangular(x: f2, y: f1, n: int):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        p = 1.0
        for k in range(j):
            p *= x[i, k]
        s += p * x[i, j]
    y[i] = s


@case(3, q0=signed(3), p0=signed(3), out=zeros(3), dt=scalar(0.1), n=8)
def symplectic_euler(q0: f1, p0: f1, out: f1, dt: float, n: int):
    i = dk.tid()
    q = q0[i]
    p = p0[i]
    for _ in range(n):
        p = p - dt * dk.sin(q)
        q = q + dt * p
    out[i] = 0.5 * p * p - dk.cos(q)


@case(3, x=values(3, lo=5.0, hi=9.0), y=zeros(3), tol=scalar(0.9))
def halve_until(x: f1, y: f1, tol: float):
    i = dk.tid()
    v = x[i]
    s = 0.0
    while v > tol:
        s += v * v
        v = v * 0.5
    y[i] = s * v


@case(2, x=values(2, lo=0.4, hi=0.9), y=zeros(2), n=6)
def value_before_times_after(x: f1, y: f1, n: int):
    i = dk.tid()
    v = dk.exp(x[i])
    s = 0.0
    for k in range(n):
        s = s + x[i] * float(k)
    y[i] = v * s


@case(2, x=values(2), y=zeros(2), n=4)
def accumulator_read_and_carried(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    t = 0.0
    for k in range(n):
        t += s * s
        s += 0.25 * x[i]
    y[i] = t * s


@case(1, x=values(1), y=zeros(1), n=100_000)
def long_contraction(x: f1, y: f1, n: int):
    i = dk.tid()
    s = 0.5
    for k in range(n):
        s = 0.999 * s + 0.001 * dk.sin(s + x[i])
    y[i] = s


@case(1, x=signed(1), y=zeros(1), n=300, options={"slots": 2})
def long_two_slots(x: f1, y: f1, n: int):
    i = dk.tid()
    s = 0.5
    for k in range(n):
        s = 0.98 * s + 0.02 * dk.sin(s + x[i])
    y[i] = s


@case(2, x=signed(2, 9), y=zeros(2), n=9, options={"slots": 2})
def product_two_slots(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        p = p * x[i, k] + 0.1 * dk.sin(p)
    y[i] = p


@case(2, x=signed(2, 5), y=zeros(2), n=5, m=4, options={"slots": 2})
def nested_two_slots(x: f2, y: f1, n: int, m: int):
    i = dk.tid()
    s = 0.7
    for k in range(n):
        t = s
        for j in range(m):
            t = dk.sin(t) * x[i, k] + 0.3
        s = s * t + x[i, k]
    y[i] = s


@case(2, x=values(2, lo=3.0, hi=7.0), y=zeros(2), options={"slots": 2})
def while_two_slots(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    s = 1.0
    while v > 0.2:
        s = s * dk.cos(v) + v
        v = v * 0.7
    y[i] = s


@case(2, x=values(2, lo=0.9, hi=1.1), y=zeros(2), n=40, options={"slots": 1})
def one_slot(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = s + 0.05 * dk.sin(s * x[i])
    y[i] = s


@case(5, x=signed(5), nxt=ints(2, 0, 4, -1, 3), head=ints(0, 1, 2, 3, 4), y=zeros(5))
def linked_list(x: f1, nxt: i1, head: i1, y: f1):
    i = dk.tid()
    j = head[i]
    p = 1.0
    while j >= 0:
        p = p * (1.0 + 0.5 * x[j])
        j = nxt[j]
    y[i] = p


@case(4, x=signed(6), y=zeros(4), n=ints(0, 1, 3, 6))
def trips_per_thread(x: f1, y: f1, n: i1):
    i = dk.tid()
    p = 1.5
    for k in range(n[i]):
        p = p * x[k] + dk.sin(p)
    y[i] = p


@case(3, x=signed(3), y=values(3), n=0)
def zero_trips(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = s * s * x[i]
    y[i] = s * y[i]


@case(3, x=signed(3), y=values(3), n=-4)
def negative_trips(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = s * s * x[i]
    y[i] = s + y[i]


@case(2, x=signed(2, 6), y=zeros(2), n=5)
def negative_step(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 0.5
    for k in range(n, -1, -2):
        p = p * x[i, k] + 1.0
    y[i] = p


@case(2, x=signed(2, 8), y=zeros(2), lo=1, hi=8, step=3)
def runtime_step(x: f2, y: f1, lo: int, hi: int, step: int):
    i = dk.tid()
    p = 0.5
    for k in range(lo, hi, step):
        p = p * x[i, k] + float(k)
    y[i] = p


@case(2, x=signed(2, 8), y=zeros(2), lo=6, hi=0, step=-2)
def runtime_step_down(x: f2, y: f1, lo: int, hi: int, step: int):
    i = dk.tid()
    p = 0.5
    for k in range(lo, hi, step):
        p = p * x[i, k] + dk.cos(p)
    y[i] = p


@case(3, x=signed(3), y=zeros(3), n=7)
def fibonacci_swap(x: f1, y: f1, n: int):
    i = dk.tid()
    a = x[i]
    b = 0.5
    for _ in range(n):
        a, b = b, a * 0.6 + b * x[i]
    y[i] = a * b


@case(3, x=signed(3), y=zeros(3), n=4)
def unused_carried(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    waste = 0.0
    for k in range(n):
        waste = waste + s * s
        s = dk.tanh(s) + x[i]
    y[i] = s


@case(2, x=signed(2, 4), y=zeros(2), n=4)
def index_after_loop(x: f2, y: f1, n: int):
    i = dk.tid()
    last = 0
    s = 1.0
    for k in range(n):
        if x[i, k] > 0.0:
            last = k
        s *= x[i, k]
    y[i] = s * x[i, last]


@case(2, x=signed(2), y=zeros(2), n=5)
def two_loops_in_sequence(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        s = dk.sin(s) + x[i]
    t = s
    for k in range(n):
        t = t * 0.5 + s * x[i]
    y[i] = t


@case(3, x=values(3, lo=1.0, hi=2.0), y=zeros(3), n=50)
def logistic_map(x: f1, y: f1, n: int):
    i = dk.tid()
    v = 0.4
    for k in range(n):
        v = x[i] * v * (1.0 - v)
    y[i] = v


@case(3, x=signed(3), y=zeros(3), n=6)
def alternating_sign(x: f1, y: f1, n: int):
    i = dk.tid()
    s = 0.0
    sign = 1.0
    power = x[i]
    for k in range(n):
        s += sign * power / float(2 * k + 1)
        power *= x[i] * x[i]
        sign = -sign
    y[i] = s


@case(2, x=values(2, lo=0.5, hi=1.0), y=zeros(2), n=3)
def static_inner_range(x: f1, y: f1, n: int):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        for j in range(3):
            s = s + 0.1 * dk.exp(-s * s)
    y[i] = s


@case(2, x=values(2, lo=0.4, hi=0.9), y=zeros(2), n=5)
def int_and_float_carried(x: f1, y: f1, n: int):
    i = dk.tid()
    count = 0
    s = x[i]
    for k in range(n):
        if s > 1.0:
            count += 1
            s = s * 0.5
        else:
            s = s * (1.2 + x[i])
    y[i] = s * float(count + 1)
