"""Products of cotangents or tangents with partial derivatives, also where one factor is 0 and the other infinite."""

from __future__ import annotations

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import Scalar

__all__ = ["over_norm", "scaled", "sum_of_products", "times"]


def times(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """``change * partial``; ``steep``: exactly zero where ``partial`` is, as ``change`` may be infinite there.

    ``again``: the program is differentiated itself, so that a product that is zero as it is keeps its derivative.
    """
    product = b.mul(change, partial)
    return _zero_with(b, partial, product, again) if steep else product


def scaled(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """The product of a composite and a scalar, in either order."""
    vector, scalar = (change, partial) if isinstance(partial.type, Scalar) else (partial, change)
    product = b.one("scale", vector, scalar)
    if not steep:
        return product
    if partial is scalar:
        return _zero_with(b, partial, product, again)
    pairs = zip(b.components(partial), b.components(product), strict=True)
    return b.construct(product.type, [_zero_with(b, factor, one, again) for factor, one in pairs])


def sum_of_products(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """The inner product of two vectors."""
    if not steep:
        return b.one("dot", change, partial)
    pairs = zip(b.components(change), b.components(partial), strict=True)
    total, *others = (times(b, x, y, steep=True, again=again) for x, y in pairs)
    for one in others:
        total = b.add(total, one)
    return total


def over_norm(b: Builder, numerator: Value, norm: Value) -> Value:
    """``numerator / norm``, and 0 where the norm is 0; nothing of it is infinite on the way."""
    t = norm.type
    assert isinstance(t, Scalar)
    at_zero = b.one("eq", norm, b.const(0.0, t))
    safe = b.select(at_zero, b.const(1.0, t), norm)
    return b.select(at_zero, b.const(0.0, t), b.div(numerator, safe))


def _zero_with(b: Builder, factor: Value, product: Value, again: bool) -> Value:
    """A product, exactly zero where a factor is."""
    zero = b.one("eq", factor, b.zero(factor.type))
    if not again:
        return b.select(zero, b.zero(product.type), product)
    parts = b.components(product)
    kept = [b.select(b.one("and", zero, b.one("isnan", v)), b.zero(v.type), v) for v in parts]
    return b.construct(product.type, kept)
