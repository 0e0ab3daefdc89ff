"""One array or another, as a condition says: ``(a if c else b)[i]``, ``(a if c else b).shape``.

In: an :class:`Either`, and what is asked of it. Out: the same of each array, one of which is accessed where it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from diffkern.frontend import views
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Either, Term, Tup, Val, View
from diffkern.ir.nodes import Region

__all__ = ["attribute", "length", "subscript"]


def subscript(cx: Context, owner: Either, node: ast.Subscript) -> Term:
    """An element, which is read, or a part of whichever array it is."""
    entries = views.index_terms(cx, node.slice)
    part = _each(owner, lambda view: views.subscript(cx, view, entries, node))
    return part if part.first.spans else _read(cx, part)


def attribute(cx: Context, owner: Either, node: ast.Attribute, of: Callable[[View], Term]) -> Term:
    """What an attribute is; ``of`` says it of an array."""
    if node.attr in ("shape", "size"):
        return _chosen(cx, owner, of)
    return of(owner.first)  # the type of both, or an error


def length(cx: Context, owner: Either, node: ast.AST) -> Term:
    """``len(a)``."""
    return _chosen(cx, owner, lambda view: views.length(cx, view, node))


def _each(owner: Either, function: Callable[[View], View]) -> Either:
    then, orelse = (_each(v, function) if isinstance(v, Either) else function(v) for v in (owner.then, owner.orelse))
    return Either(owner.condition, then, orelse)


def _read(cx: Context, owner: View | Either) -> Val:
    """Read the element of the array that it is, and of no other, which may be shorter."""
    if isinstance(owner, View):
        return views.load(cx, owner)
    sides = Region(), Region()
    for region, view in zip(sides, (owner.then, owner.orelse), strict=True):
        with cx.b.into(region):
            region.yields = (_read(cx, view).value,)
    return Val(cx.b.if_(owner.condition, *sides)[0])


def _chosen(cx: Context, owner: View | Either, function: Callable[[View], Term]) -> Term:
    """What a function says of the array that it is, a number or several."""
    if isinstance(owner, View):
        return function(owner)
    then, orelse = _chosen(cx, owner.then, function), _chosen(cx, owner.orelse, function)
    if isinstance(then, Tup):
        assert isinstance(orelse, Tup)
        return Tup(tuple(_selected(cx, owner, a, b) for a, b in zip(then.items, orelse.items, strict=True)))
    return _selected(cx, owner, then, orelse)


def _selected(cx: Context, owner: Either, then: Term, orelse: Term) -> Val:
    assert isinstance(then, Val)
    assert isinstance(orelse, Val)
    found = cx.b.select(owner.condition, then.value, orelse.value)
    cx.nonneg.add(found)
    return Val(found)
