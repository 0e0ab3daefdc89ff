"""Arrays of a thread: loops, branches, overwrites, aliases, funcs, elements of every kind."""

import diffkern as dk

from .cases import case, signed, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)


@dk.struct
class Part:
    """An element."""

    weight: float
    at: dk.vec3


@case(3, x=signed(3, 5), y=zeros(3))
def filled_and_read(x: f2, y: f1):
    i = dk.tid()
    a = dk.zeros(shape=4, dtype=float)
    for j in range(4):
        a[j] = x[i, j] * x[i, j + 1]
    s = 0.0
    for j in range(4):
        s += a[j] * a[3 - j]
    y[i] = s


@case(3, x=values(3, 5), y=zeros(3))
def recurrence_in_own_array(x: f2, y: f1):
    i = dk.tid()
    a = dk.ones(6, dtype=float)
    a[0] = x[i, 0]
    for j in range(1, 6):
        a[j] = a[j - 1] * x[i, j % 5] + dk.sin(a[j - 1])
    y[i] = a[5] * a[-2]


@case(3, x=signed(3, 5), w=signed(3, 5), y=zeros(3))
def read_in_nested_loops(x: f2, w: f2, y: f1):
    i = dk.tid()
    a = dk.zeros(5, dtype=float)
    for j in range(5):
        a[j] = x[i, j] * x[i, j]
    s = a[1]
    for j in range(5):
        t = w[i, j] * a[j]
        for k in range(j):
            t += w[i, k] * a[k] * a[4 - k]
        for k in range(j % 2, 5):
            t -= a[k] * w[i, k]
        s += t * t
    y[i] = s * a[0]


@dk.func
def push(a: f1, k: int, v: float):
    if v > 1.0:
        a[k] = v * v
    else:
        a[k] += 2.0 * v
        if k == 0:
            return
    a[0] *= v


@case(3, x=values(3, 5), y=zeros(3))
def changed_by_a_func(x: f2, y: f1):
    i = dk.tid()
    a = dk.full(shape=(5,), value=x[i, 1])
    same = a
    for j in range(len(a)):
        push(same, j, x[i, j])
        if a[j] > 1.2:
            a[j] = a[j] * a[j] * x[i, 0]
    k = 0
    while k < a.shape[0]:
        a[k] = dk.exp(-a[k])
        k += 1
        if k == 4:
            break
    s = 0.0
    for j in range(5):
        s += same[j] * float(j + 1)
    y[i] = s


@case(3, x=signed(3, 5), y=zeros(3))
def sorted_numbers(x: f2, y: f1):
    i = dk.tid()
    a = dk.empty(5, dtype=float)
    for j in range(5):
        a[j] = x[i, j]
    for p in range(5):
        for q in range(4 - p):
            if a[q] > a[q + 1]:
                t = a[q]
                a[q] = a[q + 1]
                a[q + 1] = t
    y[i] = a[0] + a[1] * a[2] + a[4] * a[4]


@dk.func
def outer_product(x: f1):
    m = dk.zeros(shape=(3, 3), dtype=float)
    for r in range(3):
        row = m[r]
        for c in range(3):
            row[c] = x[r] * x[c + 1]
    return m


@case(3, x=signed(3, 5), y=zeros(3))
def vectors_and_rows(x: f2, y: f1):
    i = dk.tid()
    m = outer_product(x[i])
    v = dk.zeros(3, dtype=dk.vec3)
    for r in range(3):
        v[r] = dk.vec3(x[i, r], x[i, (r + 1) % 5], x[i, (r + 2) % 5])
        v[r][1] *= m[r, -1]
    v[0] += v[1] * m[2, 2]
    y[i] = dk.dot(v[0], v[2]) + m[1, 0]


@case(3, x=signed(3, 5), y=zeros(3))
def structs_in_own_array(x: f2, y: f1):
    i = dk.tid()
    parts = dk.zeros(2, dtype=Part)
    seen = dk.zeros(2, dtype=dk.bool)
    for j in range(4):
        k = j % 2
        parts[k].weight += x[i, j]
        parts[k].at[0] = x[i, j + 1] * x[i, j]
        seen[k] = x[i, j] > 0.0
    p = parts[1]
    old = dk.atomic_add(parts.weight, 0, x[i, 2])
    y[i] = p.weight * p.at[0] + parts[0].weight * old
    if seen[1]:
        y[i] += parts[0].at.x
