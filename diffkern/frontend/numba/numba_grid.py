"""The position of a thread in the grid, in numba's spelling.

A name such as ``cuda.grid`` or ``cuda.threadIdx.x``, and the layout of the launch, give ops of the families ``memory``
and ``block``. A position in the grid is the index of the launch where that is possible, so that it is known which
threads access which elements: for ``cuda.grid(1)`` and ``blockIdx.x * blockDim.x + threadIdx.x`` alike.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from diffkern.contracts.launch_layout import Layout
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Tup, Val
from diffkern.ir.nodes import Value
from diffkern.ir.ops.scalar import AFFINE_PAIRS, DIFFERENCES

__all__ = ["CALLS", "Call", "begin", "layout_of", "nonneg", "special"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]

_AXES: Final = "xyz"


def begin(cx: Context, layout: Layout) -> None:
    """Begin a kernel: a launch of its layout has this many axes."""
    count = 3 if layout.together and layout.axes > 1 else layout.axes
    cx.tid = (count, cx.loc(cx.frame.source.node))


def layout_of(cx: Context, name: str, node: ast.AST) -> Layout:
    if cx.layout is None:
        cx.type_error(
            node,
            f"{name} is numba's spelling, in a kernel made by @dk.kernel",
            "decorate the kernel with @cuda.jit of diffkern.cuda, or write dk.tid(), dk.thread_index() and so on",
        )
    return cx.layout


def special(cx: Context, name: str, node: ast.AST) -> Term:
    """Lower a value that is read by name, such as ``cuda.threadIdx.x``."""
    layout = layout_of(cx, name, node)
    if name == "cuda.warpsize":
        return Const(32)
    what, _, axis = name.removeprefix("cuda.").partition(".")
    if what == "laneid":
        return Val(nonneg(cx, cx.b.one("mod", _flat_thread(cx, layout), cx.b.i32(32))))
    k = _AXES.index(axis)
    if what == "blockDim":
        return Const(layout.threads[k])
    found = _known(cx, {"threadIdx": _thread, "blockIdx": _block, "gridDim": _blocks}[what], layout, k)
    if isinstance(found, Val):
        # Remembered for `combined`, which recognizes the usual sum of these.
        cx.stands[found.value] = what, k
    return found


def combined(cx: Context, op: str, a: Const | Val, b: Const | Val) -> Const | Val | None:
    """Return a position in the grid if two of its parts are combined to it; None for anything else.

    ``blockIdx.x * blockDim.x`` is the start of a block, and that plus ``threadIdx.x`` is ``cuda.grid(1)``.
    """
    layout = cx.layout
    if layout is None or _by_block(layout) or op not in AFFINE_PAIRS - DIFFERENCES:
        return None
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, Val):
            continue
        what, axis = cx.stands.get(x.value, ("", 0))
        if op == "mul" and what == "blockIdx" and y == Const(layout.threads[axis]):
            start = nonneg(cx, cx.b.mul(x.value, cx.b.i32(layout.threads[axis])))
            cx.stands[start] = "start", axis
            return Val(start)
        # With one thread along an axis its index is the literal 0.
        other = cx.stands.get(y.value) if isinstance(y, Val) else ("threadIdx", axis) if y == Const(0) else None
        if op == "add" and what == "start" and other == ("threadIdx", axis):
            return _known(cx, _position, layout, axis)
    return None


def _known(cx: Context, make: Callable[[Context, Layout, int], Value | int], layout: Layout, axis: int) -> Const | Val:
    found = make(cx, layout, axis)
    if isinstance(found, int):
        return Const(found)
    return Val(nonneg(cx, found))


def nonneg(cx: Context, v: Value) -> Value:
    cx.nonneg.add(v)
    return v


def _by_block(layout: Layout) -> bool:
    """Return whether the last axis of the launch is the thread in its block."""
    return layout.together and layout.axes > 1


def _position(cx: Context, layout: Layout, axis: int) -> Value | int:
    """Return the thread's position in the grid along an axis."""
    if axis >= layout.axes:
        return 0
    if not _by_block(layout):
        # numba's x is the fastest axis, which is the last one of a launch here.
        return cx.b.one("tid", axis=layout.axes - 1 - axis)
    block, thread = _block(cx, layout, axis), _thread(cx, layout, axis)
    if isinstance(block, int):
        return thread
    start = cx.b.mul(block, cx.b.i32(layout.threads[axis]))
    return start if isinstance(thread, int) else cx.b.add(start, thread)


def _thread(cx: Context, layout: Layout, axis: int) -> Value | int:
    """Return the thread's index in its block along an axis."""
    if layout.threads[axis] == 1:
        return 0
    if not layout.together:
        position = _position(cx, layout, axis)
        return position if isinstance(position, int) else cx.b.one("mod", position, cx.b.i32(layout.threads[axis]))
    return _part(cx, cx.b.one("block_thread"), layout.threads, axis)


def _part(cx: Context, flat: Value, lengths: tuple[int, int, int], axis: int) -> Value:
    """Return one coordinate of an index that runs along x first."""
    before = lengths[0] * lengths[1] if axis == 2 else lengths[0] if axis == 1 else 1
    if before > 1:
        flat = cx.b.one("floordiv", flat, cx.b.i32(before))
    # The last axis with several threads needs no remainder.
    if any(n > 1 for n in lengths[axis + 1 :]):
        flat = cx.b.one("mod", flat, cx.b.i32(lengths[axis]))
    return flat


def _block(cx: Context, layout: Layout, axis: int) -> Value | int:
    """Return the index of the thread's block along an axis."""
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
    # y and z of the grid share an axis of the launch, whose rows are those of y.
    if not layout.rows:
        return rest if axis == 1 else 0
    return cx.b.one("mod" if axis == 1 else "floordiv", rest, cx.b.i32(layout.rows))


def _blocks(cx: Context, layout: Layout, axis: int) -> Value | int:
    """Return the number of blocks along an axis."""
    if axis >= layout.axes:
        return 1
    if not _by_block(layout):
        threads = layout.threads[axis]
        extent = nonneg(cx, cx.b.one("extent", axis=layout.axes - 1 - axis))
        if threads == 1:
            return extent
        # A launch may end within a block, which counts.
        return cx.b.one("floordiv", cx.b.add(extent, cx.b.i32(threads - 1)), cx.b.i32(threads))
    if axis == 0:
        return cx.b.one("extent", axis=1)
    if not layout.rows:
        return cx.b.one("extent", axis=0) if axis == 1 else 1
    if axis == 1:
        return layout.rows
    return cx.b.one("floordiv", cx.b.one("extent", axis=0), cx.b.i32(layout.rows))


def _size(cx: Context, layout: Layout, axis: int) -> Value | int:
    """Return the number of threads of the grid along an axis."""
    if axis >= layout.axes:
        return 1
    if not _by_block(layout):
        return cx.b.one("extent", axis=layout.axes - 1 - axis)
    blocks = _blocks(cx, layout, axis)
    threads = layout.threads[axis]
    return blocks * threads if isinstance(blocks, int) else cx.b.mul(blocks, cx.b.i32(threads))


def _flat_thread(cx: Context, layout: Layout) -> Value:
    """Return the thread's index in its block, x running fastest."""
    if layout.together:
        return nonneg(cx, cx.b.one("block_thread"))
    flat = cx.b.i32(0)
    for axis in reversed(range(layout.axes)):
        index = _thread(cx, layout, axis)
        flat = cx.b.add(
            cx.b.mul(flat, cx.b.i32(layout.threads[axis])), cx.b.i32(index) if isinstance(index, int) else index
        )
    return nonneg(cx, flat)


def _of_axes(make: Callable[[Context, Layout, int], Value | int]) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        layout = layout_of(cx, name, node)
        given = cx.expr(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if not (isinstance(given, Const) and given.value in (1, 2, 3)):
            cx.type_error(node, f"{name} takes the number of axes: 1, 2 or 3", f"write {name}(1)")
        items = tuple(_known(cx, make, layout, axis) for axis in range(int(given.value)))
        return items[0] if len(items) == 1 else Tup(items)

    return call


CALLS: Final[Mapping[str, Call]] = {"cuda.grid": _of_axes(_position), "cuda.gridsize": _of_axes(_size)}
