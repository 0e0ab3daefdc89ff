"""Python's numbers in calls of a dk.jax_kernel: taken, or refused as a launch refuses them, before JAX rounds them."""

from __future__ import annotations

import enum

import pytest
from conftest import require

require("jax")

import jax.numpy as jnp
import numpy as np

import diffkern as dk


@dk.kernel
def scaled(n: int, x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * a + float(n)


f = dk.jax_kernel(scaled)
X = jnp.arange(4, dtype=jnp.float32)


@pytest.mark.parametrize("number", [0.5, 2, np.float32(0.5), np.int32(2)])
def test_numbers_of_any_kind(number):
    for a in (number, number):  # traced, and called again
        (y,) = f(3, X, a)
        np.testing.assert_allclose(y, np.arange(4) * float(number) + 3.0)


class Number(enum.IntEnum):
    FITS = 5
    LARGE = 2**40


def test_numbers_of_derived_classes():
    (y,) = f(Number.FITS, X, np.float64(0.1))
    np.testing.assert_allclose(y, np.arange(4) * 0.1 + 5.0, rtol=1e-6)


@pytest.mark.parametrize(
    "n", [2.5, 2**31, -(2**31) - 1, Number.LARGE, np.int64(2**40), np.asarray(2**63, np.uint64), 1j, np.complex64(2)]
)
def test_numbers_that_the_type_does_not_hold_are_refused(n):
    f(3, X, 1.0)
    with pytest.raises(dk.LaunchError, match="parameter 'n'"):
        f(n, X, 1.0)


@pytest.mark.parametrize("a", [1e300, 10**400, np.float64(1e300), 2 + 3j])
def test_floats_that_the_type_does_not_hold_are_refused(a):
    f(3, X, 1.0)
    with pytest.raises(dk.LaunchError, match="parameter 'a'"):
        f(3, X, a)
