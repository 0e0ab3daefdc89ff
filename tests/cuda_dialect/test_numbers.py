"""Numbers in numba's spelling: operands of ``and`` and ``or``, conversions, powers, exponents and bits."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

import diffkern as dk
from diffkern import cuda

INF, NAN = math.inf, math.nan


def _same(kernel, plain, *columns, outputs=(np.float64,)):
    """A kernel of one number of each column and of outputs, beside the function compiled for the CPU by numba."""
    count = len(columns[0])
    found = [np.zeros(count, dtype) for dtype in outputs]
    kernel[1, count](*columns, *found)
    compiled = numba.njit(plain)
    rows = [compiled(*values) for values in zip(*columns, strict=True)]
    expected = [list(c) for c in zip(*rows, strict=True)] if len(outputs) > 1 else [rows]
    for ours, theirs, dtype in zip(found, expected, outputs, strict=True):
        np.testing.assert_array_equal(ours, np.array(theirs, dtype))


def test_operands_of_and_and_or():
    @cuda.jit
    def k(x, n, out, second, third):
        i = cuda.grid(1)
        out[i] = x[i] or 5.0
        second[i] = x[i] and 7.0
        third[i] = (n[i] and x[i] and 3.0) or (n[i] > 2) or 9.0

    def plain(x, n):
        return x or 5.0, x and 7.0, (n and x and 3.0) or (n > 2) or 9.0

    x, n = np.array([0.0, 2.5, NAN, 0.0, -0.0, 1.0]), np.array([0, 1, 2, 3, 0, 0])
    _same(k, plain, x, n, outputs=(np.float64,) * 3)


def test_operands_that_are_evaluated_where_they_decide():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        j = i - 1
        out[i] = 0.0
        if j >= 0 and x[j]:
            out[i] = 1.0
        while out[i] and out[i] < 3.0:
            out[i] += 1.0

    out = np.zeros(4)
    k[1, 4](np.array([0.0, 2.0, 0.0, 4.0]), out)
    np.testing.assert_array_equal(out, [0, 0, 3, 0])


def test_conversions_keep_64_bits():
    @cuda.jit
    def k(n, x, out, whole, down):
        i = cuda.grid(1)
        out[i] = float(n[i]) / 3
        whole[i] = int(x[i])
        down[i] = math.floor(x[i])

    def plain(n, x):
        return float(n) / 3, int(x), math.floor(x)

    n, x = np.array([1, 2**24 + 1, 2**53, -7]), np.array([1.5, -2.5, 3e12, -4e15])
    _same(k, plain, n, x, outputs=(np.float64, np.int64, np.int64))


def test_divmod():
    @cuda.jit
    def k(a, b, x, y, q, r, fq, fr):
        i = cuda.grid(1)
        q[i], r[i] = divmod(a[i], b[i])
        fq[i], fr[i] = divmod(x[i], y[i])

    def plain(a, b, x, y):
        return (*divmod(a, b), *divmod(x, y))

    a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 5])
    _same(k, plain, a, b, a / 3, b / 7, outputs=(np.int64, np.int64, np.float64, np.float64))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_powers_of_integers(dtype):
    @cuda.jit
    def k(n, m, out, other):
        i = cuda.grid(1)
        out[i] = 2 ** n[i]
        other[i] = m[i] ** n[i]

    def plain(n, m):
        return 2**n, m**n

    n = np.array([0, 1, 2, 10, 31, 62, 63, 64, 70, 5, 3, -1, -2, -3], dtype)
    m = np.array([0, 3, -3, 7, -2, 3, -1, 1, 2, -10, 0, 1, -1, 5], dtype)
    _same(k, plain, n, m, outputs=(np.int64, np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponents(dtype):
    @cuda.jit
    def k(x, n, scaled, part, exponent):
        i = cuda.grid(1)
        scaled[i] = math.ldexp(x[i], n[i])
        part[i], exponent[i] = math.frexp(x[i])

    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, -3.7, 1e-3, info.max, info.tiny, info.smallest_subnormal, info.tiny / 3, NAN, 5.5]
    n = [0, 3, -5, 200, -200, 2000, -2000, 1, -1100, 4, -1074, -148, -149, -150, 149, 1100, 300, 1000, 2098, -2098, 60]
    n = np.array([*n, 2**31 - 1, -(2**31), 5, -30, -1050, 126, 127, 128, -126, -127, 17])
    x = np.array(3 * special, dtype)[: len(n)]
    scaled, part, exponent = np.zeros(32, dtype), np.zeros(32, dtype), np.zeros(32, np.int64)
    k[1, 32](x, n, scaled, part, exponent)
    with np.errstate(all="ignore"):
        parts, exponents = np.frexp(x)
        np.testing.assert_array_equal(scaled, np.ldexp(x, n.astype(np.int32)))
    np.testing.assert_array_equal(part, parts)
    np.testing.assert_array_equal(exponent[np.isfinite(x)], exponents[np.isfinite(x)])


def test_derivatives_of_exponents():
    @cuda.jit
    def k(x, n, out):
        i = cuda.grid(1)
        part, exponent = math.frexp(x[i])
        out[i] = math.ldexp(x[i] * x[i], n[i]) + part * part + 0.0 * exponent

    x = dk.array(np.array([3.0, -0.3, 1e-3]), requires_grad=True)
    n = np.array([2, -3, 0])
    out = dk.zeros(3, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        k[1, 3](x, dk.array(n), out)
    tape.backward(grads={out: dk.ones(3, dtype=dk.float64)})
    part, exponent = np.frexp(x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * 2.0**n + 2 * part * 2.0**-exponent, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8])
def test_signs(dtype):
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[i] = np.sign(x[i])

    x = np.array([0.0, -0.0, 2.0, -3.0, NAN, INF, -INF] if np.dtype(dtype).kind == "f" else [0, 1, 7, 100], dtype)
    if np.dtype(dtype).kind == "i":
        x = np.concatenate([x, -x])

    def plain(v):
        return np.sign(v)

    _same(k, plain, x)


BITS = [0, 1, 2, 3, 8, 12, 0x80, 0xFF, 0x8000, 0x10000, 2**31 - 1, -1, -2, -(2**31)]
WIDE = [*BITS, 2**31, 2**32, 2**32 + 4, 2**40, 3 << 60, 2**62, 2**63 - 1, -(2**63), -(2**40)]


@pytest.mark.parametrize(("dtype", "numbers"), [(np.int32, BITS), (np.int64, WIDE)], ids=["int32", "int64"])
def test_bits(dtype, numbers):
    """Counted by Python's own integers."""

    @cuda.jit
    def k(x, first, leading, ones, reverse):
        i = cuda.grid(1)
        first[i] = cuda.ffs(x[i])
        leading[i] = cuda.clz(x[i])
        ones[i] = cuda.popc(x[i])
        reverse[i] = cuda.brev(x[i])

    x, width = np.array(numbers, dtype), 8 * np.dtype(dtype).itemsize
    found = [np.zeros(len(x), np.int64) for _ in range(3)] + [np.zeros(len(x), np.uint64)]
    k[1, len(x)](x, *found)
    texts = [format(n & ((1 << width) - 1), f"0{width}b") for n in numbers]
    np.testing.assert_array_equal(found[0], [0 if "1" not in t else width - t.rindex("1") for t in texts])
    np.testing.assert_array_equal(found[1], [width - len(t.lstrip("0")) for t in texts])
    np.testing.assert_array_equal(found[2], [t.count("1") for t in texts])
    np.testing.assert_array_equal(found[3], np.array([int(t[::-1], 2) for t in texts], np.uint64))


def test_fused_products():
    @cuda.jit
    def k(a, b, c, out):
        i = cuda.grid(1)
        out[i] = cuda.fma(a[i], b[i], c[i])

    a, b, c = np.array([2.0, -0.5, INF, 3.0]), np.array([3.0, 4.0, 1.0, -2.0]), np.array([1.0, 2.0, 0.0, 6.0])
    out = np.zeros(4)
    k[1, 4](a, b, c, out)
    np.testing.assert_array_equal(out, a * b + c)


def test_numbers_of_python_are_passed_with_64_bits():
    @cuda.jit
    def k(s, out):
        out[0] = s

    for value, dtype in ((1 / 3, np.float64), (-(2**63), np.int64), (2**64 - 1, np.uint64)):
        out = np.zeros(1, dtype)
        k[1, 1](value, out)
        assert out[0] == value
    with pytest.raises(dk.LaunchError, match=r"parameter 's': 18446744073709551616 does not fit an integer of 64 bits"):
        k[1, 1](2**64, np.zeros(1))
