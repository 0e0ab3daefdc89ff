"""Lowering of warp-level operations to NVVM intrinsics, by the names of the operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from diffkern.targets.cuda.registers import WARP, exchanged, function, special
from diffkern.targets.emit.types import I1, I32, VOID, Builder, i32

__all__ = ["FORMS"]


def _thread(b: Builder) -> Any:
    return special(b, "tid.x")


def _shuffle(b: Builder, mask: Any, value: Any, lane: Any) -> Any:
    """Return the value of another lane; 64-bit values are exchanged in halves."""
    call = function(b.module, "llvm.nvvm.shfl.sync.idx.i32", I32, [I32] * 4)
    return exchanged(b, value, lambda word: b.call(call, [mask, word, lane, i32(WARP - 1)]))


def _ballot(b: Builder, mask: Any, condition: Any) -> Any:
    return b.call(function(b.module, "llvm.nvvm.vote.ballot.sync", I32, [I32, I1]), [mask, condition])


def _active(b: Builder) -> Any:
    return b.call(function(b.module, "llvm.nvvm.activemask", I32, []), [])


def _barrier(b: Builder, mask: Any) -> Any:
    return b.call(function(b.module, "llvm.nvvm.bar.warp.sync", VOID, [I32]), [mask])


def _fence(b: Builder) -> Any:
    return b.call(function(b.module, "llvm.nvvm.membar.gl", VOID, []), [])


FORMS: Final[Mapping[str, Callable[..., Any]]] = {
    "warp_thread": _thread, "warp_shuffle": _shuffle, "warp_ballot": _ballot, "warp_active": _active,
    "warp_barrier": _barrier, "warp_fence": _fence,
}  # fmt: skip
"""Functions of a builder and the operands."""
