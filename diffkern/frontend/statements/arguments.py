"""Arguments of calls in the form that lowerings take: without ``*``, and for built-in functions in order.

A call of the syntax tree becomes the same call, with a node of its own for each value of a ``*`` argument, and with
arguments by name at their position.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from diffkern.frontend.syntax.scope import suggest
from diffkern.frontend.terms import components, views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Spread, Term, Tup, Val, View, describe
from diffkern.frontend.terms.terms import spread as spread_term
from diffkern.ir import types as T
from diffkern.lang.intrinsics import INTRINSICS

__all__ = ["Spread", "in_order", "spread", "spread_items"]


def spread(cx: Context, node: ast.Call) -> ast.Call:
    """Return the call with the values of each ``*sequence`` among its arguments."""
    if not any(isinstance(arg, ast.Starred) for arg in node.args):
        return node
    # One node for each call: a loop that is lowered again must find the results that it recorded for this node.
    made = cx.spread_calls.setdefault(node, ast.copy_location(ast.Call(node.func, [], node.keywords), node))
    made.args = [part for arg in node.args for part in _parts(cx, arg)]
    return made


def _parts(cx: Context, node: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(node, ast.Starred):
        yield node
        return
    for term in spread_items(cx, node):
        yield ast.copy_location(spread_term(term), node)


def spread_items(cx: Context, node: ast.Starred) -> Sequence[Term]:
    """Return the values of ``*sequence``."""
    value = node.value
    # A slice of an array is no value, but with constant bounds its elements are.
    if isinstance(value, ast.Subscript) and any(isinstance(e, ast.Slice) for e in _entries(value)):
        owner = cx.expr(value.value)
        if isinstance(owner, View):
            return _of_slice(cx, owner, value)
    term = cx.expr(value)
    if isinstance(term, Tup):
        return term.items
    if isinstance(term, Val) and isinstance(term.value.type, T.Vec):
        return [Val(c) for c in cx.b.components(term.value)]
    if isinstance(term, Val) and isinstance(term.value.type, T.Mat):
        t = term.value.type
        rows = (components.Selection(t, (k, range(t.cols))) for k in range(t.rows))
        return [Val(components.extract(cx, term.value, row)) for row in rows]
    remedy = "it takes a tuple, a vector, the rows of a matrix, or a slice of an array between constants: *a[0:3]"
    cx.type_error(node, f"* of {describe(term)}", remedy)


def _entries(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _of_slice(cx: Context, owner: View, node: ast.Subscript) -> Sequence[Term]:
    """Return the elements of a slice of an array: as many as its bounds say, whatever the array's extent."""
    entries = _entries(node)
    (at, *others) = [k for k, e in enumerate(entries) if isinstance(e, ast.Slice)]
    part = entries[at]
    assert isinstance(part, ast.Slice)
    bounds = components.constant_slice(cx, part, "how many elements there are is known when the kernel is compiled")
    start, stop, step = bounds.start or 0, bounds.stop, bounds.step or 1
    if others or stop is None or start < 0 or stop < 0 or len(entries) != len(owner.spans):
        cx.type_error(node, "* takes the elements along one axis, between constants", "write *a[0:3], or *a[i, 0:3]")
    fixed = [Const(0) if k == at else cx.expr(e) for k, e in enumerate(entries)]
    return [
        views.load(cx, views.fixed(cx, owner, [*fixed[:at], Const(k), *fixed[at + 1 :]], node))
        for k in range(start, stop, step)
    ]


# -- names of parameters -----------------------------------------------------------------------------------------------

_OTHERS: Final = {
    "float": ("x",), "int": ("x",), "bool": ("x",), "len": ("a",),
    "int_floor": ("x",), "int_ceil": ("x",), "int_trunc": ("x",), "int_round": ("x",),
}  # fmt: skip
"""Parameters of functions of Python, by key."""


def _parameters(key: str) -> tuple[str, ...]:
    """Return the names of a built-in's parameters, in order."""
    if key not in INTRINSICS:
        return _OTHERS.get(key, ())
    if key.startswith("atomic_"):
        return ("arr", "i", "j", "k", "l", *(["compare"] if key == "atomic_cas" else []), "value")
    signature = INTRINSICS[key].signature
    return tuple(part.partition("=")[0].strip(" []") for part in signature.split(",") if "..." not in part)


def in_order(cx: Context, key: str, name: str, node: ast.Call) -> ast.Call:
    """Return a call of a built-in with its named arguments at their positions."""
    if not node.keywords:
        return node
    names = _parameters(key)
    given: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names:
            known = f"its parameters are {', '.join(names)}" if names else "give the values in order"
            hint = suggest(keyword.arg or "", names)
            cx.type_error(keyword.value, f"{name} has no parameter {keyword.arg!r}{hint}", known)
        if keyword.arg in given:
            cx.type_error(keyword.value, f"{name} gets {keyword.arg} twice", "give it by position or by name")
        given[keyword.arg] = keyword.value
    # The same node for the same call, as in `spread`.
    made = cx.spread_calls.setdefault(node, ast.copy_location(ast.Call(node.func, [], []), node))
    made.args = [given[parameter] for parameter in names if parameter in given]
    if len(node.args) > len(names):
        cx.type_error(
            node,
            f"{name} takes {len(names)} arguments, not {len(node.args) + len(node.keywords)}",
            f"they are {', '.join(names)}",
        )
    made.keywords = []
    return made
