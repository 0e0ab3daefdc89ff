"""Parts of arrays that stand where control flow joins beside arrays, or parts, of another layout.

``row = a[i]`` and a parameter ``b`` of one axis are one variable's value on two paths. In lowered ops a part is then an
array of its own, of which the context knows what it is a part of; where choices are expanded
(:mod:`diffkern.frontend.statements.array_choices`), its accesses become accesses of that array.
"""

from __future__ import annotations

from dataclasses import replace

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, AxisSpan, Fixed, PartAxis, PlacedPart, SliceAxis, View
from diffkern.frontend.terms.views import wrapped
from diffkern.ir.nodes import Value
from diffkern.ir.types import INT32, Array, scalar_of

__all__ = ["as_array", "element", "within"]


def as_array(cx: Context, view: View, kind: Array) -> Value:
    """Return the array that stands for a view in lowered ops."""
    axes = tuple(_axis(cx, axis) for axis in view.axes)
    if not any(axes):
        return view.base
    part = Value(kind, view.base.name)
    cx.array_parts[part] = PlacedPart(view.base, axes)
    return part


def _axis(cx: Context, axis: Fixed | AxisSpan) -> PartAxis:
    if isinstance(axis, Fixed):
        t = scalar_of(axis.index.type)
        return replace(axis, index=cx.b.cast(axis.index, INT32 if t in WEAK else t))
    if axis.start is None:
        return None
    return SliceAxis(cx.b.cast(axis.start, INT32), axis.step, cx.b.cast(axis.length(), INT32))


def within(cx: Context, whole: PlacedPart, part: PlacedPart) -> PlacedPart:
    """Return the part of an array that is a part of a part of it."""
    rest = iter(part.axes)
    return PlacedPart(whole.base, tuple(a if isinstance(a, Fixed) else _inner(cx, a, next(rest)) for a in whole.axes))


def _inner(cx: Context, axis: SliceAxis | None, part: PartAxis) -> PartAxis:
    if axis is None or part is None:
        return axis if part is None else part
    if isinstance(part, Fixed):
        return Fixed(element(cx, axis, part.index, wrap=part.wrap), False)
    offset = part.start if axis.step == 1 else cx.b.mul(part.start, cx.b.i32(axis.step))
    return SliceAxis(cx.b.add(axis.start, offset), axis.step * part.step, part.length)


def element(cx: Context, axis: SliceAxis, index: Value, *, wrap: bool) -> Value:
    """Return the index in the array of an element of an axis that is cut."""
    index = cx.b.cast(index, INT32)
    if wrap:
        index = wrapped(cx, index, axis.length)
    return cx.b.add(axis.start, index if axis.step == 1 else cx.b.mul(index, cx.b.i32(axis.step)))
