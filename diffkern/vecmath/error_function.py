"""erf and erfc.

Up to 1 (erf) or 1/2 (erfc): erf x = x + x P(x^2).  Beyond: erfc x = exp(-x^2) Q(t) / (1 + 2x) with
t = (x - 4) / (x + 4), which maps the half line to a short interval (Shepherd and Laframboise, 1981), and x^2 in two
parts.
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import Value, clamp, fast_two_sum, in_float64, polynomial, scale, two_product
from diffkern.vecmath.explog import exp_parts


def _erf_small(x: Value, short: bool) -> Value:
    return x.mad(polynomial(x * x, c.ERF_S if short else c.ERF_D), x)


def _erfc_large(size: Value, short: bool) -> Value:
    """erfc for 1/2 <= x <= 28."""
    square, lost = two_product(size, size)
    parts = exp_parts(-square, short)
    gauss, low = fast_two_sum(size.const(1.0), parts.p)
    t = (size - c.ERFCX_CENTRE) / (size + c.ERFCX_CENTRE)
    quotient = polynomial(t, c.ERFCX_S if short else c.ERFCX_D) / (1.0 + (size + size))
    if short:  # a float32 squared is exact, and the roundings are far below its last bit
        return scale(gauss * quotient, parts.n)
    return scale(gauss.mad(quotient, (low - gauss * lost) * quotient), parts.n)


def _erf(x: Value, short: bool) -> Value:
    size = clamp(abs(x), 0.0, 6.0)
    return (size < 1.0).select(_erf_small(size, short), 1.0 - _erfc_large(size, short)).copysign(x)


def _erfc(x: Value, short: bool) -> Value:
    size = clamp(abs(x), 0.0, 28.0)
    large = _erfc_large(size, short)
    far = (x < 0.0).select(2.0 - large, large)
    return (size < 0.5).select(1.0 - _erf_small(x, short), far)


erf = in_float64(_erf)
erfc = in_float64(_erfc)
