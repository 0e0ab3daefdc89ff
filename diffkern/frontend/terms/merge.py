"""The merging of variables where control flow joins: the shape shared by both values, and their parts as IR values.

The terms of a variable on two paths (after a branch, or at the start and the end of a loop's body) give the
:data:`Shape` that both fit, the IR values that a region has to yield for it, and the term made from an op's results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from diffkern.frontend.terms import array_parts, coerce, own_choices
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.parts import (
    WHOLE,
    ArrayPart,
    Axis,
    CutAxis,
    Extent,
    alike_axes,
    arrays_of,
    axis_at,
    axis_of,
    bases_of,
    common_axes,
    common_kinds,
    fits,
    free_axes,
    is_cut,
    is_own,
    kinds_of_parts,
    of_other_bases,
    owns_of,
    shown,
    views_of,
)
from diffkern.frontend.terms.terms import (
    AxisSpan,
    Const,
    Fixed,
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
from diffkern.ir.types import BOOL, Array, Element, Scalar
from diffkern.ir.views import is_control
from diffkern.process.dataclass import dataclass

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
    "is_lasting",
    "join",
    "leaves",
    "of_one_path",
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
    cx
        The state of the lowering around them.
    """

    numba: bool = False
    nulls: bool = False
    extent: Extent | None = None
    regions: tuple[Region, ...] = ()
    cx: Context | None = None

    @classmethod
    def of(cls, cx: Context, regions: tuple[Region, ...] | None = None) -> Joins:
        """Return the joins allowed in the function that is being lowered; on two sides of a branch, with
        these regions.
        """
        extent = partial(extent_of, cx) if regions is not None and cx.dialect.arrays_are_chosen else None
        return cls(cx.layout is not None, cx.dialect.unset_is_zero, extent, regions or (), cx)


_USUAL: Final = Joins()


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


def join(a: Shape, b: Shape, how: Joins = _USUAL) -> Shape | None:
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
    first, second = _part(a, fixed=True), _part(b, fixed=True)
    if first is not None and second is not None and arrays_of(first) == arrays_of(second):
        axes = common_axes(first, second)
        if axes is not None:
            wrap, perhaps = first.wrap or second.wrap, first.perhaps or second.perhaps
            # What is so on one path may be so behind.
            return replace(first, axes=axes, wrap=wrap, perhaps=perhaps)
    # An array of the thread cannot be null: it is a value on every path.
    # Its indices may be found on one path alone.
    for part, other in ((_part(a), b), (_part(b), a)):
        if part is not None and isinstance(other, Same) and nullness(other.term) and not is_own(part):
            return replace(part, perhaps=True)
    return None


def _chosen(a: Shape, b: Shape, how: Joins) -> ArrayPart | None:
    """Return the shape of a part of one array or of another one of the same elements and axes, as paths decide."""
    if how.extent is None or (isinstance(a, Same) and isinstance(b, Same) and same_term(a.term, b.term)):
        return None
    first, second = _part(a, fixed=True), _part(b, fixed=True)
    if first is None or second is None or is_own(first) is not is_own(second):
        return None
    axes, kinds = alike_axes(first, second), common_kinds(first, second)
    if kinds is not None and axes is None and not is_own(first):
        axes, kinds = free_axes(first, second), kinds_of_parts(kinds, first)
    if axes is None or kinds is None:
        return None
    wrap = first.wrap or second.wrap
    if is_own(first):
        assert how.cx is not None
        owns = tuple(dict.fromkeys((*owns_of(how.cx, first), *owns_of(how.cx, second))))
        if not all(own_choices.exists(how.cx, base) for bases in owns for base in bases):
            return None
        return replace(first, bases=(), axes=axes, wrap=wrap, owns=owns, cx=how.cx)
    # An array that is made on one path does not exist on the other.
    if not _are_outside((shape.term for shape in (a, b) if isinstance(shape, Same)), *how.regions):
        return None
    perhaps = first.perhaps or second.perhaps
    return replace(first, bases=(), axes=axes, wrap=wrap, perhaps=perhaps, kinds=kinds, extent=how.extent)


def _part(shape: Shape, *, fixed: bool = False) -> ArrayPart | None:
    """Return the part of an array that is found by indices only, or None; with ``fixed``, with the indices
    themselves.
    """
    if isinstance(shape, ArrayPart):
        return shape
    term = shape.term if isinstance(shape, Same) else None
    if not isinstance(term, (View, RecView)) or nullness(term):
        return None
    view = term if isinstance(term, View) else term.first
    if any(isinstance(axis, AxisSpan) and is_cut(axis) and axis.through for axis in view.axes):
        return None
    axes = tuple(axis if fixed and isinstance(axis, Fixed) else axis_of(axis) for axis in view.axes)
    wrap = any(isinstance(axis, Fixed) and axis.wrap for axis in view.axes)
    return ArrayPart(tuple(bases_of(term)), axes, wrap, view.present is not None, term)


def common(a: Term, b: Term, how: Joins = _USUAL) -> Shape | None:
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


def after_trip(shape: Shape, end: Term, how: Joins = _USUAL) -> Shape | None:
    """Return the shape that a carried value and its value after a trip both fit, or None."""
    # A field that was taken for invariant has changed after all: it is carried from now on.
    if isinstance(shape, Same) and isinstance(shape.term, Val):
        return shape if same_term(shape.term, end) else shape_of(end)
    if isinstance(shape, Fields) and isinstance(end, Rec) and shape.struct == end.struct:
        parts = [after_trip(part, item, how) for part, item in zip(shape.parts, end.items, strict=True)]
        known = [p for p in parts if p is not None]
        return Fields(shape.struct, tuple(known)) if len(known) == len(parts) else None
    return join(shape, shape_of(end), how)


def with_null(shape: Shape, *regions: Region, how: Joins = _USUAL, perhaps: bool = True) -> Shape | None:
    """Return the shape of a variable that is zero on the other path, with null arrays; None if that cannot be
    expressed.

    Parts of arrays may be found by indices that are made in the regions, but arrays are not made there.
    ``perhaps``: whether there is such a path.
    """
    match shape:
        case Same(View() | RecView() as term) if not nullness(term):
            part = _part(shape)
            cut = part is not None and any(isinstance(axis, CutAxis) for axis in part.axes)
            if part is None or cut or is_own(part):
                return None
            if not stands_outside(part, *regions):
                return _chosen_inside(part, regions, how)
            return replace(part, perhaps=part.perhaps or perhaps) if perhaps or part.types else shape
        case Fields(struct, parts):
            kept = [with_null(part, *regions, how=how, perhaps=perhaps) for part in parts]
            return None if None in kept else Fields(struct, tuple(part for part in kept if part is not None))
        case tuple():
            kept = [with_null(part, *regions, how=how, perhaps=perhaps) for part in shape]
            return None if None in kept else tuple(part for part in kept if part is not None)
    return shape


def _chosen_inside(part: ArrayPart, regions: tuple[Region, ...], how: Joins) -> ArrayPart | None:
    """Return the shape of an array that is chosen in regions, and null elsewhere; None if it is made there."""
    kinds = common_kinds(part, part)
    if how.extent is None or kinds is None or not _are_outside((part.like,), *regions):
        return None
    axes = tuple(map(_of_any, part.axes))
    return replace(part, bases=(), axes=axes, perhaps=True, kinds=kinds, extent=how.extent)


def of_one_path(shape: Shape, *regions: Region, how: Joins) -> Shape:
    """Return the shape of a variable that is read behind two regions only where one of them has set it: an array that
    is chosen there, or found by indices that are made there, is told by IR values.
    """
    match shape:
        case Same(View() | RecView()) if how.nulls and (part := _part(shape, fixed=True)) is not None:
            return _told(shape, part, {v for region in regions for v in _made(region)}, how)
        case Fields(struct, parts):
            return Fields(struct, tuple(of_one_path(part, *regions, how=how) for part in parts))
        case tuple():
            return tuple(of_one_path(part, *regions, how=how) for part in shape)
    return shape


def _told(shape: Same, part: ArrayPart, made: set[Value], how: Joins) -> Shape:
    """Return the shape of a part whose arrays and indices may be some values; it has IR values for those."""
    axes = tuple(axis_of(axis) if isinstance(axis, Fixed) and axis.index in made else axis for axis in part.axes)
    told = replace(part, axes=axes)
    if is_own(part):
        assert how.cx is not None
        choices = [how.cx.own_choices.get(base) for base in part.bases]
        if any(choice is not None and choice.number in made for choice in choices):
            told = replace(told, bases=(), owns=owns_of(how.cx, part), cx=how.cx)
    elif not made.isdisjoint(part.bases):
        kinds = common_kinds(part, part)
        if how.extent is None or kinds is None:
            return shape
        told = replace(told, bases=(), axes=tuple(map(_of_any, axes)), kinds=kinds, extent=how.extent)
    # The length of a cut axis may be one of the values as well.
    is_same = axes == part.axes and not part.perhaps and not any(isinstance(axis, CutAxis) for axis in axes)
    return shape if is_same and told.bases else told


def _of_any(axis: Axis) -> Axis:
    return WHOLE if isinstance(axis, AxisSpan) else axis


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
    """Return whether no array in some terms is made in one of the regions. One that is chosen there is made elsewhere,
    which is checked where choices are expanded.
    """
    bases = {base for term in terms for base in _arrays(term)}
    return not bases or all(bases.isdisjoint(_made(region, choices=False)) for region in regions)


def _arrays(term: Term) -> Iterator[Value]:
    match term:
        case View() | RecView():
            yield from bases_of(term)
        case Rec(_, items) | Tup(items):
            for item in items:
                yield from _arrays(item)


def _made(region: Region, *, choices: bool = True) -> Iterator[Value]:
    for op in region.ops:
        if choices or not is_control(op):
            yield from op.results
        for inner in op.regions:
            yield from _made(inner, choices=choices)


def is_lasting(shape: Shape) -> bool:
    """Return whether a shape says the same of another lowering of the text: it names no index and no array of the
    thread.
    """
    if isinstance(shape, ArrayPart):
        return not shape.owns and not any(isinstance(axis, Fixed) for axis in shape.axes)
    parts = shape.parts if isinstance(shape, Fields) else shape if isinstance(shape, tuple) else ()
    return all(map(is_lasting, parts))


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
        assert not isinstance(shape.type, Array)  # those are of a ArrayPart
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
    is_chosen = bool(shape.kinds or shape.owns)
    if not isinstance(term, (View, RecView)) or not (is_chosen or tuple(bases_of(term)) == shape.bases):
        return zeros(cx, shape)
    if shape.kinds and nullness(term):
        return zeros(cx, shape)
    view = term if isinstance(term, View) else term.first
    if shape.kinds and not fits(view, shape):
        views = zip(views_of(term), shape.kinds, strict=True)
        found = [array_parts.as_array(cx, each, kind) for each, kind in views]
        view = replace(view, axes=tuple(replace(WHOLE, length=span.length) for span in view.spans))
    else:
        found = [*(bases_of(term) if shape.kinds else ())]
    if shape.owns:
        first = next(bases_of(term))
        # Of a struct, all fields are of the same one.
        found.append(own_choices.number(cx, first, [bases[0] for bases in shape.owns]))
    for axis, as_one in zip(view.axes, shape.axes, strict=True):
        if isinstance(as_one, Scalar):
            assert isinstance(axis, Fixed)
            found.append(cx.b.cast(axis.index, as_one))
        elif isinstance(as_one, CutAxis):
            assert isinstance(axis, AxisSpan)
            found += [cx.b.i32(0) if axis.start is None else axis.start, axis.length()]
    if shape.perhaps:
        found.append(cx.b.const(True, BOOL) if view.present is None else view.present)
    return found


def zeros(cx: Context, shape: Shape) -> list[Value]:
    """Return IR values for a variable that is not set on this path and not read after it."""
    return [_zero(cx, leaf.type) for leaf in leaves(shape)]


def _zero(cx: Context, t: Element | Array) -> Value:
    if not isinstance(t, Array):
        return cx.b.zero(t)
    # No access reaches it: those of an array that may be null are guarded.
    none = Value(t)
    cx.unset_arrays.add(none)
    return none


def build(shape: Shape, values: Iterator[Value]) -> Term:
    """Return the term of a shape whose IR values are given."""
    if isinstance(shape, MergedValue):
        return Val(next(values))
    if isinstance(shape, Same):
        return shape.term
    if isinstance(shape, ArrayPart):
        bases = [next(values) for _ in shape.kinds]
        which = next(values) if shape.owns else None
        axes = tuple(axis_at(axis, values, wrap=shape.wrap) for axis in shape.axes)
        present = next(values) if shape.perhaps else None
        if which is not None:
            assert shape.cx is not None
            cx = shape.cx
            bases = [own_choices.chosen(cx, each, which) for each in zip(*shape.owns, strict=True)]
            return of_other_bases(shape.like, iter(bases), axes, None, partial(own_choices.extent, cx))
        if shape.extent is not None:
            return of_other_bases(shape.like, iter(bases), axes, present, shape.extent)
        return shown(shape.like, axes, present)
    if isinstance(shape, Fields):
        return Rec(shape.struct, tuple(build(part, values) for part in shape.parts))
    return Tup(tuple(build(part, values) for part in shape))


def sample(shape: Shape) -> Term:
    """Return some term of a shape, to describe it in a message."""
    return build(shape, (Value(leaf.type) for leaf in leaves(shape)))
