"""sinh, cosh, tanh, asinh, acosh, atanh.

Small arguments: polynomials of the entire functions sinh and cosh, or of tanh.  Others: e^x halved, from the parts of
exp, so that the results next to overflow are right.  The inverse functions are log1p of an expression that does not
cancel.
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import (
    Double,
    EmittedValue,
    clamp,
    exp2_integer,
    fast_two_sum,
    in_float64,
    polynomial,
    scale,
    two_product,
    two_sum,
)
from diffkern.vecmath.explog import INFINITY, NAN, exp_parts, log1p_wide

_LN2 = 0.6931471805599453


def _half_exp(x: EmittedValue, short: bool) -> tuple[EmittedValue, EmittedValue]:
    """Return e^x / 2 in two parts, for 0 <= x <= 711."""
    parts = exp_parts(x, short)
    high, low = fast_two_sum(x.const(1.0), parts.p)
    return scale(high, parts.n - 1.0), scale(low, parts.n - 1.0)


def _sinh(x: EmittedValue, short: bool) -> EmittedValue:
    size = clamp(abs(x), 0.0, 711.0)
    z = size * size
    near = (size * z).mad(polynomial(z, c.SINH_S if short else c.SINH_D), size)
    half, low = _half_exp(size, short)
    far = half + (low - 0.25 / half)
    return (size < 1.0).select(near, far).copysign(x)


def _cosh(x: EmittedValue, short: bool) -> EmittedValue:
    half, low = _half_exp(clamp(abs(x), 0.0, 711.0), short)
    return half + (low + 0.25 / half)


def tanh(x: EmittedValue) -> EmittedValue:
    """Hyperbolic tangent."""
    size = clamp(abs(x), 0.0, 20.0)
    z = size * size
    near = _tanh_near_f(size, z) if x.kind == "f32" else _tanh_near_d(size, z)
    far = _tanh_far_f(size) if x.kind == "f32" else _tanh_far_d(size)
    return (size < 0.6).select(near, far).copysign(x)


def _tanh_near_f(size: EmittedValue, z: EmittedValue) -> EmittedValue:
    return (z * polynomial(z, c.TANH_F)).mad(size, size)


def _tanh_near_d(size: EmittedValue, z: EmittedValue) -> EmittedValue:
    # tanh x = x + (sinh x - x cosh x) / cosh x: the second term is small and cannot cancel.
    denominator = z.mad(polynomial(z, c.TANH_D_D), 1.0)
    return size + (size * z) * polynomial(z, c.TANH_N_D) / denominator


def _tanh_far_f(size: EmittedValue) -> EmittedValue:
    # 1 - 1 / (e^2x / 2 + 1/2), whose quotient is below 1/2: its error weighs half of that of the result at most.
    parts = exp_parts(size + size)
    half = exp2_integer(parts.n - 1.0)
    return 1.0 - 1.0 / parts.p.mad(half, half + 0.5)


def _tanh_far_d(size: EmittedValue) -> EmittedValue:
    half, low = _half_exp(size + size, short=False)
    return 1.0 - 1.0 / (half + (low + 0.5))


def _asinh(x: EmittedValue, short: bool) -> EmittedValue:
    size = abs(x)
    # Beyond 2^55 asinh x is log 2x = log1p x + log 2 to the last bit, and x^2 may overflow.
    huge = size > 2.0**55
    inner = huge.select(1.0, size)
    square = inner * inner
    argument = inner + square / (1.0 + (1.0 + square).sqrt())
    value = log1p_wide(huge.select(size, argument), short)
    return (huge.select(value + _LN2, value)).copysign(x)


def _acosh(x: EmittedValue, short: bool) -> EmittedValue:
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


def _root(t: EmittedValue) -> Double:
    """Return the square root of t (t + 2) in two parts."""
    size, lost = two_sum(t.const(2.0), t)
    product, error = two_product(t, size)
    root = product.sqrt()
    square, low = two_product(root, root)
    rest = ((product - square) - low) + (error + t * lost)
    return root, root.eq(0.0).select(0.0, rest / (root + root))


def _atanh(x: EmittedValue, short: bool) -> EmittedValue:
    size = abs(x)
    den, lost = two_sum(x.const(1.0), -size)
    double = size + size
    ratio = double / den
    ratio = size.eq(1.0).select(INFINITY, ratio - ratio * (lost / den))
    return (log1p_wide(ratio, short) * 0.5).copysign(x)


sinh = in_float64(_sinh)
cosh = in_float64(_cosh)
asinh = in_float64(_asinh)
acosh = in_float64(_acosh)
atanh = in_float64(_atanh)
