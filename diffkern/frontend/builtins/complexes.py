"""Complex numbers: their operators, their parts, and how they are made.

Terms, one of them a complex number, and an operator, or the arguments of ``complex``, give the result. A complex number
is a vector of two, its real and its imaginary part (:class:`~diffkern.ir.types.Role`). A real number combined with one
counts as a complex number without imaginary part.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import (
    NARROW,
    WEAK,
    WEAK_COMPLEX,
    WEAK_FLOAT,
    Const,
    Static,
    Term,
    Tup,
    Val,
    describe,
    spread,
)
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.ops.scalar import EQUALITIES
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["PARTS", "any_complex", "binary", "compare", "construct", "is_complex", "literal", "made"]

PARTS: Final[Mapping[str, int]] = {"real": 0, "imag": 1}
"""The attributes of a complex number, and which component each is."""

_MAX_UNROLLED: Final = 16
"""Up to this integer a power is a product."""


def is_complex(term: Term) -> bool:
    """Return whether a term is a complex number."""
    return isinstance(term, Val) and T.is_complex(term.value.type)


def any_complex(terms: Sequence[Term]) -> bool:
    """Return whether one of the arguments of a function of numbers is a complex number."""
    return any(map(is_complex, terms))


# -- how they are made -------------------------------------------------------------------------------------------------


def literal(cx: Context, number: complex) -> Val:
    """Return a literal such as ``2j``, as weak as those of floats."""
    return Val(cx.b.construct(WEAK_COMPLEX, [cx.b.const(part, WEAK_FLOAT) for part in (number.real, number.imag)]))


def made(cx: Context, name: str, node: ast.Call) -> Term:
    """Lower ``complex(re, im)``, whose width is that of its parts."""
    args = dict(zip(PARTS, node.args, strict=False))
    named = {k.arg: k.value for k in node.keywords}
    if len(node.args) > len(PARTS) or not set(named) <= {*PARTS} - {*args}:
        cx.type_error(node, f"{name} takes a real and an imaginary part", f"write {name}(re, im)")
    given: dict[str, ast.expr] = {**args, **{str(k): v for k, v in named.items()}}
    terms = {part: cx.expr(given[part]) if part in given else Const(0.0) for part in PARTS}
    if is_complex(terms["real"]) and "imag" not in given:
        return terms["real"]
    parts = [coerce.scalar_term(cx, term, given.get(part, node), f"the {part} part") for part, term in terms.items()]
    return Val(_joined(cx, parts, coerce.common(cx, parts[0], parts[1], node, name), node))


def construct(cx: Context, t: T.Composite, name: str, args: Sequence[Term], node: ast.AST) -> Term:
    """Lower ``complex64()``, ``complex64(re)``, ``complex64(re, im)``, ``complex64(z)``."""
    items = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
    if len(items) == 1 and is_complex(items[0]):
        (term,) = items
        assert isinstance(term, Val)
        return Val(cx.b.cast(term.value, t))
    if len(items) > len(PARTS):
        cx.type_error(node, f"{name} has 2 components, not {len(items)}", f"write {name}(re, im)")
    parts = [coerce.scalar_term(cx, item, node, f"a part of {name}") for item in items]
    return Val(_joined(cx, [*parts, *[Const(0.0)] * (2 - len(parts))], t.dtype, node))


def _joined(cx: Context, parts: Sequence[Const | Val], dtype: T.Scalar, node: ast.AST) -> Value:
    """Return the number of two parts; its type has floats of full width, and those of literals stay weak."""
    if dtype in NARROW.values() or not dtype.is_float:
        dtype = WEAK_FLOAT if dtype in WEAK else T.FLOAT32
    return cx.b.construct(T.complex_number(dtype), [coerce.to_scalar(cx, part, dtype, node) for part in parts])


def _as_complex(cx: Context, term: Const | Val, dtype: T.Scalar, node: ast.AST) -> Value:
    """Return an operand as a complex number over a scalar type."""
    if is_complex(term):
        return coerce.to_scalar(cx, term, dtype, node)
    return _joined(cx, [coerce.scalar_term(cx, term, node, "an operand"), Const(0.0)], dtype, node)


# -- operators ---------------------------------------------------------------------------------------------------------


def binary(cx: Context, op: str, sign: str, a: Const | Val, b: Const | Val, node: ast.AST) -> Val:
    """Return ``a op b`` for two operands, at least one complex, the other complex or real."""
    if not all(is_complex(t) or coerce.is_number(t) for t in (a, b)) or op not in _OPERATORS:
        _refuse(cx, sign, a, b, node)
    if op == "pow" and isinstance(b, Const) and isinstance(b.value, int) and abs(b.value) <= _MAX_UNROLLED:
        return Val(_whole_power(cx, a, b.value, node))
    dtype = coerce.common(cx, a, b, node, sign)
    if op == "pow":
        base, exponent = (Val(_as_complex(cx, t, dtype, node)) for t in (a, b))
        return _power(cx, base, exponent, node)
    # A real factor scales both parts: half the products, and no NaN from infinity times a zero imaginary part.
    if op == "mul" and not (is_complex(a) and is_complex(b)):
        z, s = (a, b) if is_complex(a) else (b, a)
        return Val(cx.b.scale(coerce.to_scalar(cx, z, dtype, node), coerce.to_scalar(cx, s, dtype, node)))
    if op == "div" and not is_complex(b):
        return Val(cx.b.one("unscale", coerce.to_scalar(cx, a, dtype, node), coerce.to_scalar(cx, b, dtype, node)))
    left, right = _as_complex(cx, a, dtype, node), _as_complex(cx, b, dtype, node)
    if op == "mul":
        return Val(_product(cx, left, right))
    return Val(_quotient(cx, left, right) if op == "div" else cx.b.one(op, left, right))


_OPERATORS: Final = frozenset({"add", "sub", "mul", "div", "pow"})


def _refuse(cx: Context, sign: str, a: Term, b: Term, node: ast.AST) -> NoReturn:
    cx.type_error(node, f"{sign} of {describe(a)} and {describe(b)}", "complex numbers have + - * / ** == and !=")


def compare(cx: Context, op: str, sign: str, a: Const | Val, b: Const | Val, node: ast.AST) -> Val:
    """Return ``a == b`` and ``a != b``; complex numbers have no order."""
    if op not in EQUALITIES or not all(is_complex(t) or coerce.is_number(t) for t in (a, b)):
        cx.type_error(node, f"{sign} of {describe(a)} and {describe(b)}", "compare abs(z), z.real or z.imag")
    dtype = coerce.common(cx, a, b, node, sign)
    left, right = (cx.b.components(_as_complex(cx, t, dtype, node)) for t in (a, b))
    real, imag = (cx.b.one(op, x, y) for x, y in zip(left, right, strict=True))
    return Val(cx.b.one("and" if op == "eq" else "or", real, imag))


def _product(cx: Context, z: Value, w: Value) -> Value:
    (a, b), (c, d), k = cx.b.components(z), cx.b.components(w), cx.b
    parts = k.sub(k.mul(a, c), k.mul(b, d)), k.add(k.mul(a, d), k.mul(b, c))
    return k.construct(z.type, parts)


def _quotient(cx: Context, z: Value, w: Value) -> Value:
    """Return ``z / w`` by Smith's algorithm: the divisor's parts enter by their quotient, so that no
    square overflows.
    """
    (a, b), (c, d), k = cx.b.components(z), cx.b.components(w), cx.b
    zero = k.zero(c.type)
    first = k.one("ge", k.one("abs", c), k.one("abs", d))
    large, small = k.select(first, c, d), k.select(first, d, c)
    x, y = k.select(first, a, b), k.select(first, b, a)
    # A divisor of 0 makes this quotient 0 / 1; the divisions by it below then give infinities and NaN.
    ratio = k.div(small, k.select(k.one("eq", large, zero), k.full(c.type, 1.0), large))
    divisor = k.add(large, k.mul(small, ratio))
    real = k.div(k.add(x, k.mul(y, ratio)), divisor)
    imag = k.div(k.sub(y, k.mul(x, ratio)), divisor)
    return k.construct(z.type, [real, k.select(first, imag, k.neg(imag))])


def _power(cx: Context, base: Val, exponent: Val, node: ast.AST) -> Val:
    """Return ``z ** w`` by the built-in function."""
    call = ast.Call(spread(Static(INTRINSICS["pow"], "**")), [spread(base), spread(exponent)], [])
    result = cx.expr(ast.copy_location(call, node))
    assert isinstance(result, Val)
    return result


def _whole_power(cx: Context, base: Const | Val, exponent: int, node: ast.AST) -> Value:
    """Return a power by repeated squaring; for a negative exponent it is inverted at the end."""
    assert isinstance(base, Val)
    square, left, result = base.value, abs(exponent), None
    one = _as_complex(cx, Const(1.0), T.scalar_of(square.type), node)
    while left:
        if left & 1:
            result = square if result is None else _product(cx, result, square)
        left >>= 1
        if left:
            square = _product(cx, square, square)
    if result is None:
        return one
    return result if exponent > 0 else _quotient(cx, one, result)
