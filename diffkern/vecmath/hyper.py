"""sinh, cosh, tanh, asinh, acosh, atanh.

Small arguments: polynomials of the entire functions sinh and cosh.  Others: e^x halved, from the parts of exp, so that
the results next to overflow are right.  The inverse functions are log1p of an expression that does not cancel.
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import (
    Double,
    Value,
    clamp,
    fast_two_sum,
    in_float64,
    polynomial,
    scale,
    two_product,
    two_sum,
)
from diffkern.vecmath.explog import INFINITY, NAN, exp_parts, log1p_wide

_LN2 = 0.6931471805599453


def _half_exp(x: Value, short: bool) -> tuple[Value, Value]:
    """e^x / 2 in two parts, for 0 <= x <= 711."""
    parts = exp_parts(x, short)
    high, low = fast_two_sum(x.const(1.0), parts.p)
    return scale(high, parts.n - 1.0), scale(low, parts.n - 1.0)


def _sinh(x: Value, short: bool) -> Value:
    size = clamp(abs(x), 0.0, 711.0)
    z = size * size
    near = (size * z).mad(polynomial(z, c.SINH_S if short else c.SINH_D), size)
    half, low = _half_exp(size, short)
    far = half + (low - 0.25 / half)
    return (size < 1.0).select(near, far).copysign(x)


def _cosh(x: Value, short: bool) -> Value:
    half, low = _half_exp(clamp(abs(x), 0.0, 711.0), short)
    return half + (low + 0.25 / half)


def _tanh(x: Value, short: bool) -> Value:
    size = clamp(abs(x), 0.0, 20.0)
    z = size * size
    # tanh x = x + (sinh x - x cosh x) / cosh x: the second term is small and cannot cancel.
    numerator = polynomial(z, c.TANH_N_S if short else c.TANH_N_D)
    denominator = z.mad(polynomial(z, c.TANH_D_S if short else c.TANH_D_D), 1.0)
    near = size + (size * z) * numerator / denominator
    half, low = _half_exp(size + size, short)
    far = 1.0 - 1.0 / (half + (low + 0.5))
    return (size < 0.6).select(near, far).copysign(x)


def _asinh(x: Value, short: bool) -> Value:
    size = abs(x)
    # Beyond 2^55 asinh x is log 2x = log1p x + log 2 to the last bit, and x^2 may overflow.
    huge = size > 2.0**55
    inner = huge.select(1.0, size)
    square = inner * inner
    argument = inner + square / (1.0 + (1.0 + square).sqrt())
    value = log1p_wide(huge.select(size, argument), short)
    return (huge.select(value + _LN2, value)).copysign(x)


def _acosh(x: Value, short: bool) -> Value:
    huge = x > 2.0**55
    t = huge.select(1.0, x - 1.0)
    if short:
        value = log1p_wide(huge.select(x, t + (t * (t + 2.0)).sqrt()), short)
    else:
        root, low = _root(t)
        argument, lost = fast_two_sum(root, t)
        value = log1p_wide(huge.select(x, argument), short)
        value = value + huge.select(0.0, (low + lost) / (1.0 + argument))
    return (x >= 1.0).select(huge.select(value + _LN2, value), NAN)


def _root(t: Value) -> Double:
    """The square root of t (t + 2) in two parts."""
    size, lost = two_sum(t.const(2.0), t)
    product, error = two_product(t, size)
    root = product.sqrt()
    square, low = two_product(root, root)
    rest = ((product - square) - low) + (error + t * lost)
    return root, root.eq(0.0).select(0.0, rest / (root + root))


def _atanh(x: Value, short: bool) -> Value:
    size = abs(x)
    den, lost = two_sum(x.const(1.0), -size)
    double = size + size
    ratio = double / den
    ratio = size.eq(1.0).select(INFINITY, ratio - ratio * (lost / den))
    return (log1p_wide(ratio, short) * 0.5).copysign(x)


sinh = in_float64(_sinh)
cosh = in_float64(_cosh)
tanh = in_float64(_tanh)
asinh = in_float64(_asinh)
acosh = in_float64(_acosh)
atanh = in_float64(_atanh)
