"""Digamma and its derivatives as numbers: what generated code is made of, and a function for calls outside of kernels.

The polygamma function of order n is the derivative of order n of digamma. For x > 0 it is, with the sign (-1)^(n + 1),

    n! (sum over k < N of (x + k)^-(n + 1)) + n! w^-n (1/n + 1/(2 w) + sum of a_j w^-2j),   w = x + N,

the formula of Euler and Maclaurin, with -log(w) for 1/n if n = 0. Then it is the difference of the values at x and at
the root r of digamma, each term times d = x - r, so that it keeps its digits where it is small:

    digamma(x) = sum over k < N of d/(x + k)/(r + k) + log1p(d/v) + d/(w v) (1/2 + (1/w + 1/v) B(w^-2)),   v = r + N,

where B(z) is the sum of a_j z^j less its value at v^-2, divided by z - v^-2. For x <= 0 the reflection at 1/2 gives it:
(-1)^n times its value at 1 - x, less the derivative of order n of pi cot(pi x), a polynomial in the cotangent.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction  # imported where it is needed: with decimal, it would slow down every start

__all__ = ["MAX_ORDER", "ROOT", "Series", "cotangents", "digamma", "horner", "polygamma", "series", "tail_from_root"]

MAX_ORDER: Final = 100
"""The highest order there is; factorials of more do not fit into a float64 with what they are multiplied by."""

ROOT: Final = (1.4616321449683622, 9.549995429965697e-17)
"""The root of digamma to 32 digits, as the sum of two numbers."""
_BITS: Final = 55


class Series(NamedTuple):
    """The numbers of the formula for arguments above 0.

    Attributes
    ----------
    terms
        N, how many terms are added one by one.
    tail
        The coefficients a_1, a_2, ...
    scale
        A power of two by which reciprocals are multiplied before they are raised to powers, which then neither
        overflow nor vanish where their product with n! does not.
    rest
        n! over ``scale`` to the power n + 1.
    """

    terms: int
    tail: tuple[float, ...]
    scale: float
    rest: float


@functools.cache
def series(order: int, bits: int) -> Series:
    """Return the shortest series of an order whose first omitted term is below ``2**-bits`` of the result."""
    from fractions import Fraction

    terms, count = min(
        ((n, _needed(order, n, bits)) for n in range(2, 2 * order + 24)), key=lambda pair: pair[0] + pair[1]
    )
    # The power of two nearest to the (n + 1)th root of n!, so that ``rest`` is not far from 1.
    exponent = round(math.log2(math.factorial(order)) / (order + 1))
    rest = Fraction(math.factorial(order)) / Fraction(2) ** (exponent * (order + 1))
    tail = tuple(float(_coefficient(order, j)) for j in range(1, count + 1))
    return Series(terms, tail, 2.0**exponent, float(rest))


def _needed(order: int, terms: int, bits: int) -> int:
    """Return the number of coefficients for which the omitted terms are small for every argument above 0."""
    for j in range(1, 200):
        if abs(_coefficient(order, j + 1)) * (order or 4) * 2**bits < terms ** (2 * j + 2):
            return j
    return 1000


@functools.cache
def _coefficient(order: int, j: int) -> Fraction:
    """Return the factor of w^-2j: a Bernoulli number times (n + 2j - 1)! over (2j)! n!."""
    return _bernoulli(2 * j) * math.factorial(order + 2 * j - 1) / (math.factorial(2 * j) * math.factorial(order))


@functools.cache
def _bernoulli(n: int) -> Fraction:
    from fractions import Fraction

    if n < 2:
        return Fraction(1) if n == 0 else Fraction(-1, 2)
    if n % 2:
        return Fraction(0)
    return -sum((math.comb(n + 1, k) * _bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


@functools.cache
def cotangents(order: int) -> tuple[float, ...]:
    """Return the derivative of pi cot(pi x) as a polynomial in the square of cot(pi x).

    For even orders it is to be multiplied by cot(pi x). All coefficients have the same sign.
    """
    from fractions import Fraction

    q = [0, 1]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(q)][1:]
        q = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    factor = Fraction(math.pi) ** (order + 1)
    return tuple(float(c * factor) for c in q[(order + 1) % 2 :: 2])


@functools.cache
def tail_from_root(bits: int) -> tuple[float, ...]:
    """The coefficients of B, by Horner's scheme."""
    terms, tail, _, _ = series(0, bits)
    found = [0.0]
    for a in reversed(tail):
        found.append(a + found[-1] / (ROOT[0] + terms) ** 2)
    return tuple(reversed(found[1:]))


# -- in Python ---------------------------------------------------------------------------------------------------------


def digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    return polygamma(0, x)


def polygamma(order: int, x: float) -> float:
    """Return the derivative of digamma of an order: infinite at 0, NaN at poles where it changes its sign."""
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return math.inf if order == 0 else 0.0
    if x > 0:
        return _above_zero(order, x)
    rest = x - round(x)
    if rest == 0:
        if order % 2:
            return math.inf
        return math.copysign(math.inf, -x) if x == 0 else math.nan
    # Close to a pole cot is 1 / tan; elsewhere it is tan of the complement, which keeps its digits where cot is near 0.
    steep = abs(rest) <= 0.25
    size = math.tan(math.pi * (abs(rest) if steep else 0.5 - abs(rest)))
    cot = math.copysign(1.0 / size if steep else size, rest)
    slope = horner(cotangents(order), cot * cot) * (1.0 if order % 2 else cot)
    return _sign(order) * _above_zero(order, 1.0 - x) - slope


def _above_zero(order: int, x: float) -> float:
    terms, tail, scale, rest = series(order, _BITS)
    w = x + terms
    if order == 0:
        d, end = (x - ROOT[0]) - ROOT[1], ROOT[0] + terms
        near = math.fsum(d / (x + k) / (ROOT[0] + k) for k in range(terms))
        far = 0.5 + (1.0 / w + 1.0 / end) * horner(tail_from_root(_BITS), 1.0 / w / w)
        return near + math.log1p(d / end) + d / w / end * far
    small = horner(tail, 1.0 / w / w) / w / w + 0.5 / w
    try:
        total = math.fsum((scale / (x + k)) ** (order + 1) for k in range(terms))
    # Raised only close to the pole at 0, where the power of a reciprocal exceeds the range.
    except OverflowError:
        return -_sign(order) * math.inf
    return -_sign(order) * rest * (total + scale * (scale / w) ** order * (1.0 / order + small))


def _sign(order: int) -> float:
    return -1.0 if order % 2 else 1.0


def horner(coefficients: Sequence[float], x: float) -> float:
    """Evaluate a polynomial; the constant coefficient comes first."""
    total = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total
