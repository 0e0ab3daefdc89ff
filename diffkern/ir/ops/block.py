"""Threads of a block that work together: their indices, shared arrays, barriers.

A launch is cut into blocks of ``block_dim`` threads with consecutive flattened indices. A kernel with one of these
operations is *blockwise*: its launches are whole blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffkern.ir.ops.row import Diff, Effect, OpDef, TypeRuleError, Uniformity
from diffkern.ir.types import BOOL, INT32, SHARED, Array, Mat, Scalar, Type, Vec

Attrs = Mapping[str, Any]


def _index(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return (INT32,)


def _shared(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    array, shape = attrs["type"], attrs["shape"]
    if not isinstance(array, Array) or array.layout != SHARED:
        raise TypeRuleError(f"makes a shared array, not {array}")
    if len(shape) != array.ndim or min(shape) < 1:
        raise TypeRuleError(f"{array} cannot have the shape {shape}")
    return (array,)


def _barrier(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    return ()


def _lane(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    (t,) = types
    if not isinstance(t, (Scalar, Vec, Mat)):
        raise TypeRuleError(f"needs a number or several, not {t}")
    return (t,)


def _aligned(types: Sequence[Type], attrs: Attrs) -> tuple[Type, ...]:
    if not isinstance(types[0], Array):
        raise TypeRuleError(f"needs an array, not {types[0]}")
    return (BOOL,)


ROWS = (
    OpDef("block_dim", "block", 0, _index, diff=Diff.ZERO, py="block_dim()", least=0),  # threads of a block
    # The thread's index in its block, and the number of the block in the launch
    OpDef(
        "block_thread", "block", 0, _index, diff=Diff.ZERO, py="thread_index()", uniformity=Uniformity.THREAD, least=0
    ),
    OpDef("block_index", "block", 0, _index, diff=Diff.ZERO, py="block_index()", uniformity=Uniformity.BLOCK, least=0),
    # Memory of a block, with undefined contents; no two arrays have the same number. poisoned: where a program makes
    # checks, each block finds NaN in all its elements, or the smallest integer
    OpDef(
        "shared_new", "block", 0, _shared, diff=Diff.SPECIAL, attrs={"type": Array, "shape": tuple, "number": int},
        optional={"poisoned": bool},
    ),
    # Every thread of the block waits for all others; what they wrote before is seen after it. replay: in an adjoint,
    # of one that orders nothing but accesses of primal values. trusted: of a text in C++ for GPUs, which says itself
    # which threads come there; unproved: of these, where the kernel does not prove that all do. threads: how many a
    # block has that hold numbers of their own, where the kernel works on tiles as well
    OpDef(
        "barrier", "block", 0, _barrier, Effect.BARRIER, Diff.SPECIAL,
        optional={"replay": bool, "trusted": bool, "unproved": bool, "threads": int},
    ),
    # What the thread that is `distance` before in the warp has as the operand, its own value in the first `distance`
    # threads. All threads of the block execute it together
    OpDef("lane_left", "block", 1, _lane, Effect.BARRIER, Diff.INTERNAL, attrs={"distance": int}),
    # Whether an array begins at an address that is a multiple of that many bytes
    OpDef("aligned", "block", 1, _aligned, diff=Diff.INTERNAL, py="aligned({0}, {bytes})", attrs={"bytes": int}),
)  # fmt: skip

BARRIERS = frozenset(row.name for row in ROWS if row.effect is Effect.BARRIER and row.diff is not Diff.INTERNAL)
SHARED_ARRAYS = frozenset(row.name for row in ROWS if row.infer is _shared)
"""The operations whose result is an array of the block."""
BLOCK_NUMBERS = frozenset(row.name for row in ROWS if row.infer is _index)
BLOCK_EXTENTS = frozenset(row.name for row in ROWS if row.infer is _index and row.uniformity is Uniformity.LAUNCH)
BLOCK_INDICES = frozenset(row.name for row in ROWS if row.uniformity is not Uniformity.LAUNCH)
"""Those that say where in the launch the thread is."""
