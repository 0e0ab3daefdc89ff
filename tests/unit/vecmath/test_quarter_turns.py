"""Sine, cosine and tangent where their argument is hardest to reduce: next to multiples of a quarter turn."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from mpmath import floor, mp, mpf
from support.ulps import errors_in_ulp, stated_errors
from test_vecmath import host, same_bits

from diffkern import vecmath

Array = npt.NDArray[np.float64]
NAMES = ("sin", "cos", "tan")
LARGE = 2.0**20
"""From here on another reduction takes over."""


def nearest_of_exponent(exponent: int) -> list[float]:
    """Numbers of 53 bits times a power of two whose quotient by pi/2 is nearest to an integer.

    Their significands are denominators of the continued fraction of the power over pi/2, as they stand or times the
    number that fills the 53 bits.
    """
    unit = mp.ldexp(1, exponent - 52)
    rest, before, denominator = unit * 2 / mp.pi, 0, 1
    found: list[float] = []
    while denominator < 2**53:
        found += [float(denominator * k * unit) for k in (1, (2**53 - 1) // denominator)]
        rest = 1 / (rest - floor(rest))
        before, denominator = denominator, int(floor(rest)) * denominator + before
    return found


@cache
def hard() -> Array:
    """Those of all exponents; neighbours of multiples of pi/4; the limits; all of either sign, a multiple of 8 long."""
    random = np.random.default_rng(7)
    with mp.workprec(400):
        near = [x for exponent in range(-2, 20) for x in nearest_of_exponent(exponent)]
        eighths = [1, 2, 3, 4, 5, 6, *random.integers(7, int(LARGE * 4 / np.pi), 20)]
        near += [float(mpf(int(n)) * mp.pi / 4) for n in eighths]
    limits = [5e-324, 2.3e-308, 1e-160, 1e-9, 0.5, 1.0, LARGE]
    x = np.array(near + limits)
    x = np.concatenate([x, np.nextafter(x, 0.0), np.nextafter(x, np.inf), random.uniform(0.0, LARGE, 16)])
    x = np.stack([x, -x], axis=1).ravel()  # every other one is negative
    return x[: x.size // 8 * 8].copy()


def test_some_are_hard() -> None:
    """The nearest below 2^20 is within 2^-58 of a multiple: half of all bits cancel there."""
    x = hard()
    x = x[(np.abs(x) < LARGE) & (np.abs(x) > 0.7)]
    with mp.workprec(400):
        quotients = [mpf(float(v)) * 2 / mp.pi for v in x]
        nearest = min(abs(q - mp.nint(q)) for q in quotients)
    assert nearest < mpf(2) ** -58, nearest


@pytest.mark.parametrize("name", NAMES)
def test_no_rest_loses_bits(name: str) -> None:
    """With multiplication and addition fused or not, no error exceeds the stated one; lanes agree with scalars."""
    x, bound = hard(), stated_errors()["float64"][name]
    fused, plain = host()(name, x), vecmath.evaluate(name, x)
    half = slice(None, None, 2)
    assert errors_in_ulp(name, (x[half],), fused[half]).max() <= bound
    differ = np.flatnonzero(~same_bits(fused, plain))
    assert errors_in_ulp(name, (x[differ],), plain[differ]).max(initial=0.0) <= bound
    assert same_bits(host(8)(name, x), fused).all()


@pytest.mark.parametrize("name", NAMES)
def test_symmetry(name: str) -> None:
    """Sine and tangent are odd and cosine is even, to the last bit."""
    x = hard()
    got, mirrored = host()(name, x), host()(name, -x)
    assert same_bits(mirrored, got if name == "cos" else -got).all()
