"""Functions of numbers: inverse error functions, bit counts, and names for functions that a GPU may do less exactly."""

from __future__ import annotations

import math
from typing import Any

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.rules import adjoint, func_grad
from diffkern.library.language import (
    Float,
    array1d,
    erf,
    erfc,
    exp,
    int8,
    int16,
    int32,
    int64,
    inverse,
    log,
    sqrt,
    square,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__: list[str] = []


_SLOPE = 0.5 * math.sqrt(math.pi)
"""1 / erf'(0)."""


# -- inverse error functions -------------------------------------------------------------------------------------------


@func
def _beyond(p: Any) -> Any:
    """Return y with erfc(y) = p for 0 < p <= 1/2: Hastings' approximation, then two steps of Halley's method."""
    t = sqrt(-2.0 * log(0.5 * p))
    bent = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    y = (t - bent) * math.sqrt(0.5)
    for _ in range(2):
        # Newton's step, which the curvature of erfc makes Halley's.
        step = (erfc(y) - p) * _SLOPE / exp(-y * y)
        y += step / (1.0 - y * step)
    return y


@func
def _between(x: Any) -> Any:
    """Return y with erf(y) = x for abs(x) <= 1/2: the inverse series, then two steps of Halley's method."""
    z = _SLOPE * x
    zz = z * z
    y = z * (1.0 + zz * (1.0 / 3.0 + zz * (7.0 / 30.0 + zz * (127.0 / 630.0))))
    for _ in range(2):
        # Newton's step, which the curvature of erf makes Halley's.
        step = (erf(y) - x) * _SLOPE * exp(y * y)
        y -= step / (1.0 + y * step)
    return y


@func
def _erfinv(x: Any) -> Any:
    size = abs(x)
    y = Float(math.nan)
    if size <= 0.5:
        y = _between(x)
    elif size < 1.0:
        y = _beyond(1.0 - size)
    elif size == 1.0:
        y = Float(math.inf)
    # Only _beyond was given the absolute value.
    if size > 0.5 and x < 0.0:
        y = -y
    return y


@func_grad(_erfinv)
def _erfinv_adjoint(x: Any, ct: Any) -> None:
    y = _erfinv(x)
    adjoint[x] += ct * _SLOPE * exp(y * y)


@func
def _erfcinv(x: Any) -> Any:
    y = Float(math.nan)
    if x == 0.0:
        y = Float(math.inf)
    elif x > 0.0 and x < 0.5:
        y = _beyond(x)
    # The difference 1 - x is exact here, and erf has digits that erfc loses near 1.
    elif x >= 0.5 and x <= 1.5:
        y = _between(1.0 - x)
    elif x > 1.5 and x < 2.0:
        y = -_beyond(2.0 - x)
    elif x == 2.0:
        y = Float(-math.inf)
    return y


@func_grad(_erfcinv)
def _erfcinv_adjoint(x: Any, ct: Any) -> None:
    y = _erfcinv(x)
    adjoint[x] -= ct * _SLOPE * exp(y * y)


@built_in()
def erfinv(x: Float) -> Float:
    """The inverse of erf: infinite at 1 and -1, NaN outside of them.

    Derivative: sqrt(pi) / 2 * exp(r * r).

    Kinks: infinite at -1 and 1.

    Example: y[i] = dk.erfinv(0.5 * x[i])
    """
    return _erfinv(x)


@built_in()
def erfcinv(x: Float) -> Float:
    """The inverse of erfc on [0, 2]: infinite at its ends, NaN outside of them.

    Derivative: -sqrt(pi) / 2 * exp(r * r).

    Kinks: infinite at 0 and 2.

    Example: y[i] = dk.erfcinv(x[i])
    """
    return _erfcinv(x)


# -- less exact on a GPU -----------------------------------------------------------------------------------------------


@built_in()
def div_approx(a: Any, b: Any) -> Any:
    """The quotient a / b, which may be less exact on a GPU; here it is not.

    Derivative: 1 / b and -a / b ** 2.

    Example: y[i] = dk.div_approx(x[i], 3.0)
    """
    return a / b


@built_in()
def inverse_approx(m: square) -> square:
    """The inverse of a matrix, which may be less exact on a GPU; here it is not.

    Derivative: -r^T C r^T for a cotangent C.

    Example: e[i] = dk.inverse_approx(m)
    """
    return inverse(m)


# -- bits --------------------------------------------------------------------------------------------------------------


@func
def _ones(x: Any) -> Any:
    """Return the number of bits set in an unsigned integer of 64 bits, by sums of pairs, of fours, of bytes."""
    x = x - ((x >> uint64(1)) & uint64(0x5555555555555555))
    x = (x & uint64(0x3333333333333333)) + ((x >> uint64(2)) & uint64(0x3333333333333333))
    x = (x + (x >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return int32((x * uint64(0x0101010101010101)) >> uint64(56))


@built_in()
def bit_count(x: int32) -> int32:
    """The number of bits that are set; of negative integers in two's complement, so 32 of -1 as an int32.

    Derivative: none, no floats come back.

    Example: q[i] = dk.bit_count(p[i])
    """
    # By way of the unsigned type: a negative number would bring more bits when it is widened.
    return _ones(uint64(uint32(x)))


@built_in("bit_count")
def _bit_count_int8(x: int8) -> int32:
    return _ones(uint64(uint8(x)))


@built_in("bit_count")
def _bit_count_int16(x: int16) -> int32:
    return _ones(uint64(uint16(x)))


@built_in("bit_count")
def _bit_count_int64(x: int64) -> int32:
    return _ones(uint64(x))


@built_in("bit_count")
def _bit_count_uint8(x: uint8) -> int32:
    return _ones(uint64(x))


@built_in("bit_count")
def _bit_count_uint16(x: uint16) -> int32:
    return _ones(uint64(x))


@built_in("bit_count")
def _bit_count_uint32(x: uint32) -> int32:
    return _ones(uint64(x))


@built_in("bit_count")
def _bit_count_uint64(x: uint64) -> int32:
    return _ones(x)


# -- searching sorted arrays -------------------------------------------------------------------------------------------


@built_in()
def lower_bound(arr: array1d, value: Any) -> int32:
    """The first index of an ascending array whose element is at least the value; the last index if there is none.

    Called as lower_bound(arr, begin, end, value) it searches from begin to end - 1.

    Derivative: none, no floats come back.

    Example: q[i] = dk.lower_bound(p, 2)
    """
    return lower_bound(arr, 0, arr.shape[0], value)


@built_in("lower_bound")
def _lower_bound_between(arr: array1d, begin: int, end: int, value: Any) -> int32:
    # The last index is the result where no element is large enough, so it is never compared.
    low, high = int32(begin), int32(end) - 1
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
