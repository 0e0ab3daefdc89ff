"""Arrays that elements of arrays of structs hold: ``a[i].x[j]``.

The view of an array field of all elements, with the index of one, gives the view of the array in it. In the IR both are
one array whose leading axes are the elements and whose others are those of the arrays in them, so that reading,
writing, slices and derivatives are those of any array. A launch checks that no two of these arrays overlap if one is
written (:mod:`diffkern.runtime.launch.nested_arrays`).
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import NoReturn

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, InnerExtent, View
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.structs import Struct

__all__ = ["is_pointer", "opened", "refuse"]


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
