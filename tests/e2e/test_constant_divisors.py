"""Divisions of integers by constants, among them powers of two, round down as Python's do."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk

DIVISORS = (1, 2, 8, 64, 3, -2, -8, -1)
TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("by", DIVISORS)
def test_quotients_and_remainders_are_those_of_python(dtype, by, lanes):
    if by < 0 and np.dtype(dtype).kind == "u":
        pytest.skip("no number of the type")

    @dk.kernel(lanes=lanes)
    def divide(x: dk.array(dtype=dtype), q: dk.array(dtype=dtype), r: dk.array(dtype=dtype)):
        i = dk.tid()
        q[i] = x[i] // dk.static(dtype(by))
        r[i] = x[i] % dk.static(dtype(by))

    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, info.max, info.max - 1, *range(max(-9, info.min), 10), 100, 65], dtype=dtype)
    q, r = np.zeros_like(x), np.zeros_like(x)
    divide[len(x)](x, q, r)
    bits = 8 * info.dtype.itemsize
    wrapped = [(int(v) // by - info.min) % 2**bits + info.min for v in x]
    np.testing.assert_array_equal(q, np.array(wrapped, dtype=dtype))
    np.testing.assert_array_equal(r, np.array([int(v) % by for v in x], dtype=dtype))
