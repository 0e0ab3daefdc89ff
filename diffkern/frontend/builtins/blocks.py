"""Threads of a block that work together: shared arrays, barriers, indices within the launch's blocks.

A call of one of the built-ins becomes an op of the family ``block``. Conditions on a whole kernel (a barrier that all
threads of a block reach) are checked on its IR, in ``diffkern.analysis.blocks``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import AxisSpan, Const, Static, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import CompositeType, resolve_dtype

__all__ = ["CALLS", "array_arguments", "literal_shape", "spans"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]


def _index(op: str) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        if node.args or node.keywords:
            cx.type_error(node, f"{name} takes no arguments", f"write {name}()")
        found = cx.b.one(op)
        cx.nonneg.add(found)
        return Val(found)

    return call


def _barrier(cx: Context, name: str, node: ast.Call) -> Term:
    if node.args or node.keywords:
        cx.type_error(node, f"{name} takes no arguments", f"write {name}()")
    cx.b.op("barrier")
    return Static(None, f"{name}()")


def array_arguments(cx: Context, name: str, node: ast.Call, *ignored: str) -> dict[str, ast.expr]:
    """Return the shape and the dtype of a call that makes an array, as far as they are given."""
    given = dict(zip(("shape", "dtype"), node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in ("shape", "dtype", *ignored) or keyword.arg in given:
            cx.type_error(
                node, f"{name} takes shape and dtype, not {keyword.arg}", f"write {name}(shape=..., dtype=...)"
            )
        given[keyword.arg] = keyword.value
    return given


def literal_shape(cx: Context, node: ast.expr, what: str, *, least: int, axes: int) -> tuple[int, ...]:
    """Return a shape of compile-time constants, each at least `least`, of at most `axes` axes."""
    term = cx.expr(node)
    shape = []
    for item in term.items if isinstance(term, Tup) else (term,):
        # `type(...) is int`: True is an int for Python, and no extent.
        if not (isinstance(item, Const) and type(item.value) is int and item.value >= least):
            cx.type_error(
                node,
                f"the shape of {what} is known when the kernel is compiled, which {describe(item)} is not",
                "write positive numbers, or names of numbers from outside of the kernel",
            )
        shape.append(item.value)
    if not 1 <= len(shape) <= axes:
        cx.type_error(node, f"{what} has 1 to {axes} axes, not {len(shape)}", "give fewer extents")
    return tuple(shape)


def spans(cx: Context, shape: Sequence[int]) -> tuple[AxisSpan, ...]:
    """Return the axes of an array of a shape."""

    def length(n: int) -> Callable[[], Value]:
        return lambda: cx.b.i32(n)

    return tuple(AxisSpan(None, 1, length(n)) for n in shape)


def _shared_array(cx: Context, name: str, node: ast.Call) -> Term:
    given = array_arguments(cx, name, node)
    if "shape" not in given or len(node.args) > 2:
        cx.type_error(node, f"{name} takes a shape and a dtype", f"write {name}(64, float) or {name}((8, 8), dk.vec3)")
    shape = literal_shape(cx, given["shape"], "a shared array", least=1, axes=4)
    dtype = _dtype(cx, given["dtype"]) if "dtype" in given else T.FLOAT32
    t = T.Array(dtype, len(shape), T.SHARED)
    # A number of its own: two shared arrays of one type are two pieces of memory.
    base = cx.b.one("shared_new", type=t, shape=shape, number=cx.new_uid())
    return View(base, spans(cx, shape))


def _dtype(cx: Context, node: ast.expr) -> T.Element:
    term = cx.expr(node)
    obj = term.obj if isinstance(term, Static) else None
    if isinstance(obj, CompositeType):
        return obj.ir
    try:
        return resolve_dtype(obj)
    except TypeError:
        cx.type_error(node, f"{describe(term)} is no dtype", "write float, int, dk.vec3, …")


CALLS: Final[Mapping[str, Call]] = {
    "shared_array": _shared_array,
    "syncthreads": _barrier,
    "block_dim": _index("block_dim"),
    "thread_index": _index("block_thread"),
    "block_index": _index("block_index"),
}
