"""Arrays over a part of another one: ``wp.array(ptr=a.ptr + offset, shape=(n,), dtype=...)`` in a kernel.

The address of an array of one axis, sums of it and bytes, and the call that makes an array of such an address, give the
view of those elements, with several axes as in :mod:`diffkern.frontend.builtins.folded`. So accesses and derivatives
are those of the array itself.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from diffkern.frontend.builtins.folded import Folded
from diffkern.frontend.terms import arith, coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, Const, Static, Term, Tup, Val, View
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.lang import DType, resolve_type
from diffkern.lang.annotations import MAX_NDIM
from diffkern.process.dataclass import dataclass

__all__ = ["Address", "address", "is_address", "makes_array", "of_address", "plus"]

_REMEDY = "write wp.array(ptr=a.ptr + wp.uint64(bytes), shape=(n,), dtype=...) with the dtype of an array of one axis"


@dataclass(frozen=True, eq=False)
class Address:
    """The address of the elements of a view, bytes that are added to it, and a number that divides these."""

    view: View
    offset: Const | Val
    divisor: int


def address(cx: Context, view: View, node: ast.AST) -> Static:
    """Lower ``a.ptr``."""
    spans = view.spans
    # Bytes count elements only if the elements are contiguous and there is one known memory.
    contiguous = view.array.layout in ("C", T.OWN) and not view.array.outer and view.present is None
    if not contiguous or len(view.axes) != 1 or len(spans) != 1 or spans[0].step != 1 or spans[0].through is not None:
        cx.type_error(node, "the address of an array that has not one axis, or not all elements of it", _REMEDY)
    return Static(Address(view, Const(0), 0), ast.unparse(node))


def is_address(term: Term) -> bool:
    """Return whether a term is an address."""
    return isinstance(term, Static) and isinstance(term.obj, Address)


def plus(cx: Context, op: str, left: Term, right: Term, node: ast.AST) -> Static:
    """Return the sum of an address and bytes."""
    place, more = (left, right) if is_address(left) else (right, left)
    if op != "add" or not isinstance(more, (Const, Val)) or not coerce.is_number(more):
        cx.type_error(node, "an address in a kernel is added to bytes alone", _REMEDY)
    assert isinstance(place, Static)
    assert isinstance(node, ast.BinOp)
    held: Address = place.obj
    divisor = _divisor(cx, node.right if place is left else node.left)
    offset = more if held.offset == Const(0) else arith.binary(cx, "add", held.offset, more, node)
    assert isinstance(offset, (Const, Val))
    return Static(Address(held.view, offset, math.gcd(held.divisor, divisor)), place.name)


def _divisor(cx: Context, node: ast.expr) -> int:
    """Return a number that divides an integer whatever its value is, found from its expression; 1 if
    nothing is known.
    """
    # Into a region that is thrown away: the expression is looked at once more, not computed again.
    with cx.b.into(Region()):
        term = cx.expr(node)
    if isinstance(term, Const):
        return abs(term.value) if isinstance(term.value, int) else 1
    if not isinstance(term, Val) or not isinstance(term.type, T.Scalar) or not term.type.is_integer:
        return 1
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and _converts(cx, node.func):
        return _divisor(cx, node.args[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _divisor(cx, node.left) * _divisor(cx, node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return math.gcd(_divisor(cx, node.left), _divisor(cx, node.right))
    return 1


def _converts(cx: Context, node: ast.expr) -> bool:
    """Return whether the called object is a type of numbers."""
    called = cx.outside(node)
    return isinstance(called, type) and issubclass(called, int) or isinstance(called, DType)


def makes_array(obj: Any, node: ast.Call) -> bool:
    """Return whether a call makes an array from an address."""
    is_class = isinstance(obj, type) and obj.__name__ == "array" and obj.__module__.startswith("diffkern")
    return is_class and any(keyword.arg == "ptr" for keyword in node.keywords)


def of_address(cx: Context, node: ast.Call) -> View | Static:
    """Lower the call."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if node.args or set(given) != {"ptr", "shape", "dtype"}:
        _refuse(cx, node, "other arguments than ptr=, shape= and dtype=")
    place, dtype = cx.expr(given["ptr"]), cx.expr(given["dtype"])
    if not isinstance(place, Static) or not isinstance(place.obj, Address):
        _refuse(cx, node, "a number for an address")
    view, offset = place.obj.view, place.obj.offset
    element = view.array.dtype
    if resolve_type(dtype.obj if isinstance(dtype, Static) else None) != element:
        _refuse(cx, node, f"elements of another type than {element}")
    extents = _extents(cx, node, cx.expr(given["shape"]))
    (axis,) = view.spans
    # A byte offset within an element could not be expressed as an index.
    if place.obj.divisor % element.itemsize:
        _refuse(cx, node, f"bytes of which nothing says that they are a multiple of {element.itemsize}")
    start = _start(cx, offset, element.itemsize)
    if axis.start is not None:
        start = cx.b.add(axis.start, start)
    if len(extents) > 1:
        return Static(Folded(view.base, start, extents), ast.unparse(node))
    return View(view.base, (AxisSpan(start, 1, lambda: extents[0], to_end=False),))


def _extents(cx: Context, node: ast.Call, shape: Term) -> tuple[Value, ...]:
    given: Sequence[Term] = shape.items if isinstance(shape, Tup) else (shape,)
    if not 1 <= len(given) <= MAX_NDIM:
        _refuse(cx, node, f"{len(given)} axes")
    found = []
    for n in given:
        if not isinstance(n, (Const, Val)):
            _refuse(cx, node, "a shape that is no integer")
        found.append(coerce.convert(cx, n, T.INT32, node, "the shape"))
    cx.nonneg.update(found)
    return tuple(found)


def _start(cx: Context, offset: Const | Val, size: int) -> Value:
    """Return the first element of the array."""
    if isinstance(offset, Const):
        return cx.b.i32(int(offset.value) // size)
    return cx.b.cast(cx.b.one("floordiv", offset.value, cx.b.const(size, T.scalar_of(offset.value.type))), T.INT32)


def _refuse(cx: Context, node: ast.AST, what: str) -> NoReturn:
    cx.type_error(node, f"an array of an address, with {what}", _REMEDY)
