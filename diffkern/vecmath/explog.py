"""exp, exp2, expm1, log, log2, log10, log1p, pow and cbrt.

exp: n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts, a polynomial of r in [-ln 2 / 2, ln 2 / 2], times 2^n
in two steps, so that results below the normal range are rounded once.  log: x = 2^k m with m in [sqrt(1/2), sqrt 2),
s = (m - 1) / (m + 1), and log m = 2 atanh s as a polynomial of s^2 (the form of fdlibm).  pow: log2 of the base in two
parts, times the exponent in two parts, through exp2.  float32: exp, exp2 and log in float32; the others in float64 with
shorter polynomials, where no compensation is needed.
"""

from __future__ import annotations

from diffkern.process.dataclass import dataclass
from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import (
    Double,
    EmittedValue,
    clamp,
    clamp_above,
    double_product,
    exp2_integer,
    exponent_bias,
    fast_two_sum,
    mantissa_bits,
    polynomial,
    round_with_bits,
    scale,
    scale_by_bits,
    two_product,
    two_sum,
)

INFINITY = float("inf")
NAN = float("nan")
_SQRT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
_SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}


@dataclass(frozen=True)
class ExpParts:
    """exp(x) = 2^n * (1 + p)."""

    n: EmittedValue
    p: EmittedValue
    bits: EmittedValue
    """``n`` as :func:`round_with_bits` gives it."""


def exp_parts(x: EmittedValue, short: bool = False) -> ExpParts:
    """Return the parts of a clamped float; ``short``: float64 arithmetic for a float32 result."""
    n, bits = round_with_bits(x, c.LOG2E)
    high, low = c.LN2_F if x.kind == "f32" else c.LN2
    # n*high is exact, and so is the first difference.
    r = (-n).mad(low, (-n).mad(high, x))
    table = c.EXPM1_F if x.kind == "f32" else c.EXPM1_S if short else c.EXPM1_D
    return ExpParts(n, (r * r).mad(polynomial(r, table), r), bits)


def exp(x: EmittedValue) -> EmittedValue:
    """e^x."""
    lowest, highest = (-104.0, 89.0) if x.kind == "f32" else (-746.0, 710.0)
    # Underflow costs a processor more than the whole function: those elements compute e^0, and are 0 in the end.
    vanishes = x < lowest
    parts = exp_parts(clamp_above(vanishes.select(0.0, x), highest))
    return vanishes.select(0.0, scale_by_bits(1.0 + parts.p, parts.bits))


def _exp2_fraction(r: EmittedValue, short: bool = False) -> EmittedValue:
    """Return 2^r - 1 for |r| <= 1/2."""
    return r * polynomial(r, c.EXP2_F if r.kind == "f32" else c.EXP2_S if short else c.EXP2_D)


def exp2(x: EmittedValue) -> EmittedValue:
    """2^x."""
    lowest, highest = (-150.0, 129.0) if x.kind == "f32" else (-1075.0, 1025.0)
    vanishes = x < lowest
    x = clamp_above(vanishes.select(0.0, x), highest)
    n, bits = round_with_bits(x)
    return vanishes.select(0.0, scale_by_bits(1.0 + _exp2_fraction(x - n), bits))


def expm1(x: EmittedValue) -> EmittedValue:
    """e^x - 1."""
    if x.kind == "f32":
        return _expm1_wide(clamp(x, -20.0, 89.0).widen(), short=True).narrow()
    return _expm1_wide(clamp(x, -40.0, 710.0), short=False)


def _expm1_wide(x: EmittedValue, short: bool) -> EmittedValue:
    parts = exp_parts(x, short)
    half = exp2_integer(parts.n - 1.0)
    # 2^n (1 + p) - 1 = 2 (2^(n-1) p + (2^(n-1) - 1/2)); the inner difference is exact to n = 53, then of no weight.
    value = parts.p.mad(half, half - 0.5) * 2.0
    return parts.n.eq(0.0).select(parts.p, value).copysign(x)


@dataclass(frozen=True)
class LogParts:
    """x = 2^k (1 + f)."""

    k: EmittedValue
    f: EmittedValue


def log_parts(x: EmittedValue) -> LogParts:
    """Return the parts of a positive finite float, even a subnormal one; sqrt(1/2) <= 1 + f < sqrt 2."""
    kind = x.kind
    shift, bias = mantissa_bits(kind), exponent_bias(kind)
    small = x < _SMALLEST_NORMAL[kind]
    lift = float(shift + 1)
    bits = small.select(x * 2.0**lift, x).bits()
    # With this offset the stored exponent changes at sqrt(1/2) instead of at 1, and stays positive.
    stored = (bits + ((bias << shift) - _SQRT_HALF_BITS[kind])) >> shift
    m = (bits - ((stored - bias) << shift)).from_bits()
    # stored is below 2^12: under the bits of 2^23 or 2^52 it is the low part of a float.
    k = (stored | (x.const(2.0**shift)).bits()).from_bits() - (2.0**shift + bias)
    return LogParts(small.select(k - lift, k), m - 1.0)


def _log_tail(f: EmittedValue, half_square: EmittedValue, short: bool = False) -> EmittedValue:
    """Return log(1+f) - f + f^2/2."""
    s = f / (2.0 + f)
    z = s * s
    table = c.LOG_F if f.kind == "f32" else c.LOG_S if short else c.LOG_D
    return s * (half_square + z * polynomial(z, table))


def _log_specials(x: EmittedValue, value: EmittedValue) -> EmittedValue:
    """Return ``value``, but the log of 0, infinity, negative numbers and nan where x is one of them."""
    value = x.eq(0.0).select(-INFINITY, value)
    value = x.eq(INFINITY).select(x, value)
    return (x >= 0.0).select(value, NAN)


def log(x: EmittedValue) -> EmittedValue:
    """Natural logarithm."""
    parts = log_parts(x)
    f, k = parts.f, parts.k
    half_square = f * f * 0.5
    high, low = c.LN2_F if x.kind == "f32" else c.LN2
    tail = k.mad(low, _log_tail(f, half_square))
    return _log_specials(x, k.mad(high, f - (half_square - tail)))


def _log_scaled(x: EmittedValue, inverse: tuple[float, ...], unit: tuple[float, ...]) -> EmittedValue:
    """Return log(x) * inverse, where unit = log(2) * inverse; both come in two parts."""
    wide = x.widen() if x.kind == "f32" else x
    parts = log_parts(wide)
    f, k = parts.f, parts.k
    half_square = f * f * 0.5
    if x.kind == "f32":
        natural = f - (half_square - _log_tail(f, half_square, short=True))
        return _log_specials(x, natural.mad(inverse[0] + inverse[1], k * (unit[0] + unit[1])).narrow())
    # The head keeps 21 bits, so that its product with the 32 bits of inverse[0] is exact.
    head = ((f - half_square).bits() & -(1 << 32)).from_bits()
    tail = (f - head) - half_square + _log_tail(f, half_square)
    low = (tail + head) * inverse[1] + tail * inverse[0] + k * unit[1]
    total, rest = two_sum(k * unit[0], head * inverse[0])
    return _log_specials(x, total + (rest + low))


def log2(x: EmittedValue) -> EmittedValue:
    """Logarithm to the base 2."""
    return _log_scaled(x, c.INV_LN2, (1.0, 0.0))


def log10(x: EmittedValue) -> EmittedValue:
    """Logarithm to the base 10."""
    return _log_scaled(x, c.INV_LN10, c.LOG10_2)


def log1p_wide(x: EmittedValue, short: bool) -> EmittedValue:
    """Return log(1 + x) of a float64, specials included."""
    u = 1.0 + x
    lost = two_sum(x.const(1.0), x)[1]
    parts = log_parts(u)
    near = parts.k.eq(0.0)
    # With k = 0, 1 + f is 1 + x: f is x itself, and nothing was lost.
    f = near.select(x, parts.f)
    correction = near.select(0.0, lost / u)
    half_square = f * f * 0.5
    tail = parts.k.mad(c.LN2[1], correction) + _log_tail(f, half_square, short)
    value = parts.k.mad(c.LN2[0], f - (half_square - tail)).copysign(x)
    value = x.eq(-1.0).select(-INFINITY, value)
    value = x.eq(INFINITY).select(x, value)
    return (x >= -1.0).select(value, NAN)


def log1p(x: EmittedValue) -> EmittedValue:
    """log(1 + x)."""
    return log1p_wide(x.widen(), short=True).narrow() if x.kind == "f32" else log1p_wide(x, short=False)


def _log2_double(x: EmittedValue) -> Double:
    """Return log2 of a positive finite float64 to about 2^-65 relative."""
    parts = log_parts(x)
    f = parts.f
    den_high, den_low = fast_two_sum(f.const(2.0), f)
    s_high = f / den_high
    back, back_low = two_product(s_high, den_high)
    s = fast_two_sum(s_high, ((f - back) - back_low - s_high * den_low) / den_high)
    z = double_product(s, s)
    third = double_product(z, (f.const(c.TWO_THIRDS_OVER_LN2[0]), f.const(c.TWO_THIRDS_OVER_LN2[1])))
    tail = z[0] * z[0] * polynomial(z[0], c.POW_D)
    sum_high, sum_low = fast_two_sum(f.const(c.TWO_OVER_LN2[0]), third[0])
    factor = fast_two_sum(sum_high, sum_low + (third[1] + (tail + c.TWO_OVER_LN2[1])))
    high, low = double_product(s, factor)
    total, rest = two_sum(parts.k, high)
    return fast_two_sum(total, rest + low)


def _log2_short(x: EmittedValue) -> EmittedValue:
    """Return log2 of a positive finite float64 to about 2^-45 relative."""
    parts = log_parts(x)
    half_square = parts.f * parts.f * 0.5
    natural = parts.f - (half_square - _log_tail(parts.f, half_square))
    return natural.mad(c.LOG2E, parts.k)


def power(x: EmittedValue, y: EmittedValue) -> EmittedValue:
    """x^y with the special values of C99."""
    short = x.kind == "f32"
    if short:
        magnitude = _pow_short(abs(x).widen(), y.widen()).narrow()
    else:
        magnitude = _pow_long(abs(x), y)
    return _pow_specials(x, y, magnitude)


def _pow_short(base: EmittedValue, y: EmittedValue) -> EmittedValue:
    exponent = clamp(_log2_short(base) * y, -160.0, 140.0)
    n, _ = round_with_bits(exponent)
    # The result is within the normal range of float64: its rounding to float32 is the only one that matters.
    return (1.0 + _exp2_fraction(exponent - n, short=True)) * exp2_integer(n)


def _pow_long(base: EmittedValue, y: EmittedValue) -> EmittedValue:
    log_high, log_low = _log2_double(base)
    # Beyond 2^66 every base but 1 gives 0 or infinity, and the exact product below would overflow.
    y = clamp(y, -(2.0**66), 2.0**66)
    high, error = two_product(log_high, y)
    low = error + log_low * y
    inside = abs(high) < 1100.0
    high, low = clamp(high, -1100.0, 1100.0), inside.select(low, 0.0)
    n, _ = round_with_bits(high)
    r = high - n
    total = r + low
    # 2^(total + lost) = 2^total (1 + ln 2 * lost), and lost is below 2^-54.
    lost = (r - total) + low
    fraction = _exp2_fraction(total)
    return scale(1.0 + (fraction + lost * 0.6931471805599453), n)


def _pow_specials(x: EmittedValue, y: EmittedValue, value: EmittedValue) -> EmittedValue:
    base, size = abs(x), abs(y)
    whole = 2.0 ** mantissa_bits(x.kind)
    integral = (size >= whole) | ((size + whole) - whole).eq(size)
    half = size * 0.5
    odd = integral & (size < 2.0 * whole) & ~((half + whole) - whole).eq(half)
    negative = x.const(1.0).copysign(x) < 0.0
    up = y > 0.0
    value = base.eq(0.0).select(up.select(x.const(0.0), INFINITY), value)
    value = base.eq(INFINITY).select(up.select(x.const(INFINITY), 0.0), value)
    value = size.eq(INFINITY).select(((base > 1.0) ^ up).select(x.const(0.0), INFINITY), value)
    value = (size.eq(INFINITY) & base.eq(1.0)).select(1.0, value)
    value = (negative & odd).select(-value, value)
    value = ((x < 0.0) & ~integral & (base < INFINITY)).select(NAN, value)
    value = (x.is_nan() | y.is_nan()).select(NAN, value)
    return (x.eq(1.0) | y.eq(0.0)).select(1.0, value)


def cbrt(x: EmittedValue) -> EmittedValue:
    """Cube root."""
    wide = x.widen() if x.kind == "f32" else x
    size = abs(wide)
    parts = log_parts(size)
    m = 1.0 + parts.f
    third, _ = round_with_bits(parts.k * (1.0 / 3.0))
    rest = parts.k - third * 3.0
    first = polynomial(m, c.CBRT_D)
    high, low = rest.eq(1.0), rest.eq(-1.0)
    t = first * high.select(c.CBRT_2, low.select(first.const(c.CBRT_HALF), 1.0))
    m = m * high.select(2.0, low.select(first.const(0.5), 1.0))
    # Halley: the error is cubed, 2^-14 to about 2^-42.
    cube = t * t * t
    t = t * ((cube + m + m) / (cube + cube + m))
    if x.kind == "f64":
        # With 26 bits in t its square is exact, and one Newton step, written as a small correction, rounds once.
        t = ((t.bits() + (1 << 26)) & -(1 << 27)).from_bits()
        ratio = m / (t * t)
        t = t + t * ((ratio - t) / (t + t + ratio))
    # third is at least -359: a single power of two is enough, and the result is never subnormal in float64.
    value = (t * exp2_integer(third)).copysign(wide)
    value = (wide.eq(0.0) | ~(size < INFINITY)).select(wide, value)
    return value.narrow() if x.kind == "f32" else value
