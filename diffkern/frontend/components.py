"""Components of vectors and matrices: ``v.x``, ``v[k]``, ``m[i, j]``, ``m[i]``.

In: a composite value and a subscript. Out: a component or a row; for assignments, the composite with it replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from diffkern.frontend import advice, coerce
from diffkern.frontend.context import Context
from diffkern.frontend.scope import suggest
from diffkern.frontend.terms import Const, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = ["Selection", "attribute", "extract", "in_row", "insert", "select_attribute", "select_subscript", "subscript"]

_LETTERS: Final = {"x": 0, "y": 1, "z": 2, "w": 3}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a composite is meant: one component, or a whole row of a matrix.

    ``index`` is the component's number, or the row's, known now (int) or at run time (Value).
    """

    index: int | Value
    row: bool = False


def select_attribute(cx: Context, t: T.Element, node: ast.Attribute) -> Selection:
    """``v.x``."""
    if isinstance(t, T.Vec):
        letters = [name for name, k in _LETTERS.items() if k < t.length]
        if node.attr in letters:
            return Selection(_LETTERS[node.attr])
        cx.type_error(
            node, f"{t} has no component {node.attr!r}{suggest(node.attr, letters)}", f"it has {', '.join(letters)}"
        )
    cx.type_error(node, f"{t} has no attribute {node.attr!r}", advice.number_attribute(node.attr))


def select_subscript(cx: Context, t: T.Composite, node: ast.Subscript) -> Selection:
    """``v[k]``, ``m[i, j]`` or ``m[i]``."""
    entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for entry in entries:
        if isinstance(entry, ast.Slice):
            cx.syntax_error(entry, f"slices of {t} are not supported", "index single components")
    terms = [cx.expr(entry) for entry in entries]
    if len(terms) == 1 and isinstance(terms[0], Tup):
        terms = list(terms[0].items)
    axes = t.shape
    if len(terms) > len(axes):
        cx.type_error(node, f"{len(terms)} indices for {t}")
    known = [_component_index(cx, term, n, node) for term, n in zip(terms, axes, strict=False)]
    if isinstance(t, T.Mat) and len(known) == 2:
        return Selection(_flat(cx, known, t.cols))
    return Selection(known[0], row=isinstance(t, T.Mat))


def _component_index(cx: Context, term: Term, n: int, node: ast.AST) -> int | Value:
    if isinstance(term, Const) and isinstance(term.value, int) and not isinstance(term.value, bool):
        if not -n <= term.value < n:
            cx.type_error(node, f"component {term.value} of {n}", f"components count from 0 to {n - 1}")
        return term.value % n
    if isinstance(term, Val) and isinstance(term.type, T.Scalar) and term.type.is_integer:
        index = cx.b.cast(term.value, T.INT32)
        if term.value in cx.nonneg:
            return index
        negative = cx.b.one("lt", index, cx.b.i32(0))
        return cx.b.select(negative, cx.b.add(index, cx.b.i32(n)), index)
    cx.type_error(node, f"a component's index must be an integer, not {describe(term)}")


def _flat(cx: Context, known: Sequence[int | Value], cols: int) -> int | Value:
    row, col = known
    if isinstance(row, int) and isinstance(col, int):
        return row * cols + col
    first = cx.b.i32(row * cols) if isinstance(row, int) else cx.b.mul(row, cx.b.i32(cols))
    return cx.b.add(first, cx.b.i32(col) if isinstance(col, int) else col)


def in_row(cx: Context, t: T.Mat, row: Selection, column: ast.Subscript) -> Selection:
    """``m[i][j]``: the component of a selected row, without making the row."""
    inner = select_subscript(cx, T.Vec(t.dtype, t.cols), column)
    return Selection(_flat(cx, (row.index, inner.index), t.cols))


def extract(cx: Context, a: Value, part: Selection) -> Value:
    """The selected component, or the row as a vector."""
    if not part.row:
        if isinstance(part.index, int):
            return cx.b.extract(a, part.index)
        return cx.b.one("extract_dyn", a, part.index)
    t = a.type
    assert isinstance(t, T.Mat)
    items = [extract(cx, a, Selection(_flat(cx, (part.index, k), t.cols))) for k in range(t.cols)]
    return cx.b.construct(T.Vec(t.dtype, t.cols), items)


def insert(cx: Context, a: Value, part: Selection, term: Term, node: ast.AST) -> Value:
    """The composite with the selected part replaced."""
    t = a.type
    assert isinstance(t, (T.Vec, T.Mat))
    if not part.row:
        component = coerce.convert(cx, term, t.dtype, node, f"a component of {t}")
        if isinstance(part.index, int):
            return cx.b.one("insert", a, component, index=part.index)
        return cx.b.one("insert_dyn", a, component, part.index)
    assert isinstance(t, T.Mat)
    row = coerce.convert(cx, term, T.Vec(t.dtype, t.cols), node, f"a row of {t}")
    for k in range(t.cols):
        where = Selection(_flat(cx, (part.index, k), t.cols))
        a = insert(cx, a, where, Val(cx.b.extract(row, k)), node)
    return a


def attribute(cx: Context, owner: Val, node: ast.Attribute) -> Val:
    """``v.x`` as a value."""
    return Val(extract(cx, owner.value, select_attribute(cx, owner.type, node)))


def subscript(cx: Context, owner: Val, node: ast.Subscript) -> Val:
    """``v[k]``, ``m[i, j]`` or ``m[i]`` as a value."""
    assert isinstance(owner.type, (T.Vec, T.Mat))
    return Val(extract(cx, owner.value, select_subscript(cx, owner.type, node)))
