"""The kernels of :mod:`diffkern.utils`, for elements of any type."""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.intrinsics import INTRINSICS

tid: Any = INTRINSICS["tid"]
dot: Any = INTRINSICS["dot"]
least: Any = INTRINSICS["min"]
# Sorts and runs compute integers, through which no gradient goes.
_integral = functools.partial(Kernel, enable_backward=False)
RADIX = 256
"""Digits of a pass of a sort."""


@Kernel
def sum_of_chunks(values, out, chunk: int):  # type: ignore[no-untyped-def]
    i = tid()
    start = i * chunk
    s = values[start]
    for k in range(start + 1, least(start + chunk, values.shape[0])):
        s += values[k]
    out[i] = s


@Kernel
def sum_of_axis(values, out):  # type: ignore[no-untyped-def]
    i, j = tid()
    s = values[i, 0, j]
    for k in range(1, values.shape[1]):
        s += values[i, k, j]
    out[i, j] = s


@Kernel
def greatest_of_chunks(values, out, chunk: int):  # type: ignore[no-untyped-def]
    i = tid()
    start = i * chunk
    s = values[start]
    for k in range(start + 1, least(start + chunk, values.shape[0])):
        v = values[k]
        if v > s or v != v:  # a NaN stays
            s = v
    out[i] = s


@Kernel
def least_of_chunks(values, out, chunk: int):  # type: ignore[no-untyped-def]
    i = tid()
    start = i * chunk
    s = values[start]
    for k in range(start + 1, least(start + chunk, values.shape[0])):
        v = values[k]
        if v < s or v != v:
            s = v
    out[i] = s


@Kernel
def greatest_of_axis(values, out):  # type: ignore[no-untyped-def]
    i, j = tid()
    s = values[i, 0, j]
    for k in range(1, values.shape[1]):
        v = values[i, k, j]
        if v > s or v != v:
            s = v
    out[i, j] = s


@Kernel
def least_of_axis(values, out):  # type: ignore[no-untyped-def]
    i, j = tid()
    s = values[i, 0, j]
    for k in range(1, values.shape[1]):
        v = values[i, k, j]
        if v < s or v != v:
            s = v
    out[i, j] = s


@Kernel
def products(a, b, out):  # type: ignore[no-untyped-def]
    i = tid()
    out[i] = a[i] * b[i]


@Kernel
def inner_products(a, b, out):  # type: ignore[no-untyped-def]
    i = tid()
    out[i] = dot(a[i], b[i])


@Kernel
def scan_inclusive(values, out, n: int):  # type: ignore[no-untyped-def]
    s = values[0]
    out[0] = s
    for k in range(1, n):
        s += values[k]
        out[k] = s


@Kernel
def scan_exclusive(values, out, n: int):  # type: ignore[no-untyped-def]
    s = values[0] - values[0]
    for k in range(n):
        out[k] = s
        s += values[k]


@Kernel
def cast(values, out):  # type: ignore[no-untyped-def]
    i = tid()
    out[i] = out.dtype(values[i])


# -- sorts -------------------------------------------------------------------------------------------------------------


@_integral
def make_ordered(keys, sign, of_floats: int, back: int):  # type: ignore[no-untyped-def]
    """Let the order of signed integers or floats be that of their bits as unsigned integers, or undo that."""
    i = tid()
    key = keys[i]
    negative = (key & sign) != 0
    if back != 0:
        negative = not negative
    if of_floats != 0 and negative:
        keys[i] = ~key
    else:
        keys[i] = key ^ sign


@_integral
def radix_pass(keys, values, keys_out, values_out, counts, starts, ends, shift, mask: int):  # type: ignore[no-untyped-def]
    """Sort each segment by one digit, in the order of the elements where digits are equal."""
    segment = tid()
    lo = starts[segment]
    hi = ends[segment]
    for d in range(RADIX):
        counts[segment, d] = 0
    for k in range(lo, hi):
        digit = int(keys[k] >> shift) & mask
        counts[segment, digit] = counts[segment, digit] + 1
    at = lo
    for d in range(RADIX):
        n = counts[segment, d]
        counts[segment, d] = at
        at += n
    for k in range(lo, hi):
        digit = int(keys[k] >> shift) & mask
        target = counts[segment, digit]
        counts[segment, digit] = target + 1
        keys_out[target] = keys[k]
        values_out[target] = values[k]


@_integral
def copy_segments(keys, values, keys_out, values_out, starts, ends):  # type: ignore[no-untyped-def]
    segment = tid()
    for k in range(starts[segment], ends[segment]):
        keys_out[k] = keys[k]
        values_out[k] = values[k]


@_integral
def run_lengths(values, run_values, lengths, count, n: int):  # type: ignore[no-untyped-def]
    runs = 0
    begin = 0
    for k in range(1, n + 1):
        if k == n or values[least(k, n - 1)] != values[begin]:
            run_values[runs] = values[begin]
            lengths[runs] = k - begin
            begin = k
            runs += 1
    count[0] = runs
