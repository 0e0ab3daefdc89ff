"""The merging of variables where control flow joins: the shape shared by both values, and their parts as IR values.

The terms of a variable on two paths (after a branch, or at the start and the end of a loop's body) give the
:data:`Shape` that both fit, the IR values that a region has to yield for it, and the term made from an op's results.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, cast

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import (
    WEAK,
    AxisSpan,
    Const,
    Fixed,
    InnerExtent,
    Poison,
    Rec,
    RecView,
    Static,
    Term,
    Tup,
    Val,
    View,
    nullness,
)
from diffkern.frontend.terms.views import extent_of
from diffkern.ir.nodes import Region, Value
from diffkern.ir.structs import Struct
from diffkern.ir.types import BOOL, INT32, OWN, Array, Element, Scalar, scalar_of

__all__ = [
    "ArrayPart",
    "Fields",
    "Joins",
    "MergedValue",
    "Same",
    "Shape",
    "after_trip",
    "build",
    "common",
    "emit",
    "hints",
    "join",
    "leaves",
    "same_term",
    "shape_of",
    "stands_outside",
    "with_null",
    "without_invariants",
    "zeros",
]


@dataclass(frozen=True, slots=True)
class MergedValue:
    """One IR value: a number, vector or matrix, or an array that a branch chooses."""

    type: Element | Array


@dataclass(frozen=True, slots=True)
class Same:
    """A term that is the same on all paths and takes no IR value."""

    term: Term


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct: a shape for each field."""

    struct: Struct
    parts: tuple[Shape, ...]


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
        The array; for structs, those of the fields. None if a branch chooses it.
    axes
        The types of indices, axes that are cut, and axes that are whole.
    wrap
        Whether indices may be negative.
    perhaps
        Whether it is null on some path.
    like
        An example of such an array.
    kinds
        The type of an array that a branch chooses; for structs, those of the fields. They are IR values as well.
    extent
        The function that gives the length of an axis of it.
    """

    bases: tuple[Value, ...]
    axes: tuple[Scalar | CutAxis | AxisSpan, ...]
    wrap: bool
    perhaps: bool
    like: View | RecView = field(compare=False)
    kinds: tuple[Array, ...] = ()
    extent: Extent | None = field(default=None, compare=False)

    @property
    def types(self) -> list[Scalar | Array]:
        """The types of the IR values."""
        found: list[Scalar | Array] = [*self.kinds]
        for axis in self.axes:
            found += [axis] if isinstance(axis, Scalar) else [INT32, INT32] if isinstance(axis, CutAxis) else []
        return [*found, *([BOOL] if self.perhaps else [])]


@dataclass(frozen=True, slots=True)
class Joins:
    """The joins that are allowed.

    Attributes
    ----------
    numba
        Whether numbers give way as in numba's spelling.
    nulls
        Whether an array may be null on the other path, and another part of the same array.
    extent
        The function that gives the length of an axis of another array, if there may be one on the other path.
    regions
        The two paths, in which none of these arrays is made.
    """

    numba: bool = False
    nulls: bool = False
    extent: Extent | None = None
    regions: tuple[Region, ...] = ()

    @classmethod
    def of(cls, cx: Context, regions: tuple[Region, ...] | None = None) -> Joins:
        """Return the joins allowed in the function that is being lowered; on two sides of a branch, with
        these regions.
        """
        extent = partial(extent_of, cx) if regions is not None and cx.dialect.arrays_are_chosen else None
        return cls(cx.layout is not None, cx.dialect.unset_is_zero, extent, regions or ())


Extent: TypeAlias = Callable[[Value, int], Callable[[], Value]]
Shape: TypeAlias = "MergedValue | Same | ArrayPart | Fields | tuple[Shape, ...]"


def shape_of(term: Term) -> Shape:
    """Return the shape of a term whose numbers vary."""
    match term:
        case Const():
            # A literal that varies is a number, which may still take another type.
            return MergedValue(coerce.weak_type(term))
        case Val():
            return MergedValue(term.type)
        case Tup(items):
            return tuple(shape_of(item) for item in items)
        case Rec(struct, items):
            return Fields(struct, tuple(shape_of(item) for item in items))
        case View() | RecView() | Static() | Poison():
            # Arrays and objects of Python are no values: paths cannot choose among them unless they are equal.
            return Same(term)


def same_term(a: Term, b: Term) -> bool:
    """Return whether two terms denote the same without any computation."""
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)  # repr: -0.0, nan
    if isinstance(a, Static) and isinstance(b, Static):
        # Objects are compared by identity, since equality is code of the program.
        return a.obj is b.obj
    if isinstance(a, Tup) and isinstance(b, Tup):
        return len(a.items) == len(b.items) and all(map(same_term, a.items, b.items))
    if isinstance(a, Rec) and isinstance(b, Rec):
        return a.struct == b.struct and all(map(same_term, a.items, b.items))
    # Null arrays of one type are the same, wherever they come from.
    if isinstance(a, View) and isinstance(b, View) and nullness(a) and nullness(b):
        return (a.array.dtype, len(a.spans)) == (b.array.dtype, len(b.spans))
    if isinstance(a, RecView) and isinstance(b, RecView) and a.struct == b.struct:
        return all(map(same_term, a.items, b.items))
    return a == b


def join(a: Shape, b: Shape, how: Joins = Joins()) -> Shape | None:
    """Return the shape that both fit, or None."""
    if isinstance(a, MergedValue) and isinstance(b, MergedValue):
        assert not isinstance(a.type, Array)
        assert not isinstance(b.type, Array)
        found = coerce.join(a.type, b.type, numba=how.numba)
        return None if found is None else MergedValue(found)
    # Before identical terms: the parts may be equal views of one array found by different indices.
    if how.nulls and (part := _joined_parts(a, b) or _chosen(a, b, how)) is not None:
        return part
    if isinstance(a, Same) and isinstance(b, Same):
        # Like a number, an array keeps its shape beside a poisoned term: poison that went around an outer loop would
        # silence the statements that read the array, and with another lowering of that loop the error behind it.
        if isinstance(a.term, Poison) or isinstance(b.term, Poison):
            return b if isinstance(a.term, Poison) else a
        return a if same_term(a.term, b.term) else None
    # A poisoned term fits anything: its error is recorded, and the other side goes on.
    if isinstance(a, Same) or isinstance(b, Same):
        poisoned, other = (a, b) if isinstance(a, Same) else (b, a)
        return other if isinstance(poisoned, Same) and isinstance(poisoned.term, Poison) else None
    if isinstance(a, Fields) and isinstance(b, Fields) and a.struct == b.struct:
        fields = join(a.parts, b.parts, how)
        return Fields(a.struct, fields) if isinstance(fields, tuple) else None
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [join(x, y, how) for x, y in zip(a, b, strict=True)]
        known = [p for p in parts if p is not None]
        return tuple(known) if len(known) == len(parts) else None
    return None


def _joined_parts(a: Shape, b: Shape) -> ArrayPart | None:
    """Return the shape of one part of an array or another, or of a part or null."""
    if isinstance(a, Same) and isinstance(b, Same) and same_term(a.term, b.term):
        return None
    first, second = _part(a), _part(b)
    if first is not None and second is not None and first.bases == second.bases:
        axes = _common_axes(first, second)
        if axes is not None:
            wrap, perhaps = first.wrap or second.wrap, first.perhaps or second.perhaps
            # What is so on one path may be so behind.
            return replace(first, axes=axes, wrap=wrap, perhaps=perhaps)
    # An array of the thread cannot be null: it is a value on every path.
    for part, other in ((first, b), (second, a)):
        if part is not None and isinstance(other, Same) and nullness(other.term) and not _is_own(part):
            return replace(part, perhaps=True)
    return None


def _chosen(a: Shape, b: Shape, how: Joins) -> ArrayPart | None:
    """Return the shape of a part of one array or of another one of the same type, as a branch decides."""
    if how.extent is None or not (isinstance(a, Same) and isinstance(b, Same)) or same_term(a.term, b.term):
        return None
    first, second = _part(a), _part(b)
    if first is None or second is None or _is_own(first) or _is_own(second) or not _alike(first, second):
        return None
    # Descriptors in elements would be those of different arrays.
    if any(base.type.outer for base in first.bases if isinstance(base.type, Array)):
        return None
    # An array that is made on one path does not exist on the other.
    if not _are_outside((a.term, b.term), *how.regions):
        return None
    kinds = tuple(base.type for base in first.bases if isinstance(base.type, Array))
    perhaps, wrap = first.perhaps or second.perhaps, first.wrap or second.wrap
    return replace(first, bases=(), wrap=wrap, perhaps=perhaps, kinds=kinds, extent=how.extent)


def _alike(first: ArrayPart, second: ArrayPart) -> bool:
    """Return whether two parts of arrays have the same types and axes, none of them looked up in integers."""
    if [base.type for base in first.bases] != [base.type for base in second.bases]:
        return False
    if isinstance(first.like, RecView) and first.like.struct != cast("RecView", second.like).struct:
        return False
    axes = [(axis.through if isinstance(axis, AxisSpan) else axis) for part in (first, second) for axis in part.axes]
    half = len(first.axes)
    return axes[:half] == axes[half:] and all(axis is None or isinstance(axis, (Scalar, CutAxis)) for axis in axes)


def _part(shape: Shape) -> ArrayPart | None:
    """Return the part of an array that is found by indices only, or None."""
    if isinstance(shape, ArrayPart):
        return shape
    term = shape.term if isinstance(shape, Same) else None
    if not isinstance(term, (View, RecView)) or nullness(term):
        return None
    view = term if isinstance(term, View) else term.first
    if any(isinstance(axis, AxisSpan) and _is_cut(axis) and axis.through for axis in view.axes):
        return None
    axes = tuple(map(_axis, view.axes))
    wrap = any(isinstance(axis, Fixed) and axis.wrap for axis in view.axes)
    return ArrayPart(tuple(_bases(term)), axes, wrap, view.present is not None, term)


def _common_axes(first: ArrayPart, second: ArrayPart) -> tuple[Scalar | CutAxis | AxisSpan, ...] | None:
    """Return the axes of two parts of one array; an axis that is cut in one part may be whole in the other."""
    found = []
    for a, b in zip(first.axes, second.axes, strict=True):
        is_whole = [isinstance(axis, AxisSpan) and axis.through is None for axis in (a, b)]
        if a != b and not (CutAxis(1) in (a, b) and any(is_whole)):
            return None
        # A whole axis is one that is cut at its ends.
        found.append(a if a == b else CutAxis(1))
    return tuple(found)


def _is_cut(axis: AxisSpan) -> bool:
    return axis.start is not None


def _axis(axis: Fixed | AxisSpan) -> Scalar | CutAxis | AxisSpan:
    if isinstance(axis, Fixed):
        t = scalar_of(axis.index.type)
        # An index has a type of its own where paths join.
        return INT32 if t in WEAK else t
    return CutAxis(axis.step) if _is_cut(axis) else axis


def _is_own(part: ArrayPart) -> bool:
    """Return whether it is a part of an array of the thread, which exists on all paths."""
    view = part.like if isinstance(part.like, View) else part.like.first
    return view.array.layout == OWN


def _bases(term: View | RecView) -> Iterator[Value]:
    if isinstance(term, View):
        yield term.base
    else:
        for item in term.items:
            yield from _bases(item)


def _of_other_bases(
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
            axis if isinstance(axis, Fixed) or _is_cut(axis) else replace(axis, length=extent(base, k))
            for k, axis in enumerate(axes)
        )
        return View(base, own, present)
    parts = (_of_other_bases(item, bases, _axes_of(item, axes), present, extent) for item in like.items)
    return RecView(like.struct, tuple(parts))


def _shown(like: View | RecView, axes: tuple[Fixed | AxisSpan, ...], present: Value | None) -> View | RecView:
    """Return an array with other axes."""
    if isinstance(like, View):
        # The indices are other values now, and extents may depend on them.
        return _with_own_extents(View(like.base, axes, present))
    items = zip(like.items, (_axes_of(item, axes) for item in like.items), strict=True)
    return RecView(like.struct, tuple(_shown(item, own, present) for item, own in items))


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
    return tuple(mine if isinstance(axis, AxisSpan) and not _is_cut(axis) else axis for mine, axis in pairs)


def common(a: Term, b: Term, how: Joins = Joins()) -> Shape | None:
    """Return the shape that two terms fit, or None. Parts that are the same in both, such as an unchanged field, are no
    leaf.
    """
    if same_term(a, b):
        return Same(a)
    if isinstance(a, Rec) and isinstance(b, Rec) and a.struct == b.struct:
        parts = [common(x, y, how) for x, y in zip(a.items, b.items, strict=True)]
        known = [p for p in parts if p is not None]
        return Fields(a.struct, tuple(known)) if len(known) == len(parts) else None
    return join(shape_of(a), shape_of(b), how)


def without_invariants(shape: Shape, start: Term, end: Term, entry: Term) -> Shape:
    """Return the shape of a loop-carried struct without the fields that a trip leaves unchanged: those keep their
    value.
    """
    if isinstance(shape, MergedValue) and same_term(start, end):
        return Same(entry)
    if isinstance(shape, Fields) and isinstance(start, Rec) and isinstance(end, Rec) and isinstance(entry, Rec):
        rows = zip(shape.parts, start.items, end.items, entry.items, strict=True)
        return Fields(shape.struct, tuple(without_invariants(*row) for row in rows))
    return shape


def after_trip(shape: Shape, end: Term, how: Joins = Joins()) -> Shape | None:
    """Return the shape that a carried value and its value after a trip both fit, or None."""
    # A field that was taken for invariant has changed after all: it is carried from now on.
    if isinstance(shape, Same) and isinstance(shape.term, Val):
        return shape if same_term(shape.term, end) else shape_of(end)
    if isinstance(shape, Fields) and isinstance(end, Rec) and shape.struct == end.struct:
        parts = [after_trip(part, item, how) for part, item in zip(shape.parts, end.items, strict=True)]
        known = [p for p in parts if p is not None]
        return Fields(shape.struct, tuple(known)) if len(known) == len(parts) else None
    return join(shape, shape_of(end), how)


def with_null(shape: Shape, *regions: Region, perhaps: bool = True) -> Shape | None:
    """Return the shape of a variable that is zero on the other path, with null arrays; None if that cannot be
    expressed.

    Parts of arrays may be found by indices that are made in the regions, but arrays are not made there.
    ``perhaps``: whether there is such a path.
    """
    match shape:
        case Same(View() | RecView() as term) if not nullness(term):
            part = _part(shape)
            cut = part is not None and any(isinstance(axis, CutAxis) for axis in part.axes)
            if part is None or cut or _is_own(part) or not stands_outside(part, *regions):
                return None
            return replace(part, perhaps=part.perhaps or perhaps) if perhaps or part.types else shape
        case Fields(struct, parts):
            kept = [with_null(part, *regions, perhaps=perhaps) for part in parts]
            return None if None in kept else Fields(struct, tuple(part for part in kept if part is not None))
        case tuple():
            kept = [with_null(part, *regions, perhaps=perhaps) for part in shape]
            return None if None in kept else tuple(part for part in kept if part is not None)
    return shape


def stands_outside(shape: Shape, *regions: Region) -> bool:
    """Return whether no array of which a shape is a part is made in one of the regions."""
    match shape:
        case ArrayPart(kinds=kinds) if kinds:
            return True  # the terms are asked, of which it is one or the other
        case ArrayPart(bases):
            return all(set(bases).isdisjoint(_made(region)) for region in regions)
        case Fields(_, parts):
            return all(stands_outside(part, *regions) for part in parts)
        case tuple():
            return all(stands_outside(part, *regions) for part in shape)
    return True


def _are_outside(terms: Iterable[Term], *regions: Region) -> bool:
    """Return whether no array in some terms is made in one of the regions."""
    bases = {base for term in terms for base in _arrays(term)}
    return not bases or all(bases.isdisjoint(_made(region)) for region in regions)


def _arrays(term: Term) -> Iterator[Value]:
    match term:
        case View() | RecView():
            yield from _bases(term)
        case Rec(_, items) | Tup(items):
            for item in items:
                yield from _arrays(item)


def _made(region: Region) -> Iterator[Value]:
    for op in region.ops:
        yield from op.results
        for inner in op.regions:
            yield from _made(inner)


def leaves(shape: Shape) -> list[MergedValue]:
    """Return the IR values of a shape, in order."""
    if isinstance(shape, MergedValue):
        return [shape]
    if isinstance(shape, Same):
        return []
    if isinstance(shape, ArrayPart):
        return [MergedValue(t) for t in shape.types]
    parts = shape.parts if isinstance(shape, Fields) else shape
    return [leaf for part in parts for leaf in leaves(part)]


def hints(name: str, shape: Shape) -> list[str]:
    """Return names for the IR values of a variable of a shape; none for the frontend's own variables."""
    if isinstance(shape, Fields) and not name.startswith("$"):
        parts = zip(shape.struct.names, shape.parts, strict=True)
        return [hint for field, part in parts for hint in hints(f"{name}.{field}", part)]
    return ["" if name.startswith("$") else name] * len(leaves(shape))


def emit(cx: Context, term: Term, shape: Shape, node: ast.AST, what: str) -> list[Value]:
    """Return the IR values of a term in a shape it fits, emitted in the current region."""
    if isinstance(shape, MergedValue):
        assert not isinstance(shape.type, Array)  # those are of a Part
        # The error is recorded; any value of the type keeps the region well-formed.
        if isinstance(term, Poison):
            return [cx.b.zero(shape.type)]
        return [coerce.convert(cx, term, shape.type, node, what)]
    if isinstance(shape, Same):
        return []
    if isinstance(shape, ArrayPart):
        return _parts(cx, term, shape)
    # A poisoned or unset term in the place of a struct or tuple.
    if not isinstance(term, (Tup, Rec)):
        return [cx.b.zero(leaf.type) for leaf in leaves(shape)]
    parts = shape.parts if isinstance(shape, Fields) else shape
    return [v for item, part in zip(term.items, parts, strict=True) for v in emit(cx, item, part, node, what)]


def _parts(cx: Context, term: Term, shape: ArrayPart) -> list[Value]:
    """Return the indices of a part of an array, and whether it is present; zeros for null."""
    if not isinstance(term, (View, RecView)) or not (shape.kinds or tuple(_bases(term)) == shape.bases):
        return zeros(cx, shape)
    view = term if isinstance(term, View) else term.first
    found = [*(_bases(term) if shape.kinds else ())]
    for axis, as_one in zip(view.axes, shape.axes, strict=True):
        if isinstance(axis, Fixed):
            assert isinstance(as_one, Scalar)
            found.append(cx.b.cast(axis.index, as_one))
        elif isinstance(as_one, CutAxis):
            found += [cx.b.i32(0) if axis.start is None else axis.start, axis.length()]
    if shape.perhaps:
        found.append(cx.b.const(True, BOOL) if view.present is None else view.present)
    return found


def zeros(cx: Context, shape: Shape) -> list[Value]:
    """Return IR values for a variable that is not set on this path and not read after it."""
    return [cx.b.zero(leaf.type) for leaf in leaves(shape)]


def build(shape: Shape, values: Iterator[Value]) -> Term:
    """Return the term of a shape whose IR values are given."""
    if isinstance(shape, MergedValue):
        return Val(next(values))
    if isinstance(shape, Same):
        return shape.term
    if isinstance(shape, ArrayPart):
        bases = [next(values) for _ in shape.kinds]
        axes = tuple(_axis_of(axis, values, wrap=shape.wrap) for axis in shape.axes)
        present = next(values) if shape.perhaps else None
        if shape.extent is not None:
            return _of_other_bases(shape.like, iter(bases), axes, present, shape.extent)
        return _shown(shape.like, axes, present)
    if isinstance(shape, Fields):
        return Rec(shape.struct, tuple(build(part, values) for part in shape.parts))
    return Tup(tuple(build(part, values) for part in shape))


def _axis_of(axis: Scalar | CutAxis | AxisSpan, values: Iterator[Value], *, wrap: bool) -> Fixed | AxisSpan:
    if isinstance(axis, Scalar):
        return Fixed(next(values), wrap)
    if isinstance(axis, AxisSpan):
        return axis
    start, count = next(values), next(values)
    return AxisSpan(start, axis.step, lambda: count, to_end=False)


def sample(shape: Shape) -> Term:
    """Return some term of a shape, to describe it in a message."""
    return build(shape, (Value(leaf.type) for leaf in leaves(shape)))
