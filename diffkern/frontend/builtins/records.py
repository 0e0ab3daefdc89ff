"""Structs in a kernel: values of them, their fields, arrays of them. None of it is left in the IR.

A struct parameter's leaves, a constructor call, or an element of an array of structs give a :class:`Rec`, whose fields
are terms of their own, or a :class:`RecView`, which is a view for each field over the same memory. Assigning a field
makes a new value; other holders of the old one keep it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from diffkern.frontend.syntax.flow import assigned
from diffkern.frontend.syntax.scope import suggest
from diffkern.frontend.syntax.source import get_source
from diffkern.frontend.terms import coerce, views
from diffkern.frontend.terms.captured import static_term
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, InnerExtent, Rec, RecView, Static, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.structs import Argument, FieldType, IndexedArray, Struct, StructArray, declared, holds_arrays, leaves
from diffkern.lang import Constant, Definition, Func, definition_of
from diffkern.lang.structs import class_of, is_ambiguous, kept_methods
from diffkern.process.dataclass import dataclass

__all__ = [
    "BoundMethod",
    "construct",
    "convert",
    "field_index",
    "function_of",
    "indexed",
    "is_pointer",
    "load",
    "member",
    "opened",
    "parameter",
    "refuse",
    "replaced",
    "store",
    "subscript",
]


def parameter(cx: Context, t: Argument, values: Iterator[Value]) -> Term:
    """Return the term of a kernel's parameter, whose leaves are the next values."""
    if isinstance(t, Struct):
        plain = declared(t)
        assert isinstance(plain, Struct)
        return Rec(plain, tuple(parameter(cx, inner, values) for _, inner in t.fields))
    if isinstance(t, StructArray):
        return _array(cx, t.dtype, values)
    if isinstance(t, IndexedArray):
        data = next(values)
        return views.indexed_view(cx, data, [next(values) if layout else None for layout in t.indices])
    value = next(values)
    return views.full_view(cx, value) if isinstance(value.type, T.Array) else Val(value)


def _array(cx: Context, struct: Struct, values: Iterator[Value]) -> RecView:
    items: list[View | RecView] = []
    for _, t in struct.fields:
        inner = t.ndim if isinstance(t, T.Array) else 0
        items.append(_array(cx, t, values) if isinstance(t, Struct) else views.full_view(cx, next(values), inner))
    return RecView(struct, tuple(items))


def construct(cx: Context, definition: Definition, name: str, node: ast.Call) -> Rec:
    """Lower ``S(...)``: fields in order or by name; the others have their default, else zero."""
    struct = definition.type
    given: dict[str, tuple[Term, ast.expr]] = {}
    if len(node.args) > len(struct.fields):
        cx.type_error(
            node,
            f"{name} has {len(struct.fields)} fields, not {len(node.args)}",
            "give the fields in order, or some of them by name",
        )
    for field, arg in zip(struct.names, node.args, strict=False):
        given[field] = cx.expr(arg), arg
    for keyword in node.keywords:
        if keyword.arg is None:
            cx.syntax_error(keyword.value, "** in a call is not supported in a kernel", "name the fields")
        if keyword.arg not in struct.names:
            _unknown(cx, keyword.value, struct, keyword.arg)
        if keyword.arg in given:
            cx.type_error(
                keyword.value, f"{name} gets the field {keyword.arg!r} twice", "give it by position or by name"
            )
        given[keyword.arg] = cx.expr(keyword.value), keyword.value
    items = []
    for field, t in struct.fields:
        if field in given:
            term, where = given[field]
            items.append(convert(cx, term, t, where, f"the field {field} of {name}"))
        elif field in definition.defaults:
            default = _captured(cx, definition.defaults[field], f"{name}.{field}", node)
            items.append(convert(cx, default, t, node, f"the field {field} of {name}"))
        else:
            items.append(_zero(cx, t, f"{name}.{field}"))
    return Rec(struct, tuple(items))


def _captured(cx: Context, value: object, name: str, node: ast.AST) -> Term:
    """Return a default: a number, a vector, or a struct given by its fields in order."""
    if isinstance(value, Constant):
        pairs = zip(value.values, value.type.fields, strict=True)
        items = [convert(cx, _captured(cx, v, name, node), t, node, f"{name}.{field}") for v, (field, t) in pairs]
        return Rec(value.type, tuple(items))
    return static_term(cx, value, name, node)


def _zero(cx: Context, t: FieldType, name: str) -> Term:
    if isinstance(t, Struct):
        return Rec(t, tuple(_zero(cx, inner, f"{name}.{field}") for field, inner in t.fields))
    if isinstance(t, T.Array) and cx.dialect.unset_is_zero:
        return views.full_view(cx, views.unset(cx, t, name))
    if isinstance(t, StructArray) and cx.dialect.unset_is_zero and not holds_arrays(t.dtype):
        return _array(cx, t.dtype, (views.unset(cx, leaf, name) for _, leaf in leaves(t)))
    if isinstance(t, (T.Array, StructArray)):
        return Static(None, "None")
    return Val(cx.b.zero(T.value_type(t)))


def convert(cx: Context, term: Term, to: FieldType | Struct, node: ast.AST, what: str) -> Term:
    """Return a term as the value of a field or a parameter of this type; ``what`` names that place in errors."""
    if isinstance(to, Struct):
        if isinstance(term, Rec) and term.struct == to:
            return term
        cx.type_error(node, f"{what} takes {to.name}, not {describe(term)}", f"make one with {to.name}(...)")
    if isinstance(to, T.Array):
        fits = isinstance(term, View) and (term.array.dtype, len(term.spans)) == (to.dtype, to.ndim)
    elif isinstance(to, StructArray):
        fits = isinstance(term, RecView) and (term.struct, term.ndim) == (to.dtype, to.ndim)
    else:
        return Val(coerce.convert(cx, term, T.value_type(to), node, what))
    if not fits and not (isinstance(term, Static) and term.obj is None):
        element = to.dtype.name if isinstance(to.dtype, Struct) else to.dtype
        cx.type_error(
            node,
            f"{what} takes array{to.ndim}d<{element}>, not {describe(term)}",
            "pass an array of this dtype and as many axes",
        )
    return term


@dataclass(frozen=True, eq=False)
class BoundMethod:
    """A method of a struct together with its ``self``."""

    func: Func
    owner: Rec


def getter_of(owner: Rec) -> Func | None:
    """Return the func by which a struct of a library is read like an array, if there is one."""
    definition = definition_of(class_of(owner.struct)) if isinstance(owner.struct, Struct) else None
    found = None if definition is None else definition.methods.get("__getitem__")
    return found if isinstance(found, Func) else None


def function_of(cx: Context, owner: Rec, node: ast.Attribute) -> tuple[Func, bool] | None:
    """Return the func of a method or property, and whether it is a property; None for a field or an unknown name."""
    name = owner.struct.name
    definition = definition_of(class_of(owner.struct)) if node.attr not in owner.struct.names else None
    # Types are equal by name and fields: which class's method is meant cannot be told.
    if definition is not None and is_ambiguous(owner.struct):
        cx.type_error(
            node, f"there are structs {name} of these fields with different methods", "give one of them another name"
        )
    found = definition.functions.get(node.attr) if definition is not None else None
    if definition is None or found is None:
        return None
    source = get_source(found.pyfunc)
    first = source.node.args.args[0].arg if source.node.args.args else ""
    # `self` is a value: an assignment to it would change the copy.
    if first in assigned(source.node.body):
        cx.type_error(
            node,
            f"{name}.{node.attr} changes {first}, which is a value in a kernel: the change would be lost",
            f"let it return a changed copy: s = s.{node.attr}(...)",
        )
    # A kernel that was launched before a class was redefined keeps the methods of that time.
    return kept_methods(cx.stack[0].pyfunc).get(found.pyfunc, found), node.attr in definition.properties


def field_index(cx: Context, struct: Struct, node: ast.Attribute) -> int:
    """Return the index of the field that an attribute names."""
    if node.attr not in struct.names:
        _unknown(cx, node, struct, node.attr)
    return struct.names.index(node.attr)


def _unknown(cx: Context, node: ast.AST, struct: Struct, name: str) -> None:
    help_text = f"its fields are {', '.join(struct.names)}" if struct.names else "it has no fields"
    cx.type_error(node, f"{struct.name} has no field {name!r}{suggest(name, struct.names)}", help_text)


def member(cx: Context, owner: Rec | RecView, node: ast.Attribute) -> Term:
    """Return a field of a value; for an array of structs, the view of that field of all elements."""
    t = owner.struct.fields[field_index(cx, owner.struct, node)][1]
    if isinstance(owner, RecView) and isinstance(t, (T.Array, StructArray)):
        refuse(cx, owner.struct, node.attr, node)
    return owner.items[field_index(cx, owner.struct, node)]


def replaced(cx: Context, owner: Rec, index: int, term: Term, node: ast.AST) -> Rec:
    """Return the value with one field replaced."""
    name, t = owner.struct.fields[index]
    item = convert(cx, term, t, node, f"the field {name} of {owner.struct.name}")
    return Rec(owner.struct, (*owner.items[:index], item, *owner.items[index + 1 :]))


# -- arrays of structs -------------------------------------------------------------------------------------------------


def subscript(cx: Context, owner: RecView, node: ast.Subscript) -> RecView:
    """Index some or all axes."""
    return indexed(cx, owner, views.index_terms(cx, node.slice), node)


def indexed(cx: Context, owner: RecView, entries: list[Term | ast.Slice], node: ast.expr) -> RecView:
    """Index some or all axes by entries that are evaluated."""
    return _map(owner, lambda view: views.subscript(cx, view, entries, node))


def _map(owner: RecView, function: Callable[[View], View]) -> RecView:
    return RecView(
        owner.struct,
        tuple(_map(item, function) if isinstance(item, RecView) else function(item) for item in owner.items),
    )


def load(cx: Context, owner: RecView) -> Rec:
    """Read the element that a fully indexed view denotes; loads of unused fields are removed later."""
    items: list[Term] = []
    for item, (_, t) in zip(owner.items, owner.struct.fields, strict=True):
        if isinstance(item, RecView):
            items.append(load(cx, item))
        elif isinstance(t, T.Array):
            items.append(opened(cx, item))
        else:
            items.append(views.load(cx, item))
    return Rec(owner.struct, tuple(items))


def _array_field(struct: Struct) -> str:
    return next(n for n, t in struct.fields if isinstance(t, T.Array) or (isinstance(t, Struct) and holds_arrays(t)))


def store(cx: Context, owner: RecView, term: Term, node: ast.AST) -> None:
    """Write the element that a fully indexed view denotes."""
    value = convert(cx, term, owner.struct, node, "an element of the array")
    # A descriptor in memory is the launch's; a kernel could only copy it, and the gradient would not follow.
    if holds_arrays(owner.struct):
        refuse(cx, owner.struct, _array_field(owner.struct), node)
    assert isinstance(value, Rec)
    for item, part in zip(owner.items, value.items, strict=True):
        if isinstance(item, RecView):
            store(cx, item, part, node)
        else:
            views.store(cx, item, part, node)


# -- arrays that elements hold -----------------------------------------------------------------------------------------
# Arrays that elements of arrays of structs hold: ``a[i].x[j]``.
#
# The view of an array field of all elements, with the index of one, gives the view of the array in it. In the IR both
# are one array whose leading axes are the elements and whose others are those of the arrays in them, so that reading,
# writing, slices and derivatives are those of any array. A launch checks that no two of these arrays overlap if one is
# written (``diffkern.runtime.launch.nested_arrays``).


def is_pointer(struct: Struct, name: str) -> bool:
    """Return whether a field is an array."""
    return isinstance(dict(struct.fields).get(name), T.Array)


def opened(cx: Context, view: View) -> View:
    """Return the array in the element that a view denotes."""

    def extent(axis: int, held: View) -> Value:
        # A null array of structs has no elements whose descriptors could be read.
        if held.array.is_null:
            return cx.b.i32(0)
        outer, wrap = held.outer
        out = cx.b.one("inner_shape", held.base, *outer, wrap=wrap, axis=axis)
        cx.nonneg.add(out)
        return out

    count = view.array.ndim - len(view.axes)
    inner = (AxisSpan(None, 1, InnerExtent(axis, extent, view)) for axis in range(count))
    return replace(view, axes=(*view.axes, *inner))


def refuse(cx: Context, struct: Struct, name: str, node: ast.AST) -> NoReturn:
    """Refuse an operation that would change, or take as a whole, the arrays in elements."""
    cx.type_error(
        node,
        f"the array field {name!r} of {struct.name} in an array of {struct.name}, as a whole or to be changed",
        f"take it from one element, as in a[i].{name}[j]; elements with array fields are assigned on the host",
    )
