"""``range``: the bounds and the step of a ``for`` loop, as integers of one type.

A call of ``range`` gives its :class:`Trips`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, Const, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.trip_count import count_trips, index_of_trip
from diffkern.process.dataclass import dataclass

__all__ = ["Trips", "count_of", "is_range", "item_of", "stays_inside", "step_of", "trips_of"]


@dataclass(frozen=True, slots=True)
class Trips:
    """Bounds and step of a ``range``; ``step`` known now is an int; ``known`` are all three, if they are known now.

    ``above_least``: whether the bounds are signed and known not to be the least integer of the type.
    """

    lo: Value
    hi: Value
    step: int | Value
    type: T.Scalar
    nonneg: bool  # whether the loop variable is never negative
    known: tuple[int, int, int] | None = None
    above_least: tuple[bool, bool] = (False, False)


def is_range(cx: Context, node: ast.expr) -> bool:
    """Return whether an expression is a call of ``range``."""
    return isinstance(node, ast.Call) and cx.builtin(node.func) == "range"


def trips_of(cx: Context, call: ast.Call) -> Trips:
    """Return the trips of a loop over a call of ``range``."""
    if call.keywords or not 1 <= len(call.args) <= 3:
        cx.type_error(
            call, "range takes 1 to 3 integers", "write range(stop), range(start, stop) or range(start, stop, step)"
        )
    terms = list(coerce.widened(cx, *(_bound_term(cx, arg) for arg in call.args), Const(0)))[:-1]
    lo, hi = (Const(0), terms[0]) if len(terms) == 1 else (terms[0], terms[1])
    step: Const | Val = terms[2] if len(terms) == 3 else Const(1)
    scalar = _common_type(cx, (lo, hi, step), call)
    low, high = coerce.to_scalar(cx, lo, scalar, call), coerce.to_scalar(cx, hi, scalar, call)
    if isinstance(step, Const):
        if step.value == 0:
            cx.type_error(call.args[2], "the step of range is 0", "write a step such as 1 or -1")
        # Downwards the last index is above the stop: with a stop of -1 or more none is negative.
        ends_above = cx.is_nonneg(hi) or (isinstance(hi, Const) and hi.value >= -1)
        nonneg = cx.is_nonneg(lo) if step.value > 0 else ends_above
        known = None
        if isinstance(lo, Const) and isinstance(hi, Const):
            known = int(lo.value), int(hi.value), int(step.value)
        above = _above_least(cx, lo, scalar), _above_least(cx, hi, scalar)
        return Trips(low, high, int(step.value), scalar, nonneg, known, above)
    return Trips(low, high, coerce.to_scalar(cx, step, scalar, call), scalar, False)


def _above_least(cx: Context, bound: Const | Val, t: T.Scalar) -> bool:
    if t.kind is not T.Kind.INT:
        return False
    return cx.is_nonneg(bound) or (isinstance(bound, Const) and bound.value > -(1 << (t.bits - 1)))


def _common_type(cx: Context, terms: Sequence[Const | Val], node: ast.AST) -> T.Scalar:
    types = [T.scalar_of(t.type) for t in terms if isinstance(t, Val) and t.type not in WEAK]
    if not types:
        return max(
            (coerce.default_type(t) for t in terms if isinstance(t, Const)), key=lambda t: t.bits, default=T.INT32
        )
    found = types[0]
    for t in types[1:]:
        promoted = coerce.promote(found, t)
        if promoted is None:
            cx.type_error(node, f"no integer type holds both {found} and {t}", "convert one of them, as in dk.int64(x)")
        found = promoted
    # An unsigned bound and a negative literal, as in range(n, -1, -1): a signed type that holds both.
    if found.kind is T.Kind.UINT and any(isinstance(t, Const) and t.value < 0 for t in terms):
        signed = coerce.promote(found, T.INT8)
        if signed is None:
            cx.type_error(node, f"range with {found} and a negative number", "convert it, as in dk.int64(x)")
        return signed
    return found


def _bound_term(cx: Context, node: ast.expr) -> Const | Val:
    term = cx.expr(node)
    if isinstance(term, Const) and isinstance(term.value, int):
        return Const(int(term.value))
    if isinstance(term, Val) and isinstance(term.type, T.Scalar) and term.type.is_integer:
        return term
    whole = isinstance(term, Val) and term.value in cx.quotients
    remedy = "write // for the integer quotient" if whole else coerce.tile_remedy(term, "write int(...) around it")
    cx.type_error(node, f"range takes integers, not {describe(term)}", remedy)


def count_of(cx: Context, trips: Trips, to: T.Scalar | None = None) -> Value:
    """Return how many trips there are, in another type if one is given."""
    known = trips.step if isinstance(trips.step, int) else None
    return count_trips(cx.b, (trips.lo, trips.hi, step_of(cx, trips)), known, to=to, reported=True)


def step_of(cx: Context, trips: Trips) -> Value:
    """Return the step as a value."""
    return trips.step if isinstance(trips.step, Value) else cx.b.const(trips.step, trips.type)


def item_of(cx: Context, trips: Trips, number: Value) -> Value:
    """Return the index of a trip by its number."""
    known = trips.step if isinstance(trips.step, int) else None
    return index_of_trip(cx.b, number, trips.lo, step_of(cx, trips), known)


def stays_inside(trips: Trips) -> bool:
    """Return whether the step beyond the stop is known not to leave the type."""
    if trips.step in (1, -1):
        return True
    if trips.known is None:
        return False
    values = range(*trips.known)
    limit = 1 << (trips.type.bits - (trips.type.kind is T.Kind.INT))
    return not values or -limit * (trips.type.kind is T.Kind.INT) <= values[-1] + values.step < limit
