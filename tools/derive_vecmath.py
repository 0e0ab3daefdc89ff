"""Derive the constants of ``diffkern.vecmath``.

In: nothing.  Out: ``diffkern/vecmath/coefficients.py``, written whole.

Every polynomial is a minimax fit by the Remez exchange, in 110-digit arithmetic, over a fine Chebyshev grid.  The
coefficients are then rounded one at a time, lowest order first, and the rest is fitted again with the rounded ones held
fixed, so that the rounding of a low coefficient is made good by the higher ones.  The error written next to each
polynomial is that of the rounded coefficients in exact arithmetic.

Run ``python tools/derive_vecmath.py`` (needs mpmath; under two minutes) and format the result with ruff.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpmath import mp, mpf

mp.dps = 110
TARGET = Path(__file__).resolve().parent.parent / "diffkern/vecmath/coefficients.py"
ERFCX_CENTRE = 4
TINY = mpf(10) ** -20

RealFunction = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """One polynomial: a name, the function, the weight of its error, the interval and the error to reach."""

    name: str
    what: str
    function: RealFunction
    weight: RealFunction
    low: mpf
    high: mpf
    bits: int
    target_log2: float


def grid(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Chebyshev points without 0 itself (the quotients below are 0/0 there, and a row of zeros is singular)."""
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    return [p for p in points if abs(p) > TINY]


def remez(powers: Sequence[int], xs: Sequence[mpf], target: Sequence[mpf], weight: Sequence[mpf]) -> list[mpf]:
    """Coefficients of the weighted minimax fit by powers of the points ``xs``; none if the system is singular."""
    count = len(powers) + 1
    table = [[x**p for p in powers] for x in xs]
    picked = [round(i * (len(xs) - 1) / (count - 1)) for i in range(count)]
    coefficients: list[mpf] = []
    for _ in range(30):
        rows = [[*(t * weight[i] for t in table[i]), mpf((-1) ** k)] for k, i in enumerate(picked)]
        try:
            solution = mp.lu_solve(mp.matrix(rows), mp.matrix([target[i] * weight[i] for i in picked]))
        except ZeroDivisionError:  # a refit by few powers on a symmetric interval: there is no better fit to find
            break
        coefficients, level = [solution[k] for k in range(count - 1)], abs(solution[count - 1])
        errors = [w * (mp.fdot(row, coefficients) - t) for row, t, w in zip(table, target, weight, strict=True)]
        extrema: list[int] = []
        for i, value in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (value > 0):
                if abs(value) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(value) for value in errors)
        if len(extrema) < count or worst <= level * mpf("1.001"):
            break
        picked = extrema
    return coefficients


def to_bits(value: mpf, bits: int) -> mpf:
    """Round to nearest with ``bits`` of significand."""
    if value == 0:
        return value
    mantissa, exponent = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), exponent - bits)


def worst_error(coefficients: list[mpf], xs: Sequence[mpf], target: Sequence[mpf], weight: Sequence[mpf]) -> mpf:
    """The largest weighted error of a polynomial, lowest order first."""
    backwards = coefficients[::-1]
    return max(abs(w * (mp.polyval(backwards, x) - t)) for x, t, w in zip(xs, target, weight, strict=True))


def solve(fit: Fit) -> tuple[list[mpf], mpf]:
    """The shortest rounded polynomial that reaches the target, lowest order first, and its error."""
    degree = 1
    while True:
        xs = grid(fit.low, fit.high, max(120, 14 * (degree + 2)))
        target, weight = [fit.function(x) for x in xs], [fit.weight(x) for x in xs]
        first = remez(range(degree + 1), xs, target, weight)
        if worst_error(first, xs, target, weight) < mpf(2) ** fit.target_log2:
            break
        degree += 1
    fixed: list[mpf] = []
    refits = 4 if fit.bits == 53 else degree
    coefficients = first
    for power in range(degree + 1):
        fixed.append(to_bits(coefficients[0], fit.bits))
        if power == degree:
            break
        kept = coefficients[1:]
        if power < refits:
            rest = [t - mp.polyval(fixed[::-1], x) for x, t in zip(xs, target, strict=True)]
            again = remez(range(power + 1, degree + 1), xs, rest, weight)
            # On an interval around 0 the powers that are left may not alternate, and the refit is then useless.
            if again and worst_error(fixed + again, xs, target, weight) < worst_error(fixed + kept, xs, target, weight):
                kept = again
        coefficients = kept
    return fixed, worst_error(fixed, xs, target, weight)


def fits() -> list[Fit]:
    """All polynomials.  Suffix D: for float64 results; S: float64 arithmetic for a float32 result; F: float32."""
    quarter_pi_sq = (mp.pi / 4) ** 2 * mpf("1.0001")
    half_ln2 = mp.ln(2) / 2 * mpf("1.0001")
    log_z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.0001")
    two_over_ln2 = 2 / mp.ln(2)

    def root(f: RealFunction) -> RealFunction:
        return lambda z: f(mp.sqrt(z))

    sin = root(lambda r: (mp.sin(r) - r) / r**3)
    cos = root(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4)
    expm1 = lambda r: (mp.expm1(r) - r) / r**2  # noqa: E731
    exp2 = lambda r: mp.expm1(r * mp.ln(2)) / r  # noqa: E731
    log = root(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3)
    power = root(lambda s: two_over_ln2 * (mp.atanh(s) - s - s**3 / 3) / s**5)
    sinh = root(lambda x: (mp.sinh(x) - x) / x**3)
    tanh = root(lambda x: (mp.tanh(x) - x) / x**3)
    tanh_n = root(lambda x: (mp.sinh(x) - x * mp.cosh(x)) / x**3)
    tanh_d = root(lambda x: (mp.cosh(x) - 1) / x**2)
    atan = root(lambda t: (mp.atan(t) - t) / t**3)
    asin = root(lambda x: (mp.asin(x) - x) / x**3)
    erf = root(lambda x: mp.erf(x) / x - 1)
    erf_weight = root(lambda x: x / mp.erf(x))
    erfcx_x: RealFunction = lambda t: ERFCX_CENTRE * (1 + t) / (1 - t)  # noqa: E731

    def erfcx(t: mpf) -> mpf:
        x = erfcx_x(t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    by_z: RealFunction = lambda z: z  # noqa: E731
    one: RealFunction = lambda z: mpf(1)  # noqa: E731
    atan_z = (mpf(7) / 16) ** 2 * mpf("1.001")
    rows = [
        ("SIN", "(sin(r)-r)/r^3 in z=r^2", sin, by_z, mpf(0), quarter_pi_sq, (-59, -33, -29)),
        ("COS", "(cos(r)-1+z/2)/z^2 in z=r^2", cos, lambda z: z * z, mpf(0), quarter_pi_sq, (-59, -33, -29)),
        ("EXPM1", "(expm1(r)-r)/r^2", expm1, abs, -half_ln2, half_ln2, (-58, -33, -28)),
        ("EXP2", "(2^r-1)/r", exp2, one, mpf("-0.5"), mpf("0.5"), (-57, -33, -27)),
        ("LOG", "(2 atanh(s)-2s)/s^3 in z=s^2", log, by_z, mpf(0), log_z, (-60, -34, -31)),
        ("POW", "2/ln2 (atanh(s)-s-s^3/3)/s^5 in z=s^2", power, lambda z: z * z, mpf(0), log_z, (-72, None, None)),
        ("SINH", "(sinh(x)-x)/x^3 in z=x^2", sinh, by_z, mpf(0), mpf(1), (-58, -32, None)),
        ("TANH_N", "(sinh(x)-x cosh(x))/x^3 in z=x^2", tanh_n, by_z, mpf(0), mpf("0.37"), (-59, None, None)),
        ("TANH_D", "(cosh(x)-1)/z in z=x^2", tanh_d, by_z, mpf(0), mpf("0.37"), (-58, None, None)),
        ("TANH", "(tanh(x)-x)/x^3 in z=x^2", tanh, by_z, mpf(0), mpf("0.37"), (None, None, -26)),
        ("ATAN", "(atan(t)-t)/t^3 in z=t^2", atan, by_z, mpf(0), atan_z, (-58, -32, None)),
        ("ASIN", "(asin(x)-x)/x^3 in z=x^2", asin, by_z, mpf(0), mpf("0.2501"), (-58, -32, None)),
        ("CBRT", "cbrt(m)", mp.cbrt, lambda m: 1 / mp.cbrt(m), mpf("0.7071"), mpf("1.4143"), (-14, None, None)),
        ("ERF", "erf(x)/x-1 in z=x^2", erf, erf_weight, mpf(0), mpf("1.001"), (-58, -31, None)),
        (
            "ERFCX",
            f"(1+2x) exp(x^2) erfc(x) in t=(x-{ERFCX_CENTRE})/(x+{ERFCX_CENTRE})",
            erfcx,
            lambda t: 1 / erfcx(t),
            (mpf("0.49") - ERFCX_CENTRE) / (mpf("0.49") + ERFCX_CENTRE),
            (mpf(28) - ERFCX_CENTRE) / (28 + ERFCX_CENTRE),
            (-57, -31, None),
        ),
    ]
    out = []
    for name, what, function, weight, low, high, targets in rows:
        for suffix, bits, wanted in zip("DSF", (53, 53, 24), targets, strict=True):
            if wanted is not None:
                out.append(Fit(f"{name}_{suffix}", what, function, weight, low, high, bits, wanted))
    return out


def split(value: mpf, widths: Sequence[int]) -> list[mpf]:
    """``value`` as a sum of parts with the given numbers of significand bits, each the rounding of what remains."""
    parts = []
    for width in widths:
        parts.append(to_bits(value, width))
        value -= parts[-1]
    return parts


def literal(value: mpf, bits: int) -> str:
    """The shortest decimal that reads back as the same float64 or, for 24 bits, the float32 value in full."""
    number = float(value)
    if bits == 24 and struct.unpack("f", struct.pack("f", number))[0] != number:
        raise ValueError(f"{number!r} is not a float32")
    return repr(number)


def main() -> None:
    """Derive everything and write the module."""
    lines = [
        '"""Polynomials and split constants of vecmath, written by ``tools/derive_vecmath.py``; do not edit by hand.',
        "",
        "Coefficients stand lowest order first.  Suffix ``_D``: float64, for float64 results.  ``_S``: float64",
        "arithmetic, shorter, for results that are rounded to float32.  ``_F``: float32.  The error in each comment is",
        "the largest weighted error of the rounded coefficients in exact arithmetic.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for fit in fits():
        coefficients, error = solve(fit)
        sys.stderr.write(f"{fit.name}: {len(coefficients)} coefficients, 2^{mp.nstr(mp.log(error, 2), 4)}\n")
        interval = f"[{mp.nstr(fit.low, 6)}, {mp.nstr(fit.high, 6)}]"
        lines.append(f"# {fit.what} on {interval}: error 2^{mp.nstr(mp.log(error, 2), 4)}")
        lines.append(f"{fit.name}: tuple[float, ...] = (")
        lines += [f"    {literal(c, fit.bits)}," for c in coefficients]
        lines.append(")")
    ln2 = mp.ln(2)
    inverse_ln2, inverse_ln10, log10_2 = 1 / ln2, 1 / mp.ln(10), mp.ln(2) / mp.ln(10)
    constants: list[tuple[str, str, list[mpf], int]] = [
        ("PIO2_PARTS", "pi/2 in 33-bit parts and a rest: a product with a 20-bit integer is exact",
         split(mp.pi / 2, (33, 33, 33, 53)), 53),
        ("PIO2_SHORT", "pi/2 in two parts, the first of 33 bits", split(mp.pi / 2, (33, 53)), 53),
        ("PIO2_FUSED", "pi/2 in three float64", split(mp.pi / 2, (53, 53, 53)), 53),
        ("PIO2_F", "pi/2 in three float32", split(mp.pi / 2, (24, 24, 24)), 24),
        ("PIO2", "pi/2 in two float64", split(mp.pi / 2, (53, 53)), 53),
        ("PI", "pi in two float64", split(mp.pi, (53, 53)), 53),
        ("LN2", "ln 2: 40 bits, then the rest", split(ln2, (40, 53)), 53),
        ("LN2_F", "ln 2 for float32: 14 bits, then the rest", split(ln2, (14, 24)), 24),
        ("INV_LN2", "1/ln 2: 32 bits, then the rest", split(inverse_ln2, (32, 53)), 53),
        ("INV_LN10", "1/ln 10: 32 bits, then the rest", split(inverse_ln10, (32, 53)), 53),
        ("LOG10_2", "log10 2: 40 bits, then the rest", split(log10_2, (40, 53)), 53),
        ("TWO_OVER_LN2", "2/ln 2 in two float64", split(2 / ln2, (53, 53)), 53),
        ("TWO_THIRDS_OVER_LN2", "2/(3 ln 2) in two float64", split(2 / ln2 / 3, (53, 53)), 53),
        ("ATAN_HALF", "atan(1/2) in two float64", split(mp.atan(mpf("0.5")), (53, 53)), 53),
        ("PIO4", "pi/4 in two float64", split(mp.pi / 4, (53, 53)), 53),
    ]  # fmt: skip
    for name, what, parts, bits in constants:
        lines += [f"# {what}", f"{name}: tuple[float, ...] = ({', '.join(literal(p, bits) for p in parts)})"]
    scalars = [
        ("TWO_OVER_PI", 2 / mp.pi), ("LOG2E", inverse_ln2), ("SQRT_HALF", mp.sqrt(mpf("0.5"))),
        ("CBRT_2", mp.cbrt(2)), ("CBRT_HALF", mp.cbrt(mpf("0.5"))), ("ERFCX_CENTRE", mpf(ERFCX_CENTRE)),
    ]  # fmt: skip
    lines += [f"{name}: float = {float(value)!r}" for name, value in scalars]
    mp.dps = 420
    text = f"{int(mp.floor(2 / mp.pi * mpf(2) ** 1344)):x}"
    lines += ["# floor(2/pi * 2^1344): the bits that the reduction of the largest float64 needs"]
    lines += ["TWO_OVER_PI_BITS: int = int("]
    lines += [f'    "{text[i : i + 84]}"' for i in range(0, len(text), 84)]
    lines[-1] += ","
    lines += ["    16,", ")"]
    lines.append("")
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
