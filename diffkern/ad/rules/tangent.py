"""Forward mode of single operations: the tangent of a result from those of its operands.

The derivative of an operation is stated once, for reverse mode. If it consists of partial derivatives, these serve both
modes; if the operation is linear or bilinear, its row says so; the rule of any other operation is linear in the
cotangent, and forward mode needs the transpose of that: the rule is differentiated with respect to the cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.ad.rules import RULES, RuleArguments
from diffkern.ad.rules.bilinear import FORMS, product
from diffkern.ad.rules.composite import cofactors
from diffkern.ad.rules.formula import Formula
from diffkern.ad.rules.rule import along_unit, over_norm, scaled, sum_of_products, times
from diffkern.ad.rules.scalar import atan2_parts, exponent_slope, next_polygamma, power_slope, root_of_squares
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.composite import PRODUCTS
from diffkern.ir.ops.row import Diff, OpDef, Tangent
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar, Type, Vec, is_differentiable
from diffkern.opt.dce import eliminate

__all__ = ["TangentArguments", "Transpose", "Transposes", "tangent_rule"]

Transpose = Callable[[Function], Function]
"""From a function whose one result is linear in its last parameter to the one that also takes a number like the result,
and yields the result and its transpose at that number."""


class TangentArguments:
    """An operation with its values, for which a tangent is computed.

    Attributes
    ----------
    op
        The primal op, for its attributes and types.
    x, r
        The values of its operands and of its result.
    t
        The tangents of the operands, None where it is zero; at least one is not.
    invertible
        For a quotient or a square root, whether the divisor of the tangent is bounded away from 0 for all inputs: the
        tangent is then multiplied by its inverse, which serves all components and other tangents too.
    steep
        Whether tangents may be infinite although the operands are not: a partial derivative that is exactly zero then
        makes the contribution zero.
    norm
        For a square root, whether it is that of a sum of squares, whose derivative at 0 is 0.
    """

    __slots__ = ("_guard", "invertible", "norm", "op", "r", "steep", "t", "x")

    def __init__(
        self,
        op: Op,
        x: Sequence[Value],
        r: Value,
        t: Sequence[Value | None],
        guard: Callable[[Value, Value], Value] | None,
        invertible: bool = False,
        *,
        steep: bool = False,
        norm: bool = False,
    ) -> None:
        self.op, self.x, self.r, self.t, self._guard, self.invertible = op, x, r, t, guard, invertible
        self.steep, self.norm = steep, norm

    def guard(self, tangent: Value, contribution: Value) -> Value:
        """Return a contribution; if a guard is needed, exactly zero where its tangent is."""
        return contribution if self._guard is None else self._guard(tangent, contribution)


def tangent_rule(b: Builder, a: TangentArguments, transposes: Transposes) -> Value | None:
    """Append the ops that compute the tangent of a result, and return it; None if it is zero."""
    row = lookup(a.op.name)
    # Direct rules come first: they share work between the two tangents, or handle ties, which the general ways do not.
    if a.op.name in _DIRECT:
        return _DIRECT[a.op.name](b, a)
    if a.steep and a.op.name in _STEEP:
        (t,) = a.t
        assert t is not None
        return a.guard(t, _STEEP[a.op.name](b, a, t))
    if row.tangent is Tangent.LINEAR:
        return _linear(b, a)
    if row.tangent is Tangent.BILINEAR:
        return _sum(b, _bilinear(b, a))
    if row.partials:
        return _sum(b, _partials(b, a, row))
    # Any other rule is transposed; the result is one term per operand with a tangent.
    found = ((t, transposes.along(b, a, k, t)) for k, t in enumerate(a.t) if t is not None)
    contributions = [a.guard(t, change) for t, change in found if change is not None]
    return _sum(b, contributions) if contributions else None


def _sum(b: Builder, contributions: Sequence[Value]) -> Value:
    total, *others = contributions
    for one in others:
        total = b.add(total, one)
    return total


def _linear(b: Builder, a: TangentArguments) -> Value:
    """Apply the operation to the tangents; operands that are not floats stay as they are."""
    operands = [
        x if not is_differentiable(x.type) else b.zero(x.type) if t is None else t
        for x, t in zip(a.x, a.t, strict=True)
    ]
    return b.one(a.op.name, *operands, **a.op.attrs)


def _bilinear(b: Builder, a: TangentArguments) -> list[Value]:
    """Apply the product rule in the first two operands; the tangent of a third one is added."""
    (x, y), (tx, ty) = a.x[:2], a.t[:2]
    terms = [(t, other, pair) for t, other, pair in ((tx, y, (tx, y)), (ty, x, (x, ty))) if t is not None]
    # x . x: the two terms t . x and x . t are the same value, computed once and added twice.
    twice = a.op.name == "dot" and x is y and tx is ty
    if twice:
        terms = terms[:1]
    if a.steep and a.op.name in FORMS:
        found = [
            product(b, a.op.name, t, other, first=pair[0] is t, result=a.r.type) for t, other, pair in terms
        ]  # fmt: skip
    elif a.steep and a.op.name in PRODUCTS:
        found = [scaled(b, t, other, steep=True) for t, other, _ in terms]
    else:
        found = [b.one(a.op.name, *pair, **a.op.attrs) for _, _, pair in terms]
    return (found * 2 if twice else found) + [t for t in a.t[2:] if t is not None]


def _partials(b: Builder, a: TangentArguments, row: OpDef) -> list[Value]:
    t = a.r.type
    assert isinstance(t, Scalar)
    env = dict(zip(("x", "y"), a.x, strict=False), r=a.r)
    out = []
    for text, tangent in zip(row.partials, a.t, strict=True):
        if tangent is not None:
            formula = Formula(text)
            out.append(tangent if formula.is_one else a.guard(tangent, _times(b, a, tangent, formula, env)))
    return out


def _times(b: Builder, a: TangentArguments, tangent: Value, formula: Formula, env: dict[str, Value]) -> Value:
    """Return ``tangent * partial``; for a quotient, the tangent replaces a numerator of 1."""
    t = a.r.type
    assert isinstance(t, Scalar)
    if formula.quotient is not None and formula.quotient[0].is_one:
        return b.div(tangent, formula.quotient[1].emit(b, env, t))
    return times(b, tangent, formula.emit(b, env, t), steep=a.steep)


def _add(b: Builder, a: TangentArguments) -> Value:
    return _sum(b, [t for t in a.t if t is not None])


def _sub(b: Builder, a: TangentArguments) -> Value:
    x, y = a.t
    if y is None:
        assert x is not None
        return x
    return b.neg(y) if x is None else b.sub(x, y)


def _quotient(product: Callable[..., Value]) -> Callable[[Builder, TangentArguments], Value]:
    """Return the rule of a quotient: one division serves both tangents, (t_x - r t_y) / y."""

    def rule(b: Builder, a: TangentArguments) -> Value:
        (_, y), (tx, ty) = a.x, a.t
        change = None
        if ty is not None:
            change = a.guard(ty, product(b, ty, a.r, steep=True) if a.steep else product(b, a.r, ty, steep=False))
        if change is None:
            assert tx is not None
            numerator = tx
        else:
            numerator = b.neg(change) if tx is None else b.sub(tx, change)
        if a.invertible:
            return product(b, numerator, _inverse(b, y), steep=False)
        return a.guard(numerator, b.one(a.op.name, numerator, y))

    return rule


def _sqrt(b: Builder, a: TangentArguments) -> Value:
    """Return the tangent of a square root: half of the tangent over the root."""
    (t,) = a.t
    assert t is not None
    assert isinstance(t.type, Scalar)
    if a.invertible:
        return b.mul(b.mul(t, b.const(0.5, t.type)), _inverse(b, a.r))
    if a.norm:
        return a.guard(t, root_of_squares(b, t, a.r))
    return _sum(b, _partials(b, a, lookup(a.op.name)))


def _pow(b: Builder, a: TangentArguments) -> Value:
    (x, y), (tx, ty) = a.x, a.t
    changes = []
    if tx is not None:
        changes.append(a.guard(tx, times(b, tx, power_slope(b, x, y), steep=a.steep)))
    if ty is not None:
        changes.append(a.guard(ty, times(b, ty, exponent_slope(b, x, a.r), steep=a.steep)))
    return _sum(b, changes)


def _atan2(b: Builder, a: TangentArguments) -> Value:
    """Return the tangent of an angle: one division serves both tangents, as in reverse mode."""
    steep, ratio, divisor, origin = atan2_parts(b, *a.x)
    zero = b.zero(a.r.type)
    x, y = (zero if t is None else t for t in a.t)
    change = b.select(steep, b.sub(b.mul(x, ratio), y), b.sub(x, b.mul(y, ratio)))
    return b.select(origin, zero, b.div(change, divisor))


def _polygamma(b: Builder, a: TangentArguments) -> Value:
    (t,) = a.t
    assert t is not None
    return a.guard(t, times(b, t, next_polygamma(b, a.op, a.x[0]), steep=a.steep))


def _inverse(b: Builder, v: Value) -> Value:
    assert isinstance(v.type, Scalar)
    return b.div(b.const(1.0, v.type), v)


def _choice(comparison: str) -> Callable[[Builder, TangentArguments], Value]:
    """Return the rule of min or max: the tangent of the chosen operand, the first in a tie, a NaN before a number."""

    def rule(b: Builder, a: TangentArguments) -> Value:
        first, second = (b.zero(a.r.type) if t is None else t for t in a.t)
        x, y = a.x
        chosen = b.one("or", b.one(comparison, y, x), b.one("isnan", y))
        return b.select(chosen, second, first)

    return rule


def _select(b: Builder, a: TangentArguments) -> Value:
    first, second = (b.zero(a.r.type) if t is None else t for t in a.t[1:])
    return b.select(a.x[0], first, second)


def _cast(b: Builder, a: TangentArguments) -> Value:
    t = a.t[0]
    assert t is not None
    return b.one("cast", t, **a.op.attrs)


def _same(b: Builder, a: TangentArguments) -> Value:
    t = a.t[0]
    assert t is not None
    return t


_DIRECT: dict[str, Callable[[Builder, TangentArguments], Value]] = {
    "add": _add,
    "sub": _sub,
    "div": _quotient(times),
    "unscale": _quotient(scaled),
    "min": _choice("lt"),
    "max": _choice("gt"),
    "select": _select,
    "sqrt": _sqrt,
    "atan2": _atan2,
    "pow": _pow,
    "polygamma": _polygamma,
    "cast": _cast,
    "round_float16": _same,
    "round_bfloat16": _same,
}


def _length_sq(b: Builder, a: TangentArguments, t: Value) -> Value:
    half = sum_of_products(b, t, a.x[0], steep=True)
    return b.add(half, half)


def _length(b: Builder, a: TangentArguments, t: Value) -> Value:
    return over_norm(b, sum_of_products(b, t, a.x[0], steep=True), a.r)


def _normalize(b: Builder, a: TangentArguments, t: Value) -> Value:
    # The derivative projects onto the plane perpendicular to r and divides by the length.
    assert isinstance(a.r.type, Vec)
    inverse = over_norm(b, b.const(1.0, a.r.type.dtype), b.one("length", a.x[0]))
    return scaled(b, b.sub(t, along_unit(b, t, a.r, steep=True)), inverse, steep=True)


def _determinant(b: Builder, a: TangentArguments, t: Value) -> Value:
    return sum_of_products(b, t, cofactors(b, a.x[0]), steep=True)


def _inverse_matrix(b: Builder, a: TangentArguments, t: Value) -> Value:
    # d(M^-1) = -M^-1 dM M^-1
    ahead = product(b, "matmul", t, a.r, first=False, result=a.r.type)
    return b.neg(product(b, "matmul", ahead, a.r, first=True, result=a.r.type))


_STEEP: dict[str, Callable[[Builder, TangentArguments, Value], Value]] = {
    "length_sq": _length_sq,
    "length": _length,
    "normalize": _normalize,
    "determinant": _determinant,
    "inverse": _inverse_matrix,
}
"""Rules of composites whose tangent may be infinite beside a partial derivative that is exactly zero."""


class Transposes:
    """Transposed derivative rules, one for each operation with its attributes and types."""

    def __init__(self, transpose: Transpose) -> None:
        self._transpose = transpose
        self._known: dict[object, Function | None] = {}

    def along(self, b: Builder, a: TangentArguments, k: int, tangent: Value) -> Value | None:
        """Append the tangent of the result along one operand's tangent; None if the result does not vary with it."""
        attrs = sorted(a.op.attrs.items(), key=lambda item: item[0])
        key: object = (a.op.name, k, tuple(v.type for v in a.x), tuple(attrs))
        try:
            known = key in self._known
        except TypeError:  # an attribute is no key
            key, known = (a.op.result, k), False
        if not known:
            self._known[key] = self._transposed(a, k)
        fn = self._known[key]
        if fn is None:
            return None
        # The rule is linear in its cotangent, so its transpose may be evaluated at any cotangent; zero is the cheapest.
        given = (*a.x, a.r, b.zero(a.r.type), tangent)
        cloner = Cloner(b, dict(zip(fn.params, given, strict=True)))
        return cloner.inline(Region((), fn.body.ops, fn.body.yields), ())[-1]

    def _transposed(self, a: TangentArguments, k: int) -> Function | None:
        rule = _rule_of(a, k)
        if rule is None:
            return None
        fn = self._transpose(rule)
        # The function also yields the rule's own result; only the transpose is of interest, the rest is dead.
        fn.body.yields = fn.body.yields[-1:]
        eliminate(fn)
        return fn


def _rule_of(a: TangentArguments, k: int) -> Function | None:
    """Return the derivative rule of an operation for one operand, as a function of operands, result and cotangent."""

    def fresh(t: Type) -> Value:
        return Value(t)

    x, r, ct = [fresh(v.type) for v in a.x], fresh(a.r.type), fresh(a.r.type)
    b = Builder(loc=a.op.loc)
    # Only this operand is wanted, so the function has one result that is linear in ct.
    want = [i == k for i in range(len(x))]
    found = RULES[a.op.name](b, RuleArguments(a.op, x, r, ct, want, finite=False))[k]
    if found is None:
        return None
    # Internal ops have no derivative, so a rule that uses them cannot be transposed.
    for op in walk(b.region):
        if lookup(op.name).diff is Diff.INTERNAL:
            raise AutodiffError(
                f"{a.op.name} has no derivative in forward mode", loc=a.op.loc, remedy="differentiate in reverse mode"
            )
    b.region.yields = (found,)
    return Function(a.op.name, (*x, r, ct), b.region, loc=a.op.loc)
