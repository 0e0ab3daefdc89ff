"""erf and erfc.

Up to 1 (erf) or 1/2 (erfc): erf x = x + x P(x^2).  Beyond: erfc x = exp(-x^2) Q(t) / (1 + 2x) with
t = (x - 4) / (x + 4), which maps the half line to a short interval (Shepherd and Laframboise, 1981), and x^2 in two
parts.
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import (
    Double,
    EmittedValue,
    clamp,
    fast_two_sum,
    in_float64,
    polynomial,
    scale,
    two_product,
    two_sum,
)
from diffkern.vecmath.explog import exp_parts


def _erf_small(x: EmittedValue, short: bool) -> EmittedValue:
    return x.mad(polynomial(x * x, c.ERF_S if short else c.ERF_D), x)


def _erfc_large(size: EmittedValue, short: bool, rounded: bool) -> EmittedValue:
    """Return erfc for 1/2 <= x <= 28; ``rounded``: nothing larger is added to it, so its last bit counts."""
    square, lost = two_product(size, size)
    parts = exp_parts(-square, short)
    gauss, low = fast_two_sum(size.const(1.0), parts.p)
    if rounded and not short:
        quotient, rest = _erfcx(size)
        product, error = two_product(gauss, quotient)
        return scale(product + (error + ((low - gauss * lost) * quotient + gauss * rest)), parts.n)
    t = (size - c.ERFCX_CENTRE) / (size + c.ERFCX_CENTRE)
    quotient = polynomial(t, c.ERFCX_S if short else c.ERFCX_D) / (1.0 + (size + size))
    if short:  # a float32 squared is exact, and the roundings are far below its last bit
        return scale(gauss * quotient, parts.n)
    return scale(gauss.mad(quotient, (low - gauss * lost) * quotient), parts.n)


def _erfcx(size: EmittedValue) -> Double:
    """Return exp(x^2) erfc x in two parts."""
    above, above_low = two_sum(size, size.const(-c.ERFCX_CENTRE))
    below, below_low = two_sum(size, size.const(c.ERFCX_CENTRE))
    t, t_low = _quotient((above, above_low), (below, below_low))
    slope, inner = t.const(0.0), t.const(c.ERFCX_D[-1])
    for coefficient in reversed(c.ERFCX_D[1:-1]):
        slope, inner = slope.mad(t, inner), inner.mad(t, coefficient)
    product, error = two_product(t, inner)
    value, low = two_sum(t.const(c.ERFCX_D[0]), product)
    return _quotient((value, low + (error + t_low * slope.mad(t, inner))), two_sum(t.const(1.0), size + size))


def _quotient(a: Double, b: Double) -> Double:
    quotient = a[0] / b[0]
    product, error = two_product(quotient, b[0])
    return quotient, (((a[0] - product) - error) + (a[1] - quotient * b[1])) / b[0]


def _erf(x: EmittedValue, short: bool) -> EmittedValue:
    size = clamp(abs(x), 0.0, 6.0)
    return (size < 1.0).select(_erf_small(size, short), 1.0 - _erfc_large(size, short, rounded=False)).copysign(x)


def _erfc(x: EmittedValue, short: bool) -> EmittedValue:
    size = clamp(abs(x), 0.0, 28.0)
    large = _erfc_large(size, short, rounded=True)
    far = (x < 0.0).select(2.0 - large, large)
    return (size < 0.5).select(1.0 - _erf_small(x, short), far)


erf = in_float64(_erf)
erfc = in_float64(_erfc)
