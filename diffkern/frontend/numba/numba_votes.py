"""Cooperation of the threads of a block or a warp, in numba's spelling: barriers, votes, shuffles.

A call such as ``cuda.syncthreads_count`` or ``cuda.shfl_down_sync`` becomes barriers of the block and accesses to
memory of the block, so that all of it has an adjoint, and runs on targets without warps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from diffkern.contracts.launch_layout import Layout
from diffkern.frontend.builtins import blocks
from diffkern.frontend.numba.numba_grid import Call, layout_of, nonneg
from diffkern.frontend.numba.numba_memory import new
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Static, Term, Val
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value

__all__ = ["CALLS"]


def _barrier(cx: Context, name: str, node: ast.Call) -> Term:
    layout_of(cx, name, node)
    return blocks.CALLS["syncthreads"](cx, name, node)


_WHOLE: Final = 0xFFFFFFFF


def _predicate(cx: Context, node: ast.expr) -> Value:
    """Return a condition as an int32."""
    test = coerce.as_bool(cx, cx.expr(node), node)
    return cx.b.i32(int(test.value)) if isinstance(test, Const) else cx.b.cast(test.value, T.INT32)


def _wait(cx: Context) -> None:
    cx.b.op("barrier")


def _thread_is(cx: Context, thread: Value, number: int, run: Callable[[], None]) -> None:
    region = Region()
    with cx.b.into(region):
        run()
    cx.b.op("if", cx.b.one("eq", thread, cx.b.i32(number)), regions=(region, Region()), types=())


def _common(cx: Context, array: Value, *index: Value) -> Value:
    """Return an element that is the same for all threads of the block."""
    # The mark tells that branches on it are uniform, so that barriers in them are allowed.
    found = cx.b.one("load", array, *index, wrap=(False,) * len(index), common=True)
    return nonneg(cx, found)


def _count(cx: Context, name: str, node: ast.Call) -> Value:
    """Return for how many threads of the block a predicate holds."""
    layout_of(cx, name, node)
    if len(node.args) != 1 or node.keywords:
        cx.type_error(node, f"{name} takes one condition", "pass a comparison")
    holds = _predicate(cx, node.args[0])
    counter, thread, zero = new(cx, T.INT32, (1,), node), cx.b.one("block_thread"), cx.b.i32(0)
    _wait(cx)  # the counter may still be read from the last time
    # Set to zero by one thread, between barriers: nobody may add before, or still read from the last time.
    _thread_is(cx, thread, 0, lambda: _store(cx, counter, (zero,), zero))
    _wait(cx)
    cx.b.op("atomic", counter, zero, holds, wrap=(False,), kind="add")
    _wait(cx)
    return _common(cx, counter, zero)


def _store(cx: Context, array: Value, index: tuple[Value, ...], value: Value) -> None:
    cx.b.op("store", array, *index, value, wrap=(False,) * len(index))


def _counted(cx: Context, name: str, node: ast.Call) -> Term:
    return Val(_count(cx, name, node))


def _all_of_block(cx: Context, name: str, node: ast.Call) -> Term:
    count = _count(cx, name, node)
    return Val(cx.b.cast(cx.b.one("eq", count, cx.b.one("block_dim")), T.INT32))


def _any_of_block(cx: Context, name: str, node: ast.Call) -> Term:
    count = _count(cx, name, node)
    return Val(cx.b.cast(cx.b.one("gt", count, cx.b.i32(0)), T.INT32))


def _warp_arguments(cx: Context, name: str, node: ast.Call, count: int) -> list[Term]:
    """Return the arguments after the mask, which has to be that of a whole warp."""
    layout_of(cx, name, node)
    if len(node.args) != count or node.keywords:
        cx.type_error(node, f"{name} takes {count} arguments, the mask first", f"pass {count}")
    mask = cx.expr(node.args[0])
    if not (isinstance(mask, Const) and mask.value in (_WHOLE, -1)):
        cx.type_error(
            node.args[0], f"{name} of a part of a warp", "write 0xffffffff: all threads of the warp take part"
        )
    return [cx.expr(arg) for arg in node.args[1:]]


def _place(cx: Context, thread: Value, lane: Value, other: Value, layout: Layout) -> Value:
    """Return the thread of the block that is a lane of the own warp; the own thread if there is none."""
    there = cx.b.add(cx.b.sub(thread, lane), other)
    # The last warp of a block may be shorter.
    if layout.block_dim % 32:
        there = cx.b.select(cx.b.one("lt", there, cx.b.i32(layout.block_dim)), there, thread)
    return there


def _shuffle(cx: Context, name: str, node: ast.Call) -> Term:
    value_term, by_term = _warp_arguments(cx, name, node, 3)
    layout = layout_of(cx, name, node)
    value = coerce.value(cx, value_term, node.args[1])
    if not isinstance(value.type, T.Scalar) or value.type == T.BOOL:
        cx.type_error(node.args[1], f"{name} of {value.type}", "exchange numbers")
    by = coerce.convert(cx, by_term, T.INT32, node.args[2], "a lane")
    thread = nonneg(cx, cx.b.one("block_thread"))
    lane = cx.b.one("and", thread, cx.b.i32(31))
    if name.endswith("shfl_sync"):
        other = cx.b.one("and", by, cx.b.i32(31))
    elif name.endswith("shfl_xor_sync"):
        other = cx.b.one("and", cx.b.one("xor", lane, by), cx.b.i32(31))
    else:
        moved = cx.b.sub(lane, by) if name.endswith("shfl_up_sync") else cx.b.add(lane, by)
        inside = cx.b.one("and", cx.b.one("ge", moved, cx.b.i32(0)), cx.b.one("lt", moved, cx.b.i32(32)))
        other = cx.b.select(inside, moved, lane)
    there = nonneg(cx, _place(cx, thread, lane, other, layout))
    held = new(cx, value.type, (layout.block_dim,), node)
    _wait(cx)  # the values of the last time may still be read
    _store(cx, held, (thread,), value)
    _wait(cx)
    return Val(cx.b.one("load", held, there, wrap=(False,)))


def _ballot(cx: Context, name: str, node: ast.Call) -> Value:
    """Return for which lanes of the warp a predicate holds, as the bits of an int32."""
    _warp_arguments(cx, name, node, 2)
    layout = layout_of(cx, name, node)
    holds = _predicate(cx, node.args[1])
    thread = nonneg(cx, cx.b.one("block_thread"))
    lane, warp = cx.b.one("and", thread, cx.b.i32(31)), nonneg(cx, cx.b.one("shr", thread, cx.b.i32(5)))
    votes = new(cx, T.INT32, (-(-layout.block_dim // 32),), node)
    _wait(cx)
    _thread_is(cx, lane, 0, lambda: _store(cx, votes, (warp,), cx.b.i32(0)))
    _wait(cx)
    cx.b.op("atomic", votes, warp, cx.b.one("shl", holds, lane), wrap=(False,), kind="or")
    _wait(cx)
    return cx.b.one("load", votes, warp, wrap=(False,))


def _ballot_bits(cx: Context, name: str, node: ast.Call) -> Term:
    return Val(cx.b.cast(_ballot(cx, name, node), T.UINT32))


def _any_of_warp(cx: Context, name: str, node: ast.Call) -> Term:
    return Val(cx.b.one("ne", _ballot(cx, name, node), cx.b.i32(0)))


def _all_of_warp(cx: Context, name: str, node: ast.Call) -> Term:
    bits = _ballot(cx, name, node)
    layout = layout_of(cx, name, node)
    # All lanes that exist: those of the last warp may be fewer than 32.
    whole = cx.b.i32(-1)
    if rest := layout.block_dim % 32:
        warp = cx.b.one("shr", cx.b.one("block_thread"), cx.b.i32(5))
        last = cx.b.one("eq", warp, cx.b.i32(layout.block_dim // 32))
        whole = cx.b.select(last, cx.b.i32((1 << rest) - 1), whole)
    return Val(cx.b.one("eq", bits, whole))


def _of_warp_in_step(cx: Context, name: str, node: ast.Call) -> Term:
    """Wait for a warp: the block waits, at a place that all its threads reach as well."""
    layout_of(cx, name, node)
    if node.args:
        _warp_arguments(cx, name, node, 1)
    _wait(cx)
    return Static(None, f"{name}()")


def _fence(cx: Context, name: str, node: ast.Call) -> Term:
    layout_of(cx, name, node)
    cx.type_error(
        node,
        f"{name} orders accesses between threads that do not wait for each other",
        "let the threads of a block wait with cuda.syncthreads(), and blocks by a launch of their own",
    )


CALLS: Final[Mapping[str, Call]] = {
    "cuda.syncthreads": _barrier,
    "cuda.syncthreads_count": _counted,
    "cuda.syncthreads_and": _all_of_block,
    "cuda.syncthreads_or": _any_of_block,
    "cuda.syncwarp": _of_warp_in_step,
    "cuda.threadfence": _fence,
    "cuda.threadfence_block": _fence,
    **{f"cuda.shfl{way}_sync": _shuffle for way in ("", "_up", "_down", "_xor")},
    "cuda.ballot_sync": _ballot_bits,
    "cuda.any_sync": _any_of_warp,
    "cuda.all_sync": _all_of_warp,
}
