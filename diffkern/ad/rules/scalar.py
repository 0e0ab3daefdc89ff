"""Derivatives of scalar operations: the formulas of their rows, and the few that are not formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diffkern.ad.rules.formula import Formula
from diffkern.ad.rules.rule import Rule, RuleArguments, over_norm, times
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Value
from diffkern.ir.ops.polygamma import MAX_ORDER
from diffkern.ir.ops.table import all_ops, lookup
from diffkern.ir.types import Scalar, is_differentiable


def _formula_rule(formulas: tuple[Formula, ...]) -> Rule:
    def rule(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
        t = a.r.type
        assert isinstance(t, Scalar)
        env = dict(zip(("x", "y"), a.x, strict=False), r=a.r)
        out: list[Value | None] = []
        for formula, want in zip(formulas, a.want, strict=True):
            if not want:
                out.append(None)
            elif formula.is_one:
                out.append(a.ct)
            else:
                out.append(_times(b, a, formula, env, t))
        return out

    return rule


def _times(b: Builder, a: RuleArguments, formula: Formula, env: dict[str, Value], t: Scalar) -> Value:
    """Return ``ct * partial``; for a quotient, ``ct`` replaces a numerator of 1, or is divided before it is multiplied.

    So both partial derivatives of ``x / y`` share one division. One that is wanted alone divides 1 instead, which does
    not have to wait for ``ct`` and equals the result of ``1 / y``; the inverse times the numerator is computed first
    only where the whole derivative is finite for all inputs, so that 0 times it is 0.
    """
    quotient = formula.quotient
    if quotient is None:
        return times(b, a.ct, formula.emit(b, env, t), steep=a.steep, again=a.again)
    numerator, denominator = quotient
    if numerator.is_one:
        return b.div(a.ct, denominator.emit(b, env, t))
    if sum(a.want) > 1:
        return times(
            b, b.div(a.ct, denominator.emit(b, env, t)), numerator.emit(b, env, t), steep=a.steep, again=a.again
        )
    inverse = b.div(b.const(1.0, t), denominator.emit(b, env, t))
    if a.finite:
        return times(b, a.ct, b.mul(inverse, numerator.emit(b, env, t)), steep=a.steep, again=a.again)
    return times(b, b.mul(a.ct, inverse), numerator.emit(b, env, t), steep=a.steep, again=a.again)


def _add(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [a.ct, a.ct]


def _sub(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [a.ct, b.neg(a.ct) if a.want[1] else None]


def _neg(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [b.neg(a.ct)]


def _mul(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    x, y = a.x
    # x * x: one product 2 ct x for the first operand, and nothing for the second, instead of two equal sums.
    if a.op.operands[0] is a.op.operands[1]:
        assert isinstance(a.ct.type, Scalar)
        return [times(b, b.mul(b.const(2.0, a.ct.type), a.ct), x, steep=a.steep, again=a.again), None]
    return [
        times(b, a.ct, w, steep=a.steep, again=a.again) if want else None
        for w, want in zip((y, x), a.want, strict=True)
    ]


_ROOT: Final = _formula_rule((Formula("0.5/r"),))


def _sqrt(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [root_of_squares(b, a.ct, a.r)] if a.norm else _ROOT(b, a)


def root_of_squares(b: Builder, change: Value, root: Value) -> Value:
    """Return ``change / (2 root)``, and 0 where the root is 0: the squares have the derivative 0 there."""
    assert isinstance(root.type, Scalar)
    return b.mul(change, over_norm(b, b.const(0.5, root.type), root))


def _pow(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    # y x^(y-1), and r log(x); each slope is computed only if it is wanted, as both need transcendental functions.
    slopes = (power_slope(b, *a.x) if a.want[0] else None, exponent_slope(b, a.x[0], a.r) if a.want[1] else None)
    return [None if slope is None else times(b, a.ct, slope, steep=a.steep, again=a.again) for slope in slopes]


def power_slope(b: Builder, x: Value, y: Value) -> Value:
    """Return the derivative of ``x**y`` with respect to x: 0 for y = 0, while its own y-derivative need not be 0."""
    assert isinstance(y.type, Scalar)
    return times(b, b.one("pow", x, b.sub(y, b.const(1.0, y.type))), y, steep=True)


def exponent_slope(b: Builder, x: Value, r: Value) -> Value:
    """Return the derivative of ``r = x**y`` with respect to y: 0 at x = 0."""
    assert isinstance(r.type, Scalar)
    return _OF_EXPONENT.emit(b, {"x": x, "r": r}, r.type)


_OF_EXPONENT: Final = Formula(lookup("pow").partials[1])


def _choice(comparison: str) -> Rule:
    """Return the rule of min or max: ct goes to the chosen operand, the first in a tie, a NaN before a number."""

    def rule(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
        x, y = a.x
        second = b.one("or", b.one(comparison, y, x), b.one("isnan", y))
        zero = b.zero(a.ct.type)
        return [b.select(second, zero, a.ct), b.select(second, a.ct, zero)]

    return rule


def _select(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    # The condition is a boolean and has no cotangent; each arm gets ct where it was chosen.
    zero = b.zero(a.ct.type)
    return [None, b.select(a.x[0], a.ct, zero), b.select(a.x[0], zero, a.ct)]


def _copysign(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    """Return the cotangents of ``copysign(x, y)``: the factor is 1 if the signs are the same, else -1."""
    x, y = a.x
    assert isinstance(a.r.type, Scalar)
    one = b.const(1.0, a.r.type)
    factor = b.mul(b.one("copysign", one, x), b.one("copysign", one, y))
    return [b.mul(a.ct, factor) if a.want[0] else None, None]


def _atan2(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    steep, ratio, divisor, origin = atan2_parts(b, *a.x)
    zero = b.zero(a.ct.type)
    along = b.select(origin, zero, b.div(a.ct, divisor))
    across = b.select(origin, zero, b.div(b.mul(a.ct, ratio), divisor))
    return [
        b.select(steep, across, along) if a.want[0] else None,
        b.neg(b.select(steep, along, across)) if a.want[1] else None,
    ]


def atan2_parts(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value, Value]:
    """Return the parts of the partial derivatives of ``atan2(x, y)``: y and -x over ``x*x + y*y``, without squares.

    Returns
    -------
    steep
        Whether x is the greater coordinate.
    ratio
        The other coordinate over the greater one.
    divisor
        The sum of the squares over the greater one; 1 at the origin.
    origin
        Whether both are 0.
    """
    t = x.type
    assert isinstance(t, Scalar)
    steep = b.one("gt", b.one("abs", x), b.one("abs", y))
    greater, other = b.select(steep, x, y), b.select(steep, y, x)
    origin = b.one("eq", greater, b.zero(t))
    # The division by the greater coordinate must be finite at the origin too, where its result is not used.
    greater = b.select(origin, b.const(1.0, t), greater)
    ratio = b.div(other, greater)
    return steep, ratio, b.add(greater, b.mul(other, ratio)), origin


def _cast(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    source = a.x[0].type
    if not is_differentiable(source):
        return [None]
    return [b.one("cast", a.ct, to=source)]


def _polygamma(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [times(b, a.ct, next_polygamma(b, a.op, a.x[0]), steep=a.steep, again=a.again)]


def next_polygamma(b: Builder, op: Op, x: Value) -> Value:
    """Return the derivative of a polygamma function, which is the one of the next order."""
    order = op.attrs["order"] + 1
    if order > MAX_ORDER:
        raise AutodiffError(
            f"a derivative of digamma of order {order}",
            loc=op.loc,
            remedy=f"differentiate it at most {MAX_ORDER} times",
        )
    return b.one("polygamma", x, order=order)


def _rounded(b: Builder, a: RuleArguments) -> Sequence[Value | None]:
    return [a.ct]


SCALAR_RULES: dict[str, Rule] = {
    **{name: _formula_rule(tuple(map(Formula, row.partials))) for name, row in all_ops().items() if row.partials},
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "mul": _mul,
    "min": _choice("lt"),
    "max": _choice("gt"),
    "select": _select,
    "cast": _cast,
    "round_float16": _rounded,
    "round_bfloat16": _rounded,
    "copysign": _copysign,
    "atan2": _atan2,
    "polygamma": _polygamma,
    "sqrt": _sqrt,
    "pow": _pow,
}
