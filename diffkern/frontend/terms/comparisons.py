"""Comparisons: of numbers and tiles, of strings that are known now, membership, and identity with None.

An expression with comparison operators, chained or not, gives a bool, at run time or known now.
"""

from __future__ import annotations

import ast

from diffkern.frontend.statements import branch
from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Static, Term, Tup, Val, View, describe, nullness, presence
from diffkern.frontend.tiles import tile_math
from diffkern.frontend.tiles.tile_terms import is_tile
from diffkern.ir.ops.scalar import EQUALITIES

__all__ = ["compare"]


def compare(cx: Context, node: ast.Compare) -> Term:
    """Lower a comparison; each operand of a chain is evaluated once, and only if those before it hold."""
    return _chain(cx, node, _operand(cx, node.left), 0)


def _operand(cx: Context, node: ast.expr) -> Term:
    """Lower an operand: strings have a meaning here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Static(node.value, repr(node.value))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return Tup(tuple(_operand(cx, item) for item in node.elts))
    return cx.expr(node)


def _chain(cx: Context, node: ast.Compare, left: Term, k: int) -> Const | Val:
    op, right = node.ops[k], _operand(cx, node.comparators[k])
    if isinstance(op, (ast.In, ast.NotIn)):
        result = _member(cx, left, right, node)
        result = _negated(cx, result) if isinstance(op, ast.NotIn) else result
    elif isinstance(op, (ast.Is, ast.IsNot)):
        result = _identity(cx, left, right, isinstance(op, ast.Is), node)
    elif is_tile(left) or is_tile(right):
        if len(node.ops) > 1:
            cx.type_error(node, "a chain of comparisons of tiles", "compare two at a time, and combine them with &")
        return tile_math.compare(cx, arith.COMPARE[type(op)], left, right, node)
    else:
        result = _pair(cx, arith.COMPARE[type(op)], left, right, node)
    if k + 1 == len(node.ops):
        return result
    # The rest of the chain is a side of `and`, so that it is evaluated only if the comparisons before it hold.
    return branch.logical(cx, "and", result, lambda: _chain(cx, node, right, k + 1), node)


def _negated(cx: Context, test: Const | Val) -> Const | Val:
    return Const(not test.value) if isinstance(test, Const) else Val(cx.b.one("not", test.value))


def _pair(cx: Context, op: str, left: Term, right: Term, node: ast.AST) -> Const | Val:
    """Compare two operands that are no tiles."""
    if isinstance(left, Static) and isinstance(right, Static) and op in EQUALITIES:
        same = left.obj is right.obj or (isinstance(left.obj, (str, type)) and left.obj == right.obj)
        return Const(same is (op == "eq"))
    if isinstance(left, Tup) and isinstance(right, Tup) and op in EQUALITIES:
        return _tuples(cx, op, left, right, node)
    if any(isinstance(side, Static) and isinstance(side.obj, str) for side in (left, right)):
        remedy = "decide on the host which kernel to launch, or pass a number"
        cx.syntax_error(node, "strings are not compared in a kernel with what is known only where it runs", remedy)
    return arith.compare(cx, op, left, right, node)


def _tuples(cx: Context, op: str, left: Tup, right: Tup, node: ast.AST) -> Const | Val:
    result: Const | Val = Const(len(left.items) == len(right.items))
    for a, b in zip(left.items, right.items, strict=False):
        result = branch.logical(cx, "and", result, lambda a=a, b=b: _pair(cx, "eq", a, b, node), node)  # type: ignore[misc]
    return result if op == "eq" else _negated(cx, result)


def _member(cx: Context, left: Term, right: Term, node: ast.AST) -> Const | Val:
    """Lower ``x in (a, b)``: equal to one of them; for two strings, whether the one is part of the other."""
    if isinstance(left, Static) and isinstance(right, Static) and isinstance(right.obj, str):
        return Const(isinstance(left.obj, str) and left.obj in right.obj)
    if not isinstance(right, Tup):
        remedy = "write a tuple, as in k in (1, 2, 3); elements of arrays are compared in a loop"
        cx.type_error(node, f"in {describe(right)}", remedy)
    result: Const | Val = Const(False)
    for item in right.items:
        if isinstance(item, Static) != isinstance(left, Static):
            continue  # never equal
        result = branch.logical(cx, "or", result, lambda b=item: _pair(cx, "eq", left, b, node), node)  # type: ignore[misc]
    return result


def _is_known_at_run_time(term: Term) -> bool:
    """Return whether it is decided at run time if an array is null."""
    return presence(term) is not None or (isinstance(term, View) and bool(term.array.outer))


def _identity(cx: Context, left: Term, right: Term, wanted: bool, node: ast.AST) -> Const | Val:
    """Lower ``x is None``, ``f is g``: known while compiling, as a launch with None has a program of its own.

    Whether an array in an element of an array is null is decided at run time, and of one that some path has not set.
    """
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Static) and side.obj is None and _is_known_at_run_time(other):
            test = coerce.as_bool(cx, other, node)
            return _negated(cx, test) if wanted else test
        if isinstance(side, Static) and side.obj is None:
            return Const(bool(nullness(other)) is wanted)
    if isinstance(left, Static) and isinstance(right, Static):
        return Const((left.obj is right.obj) is wanted)
    cx.syntax_error(node, "'is' compares with None alone in a kernel", "compare numbers with ==")
