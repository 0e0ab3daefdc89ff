"""Branches, ternaries, break, continue, loop else, early return, conditions on data."""

import diffkern as dk

from .cases import as32, case, ints, scalar, signed, spread, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
i1 = dk.array(dtype=int)


@case(6, x=signed(6), y=zeros(6))
def if_else(x: f1, y: f1):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i] * x[i]
    else:
        y[i] = dk.sin(x[i])


@case(6, x=signed(6), y=values(6))
def if_without_else(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    if v < 0.0:
        v = v * v * v
    y[i] = v * y[i]


@case(6, x=spread(6, step=0.43, start=-0.9), y=zeros(6))
def elif_chain(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    if v < -0.5:
        r = v * v
    elif v < 0.0:
        r = dk.exp(v)
    elif v < 0.6:
        r = 3.0 * v
    else:
        r = 1.0 / v
    y[i] = r + v


@case(4, x=signed(4), a=scalar(0.7), y=zeros(4))
def ternary(x: f1, a: float, y: f1):
    i = dk.tid()
    y[i] = a * x[i] if x[i] > 0.0 else x[i] * x[i]


@case(4, x=spread(4, step=0.6, start=-0.8), y=zeros(4))
def clamp_safe(x: f1, y: f1):
    i = dk.tid()
    y[i] = dk.clamp(x[i], -0.5, 0.7) * x[i]


@case(4, x=lambda rng: as32([0.0, 0.25, -1.0, 4.0]), y=zeros(4), numeric=False, expect={"x": [0.0, 1.0, 0.0, 0.25]})
def where_sqrt(x: f1, y: f1):
    i = dk.tid()
    y[i] = dk.where(x[i] > 0.0, dk.sqrt(x[i]), 0.0)


@case(3, x=lambda rng: as32([0.0, 2.0, -3.0]), y=zeros(3), numeric=False, expect={"x": [0.0, -0.25, 0.0]})
def untaken_division(x: f1, y: f1):
    i = dk.tid()
    v = 0.0
    if x[i] > 0.0:
        v = 1.0 / x[i]
    y[i] = v


@case(3, x=lambda rng: as32([-1.0, 0.5, 0.0]), y=zeros(3), numeric=False, expect={"x": [0.0, 2.0, 0.0]})
def untaken_log_in_loop(x: f1, y: f1):
    i = dk.tid()
    v = 0.0
    for k in range(3):
        if k == 1 and x[i] > 0.0:
            v += dk.log(x[i])
    y[i] = v


@case(4, x=lambda rng: as32([0.0, 0.25, -1.0, 4.0]), y=zeros(4), numeric=False, expect={"x": [0.0, 1.0, 0.0, 0.25]})
def root_before_the_choice(x: f1, y: f1):
    i = dk.tid()
    root = dk.sqrt(dk.max(x[i], 0.0))
    positive = x[i] > 0.0
    y[i] = root if positive else 0.0


@case(3, x=lambda rng: as32([0.0, 2.0, -4.0]), y=zeros(3), n=3, numeric=False, expect={"x": [0.0, -0.75, -0.1875]})
def quotient_before_the_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    inverse = 1.0 / x[i]
    s = 0.0
    for k in range(n):
        if x[i] != 0.0:
            s += inverse
    y[i] = s


@case(
    3,
    x=lambda rng: as32([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]]),
    y=zeros(3),
    numeric=False,
    expect={"x": [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]]},
)
def length_as_a_root(x: f2, y: f1):
    i = dk.tid()
    r2 = x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1]
    r = dk.sqrt(r2)
    y[i] = dk.where(r2 > 0.0, r, 0.0)


@case(3, x=signed(3, 5), y=zeros(3), n=5, limit=scalar(1.5))
def break_on_sum(x: f2, y: f1, n: int, limit: float):
    i = dk.tid()
    s = 0.0
    for k in range(n):
        if s > limit:
            break
        s += x[i, k] * x[i, k]
    y[i] = s * x[i, 0]


@case(2, x=signed(4), y=zeros(2), n=9, size=4)
def break_before_unread(x: f1, y: f1, n: int, size: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        if k + i >= size:
            break
        p *= x[k + i]
    y[i] = p


@case(3, x=signed(3, 6), y=zeros(3), n=6)
def continue_on_sign(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        if x[i, k] < 0.0:
            continue
        p = p * x[i, k] + 0.1
    y[i] = p


@case(3, x=signed(3, 6), y=zeros(3), n=6)
def break_and_continue(x: f2, y: f1, n: int):
    i = dk.tid()
    s = 0.3
    for k in range(n):
        if k == 1:
            continue
        if s > 2.0:
            break
        s = s + dk.exp(0.5 * x[i, k]) * s
    y[i] = s


@case(3, x=lambda rng: as32([[0.5, 0.7, 0.9], [0.5, 1.7, 0.9], [1.2, 1.3, 1.4]]), y=zeros(3), n=3)
def loop_else(x: f2, y: f1, n: int):
    i = dk.tid()
    s = 1.0
    for k in range(n):
        if x[i, k] > 1.0:
            break
        s *= x[i, k]
    else:
        s = s + x[i, 0] * x[i, 1]
    y[i] = s


@case(3, x=values(3, lo=0.3, hi=2.5), y=zeros(3))
def while_else(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    n = 0
    while n < 4:
        v = v * v * 0.9
        n += 1
        if v > 1.5:
            break
    else:
        v = v + 2.0 * x[i]
    y[i] = v


@case(6, x=signed(6), y=values(6))
def early_return(x: f1, y: f1):
    i = dk.tid()
    if x[i] < 0.0:
        return
    y[i] = y[i] * x[i]


@case(4, x=signed(4, 5), y=zeros(4), n=5)
def return_in_loop(x: f2, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        if x[i, k] < -0.8:
            y[i] = p
            return
        p *= x[i, k]
    y[i] = p * p


@dk.func
def pick(v: float, limit: float):
    if v > limit:
        return v * v
    if v > 0.0:
        return dk.sin(v)
    return 2.0 * v


@case(6, x=spread(6, step=0.35), y=zeros(6))
def func_with_returns(x: f1, y: f1):
    i = dk.tid()
    y[i] = pick(x[i], 0.5) * x[i]


@dk.func
def first_above(x: f2, row: int, n: int, limit: float):
    for k in range(n):
        if x[row, k] > limit:
            return x[row, k] * float(k + 1)
    return limit * 0.5


@case(3, x=signed(3, 4), y=zeros(3), n=4, limit=scalar(0.6))
def func_return_in_loop(x: f2, y: f1, n: int, limit: float):
    i = dk.tid()
    v = first_above(x, i, n, limit)
    y[i] = v * v + limit


@case(2, x=signed(2, 4), y=zeros(2), n=4)
def while_in_for_in_if(x: f2, y: f1, n: int):
    i = dk.tid()
    s = 0.5
    if x[i, 0] > -2.0:
        for k in range(n):
            v = 1.0 + x[i, k] * x[i, k]
            while v > 0.6:
                s = s * 0.9 + v * 0.2
                v = v * 0.55
            s = s + v
    y[i] = s


@case(2, x=signed(2, 5), y=zeros(2), n=5)
def if_in_loop_two_carried(x: f2, y: f1, n: int):
    i = dk.tid()
    a = 1.0
    b = 0.5
    for k in range(n):
        if x[i, k] > 0.0:
            a = a * x[i, k] + b
        else:
            b = b + a * x[i, k]
    y[i] = a * b


@case(3, x=spread(3, 4), y=zeros(3))
def min_max_of_many(x: f2, y: f1):
    i = dk.tid()
    lo = dk.min(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
    hi = dk.max(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
    y[i] = (hi - lo) * (hi + 2.0 * lo)


@case(4, x=signed(4), y=zeros(4), k=ints(0, 1, 2, 3))
def branch_on_int(x: f1, y: f1, k: i1):
    i = dk.tid()
    kind = k[i]
    v = x[i]
    if kind == 0:
        v = v * v
    elif kind == 1:
        v = dk.abs(v)
    elif kind == 2 or kind == 7:
        v = dk.cos(v)
    y[i] = v * 1.5


@case(4, x=signed(4), y=zeros(4))
def boolean_carried(x: f1, y: f1):
    i = dk.tid()
    up = x[i] > 0.0
    v = x[i]
    for k in range(4):
        if up:
            v = v * 0.7
        else:
            v = v - 0.4 * v * v
        up = not up
    y[i] = v


@case(3, x=signed(3), y=zeros(3), n=5)
def nested_conditions(x: f1, y: f1, n: int):
    i = dk.tid()
    v = x[i]
    for k in range(n):
        if k % 2 == 0:
            if v > 0.0 and v < 3.0:
                v = v * x[i] + 0.2
            else:
                v = v + x[i]
        elif not (v > 0.5):
            v = dk.exp(v)
    y[i] = v


@case(4, x=signed(4), y=zeros(4))
def chained_comparison(x: f1, y: f1):
    i = dk.tid()
    if -0.6 < x[i] < 0.6:
        y[i] = x[i] * x[i] * x[i]
    else:
        y[i] = x[i] * 2.0


@case(3, x=signed(3), y=zeros(3))
def inactive_detour(x: f1, y: f1):
    i = dk.tid()
    k = int(x[i] * 3.0)
    y[i] = x[i] * float(k) + dk.floor(x[i])


@case(2, x=values(2, lo=0.2, hi=0.6), y=zeros(2))
def while_true_break(x: f1, y: f1):
    i = dk.tid()
    v = x[i]
    n = 0
    while True:
        v = v + 0.3 * dk.sin(v)
        n += 1
        if v > 1.1 or n > 20:
            break
    y[i] = v * x[i]


@case(3, x=lambda rng: as32([0.0, 40.0, -50.0]), y=zeros(3), numeric=False, expect={"x": [0.0, 1.0, 1.0]})
def overflow_before_the_choice(x: f1, y: f1):
    i = dk.tid()
    growth = dk.exp(x[i] * x[i])
    small = x[i] * x[i] < 4.0
    y[i] = growth if small else x[i]
