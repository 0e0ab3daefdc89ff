"""Constant tables of float64, computed once when first needed with exact integer arithmetic.

In: nothing.  Out: :data:`TABLES`, from a name to a function that returns the table.  The tables are the same on every
machine, because no floating-point function of the machine is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

from diffkern.backends.vecmath.coefficients import TWO_OVER_PI_BITS, TWO_OVER_SQRT_PI_BITS

PAYNE_HANEK_FIRST = 1021
"""The stored exponent of the first row: rows begin at magnitude 1/4."""
PAYNE_HANEK_PARTS = 4
ERF_STEPS = 128
"""Table points per unit."""
ERF_LAST = 6 * ERF_STEPS
_FRACTION_BITS = 1344
_FIXED = 224


@functools.cache
def payne_hanek() -> tuple[float, ...]:
    """2/pi times the power of two of each stored exponent, modulo a full turn, in four parts.

    Row ``e`` stands for ``m * 2^(e-1023)`` with ``1 <= m < 2`` and 53 bits of m.  Its parts add up to
    ``2^52 * (2^(e-1075) * 2/pi mod 4)``, with the residue taken in [-2, 2): m times the sum is congruent, modulo 4, to
    the argument in quarter turns.
    """
    modulus = 1 << (_FRACTION_BITS + 2)
    rows: list[float] = []
    for stored in range(PAYNE_HANEK_FIRST, 2048):
        shift = stored - 1075
        # 2^shift * 2/pi in units of 2^-(1344 + 64): the 64 keeps the bits of the rows with a negative shift.
        scaled = TWO_OVER_PI_BITS << (64 + shift)
        residue = scaled % (modulus << 64)
        if residue >= modulus << 63:
            residue -= modulus << 64
        rest = Fraction(residue, 1 << (_FRACTION_BITS + 64 - 52))
        for _ in range(PAYNE_HANEK_PARTS):
            part = float(rest)
            rows.append(part)
            rest -= Fraction(part)
    return tuple(rows)


def _exp_minus_fixed(numerator: int, denominator: int) -> int:
    """exp(-numerator/denominator) in units of 2^-224: one over a series of positive terms."""
    unit = 1 << _FIXED
    term, total, n = unit, 0, 0
    while term:
        total += term
        n += 1
        term = term * numerator // (denominator * n)
    return (unit << _FIXED) // total


def _erf_series_fixed(k: int) -> int:
    """sqrt(pi)/2 * erf(x) * exp(x^2) at x = k/128 in units of 2^-224: the sum of 2^n x^(2n+1) / (1*3*...*(2n+1))."""
    term = (k << _FIXED) // ERF_STEPS
    total, n = 0, 0
    while term:
        total += term
        n += 1
        term = term * (2 * k * k) // (ERF_STEPS * ERF_STEPS * (2 * n + 1))
    return total


@functools.cache
def erf() -> tuple[float, ...]:
    """For k = 0 ... 768 with r = k/128: erf(r), then 2/sqrt(pi) * exp(-r^2)."""
    rows: list[float] = []
    gauss = 1 << _FIXED
    square = ERF_STEPS * ERF_STEPS
    ratio, ratio_step = _exp_minus_fixed(1, square), _exp_minus_fixed(2, square)
    for k in range(ERF_LAST + 1):
        scale = gauss * TWO_OVER_SQRT_PI_BITS >> _FIXED
        rows.append(float(Fraction(_erf_series_fixed(k) * scale, 1 << (2 * _FIXED))))
        rows.append(float(Fraction(scale, 1 << _FIXED)))
        # exp(-(k+1)^2/128^2) = exp(-k^2/128^2) * exp(-(2k+1)/128^2)
        gauss, ratio = gauss * ratio >> _FIXED, ratio * ratio_step >> _FIXED
    return tuple(rows)


TABLES: dict[str, Callable[[], tuple[float, ...]]] = {"payne_hanek": payne_hanek, "erf": erf}
