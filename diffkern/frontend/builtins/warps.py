"""Warp-level built-ins: those that the functions called by C++ snippets lower to.

Each handler takes a call with its arguments and emits an op of the family ``warp``, in a kernel for a GPU. Other
targets have no warps, and nothing that is compiled for them calls one of these.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Static, Term, Val
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = ["TABLE"]

Handler: TypeAlias = Callable[[Context, Sequence[Term], ast.Call], Term]


def _mask(cx: Context, term: Term, node: ast.Call) -> Value:
    return coerce.convert(cx, term, T.UINT32, node, "the mask of a warp")


def _called(cx: Context, name: str, *operands: Value) -> Term:
    op = cx.b.op(name, *operands, threads=cx.block_dim)
    return Val(op[0]) if op else Static(None, f"{name}()")


def _thread(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    found = cx.b.one("warp_thread", threads=cx.block_dim)
    cx.nonneg.add(found)
    return Val(found)


def _shuffle(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    value = coerce.value(cx, args[1], node)
    lane = coerce.convert(cx, args[2], T.INT32, node, "a lane")
    return _called(cx, "warp_shuffle", _mask(cx, args[0], node), value, lane)


def _ballot(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    holds = coerce.convert(cx, args[1], T.BOOL, node, "a condition")
    return _called(cx, "warp_ballot", _mask(cx, args[0], node), holds)


def _active(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return _called(cx, "warp_active")


def _block_barrier(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    cx.b.op("barrier", trusted=True, threads=cx.block_dim)
    return Static(None, "a barrier")


def _barrier(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return _called(cx, "warp_barrier", _mask(cx, args[0], node))


def _fence(cx: Context, args: Sequence[Term], node: ast.Call) -> Term:
    return _called(cx, "warp_fence")


TABLE: Final[Mapping[str, tuple[int, Handler]]] = {
    "warp_thread": (0, _thread),
    "warp_shuffle": (3, _shuffle),
    "warp_ballot": (2, _ballot),
    "warp_active": (0, _active),
    "warp_barrier": (1, _barrier),
    "warp_fence": (0, _fence),
    "block_barrier": (0, _block_barrier),
}
"""The number of arguments of each built-in, and the handler that lowers it."""
