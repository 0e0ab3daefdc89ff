"""Functions of complex numbers z = x + i y.

The gradient of a real result with respect to z is that with respect to x plus i times that with respect to y.
"""

from __future__ import annotations

from diffkern.lang.library import built_in, of_complex
from diffkern.library.language import (
    Complex,
    Float,
    abs,  # noqa: A004 - as kernels have it
    atan2,
    cos,
    cosh,
    exp,
    hypot,
    isfinite,
    log,
    log1p,
    sin,
    sinh,
    sqrt,
    where,
)

__all__: list[str] = []


@built_in()
def conj(z: Complex) -> Complex:
    """The complex conjugate x - i y.

    Derivative: a cotangent is conjugated.

    Example: z = dk.conj(dk.complex(x[i], 2.0)); y[i] = z.imag
    """
    return Complex(z.real, -z.imag)


@built_in()
def angle(z: Complex) -> Float:
    """The angle of a complex number, atan2(y, x), in [-pi, pi].

    Derivative: i z / abs(z) ** 2.

    Example: y[i] = dk.angle(dk.complex(x[i], 2.0))
    """
    return atan2(z.imag, z.real)


@of_complex("abs")
def _abs(z: Complex) -> Float:
    return hypot(z.real, z.imag)


@of_complex("exp")
def _exp(z: Complex) -> Complex:
    r = exp(z.real)
    return Complex(r * cos(z.imag), r * sin(z.imag))


@of_complex("log")
def _log(z: Complex) -> Complex:
    """Return the logarithm; near the unit circle that of the absolute value is that of 1 + (abs(z) ** 2 - 1)."""
    x, y = abs(z.real), abs(z.imag)
    # Only quotients by the larger part are squared, so that nothing overflows.
    large, small = where(x >= y, x, y), where(x >= y, y, x)
    r = log(large)
    if large > 0.5 and large < 1.5:
        r = 0.5 * log1p((large - 1.0) * (large + 1.0) + small * small)
    elif large > 0.0 and isfinite(large):
        r += 0.5 * log1p((small / large) * (small / large))
    return Complex(r, atan2(z.imag, z.real))


@of_complex("sqrt")
def _sqrt(z: Complex) -> Complex:
    """Return the root whose real part is not negative, by sums without cancellation."""
    r = abs(z)
    w = Complex(0.0, 0.0)
    if r > 0.0:
        # Each is halved before the sum, which might overflow otherwise.
        t = sqrt(0.5 * r + 0.5 * abs(z.real))
        u = 0.5 * z.imag / t
        if z.real >= 0.0:
            w = Complex(t, u)
        else:
            # Here t is the imaginary part: the real part from a difference would cancel.
            w = Complex(abs(u), where(z.imag < 0.0, -t, t))
    # A NaN in one part makes both parts of the root NaN.
    elif r != r:
        w = Complex(r, r)
    return w


@of_complex("sin")
def _sin(z: Complex) -> Complex:
    return Complex(sin(z.real) * cosh(z.imag), cos(z.real) * sinh(z.imag))


@of_complex("cos")
def _cos(z: Complex) -> Complex:
    return Complex(cos(z.real) * cosh(z.imag), -(sin(z.real) * sinh(z.imag)))


@of_complex("pow")
def _pow(z: Complex, w: Complex) -> Complex:
    """Return exp(w log(z)); 0 where z is 0."""
    r = Complex(0.0, 0.0)
    # The logarithm of 0 is infinite, and its product with w may be NaN.
    if z != 0.0:
        r = exp(w * log(z))
    return r
