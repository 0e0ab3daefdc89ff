"""What a variable is after control flow joins: the shape shared by both values, and their parts as IR values of it.

In: the terms a variable has on two paths (after a branch, or at the start and the end of a loop's body). Out: the
:data:`Shape` both fit, the IR values that a region has to yield for it, and the term made from an op's results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from diffkern.frontend import coerce
from diffkern.frontend.context import Context
from diffkern.frontend.terms import (
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
    is_perhaps_null,
    nullness,
    perhaps_null,
)
from diffkern.ir.nodes import Region, Value
from diffkern.ir.structs import Struct
from diffkern.ir.types import Element

__all__ = [
    "Fields",
    "Joins",
    "Leaf",
    "Same",
    "Shape",
    "after_trip",
    "build",
    "common",
    "emit",
    "hints",
    "holds_inside",
    "join",
    "leaves",
    "same_term",
    "shape_of",
    "with_null",
    "without_invariants",
    "zeros",
]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One IR value."""

    type: Element


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
    """What may be joined.

    Attributes
    ----------
    numba
        Whether numbers give way as in numba's spelling.
    nulls
        Whether an array may be null on the other path.
    """

    numba: bool = False
    nulls: bool = False

    @classmethod
    def of(cls, cx: Context) -> Joins:
        """What may be in the function that is being lowered."""
        return cls(cx.layout is not None, cx.dialect.unset_is_zero)


Shape: TypeAlias = "Leaf | Same | Fields | tuple[Shape, ...]"


def shape_of(term: Term) -> Shape:
    """The shape of a term whose numbers vary."""
    match term:
        case Const():
            return Leaf(coerce.weak_type(term))
        case Val():
            return Leaf(term.type)
        case Tup(items):
            return tuple(shape_of(item) for item in items)
        case Rec(struct, items):
            return Fields(struct, tuple(shape_of(item) for item in items))
        case View() | RecView() | Static() | Poison():
            return Same(term)


def same_term(a: Term, b: Term) -> bool:
    """Whether two terms denote the same without any computation."""
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)  # repr: -0.0, nan
    if isinstance(a, Static) and isinstance(b, Static):
        return a.obj is b.obj
    if isinstance(a, Tup) and isinstance(b, Tup):
        return len(a.items) == len(b.items) and all(map(same_term, a.items, b.items))
    if isinstance(a, Rec) and isinstance(b, Rec):
        return a.struct == b.struct and all(map(same_term, a.items, b.items))
    return a == b


def join(a: Shape, b: Shape, how: Joins = Joins()) -> Shape | None:
    """The shape both fit, or None."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        found = coerce.join(a.type, b.type, numba=how.numba)
        return None if found is None else Leaf(found)
    if isinstance(a, Same) and isinstance(b, Same):
        # Like a number, an array keeps its shape beside a poisoned term: poison that went around an outer loop would
        # silence the statements that read the array, and with another lowering of that loop the error behind it.
        if isinstance(a.term, Poison) or isinstance(b.term, Poison):
            return b if isinstance(a.term, Poison) else a
        return _same(a.term, b.term, how)
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


def _either(a: Term, b: Term) -> Term:
    """One of two terms that denote the same, with the arrays that are null on some path behind either."""
    if isinstance(a, Rec) and isinstance(b, Rec):
        return Rec(a.struct, tuple(map(_either, a.items, b.items)))
    if isinstance(a, Tup) and isinstance(b, Tup):
        return Tup(tuple(map(_either, a.items, b.items)))
    return b if is_perhaps_null(b) else a


def _same(a: Term, b: Term, how: Joins) -> Same | None:
    """What stands for two terms that take no IR value: an array for itself, and for null on the other path."""
    if same_term(a, b):
        return Same(_either(a, b))
    if not how.nulls:
        return None
    if nullness(a) is True:
        a, b = b, a
    if nullness(b) is not True:
        return None
    return Same(perhaps_null(a) if isinstance(a, (View, RecView)) and not nullness(a) else a)


def common(a: Term, b: Term, how: Joins = Joins()) -> Shape | None:
    """The shape that two terms fit, or None. What is the same in both, such as a field left alone, is no leaf."""
    if same_term(a, b):
        return Same(_either(a, b))
    if isinstance(a, Rec) and isinstance(b, Rec) and a.struct == b.struct:
        parts = [common(x, y, how) for x, y in zip(a.items, b.items, strict=True)]
        known = [p for p in parts if p is not None]
        return Fields(a.struct, tuple(known)) if len(known) == len(parts) else None
    return join(shape_of(a), shape_of(b), how)


def without_invariants(shape: Shape, start: Term, end: Term, entry: Term) -> Shape:
    """The shape of a loop-carried struct without the fields that a trip leaves as they are: those keep their value."""
    if isinstance(shape, Leaf) and same_term(start, end):
        return Same(entry)
    if isinstance(shape, Fields) and isinstance(start, Rec) and isinstance(end, Rec) and isinstance(entry, Rec):
        rows = zip(shape.parts, start.items, end.items, entry.items, strict=True)
        return Fields(shape.struct, tuple(without_invariants(*row) for row in rows))
    return shape


def after_trip(shape: Shape, end: Term, how: Joins = Joins()) -> Shape | None:
    """The shape that what is carried and what a trip leaves both fit, or None."""
    if isinstance(shape, Same) and isinstance(shape.term, Val):
        return shape if same_term(shape.term, end) else shape_of(end)
    if isinstance(shape, Fields) and isinstance(end, Rec) and shape.struct == end.struct:
        parts = [after_trip(part, item, how) for part, item in zip(shape.parts, end.items, strict=True)]
        known = [p for p in parts if p is not None]
        return Fields(shape.struct, tuple(known)) if len(known) == len(parts) else None
    return join(shape, shape_of(end), how)


def holds_inside(cx: Context, shape: Shape, *regions: Region) -> bool:
    """Whether a shape shows a part of an array by values that are made in one of the regions, or an array made there."""
    used = set(_used(shape))
    if any(v in cx.cells and cx.cells[v] not in cx.env for v in used):  # an array of the thread
        return True
    return bool(used) and any(not used.isdisjoint(_made(region)) for region in regions)


def _used(shape: Shape | Term) -> Iterator[Value]:
    match shape:
        case Same(term):
            yield from _used(term)
        case Fields(_, parts) | Tup(parts) | Rec(_, parts) | RecView(_, parts):
            for part in parts:
                yield from _used(part)
        case tuple():
            for part in shape:
                yield from _used(part)
        case View(base, axes):
            yield base
            for axis in axes:
                inside = (axis.index,) if isinstance(axis, Fixed) else (axis.start, axis.through)
                yield from (v for v in inside if v is not None)


def _made(region: Region) -> Iterator[Value]:
    yield from region.params
    for op in region.ops:
        yield from op.results
        for inner in op.regions:
            yield from _made(inner)


def with_null(shape: Shape) -> Shape:
    """The shape of what is zero on the other path: its arrays are null there."""
    match shape:
        case Same(View() | RecView() as term):
            return shape if nullness(term) else Same(perhaps_null(term))
        case Fields(struct, parts):
            return Fields(struct, tuple(map(with_null, parts)))
        case tuple():
            return tuple(map(with_null, shape))
    return shape


def leaves(shape: Shape) -> list[Leaf]:
    """The IR values of a shape, in order."""
    if isinstance(shape, Leaf):
        return [shape]
    if isinstance(shape, Same):
        return []
    parts = shape.parts if isinstance(shape, Fields) else shape
    return [leaf for part in parts for leaf in leaves(part)]


def hints(name: str, shape: Shape) -> list[str]:
    """Names for the IR values of a variable of a shape; none for the frontend's own variables."""
    if isinstance(shape, Fields) and not name.startswith("$"):
        parts = zip(shape.struct.names, shape.parts, strict=True)
        return [hint for field, part in parts for hint in hints(f"{name}.{field}", part)]
    return ["" if name.startswith("$") else name] * len(leaves(shape))


def emit(cx: Context, term: Term, shape: Shape, node: ast.AST, what: str) -> list[Value]:
    """The IR values of a term in a shape it fits, emitted in the current region."""
    if isinstance(shape, Leaf):
        if isinstance(term, Poison):
            return [cx.b.zero(shape.type)]
        return [coerce.convert(cx, term, shape.type, node, what)]
    if isinstance(shape, Same):
        return []
    if not isinstance(term, (Tup, Rec)):
        return [cx.b.zero(leaf.type) for leaf in leaves(shape)]
    parts = shape.parts if isinstance(shape, Fields) else shape
    return [v for item, part in zip(term.items, parts, strict=True) for v in emit(cx, item, part, node, what)]


def zeros(cx: Context, shape: Shape) -> list[Value]:
    """IR values for a variable that is not set on this path and not read after it."""
    return [cx.b.zero(leaf.type) for leaf in leaves(shape)]


def build(shape: Shape, values: Iterator[Value]) -> Term:
    """The term of a shape whose IR values are given."""
    if isinstance(shape, Leaf):
        return Val(next(values))
    if isinstance(shape, Same):
        return shape.term
    if isinstance(shape, Fields):
        return Rec(shape.struct, tuple(build(part, values) for part in shape.parts))
    return Tup(tuple(build(part, values) for part in shape))


def sample(shape: Shape) -> Term:
    """Some term of a shape, to describe it in a message."""
    return build(shape, (Value(leaf.type) for leaf in leaves(shape)))
