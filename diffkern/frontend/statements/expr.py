"""Expressions: names, literals, operators, attributes, subscripts, conditional expressions.

An expression of the syntax tree becomes a term. Calls are the business of :mod:`calls`.
"""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from diffkern.errors import KernelError
from diffkern.frontend.builtins import complexes, folded, pointers, records
from diffkern.frontend.statements import arguments, branch, calls, inline, nested, unset
from diffkern.frontend.statements.matching import user_operator
from diffkern.frontend.syntax import advice
from diffkern.frontend.syntax.fence import refuse_expression
from diffkern.frontend.syntax.local_functions import LocalFunction
from diffkern.frontend.syntax.plain import enum_value
from diffkern.frontend.syntax.scope import MISSING, attribute_names, suggest
from diffkern.frontend.syntax.static import Given, Later, Sized, failure
from diffkern.frontend.syntax.taken import note
from diffkern.frontend.terms import arith, coerce, comparisons, components, narrow, views
from diffkern.frontend.terms.captured import fixed_length, host_value, is_array, is_known, static_result, static_term
from diffkern.frontend.terms.context import Activation, Context
from diffkern.frontend.terms.terms import (
    Const,
    FieldTile,
    Once,
    Rec,
    RecView,
    Shape,
    Static,
    Term,
    TileStruct,
    Tup,
    Val,
    View,
    describe,
)
from diffkern.frontend.tiles import tile_fields, tile_math, tile_records, tiles
from diffkern.frontend.tiles.tile_terms import is_tile
from diffkern.ir import types as T
from diffkern.lang import DType
from diffkern.lang.annotations import MAX_NDIM
from diffkern.lang.static import kept_results
from diffkern.lang.structs import class_of

__all__ = ["binary", "lower_expr"]

_MAX_CHOICES: Final = 64
"""The most items of a tuple that is indexed at run time."""


def lower_expr(cx: Context, node: ast.expr) -> Term:
    """Lower one expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        refuse_expression(cx, node)
    return handler(cx, node)


# -- names and captured objects ----------------------------------------------------------------------------------------


def _name(cx: Context, node: ast.Name) -> Term:
    if (frame := cx.frame.holder(node.id)) is not None:
        return _variable(cx, node, frame)
    obj = cx.frame.scope.lookup(node.id)
    if obj is MISSING:
        # Suggested are names that would have been found.
        known = [*cx.env, *cx.frame.scope.names()]
        cx.type_error(
            node,
            f"the name {node.id!r} is not defined{suggest(node.id, known)}",
            "check the name, import it, or pass its value as a parameter",
        )
    return static_term(cx, obj, node.id, node)


def _variable(cx: Context, node: ast.Name, frame: Activation | None = None) -> Term:
    binding = (frame or cx.frame).env.get(node.id)
    # On some path, or on all, nothing has set it.
    if binding is None or binding.term is None or binding.unset is not None:
        return unset.read(cx, node, binding, frame or cx.frame)
    return binding.term


def _constant(cx: Context, node: ast.Constant) -> Term:
    if isinstance(node.value, (bool, int, float)):
        return Const(node.value)
    if node.value is None:
        return Static(None, "None")
    if isinstance(node.value, complex):
        return complexes.literal(cx, node.value)
    kind = "a string" if isinstance(node.value, str) else f"the literal {node.value!r}"
    cx.syntax_error(node, f"{kind} has no meaning in a kernel", "kernels compute with numbers, vectors and arrays")


def _given(cx: Context, node: Given) -> Term:
    """Return the result of a static expression."""
    results = kept_results(cx.frame.pyfunc)
    assert results is not None
    found = results[node.index]
    if isinstance(found, Later):
        values = {name: _known_now(cx, name, node) for name in found.variables}
        try:
            result = found.value(values)
        except KernelError:
            raise
        except Exception as error:
            raise failure(error, cx.loc(node)) from error
        # The result of a plain expression follows from its text and values, which are in the key; any other is noted.
        if not found.is_plain:
            note(result)
        return static_result(cx, result, node)
    return static_result(cx, found, node)


def _known_now(cx: Context, name: str, node: ast.AST) -> Any:
    """Return the value of a variable that a static expression uses."""
    term = cx.expr(ast.copy_location(ast.Name(name, ast.Load()), node))
    # Its length is all that an expression may ask for, as in ``static(len(v))``.
    if not is_known(term) and (length := fixed_length(term)) is not None:
        return Sized(length)
    if not is_known(term):
        cx.type_error(
            node,
            f"static(...) uses the variable {name}, whose value is known only where the kernel runs",
            "use constants, closure variables, and variables of loops with constant bounds",
        )
    return host_value(term)


def _attribute(cx: Context, node: ast.Attribute) -> Term:
    # Before the member becomes a number, which has no attribute `value`.
    if node.attr == "value" and isinstance(member := cx.outside(node.value), enum.Enum):
        return _value_of_member(cx, member, node)
    owner = cx.expr(node.value)
    fact = _of_type(owner.obj, node) if isinstance(owner, Static) and isinstance(owner.obj, T.Type) else None
    if fact is not None:
        return fact
    if (rows := folded.folded(owner)) is not None:
        return folded.attribute(cx, rows, node)
    if isinstance(owner, Static):
        obj = cx.frame.scope.attribute(owner.obj, node.attr)
        if obj is MISSING:
            known = attribute_names(owner.obj)
            if not known:
                cx.type_error(node, *advice.for_instance(owner.obj, owner.name, node.attr))
            known_elsewhere = advice.missing_name(owner.name, owner.obj, node.attr)
            hint = advice.missing_kind(owner.obj, node.attr) if known_elsewhere else suggest(node.attr, known)
            remedy = known_elsewhere or (None if hint else advice.where_names_are(owner.obj))
            cx.type_error(node, f"{owner.name} has no attribute {node.attr!r}{hint}", remedy)
        # An attribute of a computed object is in no captured name, so it is recorded for the key.
        if cx.outside(node) is MISSING:
            note(obj, owner.obj, node.attr)
        return static_term(cx, obj, f"{owner.name}.{node.attr}", node)
    if isinstance(owner, Rec) and isinstance(owner.struct, TileStruct):
        return tile_records.attribute(cx, owner, owner.struct, node)
    if isinstance(owner, Rec) and (found := records.function_of(cx, owner, node)) is not None:
        func, is_property = found
        # A property is called where it is read.
        if is_property:
            return inline.inline(cx, func, node, [owner])
        return Static(records.BoundMethod(func, owner), ast.unparse(node))
    if isinstance(owner, Rec):
        return records.member(cx, owner, node)
    if isinstance(owner, (View, RecView)):
        return _array_attribute(cx, owner, node)
    if isinstance(owner, Val) and (fact := _of_type(owner.value.type, node)) is not None:
        return fact
    if isinstance(owner, Val) and isinstance(owner.value.type, T.Tile):
        return tiles.attribute(cx, owner.value, node)
    if isinstance(owner, Val):
        return components.attribute(cx, owner, node)
    cx.type_error(node, f"{describe(owner)} has no attribute {node.attr!r}", advice.number_attribute(node.attr))


def _value_of_member(cx: Context, member: enum.Enum, node: ast.Attribute) -> Term:
    """Return the value of a member of an enumeration."""
    shown = ast.unparse(node)
    if inspect.getattr_static(type(member), "value") is not inspect.getattr_static(enum.Enum, "value"):
        cx.type_error(node, f"{shown} is computed by code of its class", f"write dk.static({shown})")
    return static_term(cx, enum_value(member), shown, node)


def _of_type(t: T.Type, node: ast.Attribute) -> Term | None:
    """Return an attribute of a type: ``dtype``, of a vector or matrix ``shape``, of a vector ``length``."""
    if isinstance(t, T.Array):
        return Static(t.dtype, ast.unparse(node)) if node.attr == "dtype" else None
    if isinstance(t, (T.Scalar, T.Vec, T.Mat)) and node.attr == "dtype":
        return Static(narrow.stored(t if isinstance(t, T.Scalar) else t.dtype), ast.unparse(node))
    if isinstance(t, (T.Vec, T.Mat)) and node.attr == "shape":
        return Tup(tuple(map(Const, t.shape)))
    return Const(t.length) if isinstance(t, T.Vec) and node.attr == "length" else None


def _array_attribute(cx: Context, owner: View | RecView, node: ast.Attribute) -> Term:
    view = owner if isinstance(owner, View) else owner.first
    if node.attr == "shape":
        return views.shape(cx, view)
    if node.attr == "ndim":
        return Const(len(view.spans))
    if node.attr == "size":
        return views.size(cx, view, node)
    if node.attr == "ptr" and isinstance(owner, View):
        return pointers.address(cx, owner, node)
    # A likely mistake, with a remedy of its own.
    if node.attr == "T" and len(view.spans) == 2:
        cx.type_error(node, "a view with its axes exchanged is not supported", "exchange the indices instead: a[j, i]")
    # A field of that name comes first: the struct is the user's.
    if isinstance(owner, RecView) and node.attr == "dtype" and "dtype" not in owner.struct.names:
        return Static(class_of(owner.struct), ast.unparse(node))
    if isinstance(owner, RecView):
        return records.member(cx, owner, node)
    if node.attr == "dtype":
        return Static(view.array.dtype, f"{view.base.name}.dtype")
    remedy = advice.array_attribute(node.attr)
    hint = "" if remedy else suggest(node.attr, ["shape", "size", "ndim", "dtype"])
    otherwise = None if hint else "arrays have shape, size, ndim and dtype in kernels, and elements"
    cx.type_error(node, f"an array has no attribute {node.attr!r} in a kernel{hint}", remedy or otherwise)


# -- operators ---------------------------------------------------------------------------------------------------------


def _binop(cx: Context, node: ast.BinOp) -> Term:
    """Lower a binary operator; a sum of many terms is a tree that is deep on the left, and a loop goes up it."""
    spine = [node]
    while isinstance(left := spine[-1].left, ast.BinOp):
        spine.append(left)
    term = cx.expr(spine[-1].left)
    for part in reversed(spine):
        right = cx.expr(part.right)
        with cx.b.at(cx.loc(part)):
            term = binary(cx, arith.BINARY[type(part.op)], term, right, part)
    return term


def binary(cx: Context, op: str, left: Term, right: Term, node: ast.AST) -> Term:
    """Apply an operator to numbers, vectors, matrices or tiles, or the program's own for the types of the operands."""
    if (own := user_operator(cx, op, left, right, node)) is not None:
        return inline.inline(cx, own, cast(ast.expr, node), (left, right))
    if pointers.is_address(left) or pointers.is_address(right):
        return pointers.plus(cx, op, left, right, node)
    if is_tile(left) or is_tile(right):
        return tile_math.binary(cx, op, left, right, node)
    if tile_fields.is_one(left) or tile_fields.is_one(right):
        return tile_records.combined(cx, op, left, right, node)
    return arith.binary(cx, op, left, right, node)


def _unary(cx: Context, node: ast.UnaryOp) -> Term:
    operand = cx.expr(node.operand)
    if isinstance(node.op, ast.Not):
        test = coerce.as_bool(cx, operand, node.operand)
        return Const(not test.value) if isinstance(test, Const) else Val(cx.b.one("not", test.value))
    if tile_fields.is_one(operand):
        tile_records.refuse(cx, "this operator", node)
    if is_tile(operand):
        if isinstance(node.op, ast.USub):
            return tile_math.negate(cx, operand, node)
        if isinstance(node.op, ast.Invert):
            return tile_math.invert(cx, operand, node)
        cx.type_error(node, f"this operator on {describe(operand)}", "use dk.tile_map with a function of its elements")
    if isinstance(node.op, ast.USub):
        return arith.negate(cx, operand, node)
    # ``+x`` is the value itself, but of numbers alone, as in Python.
    if isinstance(node.op, ast.UAdd):
        if not isinstance(operand, (Const, Val)):
            cx.type_error(node, f"+ of {describe(operand)}", "leave the sign out, or index the array, as in a[i]")
        return operand
    return arith.invert(cx, operand, node)


def _boolop(cx: Context, node: ast.BoolOp) -> Term:
    op = "and" if isinstance(node.op, ast.And) else "or"
    # In numba's spelling `and` of numbers gives one of them, as in Python; elsewhere it is a condition.
    if cx.layout is not None and not all(map(_is_test, node.values)):
        return _operand(cx, op, node.values, node)

    def test(k: int) -> Const | Val:
        return coerce.as_bool(cx, cx.expr(node.values[k]), node.values[k])

    result = test(0)
    for k in range(1, len(node.values)):
        result = branch.logical(cx, op, result, lambda k=k: test(k), node)  # type: ignore[misc]
    return result


def _is_test(node: ast.expr) -> bool:
    """Return whether an expression is a bool by its form."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_test, node.values))
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and isinstance(node.value, bool))


def _operand(cx: Context, op: str, values: Sequence[ast.expr], node: ast.BoolOp) -> Term:
    """Return one of the operands, as Python does: the first that decides, else the last; bools among numbers are
    integers.
    """

    def number(k: int) -> Term:
        term = cx.expr(values[k])
        if isinstance(term, Const) and isinstance(term.value, bool):
            return Const(int(term.value))
        is_bool = isinstance(term, Val) and term.type == T.BOOL
        return coerce.explicit_cast(cx, term, T.INT64, values[k]) if is_bool else term

    first = number(0)
    if len(values) == 1:
        return first

    def others() -> Term:
        return _operand(cx, op, values[1:], node)

    sides = (others, lambda: first) if op == "and" else (lambda: first, others)
    return branch.choose(cx, coerce.as_bool(cx, first, values[0]), *sides, node, f"{op} of numbers")


def _named(cx: Context, node: ast.NamedExpr) -> Term:
    """Lower ``(name := value)``."""
    assert isinstance(node.target, ast.Name)
    cx.bind(node.target.id, cx.expr(node.value), node.target)
    return _variable(cx, node.target)


def _ifexp(cx: Context, node: ast.IfExp) -> Term:
    cond = cx.expr(node.test)
    return branch.choose(
        cx, cond, lambda: cx.expr(node.body), lambda: cx.expr(node.orelse), node, "the conditional expression"
    )


# -- tuples and subscripts ---------------------------------------------------------------------------------------------


def _tuple(cx: Context, node: ast.Tuple) -> Term:
    items: list[Term] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            items += arguments.spread_items(cx, item)
        else:
            items.append(cx.expr(item))
    return Tup(tuple(items))


def _subscript(cx: Context, node: ast.Subscript) -> Term:
    if not isinstance(node.value, ast.Subscript):
        return subscript_term(cx, cx.expr(node.value), node)
    inner = cx.expr(node.value.value)
    # `m[i][j]` is one selection: the row between is never made.
    if not (isinstance(inner, Val) and isinstance(inner.value.type, (T.Vec, T.Mat))):
        return subscript_term(cx, subscript_term(cx, inner, node.value), node)
    with cx.b.at(cx.loc(node.value)):
        part = components.select_subscript(cx, inner.value.type, node.value)
    # Selected twice down to a number, as in ``v[0][1]``.
    if isinstance(part.type, T.Scalar):
        cx.type_error(node, f"a component of {inner.type} cannot be indexed", "leave the second index out")
    part = components.within(cx, part, components.select_subscript(cx, part.type, node))
    return Val(components.extract(cx, inner.value, part))


def subscript_term(cx: Context, owner: Term, node: ast.Subscript) -> Term:
    """Return ``owner[...]`` as a value: an element, a view, a component, a row, an item of a tuple."""
    if (rows := folded.folded(owner)) is not None:
        row = folded.subscript(cx, rows, views.index_terms(cx, node.slice), node)
        return row if isinstance(row, Static) or row.spans else views.load(cx, row)
    if isinstance(owner, View):
        view = views.subscript(cx, owner, views.index_terms(cx, node.slice), node)
        return view if view.spans else views.load(cx, view)
    if isinstance(owner, RecView):
        part = records.subscript(cx, owner, node)
        return part if part.ndim else records.load(cx, part)
    if isinstance(owner, Val) and isinstance(owner.value.type, T.Tile):
        return tiles.subscript(cx, owner.value, views.index_terms(cx, node.slice, tiles=True), node)
    if isinstance(owner, Rec) and isinstance(owner.struct, TileStruct):
        entries = views.index_terms(cx, node.slice, tiles=True)
        return tile_fields.each(owner, lambda leaf: tiles.subscript(cx, leaf.value, entries, node))
    if isinstance(owner, Val) and not isinstance(owner.type, T.Scalar):
        return components.subscript(cx, owner, node)
    if isinstance(owner, Rec) and (getter := records.getter_of(owner)) is not None:
        return inline.inline(cx, getter, node, [owner, cx.expr(node.slice)])
    if isinstance(owner, Tup) and isinstance(node.slice, ast.Slice):
        return Tup(owner.items[components.constant_slice(cx, node.slice, "a tuple is sliced by constants")])
    if isinstance(owner, Tup):
        return _tuple_item(cx, owner, node)
    if isinstance(owner, Static) and isinstance(owner.obj, DType):
        cx.type_error(node, f"{owner.name} cannot be indexed", "it is a dtype: call it to make a value")
    if isinstance(owner, Static) and is_array(owner.obj):
        cx.type_error(node, f"{owner.name} is an array outside the kernel", "pass arrays as parameters")
    cx.type_error(node, f"{describe(owner)} cannot be indexed", "only arrays, vectors, matrices and tuples can")


def _tuple_item(cx: Context, owner: Tup, node: ast.Subscript) -> Term:
    """Return the item at an index; one known only at run time chooses among numbers."""
    index, n = components.settled_index(cx, cx.expr(node.slice)), len(owner.items)
    if isinstance(index, Const) and isinstance(index.value, int):
        # In Warp, shapes have four extents, 0 behind the last axis.
        if isinstance(owner, Shape) and cx.dialect.long_shapes and n <= index.value < MAX_NDIM:
            return Const(0)
        if not -n <= index.value < n:
            cx.type_error(node, f"index {index.value} of a tuple of {n}", f"its items are 0 to {n - 1}")
        return owner.items[index.value]
    is_integer = isinstance(index, Val) and isinstance(index.type, T.Scalar) and index.type.is_integer
    if not is_integer or not all(map(coerce.is_number, owner.items)) or not 0 < n <= _MAX_CHOICES:
        remedy = f"put the numbers in an array to index them by a variable; tuples of up to {_MAX_CHOICES} numbers may"
        cx.type_error(node.slice, "a tuple is indexed by a constant", remedy)
    assert isinstance(index, Val)
    at = components.wrapped(cx, index, n, "a tuple")
    # A chain of choices: the last item needs no test, since the index is in range.
    found = owner.items[-1]
    for k in reversed(range(n - 1)):
        test, other = Val(cx.b.one("eq", at, cx.b.i32(k))), found
        item = owner.items[k]
        found = branch.choose(cx, test, lambda: item, lambda: other, node, "the tuple")  # noqa: B023 - called at once
    return found


def _once(cx: Context, node: Once) -> Term:
    # The node is shared by several lowerings of one call, of which the first evaluates it.
    if node.term is None:
        node.term = cx.expr(node.inner)
    return node.term


_HANDLERS: Final[Mapping[type[ast.expr], Callable[[Context, Any], Term]]] = {
    Given: _given,
    arguments.Spread: lambda cx, node: node.term,
    FieldTile: lambda cx, node: node.term,
    Once: _once,
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.BinOp: _binop,
    ast.UnaryOp: _unary,
    ast.Compare: comparisons.compare,
    ast.BoolOp: _boolop,
    ast.IfExp: _ifexp,
    ast.NamedExpr: _named,
    LocalFunction: nested.function,
    ast.Tuple: _tuple,
    ast.Subscript: _subscript,
    ast.Call: calls.lower_call,
}
