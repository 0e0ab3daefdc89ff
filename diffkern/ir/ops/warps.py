"""Warp-level operations on a GPU, as C++ snippets use them: shuffles, votes and barriers.

A warp is 32 threads of a block with consecutive indices. A mask of each operation says which lanes take part in it; all
of these reach the same call. It implies nothing for other threads of the block, and so a launch need not consist of
whole blocks. None of the operations is moved, merged or eliminated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError, Uniformity
from diffkern.ir.types import BOOL, INT32, UINT32, Scalar, Type

Attrs = Mapping[str, Any]


def _index(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (INT32,)


def _bits(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (UINT32,)


def _takes_mask(t: Type) -> None:
    if t != UINT32:
        raise TypeRuleError(f"needs a mask of uint32, not {t}")


def _vote(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _takes_mask(types[0])
    if types[1] != BOOL:
        raise TypeRuleError(f"needs a condition, not {types[1]}")
    return (UINT32,)


def _exchange(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    mask, value, lane = types
    _takes_mask(mask)
    if not isinstance(value, Scalar) or value == BOOL:
        raise TypeRuleError(f"exchanges numbers, not {value}")
    if lane != INT32:
        raise TypeRuleError(f"needs a lane of int32, not {lane}")
    return (value,)


def _nothing(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return ()


def _waits(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    _takes_mask(types[0])
    return ()


_THREADS = {"threads": int}
"""The number of threads of a block that hold values of their own, where the kernel also works on tiles."""

ROWS = (
    # The thread in its block, of any launch; its lane is what is left when this is divided by 32
    OpDef(
        "warp_thread", "warp", 0, _index, diff=Diff.ZERO, uniformity=Uniformity.THREAD, least=0, optional=_THREADS,
        py="warp_thread()",
    ),
    # (mask, value, lane): what another lane has as the value
    OpDef(
        "warp_shuffle", "warp", 3, _exchange, Effect.BARRIER, Diff.SPECIAL, uniformity=Uniformity.THREAD,
        optional=_THREADS, py="warp_shuffle({0}, {1}, {2})",
    ),
    # (mask, condition): for which lanes it holds, as bits
    OpDef(
        "warp_ballot", "warp", 2, _vote, Effect.BARRIER, Diff.SPECIAL, uniformity=Uniformity.THREAD, optional=_THREADS,
        py="warp_ballot({0}, {1})",
    ),
    # Which lanes are here at the same time, as bits
    OpDef(
        "warp_active", "warp", 0, _bits, Effect.BARRIER, Diff.SPECIAL, uniformity=Uniformity.THREAD, optional=_THREADS,
        py="warp_active()",
    ),
    # (mask): the lanes wait for each other; what they wrote is seen by them afterwards
    OpDef("warp_barrier", "warp", 1, _waits, Effect.BARRIER, Diff.SPECIAL, optional=_THREADS, py="warp_barrier({0})"),
    # What the thread wrote before is seen by other blocks before what it writes after
    OpDef("warp_fence", "warp", 0, _nothing, Effect.BARRIER, Diff.SPECIAL, optional=_THREADS, py="warp_fence()"),
)  # fmt: skip
