"""Kernels that search: for each its function, and how many integers of a thread a launch on a tape keeps."""

from __future__ import annotations

import diffkern as dk

F = dk.float64
D1, D2 = dk.array(dtype=F), dk.array(dtype=F, ndim=2)


@dk.func
def apart(x: D2, i: int, y: D2, j: int):
    s = F(0.0)
    for c in range(3):
        s += (x[i, c] - y[j, c]) ** 2.0
    return s


@dk.func
def nearest(x: D2, i: int, y: D2, first: int):
    best, found = F(1e9), -1
    for j in range(first, y.shape[0]):
        s = apart(x, i, y, j)
        if s < best:
            best, found = s, j
    return found


def argmin(x: D2, y: D2, d: D1):
    i = dk.tid()
    best, found = F(1e9), -1
    for j in range(y.shape[0]):
        s = apart(x, i, y, j)
        if s < best:
            best, found = s, j
    if found >= 0:
        d[i] = dk.sin(x[i, 0] - y[found, 0]) * y[found, 1] + x[i, 2] * x[i, 2]


def until_near(x: D2, y: D2, d: D1):
    """A loop that ends early, and a flag that says whether it did."""
    i = dk.tid()
    j, met = 0, False
    while j < y.shape[0] and not met:
        met = apart(x, i, y, j) < 1.5
        if not met:
            j += 1
    d[i] = x[i, 0] * x[i, 0]
    if met:
        d[i] = dk.exp(0.3 * x[i, 1]) * y[j, 1]


def with_break(x: D2, y: D2, d: D1):
    i = dk.tid()
    found = -1
    for j in range(y.shape[0]):
        if y[j, 0] > x[i, 0]:
            found = j
            break
    if found < 0:
        return
    d[i] = dk.cos(y[found, 0] * x[i, 1])


def returned_early(x: D2, y: D2, d: D1):
    i = dk.tid()
    if x[i, 0] > 0.4:
        d[i] = x[i, 0] * x[i, 1]
        return
    j = nearest(x, i, y, 0)
    d[i] = apart(x, i, y, j) * x[i, 1]


def in_branches(x: D2, y: D2, d: D1):
    """One branch keeps two integers, the other one."""
    i = dk.tid()
    if x[i, 1] > 0.0:
        j = nearest(x, i, y, 0)
        k = nearest(y, j, y, j + 1)
        d[i] = apart(x, i, y, j) + (apart(x, i, y, k) * x[i, 0] if k >= 0 else x[i, 0])
    else:
        j = 0
        while j + 1 < y.shape[0] and y[j, 2] < x[i, 2]:
            j += 1
        d[i] = y[j, 2] * x[i, 2]


def one_after_the_other(x: D2, y: D2, d: D1):
    i = dk.tid()
    j = nearest(x, i, y, 0)
    k = nearest(x, i, y, j + 1)
    m = nearest(y, j, x, 0)
    d[i] = apart(x, i, y, j) * x[m, 0] + (y[k, 1] * x[i, 1] if k >= 0 else F(0.0))


def for_each_axis(x: D2, y: D2, d: D1):
    """A search in each trip of a loop whose trips are known."""
    i = dk.tid()
    s = F(0.0)
    for c in range(3):
        best, found = F(1e9), 0
        for j in range(y.shape[0]):
            if dk.abs(x[i, c] - y[j, c]) < best:
                best, found = dk.abs(x[i, c] - y[j, c]), j
        s += dk.sin(x[i, c] * y[found, c])
    d[i] = s


def wide_integers(x: D2, y: D2, d: D1):
    i = dk.tid()
    key, mixed, state = dk.int64(0), dk.uint32(7), dk.uint32(i)
    for j in range(y.shape[0]):
        state = state * dk.uint32(1664525) + dk.uint32(1013904223)
        if y[j, 0] > x[i, 0]:
            key += dk.int64(1) << dk.int64(33)
            mixed = mixed ^ (state | dk.uint32(2147483648))
    d[i] = x[i, 0] * F(key >> dk.int64(33)) + x[i, 1] * F(mixed) * 1e-9


def small_integers(x: D2, y: D2, d: D1):
    i = dk.tid()
    low, high = dk.int8(-3), dk.uint8(200)
    for j in range(y.shape[0]):
        if y[j, 0] > x[i, 0]:
            low, high = dk.int8(j - 100), dk.uint8(255 - j)
    d[i] = x[i, 0] * F(low) + y[0, 1] * F(high)


def pairs(x: D2, y: D2, d: D1):
    """A search in a search: the outer one alone is kept."""
    i = dk.tid()
    best, one, other = F(1e9), 0, 0
    for j in range(y.shape[0]):
        for k in range(j + 1, y.shape[0]):
            s = apart(x, i, y, j) + apart(x, i, y, k)
            if s < best:
                best, one, other = s, j, k
    d[i] = apart(x, i, y, one) * y[other, 0]


def beside_a_value(x: D2, y: D2, d: D1):
    """What the first loop finds besides an integer has no derivative for x and y: it is only stored."""
    i = dk.tid()
    count, total = 0, F(0.0)
    for j in range(y.shape[0]):
        if y[j, 0] > x[i, 0]:
            count += 1
            total += dk.floor(F(j) * 0.5)
    s = F(0.0)
    for j in range(y.shape[0]):
        s += x[i, 0] * y[j, 0]
    d[i] = s * F(count) + total


def partly(x: D2, y: D2, d: D1):
    """The outer loop has a derivative, and the first of the two in each of its trips none."""
    i = dk.tid()
    s = F(0.0)
    for c in range(2):
        j = nearest(x, i, y, c)
        s = s * 0.5 + apart(x, i, y, j) * x[i, c]
    d[i] = s


def least(x: D2, y: D2, d: D1):
    """The float that is found has a derivative, so that the loop has to run once more."""
    i = dk.tid()
    best, found = F(1e9), -1
    for j in range(y.shape[0]):
        s = apart(x, i, y, j)
        if s < best:
            best, found = s, j
    d[i] = best * x[i, 0] + y[found, 0]


def in_a_loop(x: D2, y: D2, d: D1):
    i = dk.tid()
    s = F(0.0)
    for k in range(y.shape[0] - 1):
        j = nearest(x, i, y, k)
        s += apart(x, i, y, j)
    d[i] = s


def that_writes(x: D2, y: D2, d: D1):
    i = dk.tid()
    found = 0
    for j in range(y.shape[0]):
        if y[j, 0] > x[i, 0]:
            found = j
            d[i] = x[i, 1]
    d[i] = d[i] + y[found, 1] * x[i, 0]


def that_reads_what_is_written(x: D2, y: D2, d: D1):
    i = dk.tid()
    d[i] = x[i, 0] * x[i, 0]
    found = 0
    while found + 1 < y.shape[0] and d[i] < y[found, 0]:
        found += 1
    d[i] = y[found, 1] * x[i, 1]


def short(x: D2, y: D2, d: D1):
    i = dk.tid()
    found = 0
    for c in range(1, 3):
        if x[i, c] > x[i, found]:
            found = c
    d[i] = x[i, found] * y[0, found]


def of_addresses(x: D2, y: D2, d: D1):
    """An integer of 64 bits without a sign."""
    i = dk.tid()
    key = dk.uint64(1)
    for j in range(y.shape[0]):
        if y[j, 0] > x[i, 0]:
            key = key * dk.uint64(6364136223846793005)
    d[i] = x[i, 0] * F(key >> dk.uint64(40)) * y[0, 0] * 1e-6


KERNELS = {
    argmin: 1, until_near: 2, with_break: 1, returned_early: 1, in_branches: 2, one_after_the_other: 3,
    for_each_axis: 3, wide_integers: 2, small_integers: 2, pairs: 2, beside_a_value: 1, partly: 2,
    least: 0, in_a_loop: 0, that_writes: 0, that_reads_what_is_written: 0, short: 0, of_addresses: 0,
}  # fmt: skip
"""Functions of kernels, and the integers that a thread keeps."""

EXACT: dict = {"fuse_fp": False, "lanes": False, "deterministic": True}
"""Each number is computed alike, whatever stands around its formula, and sums have one order."""
SEARCHING = {f.__name__: dk.kernel(**EXACT)(f) for f in KERNELS}
REPEATING = {f.__name__: dk.kernel(log_searches=False, **EXACT)(f) for f in KERNELS}
"""The same kernels with and without logs."""
