"""Arrays of one thread: ``dk.zeros(shape=8, dtype=float)`` in a kernel or func.

A call gives a view of memory that no other thread sees. Names, arguments and fields that hold it stand for the same
memory. In the IR an array is a value, a tile of the thread's own: an assignment to an element makes another one, which
a variable of the frame holds from there on. So branches merge it, loops carry it, and its derivative is that of values;
where the old value is not needed any more, the lowering writes in place.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins.blocks import Call, literal_shape, spans
from diffkern.frontend.terms import coerce, own_choices
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Binding, Const, Fixed, RecView, Static, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.ops.memory import EXTREMA
from diffkern.ir.ops.scalar import BOUNDS
from diffkern.ir.structs import Stored, Struct
from diffkern.lang import resolve_type

__all__ = ["CALLS", "cell", "is_local", "load", "names", "store", "unchanged", "update", "zeros"]

MAX_BYTES: Final = 64 * 1024
"""Of an array of a thread."""

_PARAMETERS: Final = {"zeros": ("shape", "dtype"), "full": ("shape", "value", "dtype")}


def _make(number: float | None) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        given = _arguments(cx, name, node, _PARAMETERS["full" if number is None else "zeros"])
        shape = literal_shape(cx, given["shape"], "an array of a thread", least=1, axes=4)
        dtype = _dtype(cx, given["dtype"]) if "dtype" in given else None
        if number is not None:
            return _array(cx, T.FLOAT32 if dtype is None else dtype, shape, node, lambda t: cx.b.full(t, number))
        term = cx.expr(given["value"])
        if not isinstance(term, (Const, Val)):
            cx.type_error(node, f"{name} with {describe(term)}", "fill it with a number, a vector or a matrix")
        if dtype is None:
            # The array's type is that of its first value.
            t = coerce.own_value(cx, term, node).type
            assert isinstance(t, (T.Scalar, T.Vec, T.Mat))
            dtype = t
        what = f"the value of {name}"
        return _array(cx, dtype, shape, node, lambda t: coerce.convert(cx, term, t, node, what))

    return call


def _arguments(cx: Context, name: str, node: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    given: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            cx.type_error(
                node, f"{name} in a kernel does not take {keyword.arg!r} here", f"it takes {', '.join(names)}"
            )
        given[keyword.arg] = keyword.value
    missing = [n for n in names if n not in given and n != "dtype"]
    if missing or len(node.args) > len(names):
        cx.type_error(node, f"{name} in a kernel takes {', '.join(names)}", f"write {name}(shape=8, dtype=float)")
    return given


def _dtype(cx: Context, node: ast.expr) -> Stored:
    term = cx.expr(node)
    obj = term.obj if isinstance(term, Static) else term
    if isinstance(obj, (T.Scalar, T.Vec, T.Mat)):
        return obj
    try:
        return resolve_type(obj)
    except TypeError as error:
        cx.type_error(node, f"dtype: {error}", "write float, int, dk.vec3, a struct, …")


def zeros(cx: Context, dtype: T.Scalar, shape: tuple[int, ...], node: ast.AST) -> View:
    """Return an array of zeros of the thread."""
    made = _array(cx, dtype, shape, node, cx.b.zero)
    assert isinstance(made, View)
    return made


def _array(
    cx: Context, dtype: Stored, shape: tuple[int, ...], node: ast.AST, fill: Callable[[T.Element], Value]
) -> View | RecView:
    # An array of structs is an array for each field, as one that is passed.
    if isinstance(dtype, Struct):
        items: list[View | RecView] = []
        for name, field in dtype.fields:
            if not isinstance(field, (T.Scalar, T.Vec, T.Mat, Struct)):
                cx.type_error(
                    node,
                    f"{dtype.name} has the array field {name!r}, so it cannot be the element of a thread's own array",
                    "keep an index into the array of structs that was passed",
                )
            items.append(_array(cx, field, shape, node, fill))
        return RecView(dtype, tuple(items))
    t = T.Tile(dtype, shape, own=True)
    # The thread's stack has to hold it.
    if t.itemsize > MAX_BYTES:
        cx.type_error(
            node,
            f"an array of a thread takes {t.itemsize} bytes, and {MAX_BYTES} are the most",
            "pass it as a parameter",
        )
    # The view's base is only a name for the variable that holds the present tile; it never reaches the IR.
    base = Value(T.Array(dtype, len(shape), T.OWN))
    name = cx.cells[base] = cell(cx, node)
    cx.env[name] = Binding(Val(cx.b.one("tile_fill", fill(T.value_type(dtype)), type=t)), cx.loc(node))
    return View(base, spans(cx, shape))


_PREFIX: Final = "$own"


def cell(cx: Context, node: ast.AST, part: int = 0) -> str:
    """Return the name of a variable of the thread: the same one when the body of a loop is lowered again.

    ``part`` counts the variables of one node.
    """
    # Not a fresh number: the names that a loop carries must be the same in each lowering of its body.
    key = (*cx.call_path, node, part)
    number = cx.cell_numbers.setdefault(key, cx.new_uid())
    name = f"{_PREFIX}{number}"
    # A call within a loop that is unrolled makes another array in each trip.
    return name if name not in cx.env else f"{_PREFIX}{cx.new_uid()}"


def names(env: Mapping[str, object]) -> list[str]:
    """Return the variables that hold arrays of the thread."""
    return [name for name in env if name.startswith(_PREFIX)]


def is_local(view: View) -> bool:
    """Return whether a view is of an array of a thread."""
    return view.array.layout == T.OWN


@contextlib.contextmanager
def unchanged(cx: Context) -> Iterator[None]:
    """Refuse changes of variables in a part of an expression that may not be evaluated."""
    # Bindings are compared by identity: each assignment makes another one.
    before, arrays = dict(cx.env), frozenset(names(cx.env))
    yield
    for name, binding in before.items():
        if cx.env.get(name) is not binding:
            what = "an array of the thread" if name in arrays else f"the variable {name}"
            raise KernelTypeError(
                f"{what} is changed where it depends on a condition in an expression",
                loc=cx.b.loc,
                remedy="write an if statement",
            )


# -- elements ----------------------------------------------------------------------------------------------------------


def _place(cx: Context, view: View, chosen: Value | None = None) -> list[Value]:
    """Return the index of an element in the tile; the first one where another array is chosen."""
    t = own_choices.tile(cx, view.base).type
    assert isinstance(t, T.Tile)
    out: list[Value] = []
    for axis, extent in zip(view.axes, t.shape, strict=True):
        assert isinstance(axis, Fixed)
        index = cx.b.cast(axis.index, T.INT32) if axis.index.type in _NARROW else axis.index
        # The tile's ops take indices from the front only.
        if axis.wrap:
            assert isinstance(index.type, T.Scalar)
            zero, length = cx.b.const(0, index.type), cx.b.const(extent, index.type)
            index = cx.b.select(cx.b.one("lt", index, zero), cx.b.add(index, length), index)
        out.append(index)
        if chosen is not None:
            out[-1] = cx.b.select(chosen, out[-1], cx.b.const(0, T.scalar_of(out[-1].type)))
    if cx.checked:
        _check(cx, view, out, t.shape)
    return out


def _check(cx: Context, view: View, index: Sequence[Value], shape: Sequence[int]) -> None:
    """Make a thread report an index for which there is no element."""
    name = view.base.name or "of the thread"
    for axis, (v, extent) in enumerate(zip(index, shape, strict=True)):
        assert isinstance(v.type, T.Scalar)
        begins, ends = (cx.b.const(n, v.type) for n in (0, extent))
        inside = cx.b.one("and", cx.b.one("ge", v, begins), cx.b.one("lt", v, ends))
        text = f"an index is out of bounds for axis {axis} of array {name!r} with shape {tuple(shape)}"
        cx.b.op("assertion", inside, text=text)


_NARROW: Final = (T.INT8, T.INT16, T.UINT8, T.UINT16)


def load(cx: Context, view: View) -> Val:
    """Read an element."""
    choice = cx.own_choices.get(view.base)
    if choice is None:
        return Val(_element(cx, view, _place(cx, view)))
    found: Value | None = None
    for test, base in zip(own_choices.tests(cx, choice), choice.bases, strict=True):
        one = replace(view, base=base)
        element = _element(cx, one, _place(cx, one, test))
        found = element if found is None else cx.b.select(test, element, found)
    assert found is not None
    return Val(found)


def _element(cx: Context, view: View, place: Sequence[Value]) -> Value:
    return cx.b.one("tile_extract", own_choices.tile(cx, view.base), *place)


def store(cx: Context, view: View, value: Value) -> None:
    """Write an element."""
    choice = cx.own_choices.get(view.base)
    if choice is None:
        _replace(cx, view, value, _place(cx, view))
        return
    for test, base in zip(own_choices.tests(cx, choice), choice.bases, strict=True):
        one = replace(view, base=base)
        place = _place(cx, one, test)
        _replace(cx, one, cx.b.select(test, value, _element(cx, one, place)), place)


def _replace(cx: Context, view: View, value: Value, place: Sequence[Value]) -> None:
    made = cx.b.one("tile_replace", own_choices.tile(cx, view.base), value, *place, hint=view.base.name)
    cell = cx.cells[view.base]
    cx.env[cell] = Binding(Val(made), cx.env[cell].loc)


def update(cx: Context, kind: str, view: View, value: Value) -> Val:
    """Apply an atomic update by the thread alone; return the old element."""
    # No other thread sees the array, so a load and a store are atomic already.
    old = load(cx, view)
    if kind == "cas":
        expected, new = cx.b.components(value)
        store(cx, view, cx.b.select(cx.b.one("eq", old.value, expected), new, old.value))
    elif kind == "exch":
        store(cx, view, value)
    elif kind in EXTREMA:
        pairs = zip(cx.b.components(old.value), cx.b.components(value), strict=True)
        store(cx, view, cx.b.construct(old.type, [_extremum(cx, kind, x, y) for x, y in pairs]))
    else:
        store(cx, view, cx.b.one(kind, old.value, value))
    return old


def _extremum(cx: Context, kind: str, old: Value, value: Value) -> Value:
    if kind in BOUNDS:
        return cx.b.one(kind, old, value)
    # A NaN in the array gives way to any number, and a new one never wins a comparison.
    better = cx.b.one("lt" if kind == "fmin" else "gt", value, old)
    return cx.b.select(cx.b.one("or", better, cx.b.one("isnan", old)), value, old)


CALLS: Final[Mapping[str, Call]] = {
    "own_zeros": _make(0), "own_empty": _make(0), "own_ones": _make(1), "own_full": _make(None),
}  # fmt: skip
