"""Decomposition of numbers and the reverse: ``divmod``, ``frexp``, ``ldexp``, ``sign`` of NumPy.

Each is made of operations that have derivatives: a float times powers of two whose exponents are integers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK_FLOAT, Const, Term, Tup, Val
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = ["divided", "fraction_and_exponent", "scaled_by_power", "sign_or_zero"]

_BITS = {32: (T.UINT32, 23, 127), 64: (T.UINT64, 52, 1023)}
"""By bits of a float: the integer of its bits, the bits of its fraction, the bias of its exponent."""


def divided(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``divmod(a, b)``."""
    a, b = (coerce.scalar_term(cx, arg, node, "an argument of divmod") for arg in args)
    return Tup((arith.binary(cx, "floordiv", a, b, node), arith.binary(cx, "mod", a, b, node)))


def sign_or_zero(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``np.sign(x)``: -1, 0 or 1, NaN for NaN."""
    x = coerce.scalar_term(cx, args[0], node, "the argument of sign")
    v = coerce.own_value(cx, x, node)
    t = T.scalar_of(v.type)
    if t == T.BOOL:
        cx.type_error(node, "the argument of sign must be a number, not a bool", "write int(b)")
    if t.kind is T.Kind.UINT:
        return Val(cx.b.select(cx.b.one("gt", v, cx.b.const(0, t)), cx.b.const(1, t), cx.b.const(0, t)))
    return Val(cx.b.one("sign", v))


def scaled_by_power(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``ldexp(x, n)``: x times 2**n, rounded once."""
    x = _float(cx, args[0], node, "the first argument of ldexp")
    n = coerce.scalar_term(cx, args[1], node, "the second argument of ldexp")
    exponent = coerce.own_value(cx, n, node)
    if not T.scalar_of(exponent.type).is_integer:
        cx.type_error(node, f"ldexp with an exponent of {exponent.type}", "pass an integer")
    if T.scalar_of(exponent.type).bits < 64:
        exponent = cx.b.cast(exponent, T.INT64)
    return Val(_times_power(cx, x, exponent))


def fraction_and_exponent(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    """Lower ``frexp(x)``: a number in [0.5, 1) with the sign of x, and the exponent of the power of two
    that it lacks.
    """
    x = _float(cx, args[0], node, "the argument of frexp")
    b, t = cx.b, T.scalar_of(x.type)
    _, fraction, bias = _BITS[t.bits]
    # A subnormal number has its exponent once it is multiplied by a power of two that makes it a normal one.
    small = b.one("lt", b.one("abs", x), b.const(2.0 ** (1 - bias), t))
    field = _exponent_field(cx, b.select(small, b.mul(x, b.const(2.0 ** (fraction + 1), t)), x))
    lost = b.select(small, b.const(fraction + 1, T.INT64), b.const(0, T.INT64))
    exponent = b.sub(b.sub(field, b.const(bias - 1, T.INT64)), lost)
    # 0, infinities and NaN are what they are, with the exponent 0.
    usual = b.one("and", b.one("isfinite", x), b.one("ne", x, b.const(0.0, t)))
    exponent = b.select(usual, exponent, b.const(0, T.INT64))
    return Tup((Val(_times_power(cx, x, b.neg(exponent))), Val(b.cast(exponent, T.INT32))))


def _float(cx: Context, term: Term, node: ast.AST, what: str) -> Value:
    x = coerce.scalar_term(cx, term, node, what)
    if isinstance(x, Const):
        return cx.b.const(float(x.value), T.FLOAT64 if cx.layout is not None else T.FLOAT32)
    t = T.scalar_of(x.type)
    if t == T.BOOL:
        cx.type_error(node, f"{what} must be a number, not a bool", "write float(b)")
    wide = T.FLOAT64 if cx.layout is not None else T.FLOAT32
    return x.value if t in (T.FLOAT32, T.FLOAT64) else cx.b.cast(x.value, wide if t != WEAK_FLOAT else T.FLOAT64)


def _exponent_field(cx: Context, x: Value) -> Value:
    """Return the exponent field in the bits of a normal number."""
    b, t = cx.b, T.scalar_of(x.type)
    held, fraction, bias = _BITS[t.bits]
    field = b.one("shr", b.one(f"bits_of_{t}", x), b.const(fraction, held))
    return b.cast(b.one("and", field, b.const(2 * bias + 1, held)), T.INT64)


def _times_power(cx: Context, x: Value, exponent: Value) -> Value:
    """Return a float times 2 to an integer: by three factors that are normal numbers, of which only the last one
    rounds.
    """
    b, t = cx.b, T.scalar_of(x.type)
    held, fraction, bias = _BITS[t.bits]
    # Downwards in steps that leave the product normal, or it would round twice.
    up, down = bias, bias - fraction - 2

    def number(n: int) -> Value:
        return b.const(n, T.INT64)

    for _ in range(2):
        large, small = b.one("gt", exponent, number(bias)), b.one("lt", exponent, number(1 - bias))
        step = b.select(large, number(up), b.select(small, number(-down), number(0)))
        factor = b.select(large, b.const(2.0**up, t), b.select(small, b.const(2.0**-down, t), b.const(1.0, t)))
        x, exponent = b.mul(x, factor), b.sub(exponent, step)
    # Two steps have brought it into this range, unless the result is 0 or infinite in any case.
    exponent = b.one("max", b.one("min", exponent, number(bias)), number(1 - bias))
    bits = b.one("shl", b.cast(b.add(exponent, number(bias)), held), b.const(fraction, held))
    return b.mul(x, b.one(f"{t}_of_bits", bits))
