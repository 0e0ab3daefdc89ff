"""Arrays and views of them: ``a[i]``, ``a[lo:hi:step]``, ``a[:, j]``, ``a.shape``. A view emits no op of its own.

Index expressions make an array parameter a narrower view, or the operands of a load or store. They are evaluated once,
where the view is made; shapes never change, so that is all a view needs.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins import local
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, Const, Fixed, Shape, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.scalar import BOUNDS
from diffkern.lang.dialects import Nan

__all__ = [
    "atomic",
    "check_null",
    "compare_exchange",
    "fixed",
    "full_view",
    "guarded",
    "index_terms",
    "is_unset",
    "length",
    "load",
    "shape",
    "size",
    "store",
    "subscript",
    "unset",
    "wrapped",
]


def full_view(cx: Context, base: Value, inner: int = 0) -> View:
    """Return a parameter as a view of itself, without its last axes where these are of arrays in its elements."""
    assert isinstance(base.type, T.Array)
    axes = range(base.type.ndim - inner)
    return View(base, tuple(AxisSpan(None, 1, extent_of(cx, base, axis)) for axis in axes))


def indexed_view(cx: Context, base: Value, indices: Sequence[Value | None]) -> View:
    """Return a parameter that is seen through index arrays, one for each axis or None."""
    axes = []
    for axis, index in enumerate(indices):
        length = extent_of(cx, base, axis) if index is None else extent_of(cx, index, 0)
        axes.append(AxisSpan(None, 1, length, through=index))
    return View(base, tuple(axes))


def extent_of(cx: Context, base: Value, axis: int) -> Callable[[], Value]:
    """Return the function that emits the length of an axis of an array."""

    def emit() -> Value:
        # An array that has not been set has no elements.
        out = cx.b.i32(0) if base in cx.unset_arrays else cx.b.one("shape", base, axis=axis)
        cx.nonneg.add(out)
        return out

    return emit


def shape(cx: Context, view: View) -> Shape:
    """Return the lengths of the axes of a view."""
    return Shape(tuple(map(Val, _lengths(cx, view))))


def _lengths(cx: Context, view: View) -> list[Value]:
    """Return the lengths of the axes; zeros where the array is null."""
    found = [span.length() for span in view.spans]
    if view.present is not None:
        found = [cx.b.select(view.present, n, cx.b.const(0, T.scalar_of(n.type))) for n in found]
        cx.nonneg.update(found)
    return found


def length(cx: Context, view: View, node: ast.AST) -> Val:
    """Return ``len(a)``."""
    return Val(_lengths(cx, view)[0])


def size(cx: Context, view: View, node: ast.AST) -> Val:
    """Return ``a.size``: the number of elements, as an int64 if there are several axes."""
    lengths = _lengths(cx, view)
    # Of one axis it is the extent, which is an int32 as all indices are.
    if len(lengths) == 1:
        return Val(lengths[0])
    total = cx.b.cast(lengths[0], T.INT64)
    for n in lengths[1:]:
        total = cx.b.mul(total, cx.b.cast(n, T.INT64))
    cx.nonneg.add(total)
    return Val(total)


def index_terms(cx: Context, node: ast.expr, *, tiles: bool = False) -> list[Term | ast.Slice]:
    """Return the entries between the brackets; slices stay syntax, because their meaning depends on the axis.

    With `tiles`, an entry may be a tile of indices.
    """
    entries = node.elts if isinstance(node, ast.Tuple) else [node]
    found: list[Term | ast.Slice] = []
    for entry in entries:
        if isinstance(entry, ast.Slice):
            found.append(entry)
            continue
        if isinstance(entry, ast.Constant) and (entry.value is None or entry.value is ...):
            cx.syntax_error(entry, "new axes and ... are not supported in an index", "write one index per axis")
        term = cx.expr(entry)
        # ``a[ij]`` with a tuple is ``a[i, j]``, as in Python.
        for item in term.items if isinstance(term, Tup) else (term,):
            if not (tiles and isinstance(item, Val) and isinstance(item.value.type, T.Tile)):
                check_index(cx, item, entry)
            found.append(item)
    return found


def check_index(cx: Context, term: Term, node: ast.AST) -> None:
    """Refuse an index that is no integer."""
    t = coerce.default_type(term) if isinstance(term, Const) else term.type if isinstance(term, Val) else None
    if isinstance(t, T.Scalar) and t.is_integer:
        return
    remedy = "write int(...) around it" if isinstance(t, T.Scalar) and t.is_float else coerce.tile_remedy(term)
    # A quotient of integers is a float, which is the likeliest mistake here.
    if isinstance(term, Val) and term.value in cx.quotients:
        remedy = "write // for the integer quotient"
    if describe(term).startswith("an array"):
        remedy = "index the array that holds the index as well, as in a[index[i]]"
    remedy = remedy or "write an integer, such as the index that dk.tid() gives"
    cx.type_error(node, f"an index must be an integer, not {t or describe(term)}", remedy)


def integer_index(cx: Context, term: Term, node: ast.AST) -> Val:
    """Return an index as an integer value."""
    check_index(cx, term, node)
    assert isinstance(term, (Const, Val))
    return Val(coerce.own_value(cx, term, node))


def count_axes(view: View) -> str:
    """Return ``1 axis``, ``2 axes``, for messages."""
    return f"{len(view.spans)} {'axis' if len(view.spans) == 1 else 'axes'}"


def subscript(cx: Context, view: View, entries: Sequence[Term | ast.Slice], node: ast.expr) -> View:
    """Index some or all remaining axes of a view."""
    if len(entries) > len(view.spans):
        axes = count_axes(view)
        remedy = f"write one for each axis, or annotate the parameter with ndim={len(entries)}"
        if not isinstance(view.array.dtype, T.Scalar):
            remedy = f"its elements are {view.array.dtype}: index them in a second pair of brackets, as in a[i][k]"
        cx.type_error(node, f"{len(entries)} indices for an array with {axes}", remedy)
    pending = iter(entries)
    axes_out: list[Fixed | AxisSpan] = []
    for axis in view.axes:
        entry = next(pending, None) if isinstance(axis, AxisSpan) else None
        if entry is None or isinstance(axis, Fixed):
            axes_out.append(axis)
        elif isinstance(entry, ast.Slice):
            axes_out.append(_cut(cx, axis, entry, node))
        else:
            axes_out.append(_fix(cx, axis, entry, node))
    return View(view.base, tuple(axes_out), view.present)


def fixed(cx: Context, view: View, entries: Sequence[Term], node: ast.AST) -> View:
    """Return a view with all its axes indexed."""
    pending = iter(entries)
    axes = tuple(_fix(cx, axis, next(pending), node) if isinstance(axis, AxisSpan) else axis for axis in view.axes)
    return View(view.base, axes, view.present)


def _fix(cx: Context, axis: AxisSpan, entry: Term, node: ast.AST) -> Fixed:
    index = integer_index(cx, entry, node).value
    nonneg = cx.is_nonneg(entry) or index in cx.nonneg or T.scalar_of(index.type).kind is T.Kind.UINT
    # Of the whole axis the op wraps the index itself, and only where it may be negative.
    if axis.start is None and axis.through is None:
        return Fixed(index, not nonneg)
    # In a slice, a negative index counts from the end of the slice, which the op does not know.
    index32 = cx.b.cast(index, T.INT32)
    if not nonneg:
        index32 = wrapped(cx, index32, axis.length())
    if axis.step != 1:
        index32 = cx.b.mul(index32, cx.b.i32(axis.step))
    out = index32 if axis.start is None else cx.b.add(axis.start, index32)
    cx.nonneg.add(out)
    if axis.through is not None:
        # The array of indices may hold negative ones.
        return Fixed(cx.b.one("load", axis.through, out, wrap=(False,)), True)
    return Fixed(out, False)


def wrapped(cx: Context, index: Value, length: Value) -> Value:
    """Return an index that counts from the end if it is negative."""
    negative = cx.b.one("lt", index, cx.b.i32(0))
    return cx.b.select(negative, cx.b.add(index, length), index)


def _cut(cx: Context, axis: AxisSpan, entry: ast.Slice, node: ast.AST) -> AxisSpan:
    """Cut an axis by Python's rules for ``lo:hi:step``: negative bounds count from the end and are
    limited to the axis.
    """
    if entry.lower is None and entry.upper is None and entry.step is None:
        return axis
    step = _constant_step(cx, entry)
    n = axis.length()
    zero, one = cx.b.i32(0), cx.b.i32(1)
    # Backwards, a bound may be one before the first element.
    first, last = (zero, n) if step > 0 else (cx.b.sub(zero, one), cx.b.sub(n, one))

    def bound(node: ast.expr | None, default: Value) -> Value:
        if node is None:
            return default
        term = cx.expr(node)
        if isinstance(term, Const) and isinstance(term.value, int) and term.value < 0:
            # counts from the end, and so lies before it
            return cx.b.one("max", cx.b.sub(n, cx.b.i32(-term.value)), first)
        index = cx.b.cast(integer_index(cx, term, node).value, T.INT32)
        # Spares ops where a bound is known, as for a loop variable.
        if not cx.is_nonneg(term):
            index = wrapped(cx, index, n)
            index = cx.b.one("max", index, first)
        return cx.b.one("min", index, last)

    at_lower, at_upper = (first, last) if step > 0 else (last, first)
    lo, hi = bound(entry.lower, at_lower), bound(entry.upper, at_upper)

    # Emitted where it is asked for: a view that is only indexed does not need it.
    def length() -> Value:
        distance = cx.b.sub(hi, lo) if step > 0 else cx.b.sub(lo, hi)
        # Rounded up: a step that does not divide the distance has its last element too.
        if abs(step) != 1:
            distance = cx.b.one("floordiv", cx.b.add(distance, cx.b.i32(abs(step) - 1)), cx.b.i32(abs(step)))
        out = cx.b.one("max", distance, cx.b.i32(0))
        cx.nonneg.add(out)
        return out

    start, total = lo, step
    # A slice of a slice: both steps multiply.
    if axis.start is not None:
        offset = lo if axis.step == 1 else cx.b.mul(lo, cx.b.i32(axis.step))
        start, total = cx.b.add(axis.start, offset), step * axis.step
    return AxisSpan(start, total, length, to_end=axis.to_end and entry.upper is None, through=axis.through)


def _constant_step(cx: Context, entry: ast.Slice) -> int:
    if entry.step is None:
        return 1
    term = cx.expr(entry.step)
    if not (isinstance(term, Const) and isinstance(term.value, int)) or term.value == 0:
        cx.type_error(
            entry.step, "the step of a slice must be a constant integer, not 0", "write a step such as 1 or 2"
        )
    return int(term.value)


def _operands(cx: Context, view: View) -> tuple[list[Value], tuple[bool, ...]]:
    fixed = [axis for axis in view.axes if isinstance(axis, Fixed)]
    return [f.index for f in fixed], tuple(f.wrap for f in fixed)


def unset(cx: Context, t: T.Type, name: str) -> Value:
    """Return the null array that a field of a new struct holds: there are no ops for what is read and written."""
    assert isinstance(t, T.Array)
    base = Value(replace(t, layout=T.NULL), name)
    cx.unset_arrays.add(base)
    return base


def is_unset(cx: Context, view: View) -> bool:
    """Return whether it is the null array of a field that has not been set."""
    return view.base in cx.unset_arrays


def check_null(cx: Context, view: View) -> None:
    """Refuse to access a null array where nothing guards the access; a debug program reports one set on some paths."""
    if is_unset(cx, view):
        _check_unset(cx, view)
        return
    # In a branch, a test may have excluded it, which only run time shows.
    if view.array.is_null and cx.b.region is cx.root:
        raise KernelTypeError(
            f"{view.base.name} is None in this launch, and its elements are accessed",
            loc=cx.b.loc,
            remedy=f"write if {view.base.name}: in front of what needs it, or pass an array",
        )
    if cx.checked and view.present is not None:
        cx.b.op("assertion", view.present, text=f"{view.base.name} is null here, and its elements are accessed")


def _check_unset(cx: Context, view: View) -> None:
    if cx.b.region is cx.root:
        raise KernelTypeError(
            f"the field {view.base.name} has not been set, and the elements of its array are accessed",
            loc=cx.b.loc,
            remedy="set it to an array before",
        )
    if cx.checked:
        text = f"the field {view.base.name} has not been set, and the elements of its array are accessed"
        cx.b.op("assertion", cx.b.const(False, T.BOOL), text=text)


@contextlib.contextmanager
def guarded(cx: Context, view: View) -> Iterator[None]:
    """Let what is done in a ``with`` block be done where an array is not null; what is written to null is lost."""
    if is_unset(cx, view):
        with cx.b.into(Region()):  # nobody keeps it
            yield
        return
    if view.present is None:
        yield
        return
    region = Region()
    with cx.b.into(region):
        yield
    cx.b.if_(view.present, region, Region())


def _if_present(cx: Context, view: View, access: Callable[[], Value]) -> Value:
    """Return what an access gives, or zero where the array is null."""
    # The field was never set, so the result is known now.
    if is_unset(cx, view):
        return cx.b.zero(T.value_type(view.array.dtype))
    if view.present is None:
        return access()
    there, null = Region(), Region()
    with cx.b.into(there):
        there.yields = (access(),)
    with cx.b.into(null):
        # The types must agree, whatever type the access gives.
        null.yields = (cx.b.zero(there.yields[0].type),)
    (result,) = cx.b.if_(view.present, there, null)
    return result


def load(cx: Context, view: View) -> Val:
    """Read the element that a fully indexed view denotes."""
    if local.is_local(view):
        return local.load(cx, view)
    check_null(cx, view)
    indices, wrap = _operands(cx, view)
    element = _if_present(cx, view, lambda: cx.b.one("load", view.base, *indices, wrap=wrap))
    # Some dialects compute in float16 itself, others in float32.
    return Val(cx.b.cast(element, narrow.held(view.array.dtype)) if cx.dialect.narrow_elements else element)


def store(cx: Context, view: View, term: Term, node: ast.AST) -> None:
    """Write the element that a fully indexed view denotes."""
    check_null(cx, view)
    indices, wrap = _operands(cx, view)
    to = T.value_type(view.array.dtype)
    stored = coerce.convert(cx, term, to, node, f"an element of {view.base.name}")
    # A thread's own array is no memory, but a variable of the thread.
    if local.is_local(view):
        local.store(cx, view, stored)
        return
    with guarded(cx, view):
        cx.b.op("store", view.base, *indices, stored, wrap=wrap)


def compare_exchange(cx: Context, view: View, pair: Value) -> Val:
    """Replace the integer that a fully indexed view denotes by the second of a pair if it is the first."""
    if local.is_local(view):
        return local.update(cx, "cas", view, pair)
    check_null(cx, view)
    indices, wrap = _operands(cx, view)
    return Val(_if_present(cx, view, lambda: cx.b.one("atomic", view.base, *indices, pair, wrap=wrap, kind="cas")))


def atomic(cx: Context, kind: str, view: View, term: Term, node: ast.AST) -> Val:
    """Combine a value with the element that a fully indexed view denotes; return the old element."""
    check_null(cx, view)
    indices, wrap = _operands(cx, view)
    to = T.value_type(view.array.dtype)
    operand = coerce.convert(cx, term, to, node, f"an element of {view.base.name}")
    # Which of NaN and a number is the minimum differs between the dialects.
    if kind in BOUNDS and cx.dialect.nan is Nan.SKIPPED and T.scalar_of(to).is_float:
        kind = f"f{kind}"
    if local.is_local(view):
        return local.update(cx, kind, view, operand)
    return Val(_if_present(cx, view, lambda: cx.b.one("atomic", view.base, *indices, operand, wrap=wrap, kind=kind)))
