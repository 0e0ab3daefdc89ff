"""Kernels in numba's spelling: where a thread stands, memory of its block and of its own, atomics.

In: a name of :data:`diffkern.lang.numba_cuda.LANGUAGE`, read or called, and the layout of the launch. Out: ops of the
families ``memory`` and ``block``. A position in the grid is the index of the launch where that is possible, so that it
is known which threads touch which elements: ``cuda.grid(1)`` and ``blockIdx.x * blockDim.x + threadIdx.x`` alike.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from diffkern.frontend import blocks, views
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Fixed, Span, Static, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Op, Value
from diffkern.lang import resolve_dtype
from diffkern.launch_layout import Layout

__all__ = ["CALLS", "begin", "special"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]

_AXES: Final = "xyz"


def begin(cx: Context, layout: Layout) -> None:
    """Begin a kernel: a launch of its layout has as many axes as this."""
    count = 3 if layout.together and layout.axes > 1 else layout.axes
    cx.tid = (count, cx.loc(cx.frame.source.node))


def _layout(cx: Context, name: str, node: ast.AST) -> Layout:
    if cx.layout is None:
        cx.type_error(
            node,
            f"{name} is numba's spelling, in a kernel made by @dk.kernel",
            "decorate the kernel with @cuda.jit of diffkern.cuda, or write dk.tid(), dk.thread_index() and so on",
        )
    return cx.layout


# -- where the thread stands -------------------------------------------------------------------------------------------


def special(cx: Context, name: str, node: ast.AST) -> Term:
    """A value that is read by name, such as ``cuda.threadIdx.x``."""
    layout = _layout(cx, name, node)
    if name == "cuda.warpsize":
        return Const(32)
    what, _, axis = name.removeprefix("cuda.").partition(".")
    if what == "laneid":
        return Val(_nonneg(cx, cx.b.one("mod", _flat_thread(cx, layout), cx.b.i32(32))))
    k = _AXES.index(axis)
    if what == "blockDim":
        return Const(layout.threads[k])
    return _known(cx, {"threadIdx": _thread, "blockIdx": _block, "gridDim": _blocks}[what], layout, k)


def _known(cx: Context, make: Callable[[Context, Layout, int], Value | int], layout: Layout, axis: int) -> Const | Val:
    found = make(cx, layout, axis)
    if isinstance(found, int):
        return Const(found)
    return Val(_nonneg(cx, found))


def _nonneg(cx: Context, v: Value) -> Value:
    cx.nonneg.add(v)
    return v


def _by_block(layout: Layout) -> bool:
    """Whether the last axis of the launch is the thread in its block."""
    return layout.together and layout.axes > 1


def _position(cx: Context, layout: Layout, axis: int) -> Value | int:
    """The thread's position in the grid along an axis."""
    if axis >= layout.axes:
        return 0
    if not _by_block(layout):
        return cx.b.one("tid", axis=layout.axes - 1 - axis)
    block, thread = _block(cx, layout, axis), _thread(cx, layout, axis)
    if isinstance(block, int):
        return thread
    start = cx.b.mul(block, cx.b.i32(layout.threads[axis]))
    return start if isinstance(thread, int) else cx.b.add(start, thread)


def _thread(cx: Context, layout: Layout, axis: int) -> Value | int:
    """The thread's index in its block along an axis."""
    if layout.threads[axis] == 1:
        return 0
    if not layout.together:
        position = _position(cx, layout, axis)
        return position if isinstance(position, int) else cx.b.one("mod", position, cx.b.i32(layout.threads[axis]))
    return _part(cx, cx.b.one("block_thread"), layout.threads, axis)


def _part(cx: Context, flat: Value, lengths: tuple[int, int, int], axis: int) -> Value:
    """One coordinate of an index that runs along x first."""
    before = lengths[0] * lengths[1] if axis == 2 else lengths[0] if axis == 1 else 1
    if before > 1:
        flat = cx.b.one("floordiv", flat, cx.b.i32(before))
    if any(n > 1 for n in lengths[axis + 1 :]):
        flat = cx.b.one("mod", flat, cx.b.i32(lengths[axis]))
    return flat


def _block(cx: Context, layout: Layout, axis: int) -> Value | int:
    """The index of the thread's block along an axis."""
    if axis >= layout.axes:
        return 0
    if not layout.together:
        position = _position(cx, layout, axis)
        assert isinstance(position, Value)
        return cx.b.one("floordiv", position, cx.b.i32(layout.threads[axis]))
    block = cx.b.one("block_index")
    if layout.axes == 1:
        return block
    along_x = cx.b.one("extent", axis=1)
    if axis == 0:
        return cx.b.one("mod", block, along_x)
    rest = cx.b.one("floordiv", block, along_x)
    if not layout.rows:
        return rest if axis == 1 else 0
    return cx.b.one("mod" if axis == 1 else "floordiv", rest, cx.b.i32(layout.rows))


def _blocks(cx: Context, layout: Layout, axis: int) -> Value | int:
    """The number of blocks along an axis."""
    if axis >= layout.axes:
        return 1
    if not _by_block(layout):
        threads = layout.threads[axis]
        extent = _nonneg(cx, cx.b.one("extent", axis=layout.axes - 1 - axis))
        if threads == 1:
            return extent
        return cx.b.one("floordiv", cx.b.add(extent, cx.b.i32(threads - 1)), cx.b.i32(threads))
    if axis == 0:
        return cx.b.one("extent", axis=1)
    if not layout.rows:
        return cx.b.one("extent", axis=0) if axis == 1 else 1
    if axis == 1:
        return layout.rows
    return cx.b.one("floordiv", cx.b.one("extent", axis=0), cx.b.i32(layout.rows))


def _size(cx: Context, layout: Layout, axis: int) -> Value | int:
    """The number of threads of the grid along an axis."""
    if axis >= layout.axes:
        return 1
    if not _by_block(layout):
        return cx.b.one("extent", axis=layout.axes - 1 - axis)
    blocks = _blocks(cx, layout, axis)
    threads = layout.threads[axis]
    return blocks * threads if isinstance(blocks, int) else cx.b.mul(blocks, cx.b.i32(threads))


def _flat_thread(cx: Context, layout: Layout) -> Value:
    """The thread's index in its block, x running fastest."""
    if layout.together:
        return _nonneg(cx, cx.b.one("block_thread"))
    flat = cx.b.i32(0)
    for axis in reversed(range(layout.axes)):
        index = _thread(cx, layout, axis)
        flat = cx.b.add(
            cx.b.mul(flat, cx.b.i32(layout.threads[axis])), cx.b.i32(index) if isinstance(index, int) else index
        )
    return _nonneg(cx, flat)


def _of_axes(make: Callable[[Context, Layout, int], Value | int]) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        layout = _layout(cx, name, node)
        given = cx.expr(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if not (isinstance(given, Const) and given.value in (1, 2, 3)):
            cx.type_error(node, f"{name} takes the number of axes: 1, 2 or 3", f"write {name}(1)")
        items = tuple(_known(cx, make, layout, axis) for axis in range(int(given.value)))
        return items[0] if len(items) == 1 else Tup(items)

    return call


# -- work of a block ---------------------------------------------------------------------------------------------------


def _barrier(cx: Context, name: str, node: ast.Call) -> Term:
    _layout(cx, name, node)
    return blocks.CALLS["syncthreads"](cx, name, node)


def _array_arguments(cx: Context, name: str, node: ast.Call) -> tuple[tuple[int, ...], T.Scalar]:
    """The shape and the dtype of a call that makes an array."""
    given = dict(zip(("shape", "dtype"), node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in ("shape", "dtype", "alignment") or keyword.arg in given:
            cx.type_error(node, f"{name} takes shape and dtype, not {keyword.arg}")
        given[keyword.arg] = keyword.value
    if len(node.args) > 2 or "shape" not in given or "dtype" not in given:
        cx.type_error(node, f"{name} takes a shape and a dtype", f"write {name}(64, np.float32) or {name}((8, 8), …)")
    return _shape(cx, given["shape"], name), _dtype(cx, given["dtype"])


def _shape(cx: Context, node: ast.expr, name: str) -> tuple[int, ...]:
    term = cx.expr(node)
    shape = []
    for item in term.items if isinstance(term, Tup) else (term,):
        if not (isinstance(item, Const) and type(item.value) is int and item.value >= 0):
            cx.type_error(
                node,
                f"the shape of {name} is known when the kernel is compiled, which {describe(item)} is not",
                "write positive numbers, or names of numbers from outside of the kernel",
            )
        shape.append(item.value)
    if not 1 <= len(shape) <= 3:
        cx.type_error(node, f"{name} makes arrays of 1 to 3 axes, not {len(shape)}")
    return tuple(shape)


def _dtype(cx: Context, node: ast.expr) -> T.Scalar:
    term = cx.expr(node)
    obj = term.obj if isinstance(term, Static) else None
    wide = {float: T.FLOAT64, int: T.INT64}.get(obj) if isinstance(obj, type) else None
    try:
        found = wide or resolve_dtype(obj)
    except TypeError:
        cx.type_error(node, f"{describe(term)} is no dtype", "write np.float32, numba.float32, np.int32, …")
    if not isinstance(found, T.Scalar):
        cx.type_error(node, f"the elements are numbers, not {found}")
    return found


def _new(cx: Context, t: T.Scalar, shape: tuple[int, ...], node: ast.AST) -> Value:
    """Memory of the block, which is made at the kernel's beginning wherever it is asked for."""
    array = Value(T.Array(t, len(shape), T.SHARED))
    attrs = {"type": array.type, "shape": shape, "number": cx.new_uid()}
    cx.root.ops.insert(0, Op("shared_new", (), (array,), attrs, (), cx.loc(node)))
    return array


def _spans(cx: Context, shape: tuple[int, ...]) -> tuple[Span, ...]:
    return tuple(Span(None, 1, lambda n=n: cx.b.i32(n)) for n in shape)  # type: ignore[misc]


def _shared_array(cx: Context, name: str, node: ast.Call) -> Term:
    layout = _layout(cx, name, node)
    shape, t = _array_arguments(cx, name, node)
    if 0 in shape:
        return _dynamic(cx, layout, shape, t, node)
    return View(_new(cx, t, shape, node), _spans(cx, shape))


def _dynamic(cx: Context, layout: Layout, shape: tuple[int, ...], t: T.Scalar, node: ast.Call) -> Term:
    """Dynamic shared memory: as many elements as the launch has bytes for. All such arrays are the same memory."""
    if len(shape) != 1:
        cx.type_error(
            node, "dynamic shared memory has one axis", "write cuda.shared.array(0, dtype), and index by hand"
        )
    if not layout.shared:
        cx.type_error(
            node,
            "the launch has no dynamic shared memory",
            "give its bytes as the fourth entry: kernel[blocks, threads, stream, bytes](…)",
        )
    known = cx.dynamic
    if known is not None and known.type.dtype != t:  # type: ignore[union-attr]
        cx.type_error(
            node,
            f"dynamic shared memory is an array of {known.type.dtype} elsewhere, and of {t} here",  # type: ignore[union-attr]
            "take shared arrays with shapes of their own for one of them",
        )
    length = layout.shared // t.itemsize
    if known is None:
        known = cx.dynamic = _new(cx, t, (length,), node)
    return View(known, _spans(cx, (length,)))


def _local_array(cx: Context, name: str, node: ast.Call) -> Term:
    """Memory of the thread: its part of an array of the block."""
    layout = _layout(cx, name, node)
    shape, t = _array_arguments(cx, name, node)
    if 0 in shape:
        cx.type_error(node, "an array without elements")
    base = _new(cx, t, (layout.block_dim, *shape), node)
    thread = _nonneg(cx, cx.b.one("block_thread"))
    return View(base, (Fixed(thread, False), *_spans(cx, shape)))


# -- atomics -----------------------------------------------------------------------------------------------------------

_KINDS: Final = {"and_": "and", "or_": "or"}


def _atomic(cx: Context, name: str, node: ast.Call) -> Term:
    _layout(cx, name, node)
    kind = name.rpartition(".")[2]
    kind = _KINDS.get(kind, kind)
    if node.keywords or len(node.args) != 3:
        cx.type_error(node, f"{name} takes an array, an index and a value", f"write {name}(a, i, v) or (a, (i, j), v)")
    array = cx.expr(node.args[0])
    if not isinstance(array, View) or not array.spans:
        cx.type_error(node.args[0], f"{name} needs an array, not {describe(array)}")
    index = cx.expr(node.args[1])
    entries = list(index.items) if isinstance(index, Tup) else [index]
    for entry in entries:
        views.check_index(cx, entry, node.args[1])
    if len(entries) != len(array.spans):
        cx.type_error(node, f"{name} got {len(entries)} indices for an array with {views.count_axes(array)}")
    element = views.fixed(cx, array, entries, node)
    if kind in ("and", "or", "xor") and T.scalar_of(array.array.dtype).is_float:
        cx.type_error(node, f"{name} on elements of type {array.array.dtype}", "bit operations take integers")
    return views.atomic(cx, kind, element, cx.expr(node.args[2]), node)


CALLS: Final[Mapping[str, Call]] = {
    "cuda.grid": _of_axes(_position),
    "cuda.gridsize": _of_axes(_size),
    "cuda.syncthreads": _barrier,
    "cuda.shared.array": _shared_array,
    "cuda.local.array": _local_array,
    **{f"cuda.atomic.{kind}": _atomic for kind in ("add", "sub", "min", "max", "exch", "and_", "or_", "xor")},
}
