"""Threads of a block that work together: shared arrays, barriers, indices within the launch's blocks.

In: a call of one of the built-ins. Out: an op of the family ``block``. What must hold of a whole kernel (a barrier that
all threads of a block reach) is checked on its IR, in ``diffkern.analysis.blocks``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Span, Static, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import CompositeType, resolve_dtype

__all__ = ["CALLS"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]


def _index(op: str) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        if node.args or node.keywords:
            cx.type_error(node, f"{name} takes no arguments")
        found = cx.b.one(op)
        cx.nonneg.add(found)
        return Val(found)

    return call


def _barrier(cx: Context, name: str, node: ast.Call) -> Term:
    if node.args or node.keywords:
        cx.type_error(node, f"{name} takes no arguments")
    cx.b.op("barrier")
    return Static(None, f"{name}()")


def _shared_array(cx: Context, name: str, node: ast.Call) -> Term:
    given = dict(zip(("shape", "dtype"), node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in ("shape", "dtype") or keyword.arg in given:
            cx.type_error(node, f"{name} takes shape and dtype, not {keyword.arg}")
        given[keyword.arg] = keyword.value
    if "shape" not in given or len(node.args) > 2:
        cx.type_error(node, f"{name} takes a shape and a dtype", f"write {name}(64, float) or {name}((8, 8), dk.vec3)")
    shape = _shape(cx, given["shape"])
    dtype = _dtype(cx, given["dtype"]) if "dtype" in given else T.FLOAT32
    t = T.Array(dtype, len(shape), T.SHARED)
    base = cx.b.one("shared_new", type=t, shape=shape, number=cx.new_uid())
    return View(base, tuple(Span(None, 1, _length(cx, n)) for n in shape))


def _length(cx: Context, n: int) -> Callable[[], Value]:
    return lambda: cx.b.i32(n)


def _shape(cx: Context, node: ast.expr) -> tuple[int, ...]:
    term = cx.expr(node)
    items = term.items if isinstance(term, Tup) else (term,)
    shape = []
    for item in items:
        if not (isinstance(item, Const) and type(item.value) is int and item.value > 0):
            cx.type_error(
                node,
                f"the shape of a shared array is known when the kernel is compiled, which {describe(item)} is not",
                "write positive numbers, or names of numbers from outside of the kernel",
            )
        shape.append(item.value)
    if not 1 <= len(shape) <= 4:
        cx.type_error(node, f"a shared array has 1 to 4 axes, not {len(shape)}")
    return tuple(shape)


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
