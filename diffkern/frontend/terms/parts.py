"""Parts of arrays where control flow joins: what two of them have in common, and the values of the IR that tell them.

A :class:`ArrayPart` is one of the shapes that :mod:`diffkern.frontend.terms.merge` finds for variables. It is a part of
one array, found by indices, or of one of several arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Final, TypeAlias

from diffkern.frontend.terms import own_choices
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, AxisSpan, Fixed, InnerExtent, RecView, View
from diffkern.ir.nodes import Value
from diffkern.ir.types import BOOL, INT32, INT64, OWN, Array, Scalar, scalar_of
from diffkern.process.dataclass import dataclass

__all__ = [
    "WHOLE",
    "ArrayPart",
    "Axis",
    "CutAxis",
    "Extent",
    "alike_axes",
    "arrays_of",
    "axis_at",
    "axis_of",
    "bases_of",
    "common_axes",
    "common_kinds",
    "fits",
    "free_axes",
    "is_cut",
    "is_own",
    "kinds_of_parts",
    "of_other_bases",
    "owns_of",
    "shown",
    "views_of",
]


@dataclass(frozen=True, slots=True)
class CutAxis:
    """An axis of which every `step`-th element of a part is left: IR values give its first element and its length."""

    step: int


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """An array or a part of one, with an IR value for each index, and one that says whether it is present.

    Attributes
    ----------
    bases
        The array; for structs, those of the fields. None if branches and loops choose it.
    axes
        The types of indices, indices that are the same on all paths, axes that are cut, and axes that are whole.
    wrap
        Whether indices may be negative.
    perhaps
        Whether it is null on some path.
    like
        An example of such an array.
    kinds
        The type of an array that branches and loops choose; for structs, those of the fields. They are IR values as
        well.
    extent
        The function that gives the length of an axis of it.
    owns
        The arrays of the thread that branches and loops choose among, of structs for each of them those of the fields.
        An IR value says which one it is.
    cx
        For those, the state of the lowering.
    """

    bases: tuple[Value, ...]
    axes: tuple[Axis, ...]
    wrap: bool
    perhaps: bool
    like: View | RecView = field(compare=False)
    kinds: tuple[Array, ...] = ()
    extent: Extent | None = field(default=None, compare=False)
    owns: tuple[tuple[Value, ...], ...] = ()
    cx: Context | None = field(default=None, compare=False)

    @property
    def types(self) -> list[Scalar | Array]:
        """The types of the IR values."""
        found: list[Scalar | Array] = [*self.kinds, *([INT32] if self.owns else [])]
        for axis in self.axes:
            found += [axis] if isinstance(axis, Scalar) else [INT32, INT32] if isinstance(axis, CutAxis) else []
        return [*found, *([BOOL] if self.perhaps else [])]


Axis: TypeAlias = "Scalar | Fixed | CutAxis | AxisSpan"
Extent: TypeAlias = Callable[[Value, int], Callable[[], Value]]


def bases_of(term: View | RecView) -> Iterator[Value]:
    return (view.base for view in views_of(term))


def views_of(term: View | RecView) -> Iterator[View]:
    if isinstance(term, View):
        yield term
    else:
        for item in term.items:
            yield from views_of(item)


def is_own(part: ArrayPart) -> bool:
    """Return whether it is a part of an array of the thread, which exists on all paths."""
    view = part.like if isinstance(part.like, View) else part.like.first
    return view.array.layout == OWN


def owns_of(cx: Context, part: ArrayPart) -> tuple[tuple[Value, ...], ...]:
    """Return the arrays of the thread that a part may be of."""
    # What stands for one of several does so for each field of a struct, in the same order.
    return part.owns or tuple(zip(*(own_choices.of(cx, base) for base in part.bases), strict=True))


def arrays_of(part: ArrayPart) -> tuple[object, ...]:
    return part.bases, part.kinds, part.owns


def _kinds(part: ArrayPart) -> tuple[Array, ...]:
    """Return the types of the arrays of a part."""
    bases = part.owns[0] if part.owns else part.bases
    return part.kinds or tuple(base.type for base in bases if isinstance(base.type, Array))


def common_kinds(first: ArrayPart, second: ArrayPart) -> tuple[Array, ...] | None:
    """Return the types that stand for those of two parts, or None; elements may lie differently in memory."""
    structs = [part.like.struct if isinstance(part.like, RecView) else None for part in (first, second)]
    pairs = list(zip(_kinds(first), _kinds(second), strict=False))
    # Descriptors in elements would be those of different arrays.
    if structs[0] != structs[1] or any(kind.outer for pair in pairs for kind in pair):
        return None
    if any(a.dtype != b.dtype for a, b in pairs):
        return None
    return tuple(a if a == b else replace(a, layout="A") for a, b in pairs)


def kinds_of_parts(kinds: tuple[Array, ...], part: ArrayPart) -> tuple[Array, ...]:
    """Return the types of arrays that stand for parts of some."""
    ndim = sum(isinstance(axis, (CutAxis, AxisSpan)) for axis in part.axes)
    return tuple(Array(kind.dtype, ndim, "A") for kind in kinds)


def alike_axes(first: ArrayPart, second: ArrayPart) -> tuple[Axis, ...] | None:
    """Return the axes of parts of two arrays, of which none is looked up in integers; None if they have no common
    ones.
    """
    if len(first.axes) != len(second.axes):
        return None
    found: list[Axis] = []
    for pair in zip(first.axes, second.axes, strict=True):
        indices = [axis for axis in pair if isinstance(axis, (Fixed, Scalar))]
        spans = [axis for axis in pair if isinstance(axis, AxisSpan)]
        cuts = [axis for axis in pair if isinstance(axis, CutAxis)]
        if len(indices) == 2:
            found.append(_common_index(*indices))
        elif len(spans) == 2 and not any(span.through is not None for span in spans):
            found.append(WHOLE)
        elif not indices and cuts and all(cut == cuts[0] for cut in cuts):
            # A whole axis is one that is cut at its ends.
            if spans and (spans[0].through is not None or cuts[0] != CutAxis(1)):
                return None
            found.append(cuts[0])
        else:
            return None
    return tuple(found)


def _common_index(a: Fixed | Scalar, b: Fixed | Scalar) -> Fixed | Scalar:
    """Return an index that both paths have, or the type of the one that paths decide."""
    if isinstance(a, Fixed) and isinstance(b, Fixed) and a.index is b.index:
        return Fixed(a.index, a.wrap or b.wrap)
    first, second = (t if isinstance(t, Scalar) else axis_of(t) for t in (a, b))
    assert isinstance(first, Scalar)
    return first if first == second else INT64


def free_axes(first: ArrayPart, second: ArrayPart) -> tuple[Axis, ...] | None:
    """Return the axes of arrays that stand for parts, where both have as many that no index takes away; else None."""
    found = []
    for part in (first, second):
        spans = [axis for axis in part.axes if isinstance(axis, (CutAxis, AxisSpan))]
        if any(isinstance(axis, AxisSpan) and axis.through is not None for axis in spans):
            return None
        found.append(spans)
    return (WHOLE,) * len(found[0]) if found[0] and len(found[0]) == len(found[1]) else None


def common_axes(first: ArrayPart, second: ArrayPart) -> tuple[Axis, ...] | None:
    """Return the axes of two parts of one array; an axis that is cut in one part may be whole in the other."""
    found: list[Axis] = []
    for a, b in zip(first.axes, second.axes, strict=True):
        if isinstance(a, (Fixed, Scalar)) and isinstance(b, (Fixed, Scalar)):
            found.append(_common_index(a, b))
            continue
        is_whole = [isinstance(axis, AxisSpan) and axis.through is None for axis in (a, b)]
        if a != b and not (CutAxis(1) in (a, b) and any(is_whole)):
            return None
        # A whole axis is one that is cut at its ends.
        found.append(a if a == b else CutAxis(1))
    return tuple(found)


def _no_length() -> Value:
    raise AssertionError("an axis of an array that is not known yet has no length")


WHOLE: Final = AxisSpan(None, 1, _no_length)
"""A whole axis of an array that paths choose, whose length is asked of that array."""


def is_cut(axis: AxisSpan) -> bool:
    return axis.start is not None


def axis_of(axis: Fixed | AxisSpan) -> Scalar | CutAxis | AxisSpan:
    if isinstance(axis, Fixed):
        t = scalar_of(axis.index.type)
        # An index has a type of its own where paths join.
        return INT32 if t in WEAK else t
    return CutAxis(axis.step) if is_cut(axis) else axis


def fits(view: View, shape: ArrayPart) -> bool:
    """Return whether a view has an axis for each of a shape."""
    return len(view.axes) == len(shape.axes) and all(
        isinstance(axis, AxisSpan) and not is_cut(axis)
        if as_one is WHOLE
        else isinstance(axis, Fixed) is not isinstance(as_one, CutAxis)
        for axis, as_one in zip(view.axes, shape.axes, strict=True)
    )


def axis_at(axis: Axis, values: Iterator[Value], *, wrap: bool) -> Fixed | AxisSpan:
    if isinstance(axis, Scalar):
        return Fixed(next(values), wrap)
    if isinstance(axis, (Fixed, AxisSpan)):
        return axis
    start, count = next(values), next(values)
    return AxisSpan(start, axis.step, lambda: count, to_end=False)


def of_other_bases(
    like: View | RecView,
    bases: Iterator[Value],
    axes: tuple[Fixed | AxisSpan, ...],
    present: Value | None,
    extent: Extent,
) -> View | RecView:
    """Return a part of arrays that a branch has chosen."""
    if isinstance(like, View):
        base = next(bases)
        # The extents of a whole axis are those of the chosen array, and are asked of it.
        own = tuple(
            axis if isinstance(axis, Fixed) or is_cut(axis) else replace(axis, length=extent(base, k))
            for k, axis in enumerate(axes)
        )
        return View(base, own, present)
    parts = (of_other_bases(item, bases, axes, present, extent) for item in like.items)
    return RecView(like.struct, tuple(parts))


def shown(like: View | RecView, axes: tuple[Fixed | AxisSpan, ...], present: Value | None) -> View | RecView:
    """Return an array with other axes."""
    if isinstance(like, View):
        # The indices are other values now, and extents may depend on them.
        return _with_own_extents(View(like.base, axes, present))
    items = zip(like.items, (_axes_of(item, axes) for item in like.items), strict=True)
    return RecView(like.struct, tuple(shown(item, own, present) for item, own in items))


def _with_own_extents(view: View) -> View:
    """Return the array in the element that the present indices name, with its extents."""

    def own(axis: Fixed | AxisSpan) -> Fixed | AxisSpan:
        n = axis.length if isinstance(axis, AxisSpan) else None
        return replace(axis, length=n.of(view)) if isinstance(axis, AxisSpan) and isinstance(n, InnerExtent) else axis

    return replace(view, axes=tuple(map(own, view.axes)))


def _axes_of(item: View | RecView, axes: tuple[Fixed | AxisSpan, ...]) -> tuple[Fixed | AxisSpan, ...]:
    """Return the axes of one field of an array of structs, whose whole axes are its own."""
    own = item if isinstance(item, View) else item.first
    pairs = zip(own.axes, axes, strict=True)
    return tuple(mine if isinstance(axis, AxisSpan) and not is_cut(axis) else axis for mine, axis in pairs)
