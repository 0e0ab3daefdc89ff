"""What a variable is after paths meet: the shape shared by both values, and their parts as IR values of that shape.

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
from diffkern.frontend.terms import Const, Poison, Static, Term, Tup, Val, View
from diffkern.ir.nodes import Value
from diffkern.ir.types import Element

__all__ = ["Leaf", "Same", "Shape", "build", "emit", "join", "leaves", "same_term", "shape_of", "zeros"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One IR value."""

    type: Element
    weak: bool


@dataclass(frozen=True, slots=True)
class Same:
    """A term that is the same on all paths and takes no IR value."""

    term: Term


Shape: TypeAlias = "Leaf | Same | tuple[Shape, ...]"


def shape_of(term: Term) -> Shape:
    """The shape of a term whose numbers vary."""
    match term:
        case Const(value):
            return Leaf(coerce.default_type(term), not isinstance(value, bool))
        case Val(_, weak):
            return Leaf(term.type, weak)
        case Tup(items):
            return tuple(shape_of(item) for item in items)
        case View() | Static() | Poison():
            return Same(term)


def same_term(a: Term, b: Term) -> bool:
    """Whether two terms denote the same without any computation."""
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)  # repr: -0.0, nan
    if isinstance(a, Static) and isinstance(b, Static):
        return a.obj is b.obj
    if isinstance(a, Tup) and isinstance(b, Tup):
        return len(a.items) == len(b.items) and all(map(same_term, a.items, b.items))
    return a == b


def join(a: Shape, b: Shape) -> Shape | None:
    """The shape both fit, or None."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        found = coerce.join(a.type, a.weak, b.type, b.weak)
        return None if found is None else Leaf(*found)
    if isinstance(a, Same) and isinstance(b, Same):
        if isinstance(a.term, Poison) or isinstance(b.term, Poison):
            return Same(Poison())
        return a if same_term(a.term, b.term) else None
    if isinstance(a, Same) or isinstance(b, Same):
        poisoned, other = (a, b) if isinstance(a, Same) else (b, a)
        return other if isinstance(poisoned, Same) and isinstance(poisoned.term, Poison) else None
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [join(x, y) for x, y in zip(a, b, strict=True)]
        known = [p for p in parts if p is not None]
        return tuple(known) if len(known) == len(parts) else None
    return None


def leaves(shape: Shape) -> list[Leaf]:
    """The IR values of a shape, in order."""
    if isinstance(shape, Leaf):
        return [shape]
    if isinstance(shape, Same):
        return []
    return [leaf for part in shape for leaf in leaves(part)]


def emit(cx: Context, term: Term, shape: Shape, node: ast.AST, what: str) -> list[Value]:
    """The IR values of a term in a shape it fits, emitted in the current region."""
    if isinstance(shape, Leaf):
        if isinstance(term, Poison):
            return [cx.b.zero(shape.type)]
        return [coerce.convert(cx, term, shape.type, node, what)]
    if isinstance(shape, Same):
        return []
    if not isinstance(term, Tup):
        return [cx.b.zero(leaf.type) for leaf in leaves(shape)]
    return [v for item, part in zip(term.items, shape, strict=True) for v in emit(cx, item, part, node, what)]


def zeros(cx: Context, shape: Shape) -> list[Value]:
    """IR values for a variable that is not set on this path and not read after it."""
    return [cx.b.zero(leaf.type) for leaf in leaves(shape)]


def build(shape: Shape, values: Iterator[Value]) -> Term:
    """The term of a shape whose IR values are given."""
    if isinstance(shape, Leaf):
        return Val(next(values), shape.weak)
    if isinstance(shape, Same):
        return shape.term
    return Tup(tuple(build(part, values) for part in shape))


def sample(shape: Shape) -> Term:
    """Some term of a shape, to describe it in a message."""
    return build(shape, (Value(leaf.type) for leaf in leaves(shape)))
