"""Takes tiles apart for a target with blocks of threads: tiles become shared arrays, their operations shared work.

In: a function with tiles. Out: the same, in place, in the block language (family ``block``), for any number of threads
per block: each block of the launch does what one thread does on the CPU. Work on many elements is dealt out to the
threads, neighbours to neighbours, so that accesses of arrays are coalesced; all writes of single elements are done by
the first thread. Numbers are computed by every thread alike.

The kernel's index is that of the block, the same in all its threads: the function's attribute ``tiled`` tells those who
spell it that a launch counts blocks, not threads, and that the blocks of a grid stride over it. In a kernel that makes
tiles of what threads hold (:mod:`tile_threads`) the index is that of the thread instead, and each one does by itself
what concerns no tile; the function's attribute ``threads`` says for how many in a block it is made.

A barrier stands only between two steps of which one writes what the other reads or writes; loops and branches that the
program has begin and end with everything seen by all.

Matrix products are loops, or where a library has them, ops ``buffer_product`` that all threads of the block execute
together: none of them may be at work on something else, so they meet before one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diffkern.analysis.tile_products import TileProduct
from diffkern.analysis.tile_threads import check_threads, threads_of
from diffkern.errors import CompileError
from diffkern.ir.clone import substitute
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import INT32, INT64, SHARED, Array, Buffer, Element, Stack, Tile, value_type
from diffkern.lower.tiles import own as tile_own
from diffkern.lower.tiles import ranks as tile_ranks
from diffkern.lower.tiles import reductions as tile_fold
from diffkern.lower.tiles import solve as tile_solve
from diffkern.lower.tiles.serial import Lowering, has_tiles
from diffkern.lower.tiles.together import Together
from diffkern.lower.tiles.uses import Uses, uses
from diffkern.ops.memory import ATOMICS, STORES, WRITES
from diffkern.ops.table import lookup

SHARED_BYTES = 48 * 1024
"""What a block has without being asked for more."""

_FEW_BYTES = 256


HasLibrary = Callable[[TileProduct], bool]
"""Says whether a library computes a product."""


def lower_tiles_for_blocks(
    fn: Function,
    limit: int = SHARED_BYTES,
    library: HasLibrary = lambda product: False,
    *,
    may_alias: bool = False,
) -> Function:
    """Make a function's tiles the work of blocks of threads, in place; return the function.

    A block may take up to `limit` bytes of shared memory. If it takes more than every block has, the function's
    ``dynamic_shared`` is True: the launch has to ask for the memory. What `library` says it computes are
    products of the library. With `may_alias`, array parameters may overlap: threads wait between accesses of any two.

    Raises
    ------
    CompileError
        If its tiles do not fit into the shared memory of a block.
    """
    if not has_tiles(fn):
        return fn
    threads = threads_of(fn)
    if threads:
        check_threads(fn)
    low = BlockLowering(uses(fn), library, threads)
    low.m.one_memory = may_alias
    region = Region()
    with low.b.into(region):
        low.threads()
        low.region_ops(fn.body)
    region.ops[:0] = low.allocations.ops
    fn.body, fn.threads, fn.tiled = region, threads, not threads
    fn.dynamic_shared = _share(fn, limit) > SHARED_BYTES
    return fn


def _share(fn: Function, limit: int) -> int:
    """Make buffers shared arrays, in place; return their bytes."""
    arrays: dict[Value, Value] = {}
    total = 0
    largest: Value | None = None
    for op in fn.body.ops:
        if op.name != "buffer_new":
            continue
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
        if op.name == "buffer_get":
            op.name, op.attrs = "load", {**op.attrs, "wrap": (False,)}
        elif op.name == "buffer_set":
            op.name, op.attrs = "store", {**op.attrs, "wrap": (False,)}
        elif op.name == "buffer_add":
            op.name, op.results = "atomic", (Value(op.operands[2].type),)
            op.attrs = {"wrap": (False,), "kind": "add"}
    substitute(fn.body, arrays)
    return total


class BlockLowering(Lowering):
    """As for one thread, with the work dealt out to the threads of a block."""

    m: Together
    made_twice = 16

    def __init__(self, known: Uses, library: HasLibrary, of_threads: int = 0) -> None:
        super().__init__(known)
        self.m = Together(self.b)
        self.library = library
        self.of_threads = of_threads

    def threads(self) -> None:
        """The thread in its block."""
        b, m = self.b, self.m
        m.mine, m.threads = b.one("block_thread"), b.one("block_dim")
        m.thread, m.count = b.cast(m.mine, INT64), b.cast(m.threads, INT64)

    def op(self, op: Op) -> None:
        if self.m.depth:
            super().op(op)
        elif op.name == "block_dim":
            self.env[op.result] = self.b.const(self.of_threads or 1, INT32)
        elif self.of_threads and lookup(op.name).family != "tile" and not any(map(_on_tiles, _all(op))):
            self.m.step(lambda: Lowering.op(self, op))
        elif op.name in ("if", "for", "while"):
            if op.name == "if" or not any(isinstance(r.type, Tile) for r in op.results):
                self.m.settle()
            super().op(op)
        elif op.name in STORES | ATOMICS | WRITES and not op.name.startswith("tile"):
            if op.results and self.is_read(op.result):
                raise CompileError(
                    f"the value that {op.name} returns is used in a kernel of tiles",
                    loc=op.loc,
                    remedy="on CUDA one thread of the block does it; use the array in a later launch",
                )
            self.m.alone(lambda: Lowering.op(self, op))
        elif op.name == "load":
            self.m.step(lambda: Lowering.op(self, op))
        else:
            super().op(op)

    def tile_op(self, op: Op) -> None:
        together = _TOGETHER.get(op.name)
        if together is None:
            super().tile_op(op)
        else:
            together(self, op)

    def allocate(self, dtype: Element, size: int, name: str = "") -> Value:
        """As for one thread; a few bytes are rather new than worth a barrier."""
        if size * dtype.itemsize <= _FEW_BYTES:
            pending = {buffer for buffer, _ in self.m.read | self.m.changed}
            busy = [buffer for buffer in self.free if buffer in pending]
            self.free = [buffer for buffer in self.free if buffer not in busy]
            found = super().allocate(dtype, size, name)
            self.free += busy
            return found
        return super().allocate(dtype, size, name)

    def is_read(self, v: Value) -> bool:
        return v in self.read_values

    @property
    def read_values(self) -> set[Value]:
        return self.uses.read

    def region(self, region: Region) -> Region:
        out = super().region(region)
        if not self.m.depth:
            with self.b.into(out):
                self.m.settle()
        return out

    def at_end(self, region: Region, moves: Any) -> None:
        super().at_end(region, moves)
        self.m.settle()

    def multiply(self, c: Value, a: Value, b: Value, attrs: Mapping[str, Any]) -> None:
        """Each thread computes elements of the result, along rows."""
        m, n, k = attrs["m"], attrs["n"], attrs["k"]
        maker, builder = self.m, self.b
        dtype = value_type(c.type.dtype)  # type: ignore[union-attr]

        def cell(index: list[Value]) -> None:
            row, column = index
            place = maker.flat((row, column), (m, n))
            start = builder.one("buffer_get", c, place) if attrs["add"] else builder.zero(dtype)

            def term(i: Value, so_far: list[Value]) -> Sequence[Value]:
                at = maker.flat((i, row), (k, m)) if attrs["trans_a"] else maker.flat((row, i), (m, k))
                x = builder.one("buffer_get", a, at)
                y = builder.one("buffer_get", b, maker.flat((i, column), (k, n)))
                return (builder.add(so_far[0], builder.mul(x, y)),)

            (total,) = maker.loop(0, k, term, (start,))
            builder.op("buffer_set", c, place, total)

        maker.grid((m, n), cell, apart=True)

    def has_library(self, product: TileProduct) -> bool:
        return not self.m.depth and self.library(product)

    def call_library(self, c: Value, a: Value, b: Value, product: TileProduct, add: bool) -> None:
        def call() -> None:
            self.b.op("buffer_product", c, a, b, **asdict(product), add=add)

        self.m.together({a, b, c} if add else {a, b}, {c}, call)


_TOGETHER = {**tile_fold.OPS, **tile_ranks.OPS, **tile_solve.OPS, **tile_own.OPS}


def _all(op: Op) -> Iterator[Op]:
    """An op and those in its regions."""
    yield op
    for region in op.regions:
        yield from walk(region)


def _on_tiles(op: Op) -> bool:
    values = (*op.operands, *op.results)
    return lookup(op.name).family == "tile" or any(isinstance(v.type, (Tile, Stack)) for v in values)
