"""Blocks of threads: barriers are checked, and values that are the same for all threads of a block are found.

``check_blocks`` refuses a barrier that some threads of a block may miss: it may stand only under conditions and in
loops that all threads of a block take in the same way.
"""

from __future__ import annotations

import math

from diffkern.analysis.scopes import ThreadScope, uniformity
from diffkern.errors import AutodiffError, KernelTypeError
from diffkern.ir.clone import defined_in
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS, BLOCK_EXTENTS, SHARED_ARRAYS
from diffkern.ir.ops.table import lookup
from diffkern.ir.ops.tile import of_block
from diffkern.ir.views import While, deciding, is_branch

__all__ = [
    "MAX_BLOCK_DIM",
    "SHARED_BYTES",
    "blockwise_op",
    "check_adjoint",
    "check_blocks",
    "decided_for_all",
    "is_simt",
    "shared_bytes",
    "shared_size",
    "uniform_values",
]

MAX_BLOCK_DIM = 1024
SHARED_BYTES = 48 * 1024
"""Shared memory that every GPU gives a block without an opt-in, in bytes."""


def blockwise_op(fn: Function) -> Op | None:
    """Return the first op by which threads of a block cooperate, if there is one."""
    return next((op for op in walk(fn.body) if lookup(op.name).family == "block"), None)


def is_simt(fn: Function, *, knowing: bool = False) -> bool:
    """Return whether the threads of a block cooperate thread by thread rather than on tiles.

    Reading the number of threads in a block counts as cooperating too, unless `knowing` is set.
    """
    ops = [op for op in walk(fn.body) if not (knowing and op.name in BLOCK_EXTENTS)]
    families = {lookup(op.name).family for op in ops}
    return "block" in families and "tile" not in families


def shared_bytes(fn: Function) -> int:
    """Return the size of the shared arrays of a block in bytes."""
    return sum(shared_size(op) for op in fn.body.ops if op.name in SHARED_ARRAYS)


def shared_size(op: Op) -> int:
    """Return the size of a shared array in bytes; each array begins at a multiple of 16."""
    size: int = math.prod(op.attrs["shape"]) * op.attrs["type"].dtype.itemsize
    return (size + 15) // 16 * 16


def check_blocks(fn: Function) -> Function:
    """Check that barriers are reached by all threads of a block, and that shared arrays are made once.

    Raises
    ------
    KernelTypeError
        With the line of the barrier or array.

    Notes
    -----
    A barrier of a text in C++ for GPUs may stand where that is not proved, as in C: it is noted as ``unproved``.
    """
    if blockwise_op(fn) is None:
        return fn
    _check_tiles(fn)
    if fn.tid_arity > 3:
        raise KernelTypeError(
            f"kernel {fn.name} works in blocks and asks for 4 axes; at most 3 are possible",
            loc=fn.loc,
            remedy="join two axes, as in k = i * n + j, and launch over their product",
        )
    # The number and size of the shared arrays has to be known when the block starts.
    top = set(fn.body.ops)
    for op in walk(fn.body):
        if op.name in SHARED_ARRAYS and op not in top:
            raise KernelTypeError(
                "a shared array is made inside a loop or under a condition",
                loc=op.loc,
                remedy="make it at the beginning of the kernel",
            )
    size = shared_bytes(fn)
    if size > SHARED_BYTES:
        raise KernelTypeError(
            f"kernel {fn.name} has shared arrays of {size} bytes; a block has {SHARED_BYTES}",
            loc=fn.loc,
            remedy="make them smaller",
        )
    _check_region(fn.body, uniform_values(fn), None)
    return fn


def check_adjoint(fn: Function, limit: int | None) -> Function:
    """Check the adjoint of a cooperating kernel: all threads of a block reach its barriers, and its shared memory fits.

    Parameters
    ----------
    fn : Function
        The adjoint.
    limit : int or None
        Bytes of shared memory that a block of the target has; None without a limit.

    Raises
    ------
    AutodiffError
        If the shared memory does not fit.
    """
    if not is_simt(fn):
        return fn
    # Errors here are errors of the transformation; a barrier of the adjoint stands where the primal had one.
    _check_region(fn.body, uniform_values(fn), None)
    size = shared_bytes(fn)
    if limit is not None and size > limit:
        raise AutodiffError(
            f"the adjoint of kernel {fn.name.removesuffix('_adjoint')} needs {size} bytes of shared memory, for "
            f"cotangents and for contents that it restores; a block has {limit}",
            loc=fn.loc,
            remedy="make the shared arrays smaller, or overwrite them less often in one launch",
        )
    return fn


def _check_tiles(fn: Function) -> None:
    ops = list(walk(fn.body))
    tile = next((op for op in ops if lookup(op.name).family == "tile" and of_block(op)), None)
    single = next((op for op in ops if lookup(op.name).family == "block" and not _beside_tiles(op)), None)
    if tile is not None and single is not None:
        where = f" in line {tile.loc.line}" if tile.loc is not None else ""
        raise KernelTypeError(
            f"threads of a block work one by one here, and as a whole on the tile{where}",
            loc=single.loc,
            remedy="use either tiles or shared arrays and barriers in a kernel",
        )


def _beside_tiles(op: Op) -> bool:
    return op.name in BLOCK_EXTENTS or (op.name in BARRIERS and bool(op.attrs.get("trusted")))


def _check_region(region: Region, uniform: set[Value], divergent: Op | None) -> None:
    for op in region.ops:
        if op.name in BARRIERS and divergent is not None and op.attrs.get("trusted"):
            op.attrs = {**op.attrs, "unproved": True}
        elif op.name in BARRIERS and divergent is not None:
            where = f" in line {divergent.loc.line}" if divergent.loc is not None else ""
            what = "the condition" if is_branch(divergent) else "the loop"
            raise KernelTypeError(
                f"some threads of a block may miss this barrier: {what}{where} depends on the thread",
                loc=op.loc,
                remedy="let all threads reach it, and put what only some of them do under the condition",
            )
        # The test of a while runs once more than its body, so barriers in it would not pair up with those of the body.
        if op.name == "while":
            _check_test(While(op))
        for sub in op.regions:
            _check_region(sub, uniform, divergent or (None if decided_for_all(op, uniform) else op))


def _check_test(loop: While) -> None:
    waiting = next((op for op in walk(loop.test) if op.name in BARRIERS), None)
    if waiting is not None:
        raise KernelTypeError(
            "a barrier stands in the condition of a loop",
            loc=waiting.loc,
            remedy="write while True, and leave the loop by if not …: break at its beginning",
        )


def decided_for_all(op: Op, uniform: set[Value]) -> bool:
    """Return whether all threads of a block take the same way through a loop or branch."""
    return uniform.issuperset(deciding(op))


def uniform_values(fn: Function) -> set[Value]:
    """Return the values that are the same for all threads of a block."""
    return {*fn.params, *defined_in(fn.body)} - uniformity(fn, ThreadScope.BLOCK).varying
