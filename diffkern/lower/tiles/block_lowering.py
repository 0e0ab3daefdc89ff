"""The lowering of tiles for blocks of threads: work of all threads, of each alone, and of the first one.

A barrier is emitted only between two steps of which one writes what the other reads or writes; loops and branches of
the program begin and end with all memory visible to all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diffkern.analysis.tile_products import TileProduct
from diffkern.errors import CompileError
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS, BLOCK_EXTENTS
from diffkern.ir.ops.memory import ATOMICS, ELEMENT_LOADS, STORES, WRITES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import INT32, INT64, Element, Stack, Tile, value_type
from diffkern.ir.views import is_branch, is_control
from diffkern.lower.tiles.cooperative import Together
from diffkern.lower.tiles.lowering import LibraryCall, Lowering
from diffkern.lower.tiles.uses import Uses

__all__ = ["BlockLowering", "HasLibrary"]

_FEW_BYTES = 256

HasLibrary = Callable[[TileProduct], bool]
"""Says whether a library computes a product."""


class BlockLowering(Lowering):
    """The lowering for one thread, with the work distributed over the threads of a block."""

    m: Together
    widens = False
    made_twice = 16

    def __init__(
        self,
        known: Uses,
        ops: Mapping[str, Callable[[Lowering, Op], None]],
        together: Mapping[str, Callable[[BlockLowering, Op], None]],
        library: HasLibrary,
        of_threads: int = 0,
        branches: frozenset[Op] = frozenset(),
    ) -> None:
        super().__init__(known, ops)
        self.ops_together = together
        self.m = Together(self.b)
        self.library = library
        self.of_threads = of_threads
        self.branches = branches

    def threads(self) -> None:
        """Emit the thread's index in its block, and the number of threads."""
        b, m = self.b, self.m
        m.mine, m.threads = b.one("block_thread"), b.one("block_dim")
        m.thread, m.count = b.cast(m.mine, INT64), b.cast(m.threads, INT64)

    def op(self, op: Op) -> None:
        # Inside of a shared loop an op is part of an element's computation, and ordering is that of the whole step.
        if self.m.depth:
            super().op(op)
        elif op.name in BARRIERS:
            self.m.barrier()
        elif op in self.branches:
            self.m.step(lambda: Lowering.op(self, op))
        elif op.name in BLOCK_EXTENTS:
            # To the kernel a block is one thread, unless it takes a number from each.
            self.env[op.result] = self.b.const(self.of_threads or 1, INT32)
        elif self.of_threads and lookup(op.name).family != "tile" and not any(map(_on_tiles, _all(op))):
            # Each thread executes it for itself, so it may differ between threads.
            self.m.step(lambda: Lowering.op(self, op))
        elif is_control(op):
            # All threads decide the same way, but may have written what the condition or a branch reads.
            if is_branch(op) or not any(isinstance(r.type, Tile) for r in op.results):
                self.m.synchronize()
            super().op(op)
        elif op.name in STORES | ATOMICS | WRITES and not op.name.startswith("tile"):
            if op.results and self.is_read(op.result):
                raise CompileError(
                    f"the value that {op.name} returns is used in a kernel of tiles",
                    loc=op.loc,
                    remedy="on CUDA one thread of the block does it; use the array in a later launch",
                )
            # The block is one thread to the kernel: its plain store happens once, not once per thread.
            self.m.alone(lambda: Lowering.op(self, op))
        elif op.name in ELEMENT_LOADS:
            self.m.step(lambda: Lowering.op(self, op))
        else:
            super().op(op)

    def tile_op(self, op: Op) -> None:
        together = self.ops_together.get(op.name)
        if together is None:
            super().tile_op(op)
        else:
            together(self, op)

    def allocate(self, dtype: Element, size: int, name: str = "") -> Value:
        """Allocate as for one thread; for a few bytes, a new buffer is cheaper than a barrier."""
        if size * dtype.itemsize <= _FEW_BYTES:
            # Reusing a buffer with accesses that no barrier has ordered yet would force one.
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
                self.m.synchronize()
        return out

    def at_end(self, region: Region, moves: Any) -> None:
        super().at_end(region, moves)
        self.m.synchronize()

    def multiply(self, c: Value, a: Value, b: Value, attrs: Mapping[str, Any]) -> None:
        """Emit a product in which each thread computes elements of the result, along rows."""
        m, n, k = attrs["m"], attrs["n"], attrs["k"]
        maker, builder = self.m, self.b
        dtype = value_type(c.type.dtype)  # type: ignore[union-attr]

        def cell(index: list[Value]) -> None:
            row, column = index
            # In the adjoint products are added to a cotangent that holds a sum already.
            place = maker.flat((row, column), (m, n))
            start = builder.one("buffer_get", c, place) if attrs["add"] else builder.zero(dtype)

            def term(i: Value, so_far: list[Value]) -> Sequence[Value]:
                at = maker.flat((i, row), (k, m)) if attrs["trans_a"] else maker.flat((row, i), (m, k))
                x = builder.one("buffer_get", a, at)
                y = builder.one("buffer_get", b, maker.flat((i, column), (k, n)))
                return (builder.add(so_far[0], builder.mul(x, y)),)

            (total,) = maker.loop(0, k, term, (start,))
            builder.op("buffer_set", c, place, total)

        maker.grid((m, n), cell, ungrouped=True)

    def library_for(self, product: TileProduct) -> LibraryCall | None:
        return self._call_library if not self.m.depth and self.library(product) else None

    def _call_library(self, c: Value, a: Value, b: Value, product: TileProduct, add: bool) -> None:
        def call() -> None:
            self.b.op("buffer_product", c, a, b, **asdict(product), add=add)

        self.m.together({a, b, c} if add else {a, b}, {c}, call)


def _all(op: Op) -> Iterator[Op]:
    """Iterate over an op and those in its regions."""
    yield op
    for region in op.regions:
        yield from walk(region)


def _on_tiles(op: Op) -> bool:
    values = (*op.operands, *op.results)
    return lookup(op.name).family == "tile" or any(isinstance(v.type, (Tile, Stack)) for v in values)
