"""Expressions: names, literals, operators, attributes, subscripts, conditional expressions.

In: an expression of the syntax tree. Out: a term. Calls are the business of :mod:`calls`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from diffkern.frontend import advice, arith, branch, calls, coerce, components, records, tile_math, tiles, views
from diffkern.frontend.captured import is_array, static_term
from diffkern.frontend.context import Context
from diffkern.frontend.fence import refuse_expression
from diffkern.frontend.scope import MISSING, attribute_names, static_attribute, suggest
from diffkern.frontend.terms import Const, Rec, RecView, Static, Term, Tup, Val, View, describe
from diffkern.frontend.tile_terms import is_tile
from diffkern.ir import types as T
from diffkern.lang import DType

__all__ = ["binary", "lower_expr"]


def lower_expr(cx: Context, node: ast.expr) -> Term:
    """Lower one expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        refuse_expression(cx, node)
    return handler(cx, node)


# -- names and captured objects ----------------------------------------------------------------------------------------


def _name(cx: Context, node: ast.Name) -> Term:
    if node.id in cx.frame.locals:
        return _variable(cx, node)
    obj = cx.frame.scope.lookup(node.id)
    if obj is MISSING:
        known = [*cx.env, *cx.frame.scope.names()]
        cx.type_error(node, f"the name {node.id!r} is not defined{suggest(node.id, known)}")
    return static_term(cx, obj, node.id, node)


def _variable(cx: Context, node: ast.Name) -> Term:
    binding = cx.env.get(node.id)
    if binding is None or binding.term is None:
        why = binding.unset if binding is not None and binding.unset else "it is read before it is set"
        cx.type_error(node, f"the variable {node.id!r} has no value here: {why}", "set it before, on all paths")
    if binding.unset is not None:
        cx.type_error(
            node, f"the variable {node.id!r} may have no value here: {binding.unset}", "set it before, on all paths"
        )
    return binding.term


def _constant(cx: Context, node: ast.Constant) -> Term:
    if isinstance(node.value, (bool, int, float)):
        return Const(node.value)
    if node.value is None:
        return Static(None, "None")
    kind = "a string" if isinstance(node.value, str) else f"the literal {node.value!r}"
    cx.syntax_error(node, f"{kind} has no meaning in a kernel", "kernels compute with numbers, vectors and arrays")


def _attribute(cx: Context, node: ast.Attribute) -> Term:
    owner = cx.expr(node.value)
    if isinstance(owner, Static):
        obj = static_attribute(owner.obj, node.attr)
        if obj is MISSING:
            known = attribute_names(owner.obj)
            if not known:
                cx.type_error(node, *advice.for_instance(owner.obj, owner.name, node.attr))
            hint = suggest(node.attr, known)
            remedy = advice.missing_name(owner.name, owner.obj, node.attr)
            cx.type_error(node, f"{owner.name} has no attribute {node.attr!r}{hint}", None if hint else remedy)
        return static_term(cx, obj, f"{owner.name}.{node.attr}", node)
    if isinstance(owner, Rec):
        return records.member(cx, owner, node)
    if isinstance(owner, (View, RecView)):
        return _array_attribute(cx, owner, node)
    if isinstance(owner, Val) and isinstance(owner.value.type, T.Tile):
        return tiles.attribute(cx, owner.value, node)
    if isinstance(owner, Val):
        return components.attribute(cx, owner, node)
    cx.type_error(node, f"{describe(owner)} has no attribute {node.attr!r}", advice.number_attribute(node.attr))


def _array_attribute(cx: Context, owner: View | RecView, node: ast.Attribute) -> Term:
    view = owner if isinstance(owner, View) else owner.first
    if node.attr == "shape":
        return views.shape(cx, view)
    if node.attr == "ndim":
        return Const(len(view.spans))
    if node.attr == "size" and cx.layout is not None:
        return views.size(cx, view, node)
    if node.attr == "T" and len(view.spans) == 2:
        cx.type_error(node, "a view with its axes exchanged is not supported", "exchange the indices instead: a[j, i]")
    if isinstance(owner, RecView):
        return records.member(cx, owner, node)
    if node.attr == "dtype":
        return Static(view.array.dtype, f"{view.base.name}.dtype")
    remedy = advice.array_attribute(node.attr)
    hint = "" if remedy else suggest(node.attr, ["shape", "ndim", "dtype"])
    otherwise = None if hint else "arrays have shape, ndim and dtype in kernels, and elements"
    cx.type_error(node, f"an array has no attribute {node.attr!r} in a kernel{hint}", remedy or otherwise)


# -- operators ---------------------------------------------------------------------------------------------------------


def _binop(cx: Context, node: ast.BinOp) -> Term:
    """A sum of many terms is a tree that is deep on the left: a loop goes up it."""
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
    """An operator on numbers, vectors, matrices or tiles."""
    if is_tile(left) or is_tile(right):
        return tile_math.binary(cx, op, left, right, node)
    return arith.binary(cx, op, left, right, node)


def _unary(cx: Context, node: ast.UnaryOp) -> Term:
    operand = cx.expr(node.operand)
    if isinstance(node.op, ast.Not):
        test = coerce.as_bool(cx, operand, node.operand)
        return Const(not test.value) if isinstance(test, Const) else Val(cx.b.one("not", test.value))
    if is_tile(operand):
        if isinstance(node.op, ast.USub):
            return tile_math.negate(cx, operand, node)
        cx.type_error(node, f"this operator on {describe(operand)}", "use dk.tile_map with a function of its elements")
    if isinstance(node.op, ast.USub):
        return arith.negate(cx, operand, node)
    if isinstance(node.op, ast.UAdd):
        if not isinstance(operand, (Const, Val)):
            cx.type_error(node, f"+ of {describe(operand)}")
        return operand
    return arith.invert(cx, operand, node)


def _compare(cx: Context, node: ast.Compare) -> Term:
    left = cx.expr(node.left)
    return _compare_chain(cx, node, left, 0)


def _compare_chain(cx: Context, node: ast.Compare, left: Term, k: int) -> Const | Val:
    op = arith.COMPARE.get(type(node.ops[k]))
    if op is None:
        word = {"Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in"}[type(node.ops[k]).__name__]
        remedy = "compare numbers with ==" if word.startswith("is") else "compare with each element, joined by or"
        cx.syntax_error(node, f"{word!r} is not supported in a kernel", remedy)
    right = cx.expr(node.comparators[k])
    if is_tile(left) or is_tile(right):
        if len(node.ops) > 1:
            cx.type_error(node, "a chain of comparisons of tiles", "compare two at a time, and combine them with &")
        return tile_math.compare(cx, op, left, right, node)
    result = arith.compare(cx, op, left, right, node)
    if k + 1 == len(node.ops):
        return result
    return branch.logical(cx, "and", result, lambda: _compare_chain(cx, node, right, k + 1))


def _boolop(cx: Context, node: ast.BoolOp) -> Term:
    op = "and" if isinstance(node.op, ast.And) else "or"

    def test(k: int) -> Const | Val:
        return coerce.as_bool(cx, cx.expr(node.values[k]), node.values[k])

    result = test(0)
    for k in range(1, len(node.values)):
        result = branch.logical(cx, op, result, lambda k=k: test(k))  # type: ignore[misc]
    return result


def _ifexp(cx: Context, node: ast.IfExp) -> Term:
    cond = cx.expr(node.test)
    return branch.choose(
        cx, cond, lambda: cx.expr(node.body), lambda: cx.expr(node.orelse), node, "the conditional expression"
    )


# -- tuples and subscripts ---------------------------------------------------------------------------------------------


def _tuple(cx: Context, node: ast.Tuple) -> Term:
    for item in node.elts:
        if isinstance(item, ast.Starred):
            cx.syntax_error(item, "* in a tuple is not supported", "list the elements")
    return Tup(tuple(cx.expr(item) for item in node.elts))


def _subscript(cx: Context, node: ast.Subscript) -> Term:
    if not isinstance(node.value, ast.Subscript):
        return subscript_term(cx, cx.expr(node.value), node)
    inner = cx.expr(node.value.value)
    if not (isinstance(inner, Val) and isinstance(inner.type, T.Mat)):
        return subscript_term(cx, subscript_term(cx, inner, node.value), node)
    with cx.b.at(cx.loc(node.value)):
        part = components.select_subscript(cx, inner.type, node.value)
    if part.row:
        return Val(components.extract(cx, inner.value, components.in_row(cx, inner.type, part, node)))
    cx.type_error(node, f"a component of {inner.type} cannot be indexed")


def subscript_term(cx: Context, owner: Term, node: ast.Subscript) -> Term:
    """``owner[...]`` as a value: an element, a view, a component, a row, an item of a tuple."""
    if isinstance(owner, View):
        view = views.subscript(cx, owner, views.index_terms(cx, node.slice), node)
        return view if view.spans else views.load(cx, view)
    if isinstance(owner, RecView):
        part = records.subscript(cx, owner, node)
        return part if part.ndim else records.load(cx, part)
    if isinstance(owner, Val) and isinstance(owner.value.type, T.Tile):
        return tiles.read(cx, owner.value, tiles.cut(cx, owner.value, views.index_terms(cx, node.slice), node))
    if isinstance(owner, Val) and not isinstance(owner.type, T.Scalar):
        return components.subscript(cx, owner, node)
    if isinstance(owner, Tup) and isinstance(node.slice, ast.Slice):
        return Tup(owner.items[_tuple_slice(cx, node.slice)])
    if isinstance(owner, Tup):
        return owner.items[_tuple_index(cx, owner, node)]
    if isinstance(owner, Static) and isinstance(owner.obj, DType):
        cx.type_error(node, f"{owner.name} cannot be indexed", "it is a dtype: call it to make a value")
    if isinstance(owner, Static) and is_array(owner.obj):
        cx.type_error(node, f"{owner.name} is an array outside the kernel", "pass arrays as parameters")
    cx.type_error(node, f"{describe(owner)} cannot be indexed", "only arrays, vectors, matrices and tuples can")


def _tuple_slice(cx: Context, node: ast.Slice) -> slice:
    bounds: list[int | None] = []
    for part in (node.lower, node.upper, node.step):
        term = None if part is None else cx.expr(part)
        if term is not None and not (isinstance(term, Const) and isinstance(term.value, int)):
            cx.type_error(node, "a tuple is sliced by constants")
        bounds.append(term.value if isinstance(term, Const) and isinstance(term.value, int) else None)
    if bounds[2] == 0:
        cx.type_error(node, "the step of a slice is 0")
    return slice(*bounds)


def _tuple_index(cx: Context, owner: Tup, node: ast.Subscript) -> int:
    index = cx.expr(node.slice)
    if not isinstance(index, Const) or not isinstance(index.value, int):
        cx.type_error(
            node.slice, "a tuple is indexed by a constant", "put the numbers in an array to index them by a variable"
        )
    if not -len(owner.items) <= index.value < len(owner.items):
        cx.type_error(node, f"index {index.value} of a tuple of {len(owner.items)}")
    return index.value


_HANDLERS: Final[Mapping[type[ast.expr], Callable[[Context, Any], Term]]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.BinOp: _binop,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolop,
    ast.IfExp: _ifexp,
    ast.Tuple: _tuple,
    ast.Subscript: _subscript,
    ast.Call: calls.lower_call,
}
