"""Powers of integers whose exponent is known at run time, as numba computes them."""

from __future__ import annotations

from diffkern.frontend.terms.context import Context
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value

__all__ = ["integer_power"]


def integer_power(cx: Context, base: Value, exponent: Value) -> Value:
    """Return a power of integers, by repeated squaring; for a negative exponent the inverse as an integer, else 0."""
    b, t = cx.b, T.scalar_of(base.type)
    one, zero = b.const(1, t), b.const(0, t)
    signed = T.scalar_of(exponent.type).kind is T.Kind.INT
    negative = b.one("lt", exponent, zero) if signed else b.const(False, T.BOOL)
    left = b.select(negative, b.neg(exponent), exponent) if signed else exponent
    test, body = Region((Value(t), Value(t), Value(t))), Region((Value(t), Value(t), Value(t)))
    with b.into(test):
        test.yields = (b.one("ne", test.params[2], zero),)
    with b.into(body):
        result, square, rest = body.params
        odd = b.one("ne", b.one("and", rest, one), zero)
        result = b.select(odd, b.mul(result, square), result)
        body.yields = (result, b.mul(square, square), b.one("shr", rest, one))
    found, _, _ = b.while_((one, base, left), test, body)
    if not signed:
        # Only 1 and -1 have an inverse among the integers, and their powers are right already.
        return found
    unit = b.one("eq", b.mul(base, base), one)
    return b.select(b.one("and", negative, b.one("not", unit)), zero, found)
