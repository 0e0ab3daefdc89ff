"""Arrays with several axes over a part of an array with one: ``wp.array(ptr=a.ptr + offset, shape=(m, n), dtype=...)``.

Indices give an element, or rows with fewer axes; tiles are loaded from the places of their elements. All accesses are
of the array itself, so races and derivatives are found as for the array itself.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from diffkern.frontend.terms import views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, Const, Fixed, Shape, Static, Term, Val, View
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.process.dataclass import dataclass

__all__ = ["Folded", "attribute", "element", "folded", "places", "subscript"]


@dataclass(frozen=True, eq=False)
class Folded:
    """The elements of an array from one on, row by row.

    Attributes
    ----------
    base : Value
        The array, of one axis.
    start : Value
        The first of its elements.
    extents : tuple of Value
        The extents of the axes, two or more.
    """

    base: Value
    start: Value
    extents: tuple[Value, ...]

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        assert isinstance(self.base.type, T.Array)
        return self.base.type.dtype


def folded(term: object) -> Folded | None:
    """Return the object that a term holds, None for another term."""
    return term.obj if isinstance(term, Static) and isinstance(term.obj, Folded) else None


def attribute(cx: Context, owner: Folded, node: ast.Attribute) -> Term:
    """Lower ``shape``, ``ndim``, ``size`` and ``dtype``."""
    shape = Shape(tuple(map(Val, owner.extents)))
    match node.attr:
        case "shape":
            return shape
        case "ndim":
            return Const(len(owner.extents))
        case "size":
            # In 64 bits, as the size of any array: the product of the extents may not fit int32.
            total = cx.b.cast(owner.extents[0], T.INT64)
            for n in owner.extents[1:]:
                total = cx.b.mul(total, cx.b.cast(n, T.INT64))
            cx.nonneg.add(total)
            return Val(total)
        case "dtype":
            return Static(owner.dtype, ast.unparse(node))
    remedy = "it has shape, ndim, size and dtype; take another address of the array itself"
    cx.type_error(node, f"an array of an address with several axes has no {node.attr!r}", remedy)


def subscript(cx: Context, owner: Folded, entries: Sequence[Term | ast.Slice], node: ast.AST) -> View | Static:
    """Index the first axes, or all: return the view of an element, or of the remaining axes."""
    if len(entries) > len(owner.extents):
        found = f"{len(entries)} indices for an array with {len(owner.extents)} axes"
        cx.type_error(node, found, "write one for each axis")
    at = owner.start
    for k, entry in enumerate(entries):
        if isinstance(entry, ast.Slice):
            what = "a slice of an array of an address with several axes"
            cx.type_error(node, what, "index single elements or rows, or load a tile with offset=")
        # Row-major: an index counts as many elements as a row of the axes behind it has.
        at = cx.b.add(at, cx.b.mul(_index(cx, owner, k, entry, node), _product(cx, owner.extents[k + 1 :])))
    left = owner.extents[len(entries) :]
    if len(left) > 1:
        return Static(Folded(owner.base, at, left), ast.unparse(node))
    # Marked, so that the access of the array emits no wrap-around: a negative index was wrapped along its own axis.
    cx.nonneg.add(at)
    return View(owner.base, (AxisSpan(at, 1, lambda: left[0], to_end=False) if left else Fixed(at, False),))


def element(cx: Context, owner: Folded, entries: Sequence[Term], node: ast.AST) -> View | None:
    """Return the view of an element; None if indices are missing."""
    found = subscript(cx, owner, entries, node) if len(entries) == len(owner.extents) else None
    return found if isinstance(found, View) else None


def _index(cx: Context, owner: Folded, axis: int, entry: Term, node: ast.AST) -> Value:
    """Return an index; one that is negative counts from the end of its axis."""
    index = cx.b.cast(views.integer_index(cx, entry, node).value, T.INT32)
    return index if cx.is_nonneg(entry) else views.wrapped(cx, index, owner.extents[axis])


def _product(cx: Context, factors: Sequence[Value]) -> Value:
    out = cx.b.i32(1)
    for factor in factors:
        out = cx.b.mul(out, factor)
    return out


def places(cx: Context, owner: Folded, starts: Sequence[Value], shape: Sequence[int]) -> Value:
    """Return the places of the elements of a tile in the array, in one row; -1 for those that are not within the
    extents.
    """
    # A map over tiles sees only its parameters, so the numbers from outside are passed as operands.
    numbers = (*starts, *owner.extents, owner.start)
    n = len(shape)
    body = Region(tuple(Value(T.INT32) for _ in range(1 + len(numbers))))
    with cx.b.into(body):
        counted, *given = body.params
        inside, place = cx.b.const(True, T.BOOL), cx.b.i32(0)
        for k, extent in enumerate(shape):
            behind = math.prod(shape[k + 1 :])
            index = cx.b.one("floordiv", counted, cx.b.i32(behind)) if behind > 1 else counted
            index = cx.b.one("mod", index, cx.b.i32(extent)) if k else index
            index = cx.b.add(index, given[k])
            # Outside of the extents a place would be that of another row's element, not out of the array's bounds.
            below = cx.b.one("lt", index, given[n + k])
            inside = cx.b.one("and", inside, cx.b.one("and", cx.b.one("ge", index, cx.b.i32(0)), below))
            place = cx.b.add(cx.b.mul(place, given[n + k]), index)
        body.yields = (cx.b.select(inside, cx.b.add(place, given[-1]), cx.b.i32(-1)),)
    return cx.b.one("tile_map", *numbers, shape=(math.prod(shape),), dtypes=(T.INT32,), body=body, indexed=True)
