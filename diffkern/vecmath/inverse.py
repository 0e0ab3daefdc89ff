"""asin, acos, atan and atan2.

atan2 works on the smaller and the larger of the two magnitudes: their ratio is in [0, 1], and is moved by atan(1/2) or
atan(1) into [-7/16, 7/16] with a single division.  atan is atan2 with a second argument of 1.  asin above 1/2 is
asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
"""

from __future__ import annotations

from diffkern.vecmath import coefficients as c
from diffkern.vecmath.emitter import EmittedValue, polynomial
from diffkern.vecmath.explog import NAN


def _atan_of_ratio(
    a: EmittedValue, b: EmittedValue, swapped: EmittedValue, turned: EmittedValue, short: bool
) -> EmittedValue:
    """Return the angle of a/b, 0 <= a <= b: pi/2 minus it if ``swapped``, and pi minus that if ``turned``."""
    low_range = a <= b * 0.4375
    middle = a < b * 0.6875
    # 2a - b is exact for a/b in [1/4, 1], and so is a - b for a/b >= 1/2.
    top = low_range.select(a, middle.select((a + a) - b, a - b))
    bottom = low_range.select(b, middle.select((b + b) + a, a + b))
    t = b.eq(0.0).select(0.0, top / bottom)
    z = t * t
    tail = (t * z) * polynomial(z, c.ATAN_S if short else c.ATAN_D)
    # angle = sign * (base + atan t) + quarter turns: exact enough with the base and the turns in two parts.
    base = low_range.select(a.const(0.0), middle.select(a.const(c.ATAN_HALF[0]), c.PIO4[0]))
    base_low = low_range.select(a.const(0.0), middle.select(a.const(c.ATAN_HALF[1]), c.PIO4[1]))
    minus = swapped ^ turned
    turns = turned.select(swapped.select(a.const(c.PIO2[0]), c.PI[0]), swapped.select(a.const(c.PIO2[0]), 0.0))
    turns_low = turned.select(swapped.select(a.const(c.PIO2[1]), c.PI[1]), swapped.select(a.const(c.PIO2[1]), 0.0))
    sign = minus.select(a.const(-1.0), 1.0)
    high = sign * base
    total = turns + high
    # |turns| >= |high|, or turns is 0.
    rest = turns.eq(0.0).select(0.0, high - (total - turns))
    head = sign * t
    start = total + head
    # Where total is 0 the head is the result and loses nothing; elsewhere |total| >= pi/4 - or atan(1/2) - > |t|.
    lost = total.eq(0.0).select(0.0, head - (start - total))
    return start + (lost + (rest + (turns_low + sign * (base_low + tail))))


def _atan2(y: EmittedValue, x: EmittedValue, short: bool) -> EmittedValue:
    ay, ax = abs(y), abs(x)
    swapped = ay > ax
    a, b = swapped.select(ax, ay), swapped.select(ay, ax)
    both = a.eq(float("inf"))
    a, b = both.select(1.0, a), both.select(1.0, b)
    if not short:
        # Keeps the sums below overflow, and small quotients clear of subnormal operands.
        factor = (b > 2.0**1000).select(a.const(2.0**-60), (b < 2.0**-900).select(a.const(2.0**120), 1.0))
        a, b = a * factor, b * factor
    turned = x.const(1.0).copysign(x) < 0.0
    angle = _atan_of_ratio(a, b, swapped, turned, short).copysign(y)
    return (x.is_nan() | y.is_nan()).select(NAN, angle)


def atan2(y: EmittedValue, x: EmittedValue) -> EmittedValue:
    """Angle of the point (x, y)."""
    if y.kind == "f32":
        return _atan2(y.widen(), x.widen(), short=True).narrow()
    return _atan2(y, x, short=False)


def atan(x: EmittedValue) -> EmittedValue:
    """Inverse tangent."""
    short = x.kind == "f32"
    wide = x.widen() if short else x
    size = abs(wide)
    # Above 2^60 the result is pi/2, and the sums of the quotient would overflow.
    size = (size > 2.0**60).select(2.0**60, size)
    one = size.const(1.0)
    swapped = size > 1.0
    a, b = swapped.select(one, size), swapped.select(size, one)
    angle = _atan_of_ratio(a, b, swapped, size < 0.0, short).copysign(wide)
    angle = wide.is_nan().select(NAN, angle)
    return angle.narrow() if short else angle


def _asin_parts(size: EmittedValue, short: bool) -> tuple[EmittedValue, EmittedValue, EmittedValue]:
    """Return whether |x| > 1/2, then s and t with asin s = s + t for s = |x| or sqrt((1 - |x|) / 2)."""
    far = size > 0.5
    z = far.select((1.0 - size) * 0.5, size * size)
    s = far.select(z.sqrt(), size)
    return far, s, (s * z) * polynomial(z, c.ASIN_S if short else c.ASIN_D)


def asin(x: EmittedValue) -> EmittedValue:
    """Inverse sine; nan outside [-1, 1]."""
    wide = x.widen() if x.kind == "f32" else x
    far, s, t = _asin_parts(abs(wide), x.kind == "f32")
    high = c.PIO2[0] - (s + s)
    lost = (c.PIO2[0] - high) - (s + s)
    value = far.select(high + (lost + (c.PIO2[1] - (t + t))), s + t).copysign(wide)
    return value.narrow() if x.kind == "f32" else value


def acos(x: EmittedValue) -> EmittedValue:
    """Inverse cosine; nan outside [-1, 1]."""
    wide = x.widen() if x.kind == "f32" else x
    far, s, t = _asin_parts(abs(wide), x.kind == "f32")
    negative = wide < 0.0
    # |x| <= 1/2: pi/2 -+ asin |x|; x > 1/2: 2 asin s; x < -1/2: pi - 2 asin s.
    head, rest = far.select(s + s, s), far.select(t + t, t)
    turns = far.select(negative.select(s.const(c.PI[0]), 0.0), c.PIO2[0])
    turns_low = far.select(negative.select(s.const(c.PI[1]), 0.0), c.PIO2[1])
    sign = (far & negative).select(-1.0, far.select(s.const(1.0), negative.select(s.const(1.0), -1.0)))
    high = turns + sign * head
    lost = turns.eq(0.0).select(0.0, sign * head - (high - turns))
    value = high + (lost + (turns_low + sign * rest))
    return value.narrow() if x.kind == "f32" else value
