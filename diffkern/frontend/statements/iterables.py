"""The sequences of ``for`` statements: ranges, tuples, vectors, matrices, arrays, and these counted, paired, reversed.

The expression after ``in`` gives its :class:`Items`: how many there are, and how the k-th is made.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from diffkern.frontend.builtins import records
from diffkern.frontend.statements import ranges
from diffkern.frontend.terms import arith, coerce, components, views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Rec, RecView, Static, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.trip_count import PYTHON, trip_count
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.queries import STEPPED, WALKED
from diffkern.process.dataclass import dataclass

__all__ = ["Index", "Items", "items_of", "items_or_query", "number", "reversed_range"]

Index = Const | Val

_MAX_VECTOR: Final = 16
"""The length from which on a loop over a vector is a loop at run time."""


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence that is looped over.

    Attributes
    ----------
    count
        How many items there are, known now or at run time.
    item
        The item at an index: ``Const`` in a loop that is unrolled, else ``Val``.
    unrolled
        Whether the items differ in kind, so that the loop over them can only be unrolled.
    """

    count: int | Value
    item: Callable[[Index], Term]
    unrolled: bool = False


def items_of(cx: Context, node: ast.expr) -> Items:
    """Return the items of an expression, which is evaluated once."""
    found = items_or_query(cx, node)
    if isinstance(found, Rec):
        cx.type_error(
            node,
            f"a {found.struct.name} has no number of items that is known beforehand",
            "loop over it by itself, as in for j in query, and count in a variable",
        )
    return found


def items_or_query(cx: Context, node: ast.expr) -> Items | Rec:
    """Return the items of an expression, which is evaluated once; or the query, if it is one."""
    if isinstance(node, ast.Call):
        callee = cx.expr(node.func)
        if isinstance(callee, Static):
            if lowering_key(callee.obj) == "range":
                return _of_range(cx, ranges.trips_of(cx, node))
            made = _WRAPPERS.get(callee.obj) if callable(callee.obj) and _is_hashable(callee.obj) else None
            if made is not None:
                return made(cx, node)
    term = cx.expr(node)
    return term if isinstance(term, Rec) and term.struct.name in {*WALKED, *STEPPED} else _of_term(cx, term, node)


# An unhashable object of a user's would make the look-up fail.
def _is_hashable(obj: object) -> bool:
    return getattr(obj, "__hash__", None) is not None


def _of_range(cx: Context, trips: ranges.Trips) -> Items:
    bounds = trips.known
    count: int | Value = trip_count(PYTHON, *bounds) if bounds is not None else ranges.count_of(cx, trips)

    def item(k: Index) -> Term:
        if bounds is not None and isinstance(k, Const):
            return Const(bounds[0] + int(k.value) * bounds[2])
        out = ranges.item_of(cx, trips, _value(cx, k))
        if trips.nonneg:
            cx.nonneg.add(out)
        return Val(out)

    return Items(count, item)


def _value(cx: Context, k: Index) -> Value:
    return k.value if isinstance(k, Val) else number(cx, int(k.value))


def number(cx: Context, count: int) -> Value:
    """Return a number of items that is known now, as a value."""
    return cx.b.const(count, T.INT32 if count < 1 << 31 else T.INT64)


def _of_term(cx: Context, term: Term, node: ast.expr) -> Items:
    if isinstance(term, Tup):
        items = term.items

        def chosen(k: Index) -> Term:
            if isinstance(k, Val):
                cx.type_error(
                    node, "a tuple is paired with what has a length known at run time", "loop over range(...)"
                )
            return items[int(k.value)]

        return Items(len(items), chosen, unrolled=True)
    if isinstance(term, (View, RecView)):
        return _of_array(cx, term, node)
    if isinstance(term, Val) and isinstance(term.value.type, (T.Vec, T.Mat)):
        return _of_composite(cx, term)
    remedy = "loop over range(...), a tuple, a vector, an array, or one of these in enumerate, zip or reversed"
    cx.type_error(node, f"{describe(term)} cannot be looped over", coerce.tile_remedy(term, remedy))


def _of_array(cx: Context, term: View | RecView, node: ast.expr) -> Items:
    first = term if isinstance(term, View) else term.first

    def item(k: Index) -> Term:
        index = Val(_value(cx, k))
        cx.nonneg.add(index.value)
        if isinstance(term, RecView):
            part = records.indexed(cx, term, [index], node)
            return part if part.ndim else records.load(cx, part)
        view = views.subscript(cx, term, [index], node)
        return view if view.spans else views.load(cx, view)

    return Items(views.length(cx, first, node).value, item)


# Short vectors are unrolled: constant indices keep them in registers.
def _of_composite(cx: Context, term: Val) -> Items:
    t = term.type
    assert isinstance(t, (T.Vec, T.Mat))

    def item(k: Index) -> Term:
        index = int(k.value) if isinstance(k, Const) else k.value
        axes: tuple[components.Axis, ...] = (index, range(t.cols)) if isinstance(t, T.Mat) else (index,)
        return Val(components.extract(cx, term.value, components.Selection(t, axes)))

    return Items(t.shape[0], item, unrolled=t.shape[0] <= _MAX_VECTOR)


# -- of others ---------------------------------------------------------------------------------------------------------


def _arguments(cx: Context, node: ast.Call, names: Sequence[str], least: int) -> list[ast.expr]:
    """Return the arguments of enumerate and reversed, in order."""
    given: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            cx.type_error(
                keyword.value,
                f"{ast.unparse(node.func)} takes {', '.join(names)}",
                f"write {ast.unparse(node.func)}({names[0]})",
            )
        given[keyword.arg] = keyword.value
    if len(node.args) > len(names) or len(given) < least:
        cx.type_error(
            node, f"{ast.unparse(node.func)} takes {', '.join(names)}", f"write {ast.unparse(node.func)}({names[0]})"
        )
    return [given[name] for name in names if name in given]


def _enumerate(cx: Context, node: ast.Call) -> Items:
    sequence, *rest = _arguments(cx, node, ("iterable", "start"), 1)
    inner = items_of(cx, sequence)
    start = coerce.scalar_term(cx, cx.expr(rest[0]), rest[0], "the start of enumerate") if rest else Const(0)

    def item(k: Index) -> Term:
        number = k if start == Const(0) else arith.binary(cx, "add", start, k, node)
        return Tup((number, inner.item(k)))

    return Items(inner.count, item, inner.unrolled)


def _zip(cx: Context, node: ast.Call) -> Items:
    strict = False
    for keyword in node.keywords:
        term = cx.expr(keyword.value)
        if keyword.arg != "strict" or not isinstance(term, Const):
            cx.type_error(
                keyword.value,
                "zip takes sequences, and strict=False or strict=True",
                "write zip(a, b), or zip(a, b, strict=True)",
            )
        strict = bool(term.value)
    if not node.args:
        cx.type_error(node, "zip of nothing", "give what is to be paired")
    all_items = [items_of(cx, arg) for arg in node.args]
    # Python decides on `strict` when the loop ends; here it has to be known beforehand.
    known = [i.count for i in all_items if isinstance(i.count, int)]
    if strict and (len(known) < len(all_items) or len(set(known)) > 1):
        cx.type_error(node, f"zip(..., strict=True) of lengths {known}", "leave strict out: the shortest ends the loop")
    count: int | Value = min(known) if known else all_items[0].count
    if len(known) < len(all_items):
        lengths = [i.count if isinstance(i.count, Value) else number(cx, i.count) for i in all_items]
        # The shortest fits 32 bits if one of them is counted in so many; before that none may be cut.
        wide = T.INT64 if any(n.type == T.INT64 for n in lengths) else T.INT32
        shortest = functools.reduce(lambda x, y: cx.b.one("min", x, y), (cx.b.cast(n, wide) for n in lengths))
        count = shortest if all(n.type == T.INT64 for n in lengths) else cx.b.cast(shortest, T.INT32)
    return Items(count, lambda k: Tup(tuple(i.item(k) for i in all_items)), any(i.unrolled for i in all_items))


def _reversed(cx: Context, node: ast.Call) -> Items:
    (sequence,) = _arguments(cx, node, ("sequence",), 1)
    inner = items_of(cx, sequence)
    count = inner.count

    def item(k: Index) -> Term:
        if isinstance(count, int) and isinstance(k, Const):
            return inner.item(Const(count - 1 - int(k.value)))
        total = number(cx, count) if isinstance(count, int) else count
        t = total.type
        assert isinstance(t, T.Scalar)
        back = cx.b.sub(cx.b.sub(total, cx.b.const(1, t)), cx.b.cast(_value(cx, k), t))
        cx.nonneg.add(back)
        return inner.item(Val(back))

    return Items(count, item, inner.unrolled)


_WRAPPERS: Final[dict[Any, Callable[[Context, ast.Call], Items]]] = {
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
}


def reversed_range(cx: Context, node: ast.expr) -> ranges.Trips | None:
    """Return the trips of ``reversed(range(lo, hi))`` over signed integers, as those of a range that counts down."""
    if not (isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Call)):
        return None
    outer, inner = cx.expr(node.func), cx.expr(node.args[0].func)
    if not (isinstance(outer, Static) and outer.obj is reversed and isinstance(inner, Static)):
        return None
    if lowering_key(inner.obj) != "range":
        return None
    trips = ranges.trips_of(cx, node.args[0])
    # `hi - 1` and `lo - 1` must not wrap around; an empty range stays empty, since hi is at least lo.
    if trips.step != 1 or not trips.above_least[0]:
        return None
    one = cx.b.const(1, trips.type)
    known = None if trips.known is None else (trips.known[1] - 1, trips.known[0] - 1, -1)
    hi = trips.hi if trips.above_least[1] else cx.b.one("max", trips.hi, trips.lo)
    return ranges.Trips(cx.b.sub(hi, one), cx.b.sub(trips.lo, one), -1, trips.type, trips.nonneg, known)
