"""The signature of a derivative rule, and the products and sums of which rules are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import Scalar
from diffkern.process.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RuleArguments:
    """The arguments of a rule.

    Attributes
    ----------
    op
        The primal op, for its attributes.
    x
        The operand values, as recomputed in the adjoint.
    r
        The result's value.
    ct
        The result's cotangent.
    want
        For each operand whether a cotangent is needed.
    finite
        Whether the derivative is known to be finite for all inputs.
    steep
        Whether the cotangent may be infinite although the result is not: a partial derivative that is exactly zero then
        makes the contribution zero.
    again
        Whether the derivative is differentiated itself.
    norm
        For a square root, whether it is that of a sum of squares, whose derivative at 0 is 0.
    """

    op: Op
    x: Sequence[Value]
    r: Value
    ct: Value
    want: Sequence[bool]
    finite: bool
    steep: bool = False
    again: bool = False
    norm: bool = False


Rule = Callable[[Builder, RuleArguments], Sequence[Value | None]]


# -- products and sums -------------------------------------------------------------------------------------------------
# Of cotangents or tangents with partial derivatives, also where one factor is 0 and the other infinite.


def times(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """Return ``change * partial``; if ``steep``, exactly zero where ``partial`` is, as ``change`` may be infinite
    there.

    If ``again``, the program is differentiated itself, and a product that is zero anyway keeps its derivative.
    """
    product = b.mul(change, partial)
    return _zero_with(b, partial, product, again) if steep else product


def scaled(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """Return the product of a composite and a scalar, in either order; the flags are those of :func:`times`."""
    vector, scalar = (change, partial) if isinstance(partial.type, Scalar) else (partial, change)
    product = b.one("scale", vector, scalar)
    if not steep:
        return product
    if partial is scalar:
        return _zero_with(b, partial, product, again)
    pairs = zip(b.components(partial), b.components(product), strict=True)
    return b.construct(product.type, [_zero_with(b, factor, one, again) for factor, one in pairs])


def sum_of_products(b: Builder, change: Value, partial: Value, *, steep: bool, again: bool = True) -> Value:
    """Return the inner product of two vectors; the flags are those of :func:`times`."""
    if not steep:
        return b.one("dot", change, partial)
    pairs = zip(b.components(change), b.components(partial), strict=True)
    total, *others = (times(b, x, y, steep=True, again=again) for x, y in pairs)
    for one in others:
        total = b.add(total, one)
    return total


def along_unit(b: Builder, change: Value, unit: Value, *, steep: bool, again: bool = True) -> Value:
    """Return the part of a change that is parallel to a unit vector; the flags are those of :func:`times`."""
    if not steep:
        return b.one("scale", unit, b.one("dot", unit, change))
    length = sum_of_products(b, change, unit, steep=True, again=again)
    return scaled(b, length, unit, steep=True, again=again)


def over_norm(b: Builder, numerator: Value, norm: Value) -> Value:
    """Return ``numerator / norm``, and 0 where the norm is 0; no intermediate result is infinite."""
    t = norm.type
    assert isinstance(t, Scalar)
    # The division itself is made safe, not only its result selected: a derivative of the untaken arm would be NaN.
    at_zero = b.one("eq", norm, b.const(0.0, t))
    safe = b.select(at_zero, b.const(1.0, t), norm)
    return b.select(at_zero, b.const(0.0, t), b.div(numerator, safe))


def _zero_with(b: Builder, factor: Value, product: Value, again: bool) -> Value:
    """Return a product, exactly zero where a factor is."""
    zero = b.one("eq", factor, b.zero(factor.type))
    if not again:
        return b.select(zero, b.zero(product.type), product)
    # If differentiated again, only a NaN is replaced: selecting zero everywhere would cut the derivative with respect
    # to the zero factor.
    parts = b.components(product)
    kept = [b.select(b.one("and", zero, b.one("isnan", v)), b.zero(v.type), v) for v in parts]
    return b.construct(product.type, kept)
