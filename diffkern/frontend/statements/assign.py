"""Assignment targets: variables, array elements, and components of either.

The target of an assignment and the assigned term give a new binding of a variable, or a store. A target's own
expressions are evaluated once, also in ``x[i][1] += v``, which loads the element, changes a copy and stores it.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from diffkern.frontend.builtins import folded, local, records
from diffkern.frontend.terms import coerce, components, views
from diffkern.frontend.terms.coerce import tile_remedy
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Rec, RecView, Term, Tup, Val, View, describe
from diffkern.frontend.tiles import tile_fields, tile_records, tiles
from diffkern.frontend.tiles.tile_terms import check_update, holds_tiles
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Update, Value
from diffkern.ir.ops.scalar import LOGIC, SUMS
from diffkern.ir.views import is_branch
from diffkern.process.dataclass import dataclass

_UPDATE_KINDS = SUMS | LOGIC  # for which there is an atomic update

__all__ = ["Place", "TilePart", "assign", "note_update", "place", "read", "write"]


@dataclass(frozen=True, slots=True)
class VariablePlace:
    """A variable of the kernel."""

    node: ast.Name


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """An array element, or a part of an array, which cannot be assigned as a whole."""

    view: View | RecView


@dataclass(frozen=True, slots=True)
class PartPlace:
    """A component or a part of a composite at another place."""

    parent: Place
    owner: Value
    part: components.Selection


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a struct at another place."""

    parent: Place
    owner: Rec
    index: int


@dataclass(frozen=True, slots=True)
class TilePart:
    """An element or a part of a tile in a variable."""

    parent: VariablePlace
    owner: Val | Rec
    part: tiles.TileCut


Place: TypeAlias = "TilePart | VariablePlace | ElementPlace | PartPlace | Member"


def assign(cx: Context, target: ast.expr, term: Term, node: ast.AST) -> None:
    """Assign a term to any target."""
    if isinstance(target, ast.Name):
        cx.bind(target.id, term, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        items = _unpacked(cx, term, target)
        for sub, item in zip(target.elts, items, strict=True):
            assign(cx, sub, item, node)
    else:
        write(cx, place(cx, target), term, target)


def _unpacked(cx: Context, term: Term, target: ast.Tuple | ast.List) -> list[Term]:
    if isinstance(term, Tup):
        items = list(term.items)
    elif isinstance(term, Val) and isinstance(term.type, T.Vec):
        items = [Val(c) for c in cx.b.components(term.value)]
    else:
        cx.type_error(target, f"{describe(term)} cannot be unpacked", "only tuples and vectors can")
    if len(items) != len(target.elts):
        cx.type_error(target, f"{len(items)} values for {len(target.elts)} targets", "name a variable for each value")
    return items


def place(cx: Context, target: ast.expr) -> Place:
    """Evaluate the expressions in a target."""
    if isinstance(target, ast.Name):
        return VariablePlace(target)
    if not isinstance(target, (ast.Subscript, ast.Attribute)):
        cx.syntax_error(target, "this cannot be assigned to", "assign to a variable, an element or a component")
    if not isinstance(target.value, (ast.Name, ast.Subscript, ast.Attribute)):
        cx.syntax_error(target.value, "the result of an expression cannot be changed", "assign it to a variable first")
    parent = place(cx, target.value)
    with cx.b.at(cx.loc(target)):
        # A part of a part is one part of the whole, so that it is changed by one insertion.
        if isinstance(parent, PartPlace) and not isinstance(parent.part.type, T.Scalar):
            inner = _selected(cx, parent.part.type, target)
            return PartPlace(parent.parent, parent.owner, components.within(cx, parent.part, inner))
        return _inside(cx, parent, target)


def _selected(cx: Context, t: T.Composite, target: ast.Subscript | ast.Attribute) -> components.Selection:
    if isinstance(target, ast.Attribute):
        return components.select_attribute(cx, t, target)
    return components.select_subscript(cx, t, target)


def _inside(cx: Context, parent: Place, target: ast.Subscript | ast.Attribute) -> Place:
    # Without reading the struct: a store to one field must not read, and race with, the others.
    if isinstance(parent, ElementPlace) and isinstance(parent.view, RecView) and isinstance(target, ast.Attribute):
        if records.is_pointer(parent.view.struct, target.attr) and not parent.view.ndim:
            held = parent.view.items[parent.view.struct.names.index(target.attr)]
            assert isinstance(held, View)
            return ElementPlace(records.opened(cx, held))
        item = records.member(cx, parent.view, target)  # the other fields of the element are not read
        assert isinstance(item, (View, RecView))
        return ElementPlace(item)
    owner = read(cx, parent, target.value)
    if isinstance(owner, (Val, Rec)) and holds_tiles(owner):
        return _tile_part(cx, parent, owner, target)
    if (rows := folded.folded(owner)) is not None and isinstance(target, ast.Subscript):
        part = folded.subscript(cx, rows, views.index_terms(cx, target.slice), target)
        if isinstance(part, View):
            return ElementPlace(part)
        cx.type_error(
            target, "rows of an array of an address are assigned", "write all indices in one pair of brackets"
        )
    if isinstance(owner, View) and isinstance(target, ast.Subscript):
        return ElementPlace(views.subscript(cx, owner, views.index_terms(cx, target.slice), target))
    if isinstance(owner, RecView) and isinstance(target, ast.Subscript):
        return ElementPlace(records.subscript(cx, owner, target))
    if isinstance(owner, RecView) and isinstance(target, ast.Attribute):
        return _inside(cx, ElementPlace(owner), target)
    if isinstance(owner, Rec) and isinstance(target, ast.Attribute):
        return Member(parent, owner, records.field_index(cx, owner.struct, target))
    if isinstance(owner, Val) and isinstance(target, ast.Attribute):
        return PartPlace(parent, owner.value, components.select_attribute(cx, owner.type, target))
    if isinstance(owner, Val) and isinstance(target, ast.Subscript) and not isinstance(owner.type, T.Scalar):
        return PartPlace(parent, owner.value, components.select_subscript(cx, owner.type, target))
    remedy = "build a new tuple" if isinstance(owner, Tup) else "only elements of arrays and components can be assigned"
    cx.type_error(target, f"part of {describe(owner)} cannot be assigned", remedy)


def _tile_part(cx: Context, parent: Place, owner: Val | Rec, target: ast.Subscript | ast.Attribute) -> Place:
    if isinstance(target, ast.Attribute):
        remedy = "assign elements, as in t[i] = value, or make another tile with dk.tile_map"
        cx.type_error(target, f"{describe(owner)} gets another {target.attr}", remedy)
    if not isinstance(parent, VariablePlace):
        cx.type_error(target, "a part of a part of a tile is assigned", "write all indices in one pair of brackets")
    check_update(cx, parent.node.id, target)
    first = tile_fields.first(owner).value
    return TilePart(parent, owner, tiles.cut(cx, first, views.index_terms(cx, target.slice), target))


def read(cx: Context, where: Place, node: ast.AST) -> Term:
    """Return the term at a place."""
    with cx.b.at(cx.loc(node)):
        match where:
            case VariablePlace(name):
                # Through the expression lowering, so that an unset variable is reported as at any other read.
                load = ast.copy_location(ast.Name(name.id, ast.Load()), name)
                return cx.expr(load)
            case ElementPlace(view):
                if isinstance(view, RecView):
                    return view if view.ndim else records.load(cx, view)
                return view if view.spans else views.load(cx, view)
            case Member(_, struct, index):
                return struct.items[index]
            case TilePart(_, tile, where_in_tile):
                return tile_fields.each(tile, lambda leaf: tiles.read(cx, leaf.value, where_in_tile))
            case PartPlace(_, owner, part):
                return Val(components.extract(cx, owner, part))


def write(cx: Context, where: Place, term: Term, node: ast.AST) -> None:
    """Replace the term at a place."""
    match where:
        case VariablePlace(name):
            cx.bind(name.id, term, name)
        case ElementPlace(view):
            if view.ndim if isinstance(view, RecView) else view.spans:
                single = "assign single elements, in a loop or one per thread"
                remedy = "write dk.tile_store(array, tile)" if tile_remedy(term) else single
                cx.type_error(node, f"{describe(view)} is assigned as a whole", remedy)
            with cx.b.at(cx.loc(node)):
                if isinstance(view, RecView):
                    records.store(cx, view, term, node)
                else:
                    views.store(cx, view, term, node)
        # Values are immutable: a changed field makes a new struct, which is written to the place that holds it.
        case Member(parent, struct, index):
            with cx.b.at(cx.loc(node)):
                whole = records.replaced(cx, struct, index, term, node)
            write(cx, parent, whole, node)
        case TilePart(variable, tile, where_in_tile):
            with cx.b.at(cx.loc(node)):
                rows = tile_records.rows(cx, tile, term, node)
                made = [tiles.replaced(cx, leaf.value, where_in_tile, item, node) for leaf, item in rows]
            tile_records.replace(cx, variable.node.id, tile, made, variable.node)
        case PartPlace(parent, owner, part):
            with cx.b.at(cx.loc(node)):
                changed = components.insert(cx, owner, part, term, node)
            write(cx, parent, Val(changed), node)


def note_update(cx: Context, where: Place, kind: str, operand: Term, node: ast.expr) -> None:
    """Record an augmented assignment that has just been written, if it is to an element of an array."""
    root = _root(where)
    if kind not in _UPDATE_KINDS or not isinstance(root, ElementPlace):
        return
    # An array of the thread itself is not shared, so no atomic update is needed.
    if local.is_local(root.view.first if isinstance(root.view, RecView) else root.view):
        return
    if isinstance(root.view, View) and views.is_unset(cx, root.view):
        return
    # The store is the last op: the assignment was lowered just now.
    store, prelude = cx.b.region.ops[-1], Region()
    if is_branch(store):  # of an array that is null on some paths
        store = store.regions[0].ops[-1]
    with cx.b.into(prelude), cx.b.at(cx.loc(node)):
        prelude.yields = (_change_of_element(cx, where, kind, operand, node),)
    cx.updates.append(Update(store, kind, prelude))


def _root(where: Place) -> Place:
    while isinstance(where, (PartPlace, Member, TilePart)):
        where = where.parent
    return where


def _change_of_element(cx: Context, where: Place, kind: str, operand: Term, node: ast.AST) -> Value:
    """Return the operand for the whole element, if a part of it is changed by the operand."""
    if isinstance(where, PartPlace):
        # All other components get the neutral element, with which the atomic update leaves them unchanged.
        neutral = cx.b.full(where.owner.type, _neutral(kind, where.owner.type))
        changed = components.insert(cx, neutral, where.part, operand, node)
        return _change_of_element(cx, where.parent, kind, Val(changed), node)
    assert isinstance(where, ElementPlace)
    assert isinstance(where.view, View)
    to = T.value_type(where.view.array.dtype)
    return coerce.convert(cx, operand, to, node, f"an element of {where.view.base.name}")


def _neutral(kind: str, t: T.Type) -> float:
    """Return the neutral element of an operation, which does not even change the sign of a zero."""
    scalar = T.scalar_of(t)
    if kind == "and":
        return (1 << scalar.bits) - 1 if scalar.kind is T.Kind.UINT else -1
    # -0.0 + -0.0 is -0.0, whereas 0.0 + -0.0 is 0.0.
    return -0.0 if scalar.is_float and kind == "add" else 0
