"""sin, cos, tan.

The argument is reduced to a number of quarter turns and a rest in [-pi/4, pi/4].  Below 2^20 (sin and cos of float32:
2^17) the rest is x - n*pi/2 with pi/2 in parts (Cody and Waite).  In float64 their products with n are exact; where
multiplication and addition are fused, the first difference is.  sin and cos of a float32 use float32 where they are
fused, which makes the first difference exact, and float64 elsewhere.  From there on, the quarter turns are x * 2/pi
modulo 4, from a row of bits of 2/pi for each exponent (Payne and Hanek); that form stands out of line, and a vectorised
loop reaches it after one test per vector, so that the common case pays for no table.
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import (
    PAYNE_HANEK_FIRST,
    PAYNE_HANEK_PARTS,
    Double,
    EmittedValue,
    Formula,
    double_product,
    fast_two_sum,
    polynomial,
    round_with_bits,
    two_product,
    two_sum,
)

LARGE = 1048576.0
"""From here on the Payne-Hanek form is used."""
LARGE_F = 131072.0
"""The same for sine and cosine in float32: beyond it three parts of pi/2 would leave an error of more than 1.5 ulp."""
_MODULO_16 = 1.5 * 2.0**56
"""Adding and subtracting this rounds to a multiple of 16."""


def _reduce_medium(x: EmittedValue) -> tuple[Double, EmittedValue]:
    """Reduce a float64 below 2^20: the rest in two parts, and an integer whose low two bits are the quarter turn."""
    if x.e.fuses:
        return _reduce_medium_fused(x)
    n, quarter = round_with_bits(x, c.TWO_OVER_PI)
    p1, p2, p3, p4 = c.PIO2_PARTS
    # n*p1, n*p2 and n*p3 are exact, and so is the first difference: fusing changes nothing.
    high = (-n).mad(p1, x)
    high, low = two_sum(high, n * -p2)
    high, low2 = two_sum(high, low + n * -p3)
    return fast_two_sum(high, low2 + _tail(low, n * -p3) + n * -p4), quarter


def _reduce_medium_fused(x: EmittedValue) -> tuple[Double, EmittedValue]:
    """Reduce as :func:`_reduce_medium` with fused multiplication and addition, in half as many steps."""
    n, quarter = round_with_bits(x, c.TWO_OVER_PI)
    p1, p2, p3 = c.PIO2_FUSED
    # Unless n is 0, x and n*p1 are multiples of 2^-53, and their difference is below 1: it is exact.
    rest = (-n).mad(p1, x)
    product, product_low = two_product(n, n.const(p2))
    high = rest - product
    # The error of a sum is exact in two steps also where rest is the smaller one, being a multiple of product's ulp.
    low = (rest - high) - product
    return (high, (-n).mad(p3, low - product_low)), quarter


def _tail(a: EmittedValue, b: EmittedValue) -> EmittedValue:
    """Return the error of ``a + b``."""
    return two_sum(a, b)[1]


def _reduce_large(x: EmittedValue) -> tuple[Double, EmittedValue]:
    """Reduce any float64 of at least 2^-2; the result is as of :func:`_reduce_medium`."""
    bits = x.bits()
    row = ((bits >> 52) & 2047) - PAYNE_HANEK_FIRST
    # An optimiser may call this for every lane and drop what it did not want: the index must be good for any x.
    row = (row < 0).select(0, row)
    mantissa = ((bits & ((1 << 52) - 1)) | (1023 << 52)).from_bits().copysign(x)
    first = row << 2
    parts = [(first + i).lookup("payne_hanek") for i in range(PAYNE_HANEK_PARTS)]
    h1, l1 = two_product(mantissa, parts[0])
    h2, l2 = two_product(mantissa, parts[1])
    h3, l3 = two_product(mantissa, parts[2])
    h1 = h1 - ((h1 + _MODULO_16) - _MODULO_16)
    # A sum in three levels: when the leading one cancels against the quarter turn, the next is still exact.
    top, e1 = two_sum(h1, l1)
    top, e2 = two_sum(top, h2)
    n, quarter = round_with_bits(top)
    top = top - n
    middle, e3 = two_sum(e1, e2)
    rest, e4 = two_sum(l2, h3)
    middle, e5 = two_sum(middle, rest)
    top, e6 = two_sum(top, middle)
    low = e6 + (e5 + (e3 + e4 + l3 + mantissa * parts[3]))
    turn = fast_two_sum(top, low)
    high = top.const(c.PIO2[0]), top.const(c.PIO2[1])
    finite = abs(x) < float("inf")
    reduced = double_product(turn, high)
    nan = x - x
    return (finite.select(reduced[0], nan), finite.select(reduced[1], nan)), quarter


def _sin_cos_parts(rest: Double) -> tuple[Double, Double]:
    """Return sine and cosine of a float64 rest in two parts, each as a sum whose second term is small."""
    r, low = rest
    z = r * r
    half = z * 0.5
    # sin(r + low) = r + (z*r*S(z) + low*cos(r)), cos(r) ~ 1 - z/2
    sine = r, (r * z).mad(polynomial(z, c.SIN_D), low - low * half)
    one_less = 1.0 - half
    cosine = one_less, ((1.0 - one_less) - half) + ((z * z).mad(polynomial(z, c.COS_D), -(r * low)))
    return sine, cosine


def _sin_cos(rest: Double) -> tuple[EmittedValue, EmittedValue]:
    """Return sine and cosine of a float64 rest in two parts."""
    sine, cosine = _sin_cos_parts(rest)
    return sine[0] + sine[1], cosine[0] + cosine[1]


def _odd(quarter: EmittedValue, bit: int) -> EmittedValue:
    return ~(quarter & bit).eq(0)


def _sine_of(reduced: tuple[Double, EmittedValue], x: EmittedValue) -> EmittedValue:
    (rest, quarter) = reduced
    sine, cosine = _sin_cos(rest)
    value = _odd(quarter, 1).select(cosine, sine)
    # sin(-0) is -0, and n*pi/2 subtracted from -0 has lost that.
    return x.eq(0.0).select(x, _odd(quarter, 2).select(-value, value))


def _cosine_of(reduced: tuple[Double, EmittedValue]) -> EmittedValue:
    (rest, quarter) = reduced
    sine, cosine = _sin_cos(rest)
    value = _odd(quarter, 1).select(sine, cosine)
    return _odd(quarter + 1, 2).select(-value, value)


def _tangent_of(reduced: tuple[Double, EmittedValue], x: EmittedValue) -> EmittedValue:
    (rest, quarter) = reduced
    sine, cosine = (fast_two_sum(*parts) for parts in _sin_cos_parts(rest))
    odd = _odd(quarter, 1)
    top, low = (odd.select(-b, a) for a, b in zip(sine, cosine, strict=True))
    bottom, bottom_low = (odd.select(a, b) for a, b in zip(sine, cosine, strict=True))
    ratio = top / bottom
    return x.eq(0.0).select(x, ratio + (low - ratio * bottom_low) / bottom)


def sin_large(x: EmittedValue) -> EmittedValue:
    """Return the sine of any float of at least 1/4, out of line."""
    return _narrow_like(_sine_of(_reduce_large(_wide(x)), _wide(x)), x)


def cos_large(x: EmittedValue) -> EmittedValue:
    """Return the cosine of any float of at least 1/4, out of line."""
    return _narrow_like(_cosine_of(_reduce_large(_wide(x))), x)


def tan_large(x: EmittedValue) -> EmittedValue:
    """Return the tangent of any float of at least 1/4, out of line."""
    return _narrow_like(_tangent_of(_reduce_large(_wide(x)), _wide(x)), x)


def _wide(x: EmittedValue) -> EmittedValue:
    return x.widen() if x.kind == "f32" else x


def _narrow_like(value: EmittedValue, x: EmittedValue) -> EmittedValue:
    return value.narrow() if x.kind == "f32" else value


def _is_large(x: EmittedValue, limit: float = LARGE) -> EmittedValue:
    """Return whether x is large or nan: nan and infinity take the out-of-line form too."""
    return ~(abs(x) < limit)


def _reduce_fused(x: EmittedValue) -> tuple[EmittedValue, EmittedValue]:
    """Reduce a float32 below 2^17, fused: return the rest, and an integer that ends with the quarter turn."""
    n, quarter = round_with_bits(x, c.TWO_OVER_PI)
    # The difference from n*PIO2_F[0] is a multiple of 2^-23 below 1: it is exact.
    rest = x
    for part in c.PIO2_F:
        rest = (-n).mad(part, rest)
    return rest, quarter


def _reduce_f32(x: EmittedValue) -> tuple[EmittedValue, EmittedValue]:
    """Reduce a float32 below 2^20: return a float64 rest, and the quarter turn as an integer in a float32's bits."""
    wide = x.widen()
    n, _ = round_with_bits(wide, c.TWO_OVER_PI)
    # n*PIO2_SHORT[0] is exact, and so is the difference.
    rest = (-n).mad(c.PIO2_SHORT[1], (-n).mad(c.PIO2_SHORT[0], wide))
    # n has 20 bits: in float32 it is exact, and its low bits are those of n + 1.5 * 2^23.
    return rest, (n.narrow() + 12582912.0).bits()


def _sin_cos_f32(x: EmittedValue) -> tuple[EmittedValue, EmittedValue, EmittedValue]:
    """Return sine and cosine of the rest of a float32, and the quarter turn."""
    if x.e.fuses:
        r, quarter = _reduce_fused(x)
    else:
        wide, quarter = _reduce_f32(x)
        r = wide.narrow()
    z = r * r
    sine = (r * z).mad(polynomial(z, c.SIN_F), r)
    if x.e.fuses:
        return sine, polynomial(z, (1.0, -0.5, *c.COS_F)), quarter
    half = z * 0.5
    one_less = 1.0 - half
    # What the difference from 1 has lost goes into the small term.
    return sine, one_less + (z * z).mad(polynomial(z, c.COS_F), (1.0 - one_less) - half), quarter


def _sign(value: EmittedValue, quarter: EmittedValue) -> EmittedValue:
    """Return ``value`` with its sign flipped if bit 1 of the quarter turn is set."""
    return (value.bits() ^ ((quarter & 2) << 30)).from_bits()


def sin(x: EmittedValue) -> EmittedValue:
    """Sine."""
    if x.kind == "f64":
        return x.rare(_is_large(x), "sin_large", _sine_of(_reduce_medium(x), x))
    sine, cosine, quarter = _sin_cos_f32(x)
    value = _sign(_odd(quarter, 1).select(cosine, sine), quarter)
    return x.rare(_is_large(x, LARGE_F), "sin_large", x.eq(0.0).select(x, value))


def cos(x: EmittedValue) -> EmittedValue:
    """Cosine."""
    if x.kind == "f64":
        return x.rare(_is_large(x), "cos_large", _cosine_of(_reduce_medium(x)))
    sine, cosine, quarter = _sin_cos_f32(x)
    return x.rare(_is_large(x, LARGE_F), "cos_large", _sign(_odd(quarter, 1).select(sine, cosine), quarter + 1))


def tan(x: EmittedValue) -> EmittedValue:
    """Tangent."""
    if x.kind == "f64":
        return x.rare(_is_large(x), "tan_large", _tangent_of(_reduce_medium(x), x))
    r, quarter = _reduce_f32(x)
    z = r * r
    sine = (r * z).mad(polynomial(z, c.SIN_S), r)
    cosine = (z * z).mad(polynomial(z, c.COS_S), z.mad(-0.5, 1.0))
    odd = _odd(quarter, 1)
    ratio = (odd.select(-cosine, sine) / odd.select(sine, cosine)).narrow()
    return x.rare(_is_large(x), "tan_large", x.eq(0.0).select(x, ratio))


OUT_OF_LINE: dict[str, Formula] = {"sin_large": sin_large, "cos_large": cos_large, "tan_large": tan_large}
