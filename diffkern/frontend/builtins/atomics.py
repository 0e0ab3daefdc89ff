"""Atomic updates of elements of arrays: ``atomic_add(a, i, v)`` and the rest of the family.

A call becomes an op ``atomic``, which returns the old element. The spelling of numba uses :func:`updated` as well.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from diffkern.frontend.builtins import folded
from diffkern.frontend.builtins.blocks import Call
from diffkern.frontend.terms import coerce, views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import RecView, Term, Tup, View, describe
from diffkern.ir import types as T

__all__ = ["CALLS", "array_argument", "updated"]

_OF_INTEGERS: Final = frozenset({"and", "or", "xor", "inc", "dec"})
_KINDS: Final = ("add", "sub", "min", "max", "exch", "cas", "and", "or", "xor")


def _atomic(kind: str, cx: Context, name: str, node: ast.Call) -> Term:
    values = 2 if kind == "cas" else 1
    if node.keywords or len(node.args) < 2 + values:
        last = "compare, value" if kind == "cas" else "value"
        remedy = f"pass array and indices separately: {name}(a, i, {last}), for two axes {name}(a, i, j, {last})"
        takes = "and two values" if kind == "cas" else "and a value"
        cx.type_error(node, f"{name} takes an array, an index for each axis, {takes}", remedy)
    array = cx.expr(node.args[0])
    entries: list[Term] = []
    for arg in node.args[1:-values]:
        term = cx.expr(arg)
        for item in term.items if isinstance(term, Tup) else (term,):
            views.check_index(cx, item, arg)
            entries.append(item)
    if (rows := folded.folded(array)) is not None and (element := folded.element(cx, rows, entries, node)) is not None:
        array, entries = element, []
    else:
        array = as_array(cx, name, array, node.args[0])
    return updated(cx, kind, name, array, entries, [cx.expr(value) for value in node.args[-values:]], node)


def array_argument(cx: Context, name: str, node: ast.expr) -> View:
    """Return the array whose element is updated."""
    return as_array(cx, name, cx.expr(node), node)


def as_array(cx: Context, name: str, array: Term, node: ast.expr) -> View:
    """Return the same for an argument that is lowered already."""
    if isinstance(array, RecView):
        cx.type_error(
            node,
            f"{name} on elements of the struct {array.struct.name}",
            f"update single fields, as in {name}(a.{array.struct.names[0]}, i, value)",
        )
    if not isinstance(array, View) or not array.spans:
        cx.type_error(node, f"{name} needs an array, not {describe(array)}", "pass the array first, without an index")
    return array


def updated(
    cx: Context, kind: str, name: str, array: View, entries: Sequence[Term], values: Sequence[Term], node: ast.Call
) -> Term:
    """Update an element atomically.

    Parameters
    ----------
    kind
        The kind of the op ``atomic``.
    name
        The name by which the kernel calls it.
    entries
        An integer for each axis.
    values
        The expected value and its replacement for ``cas``, else one value.
    """
    if len(entries) != len(array.spans):
        cx.type_error(
            node,
            f"{name} got {len(entries)} indices for an array with {views.count_axes(array)}",
            "give one index for each axis",
        )
    dtype, t = array.array.dtype, T.value_type(array.array.dtype)
    if kind in _OF_INTEGERS and not T.scalar_of(t).is_integer:
        cx.type_error(node, f"{name} on elements of type {dtype}", "it takes arrays of integers")
    if kind == "cas" and (not isinstance(t, T.Scalar) or t == T.BOOL):
        cx.type_error(node, f"{name} on elements of type {dtype}", "it takes arrays of numbers: use one per component")
    element = views.fixed(cx, array, entries, node)
    if kind != "cas":
        return views.atomic(cx, kind, element, values[0], node)
    assert isinstance(t, T.Scalar)
    # The op takes one operand for the value: the expected and the new number travel as a vector of two.
    pair = [coerce.convert(cx, value, t, node, f"a value of {name}") for value in values]
    return views.compare_exchange(cx, element, cx.b.construct(T.Vec(t, 2), pair))


CALLS: Final[Mapping[str, Call]] = {f"atomic_{kind}": partial(_atomic, kind) for kind in _KINDS}
