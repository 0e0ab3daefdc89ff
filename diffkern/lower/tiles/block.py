"""Lowers tiles for a target with blocks of threads: tiles become shared arrays, their operations shared work.

A function with tiles is changed in place to the block language (family ``block``), for any number of threads per block:
each block of the launch does the work of one thread on the CPU. Work on many elements is distributed over the threads,
neighbours to neighbours, so that accesses of arrays are coalesced; all writes of single elements are done by the first
thread. Scalars are computed redundantly by every thread.

The kernel's index is that of the block, the same in all its threads: ``Function.tiled`` tells the emitters that a
launch counts blocks, not threads, and that the blocks of a grid stride over it. In a kernel that makes tiles from
numbers that threads hold (:mod:`diffkern.analysis.tile_threads`) the index is that of the thread instead, and each
thread executes ops without tiles by itself; ``Function.threads`` has the number of threads per block.

Matrix products are loops, or where a library has them, ops ``buffer_product`` that all threads of the block execute
together: none of them may be busy elsewhere, so they synchronize first.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.analysis.tile_threads import check_threads, threads_of
from diffkern.errors import CompileError
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.buffer import BUFFER_READS, BUFFER_UPDATES
from diffkern.ir.types import SHARED, Array, Buffer, Tile, Type
from diffkern.lower.tiles import block_scans as tile_ranks
from diffkern.lower.tiles import per_thread as tile_own
from diffkern.lower.tiles import reductions as tile_fold
from diffkern.lower.tiles import solve as tile_solve
from diffkern.lower.tiles.block_lowering import BlockLowering, HasLibrary
from diffkern.lower.tiles.lowering import Lowering
from diffkern.lower.tiles.serial import OPS, has_tiles, read_first
from diffkern.lower.tiles.uses import uses

__all__ = ["lower_arrays_of_threads", "lower_tiles_for_blocks"]

_TOGETHER = {**tile_fold.OPS, **tile_ranks.OPS, **tile_solve.OPS, **tile_own.OPS}
"""The operations that the threads of a block share in ways of their own."""


def lower_tiles_for_blocks(
    fn: Function,
    limit: int = SHARED_BYTES,
    library: HasLibrary = lambda product: False,
    *,
    may_alias: bool = False,
) -> Function:
    """Turn a function's tiles into the work of blocks of threads, in place; return the function.

    A block may take up to `limit` bytes of shared memory. If it takes more than every block has, the function's
    ``dynamic_shared`` is True: the launch has to request the memory. Products for which `library` returns True are
    computed by the library. With `may_alias`, array parameters may overlap: threads synchronize between accesses of any
    two.

    Raises
    ------
    CompileError
        If its tiles do not fit into the shared memory of a block.
    """
    # Arrays of single threads stay with the threads; they have to be gone before tiles are shared.
    lower_arrays_of_threads(fn)
    if not has_tiles(fn):
        return fn
    threads = threads_of(fn)
    branches = check_threads(fn) if threads else frozenset()
    low = BlockLowering(uses(read_first(fn)), OPS, _TOGETHER, library, threads, branches)
    low.m.one_memory = may_alias
    region = Region()
    with low.b.into(region):
        low.threads()
        low.region_ops(fn.body)
    # Allocations go to the top: shared arrays exist once per block, whatever the control flow.
    region.ops[:0] = [*low.tables.values(), *low.allocations.ops]
    fn.body, fn.threads, fn.tiled = region, threads, not threads
    fn.dynamic_shared = _share(fn, low.allocations.ops, limit) > SHARED_BYTES
    return fn


def _share(fn: Function, made: Sequence[Op], limit: int) -> int:
    """Turn allocated buffers into shared arrays, in place; return their bytes."""
    arrays: dict[Value, Value] = {}
    total = 0
    largest: Value | None = None
    for op in made:
        t = op.attrs["type"]
        assert isinstance(t, Buffer)
        array = Value(Array(t.dtype, 1, SHARED), op.result.name)
        arrays[op.result] = array
        total += -(-t.itemsize // 16) * 16
        if largest is None or t.itemsize > largest.type.itemsize:  # type: ignore[union-attr]
            largest = op.result
        op.name, op.results = "shared_new", (array,)
        op.attrs = {"type": array.type, "shape": (t.size,), "number": len(arrays) - 1}
    if total > limit and largest is not None:
        name = largest.name or "a tile"
        raise CompileError(
            f"the tiles of kernel {fn.name} take {total} bytes of shared memory, and a block has {limit}; "
            f"the largest is {name} with {largest.type.itemsize} bytes",  # type: ignore[union-attr]
            loc=fn.loc,
            remedy="use smaller tiles, or a loop over parts of them",
        )
    for op in walk(fn.body):
        if not op.operands or op.operands[0] not in arrays:
            continue
        if op.name in BUFFER_READS:
            op.name, op.attrs = "load", {**op.attrs, "wrap": (False,)}
        elif op.name == "buffer_set":
            op.name, op.attrs = "store", {**op.attrs, "wrap": (False,)}
        # Threads add to elements that others may add to as well.
        elif op.name in BUFFER_UPDATES:
            op.name, op.results = "atomic", (Value(op.operands[2].type),)
            op.attrs = {"wrap": (False,), "kind": op.attrs.get("kind", "add")}
    substitute(fn.body, arrays)
    return total


# -- arrays of single threads ------------------------------------------------------------------------------------------
# Lowers arrays of single threads for a target on which the threads of a block share tiles.
#
# A thread's own arrays, which are values, become buffers in place, written in place where the old value is not needed
# any more. Tiles of blocks are left as they are.


class _Lowering(Lowering):
    """The lowering for one thread, of its own arrays alone."""

    widens = False

    def takes(self, t: Type) -> bool:
        return isinstance(t, Tile) and t.own

    def is_tile_op(self, op: Op) -> bool:
        return _works_on_own(op)


def _works_on_own(op: Op) -> bool:
    return op.name.startswith("tile_") and any(
        isinstance(v.type, Tile) and v.type.own for v in (*op.operands, *op.results)
    )


def lower_arrays_of_threads(fn: Function) -> Function:
    """Turn the arrays of threads into buffers, in place; return the function."""
    if not any(map(_works_on_own, walk(fn.body))):
        return fn
    low = _Lowering(uses(fn), OPS)
    region = Region()
    with low.b.into(region):
        low.region_ops(fn.body)
    region.ops[:0] = low.allocations.ops
    fn.body = region
    return fn
