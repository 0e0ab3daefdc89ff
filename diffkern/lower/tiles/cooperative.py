"""Appends loops that the threads of a block share, and barriers between them.

Work that is given per element of a tile becomes ops in the current region. Elements are distributed cyclically over the
threads; where there are many, in groups of four neighbours, each accessed as one vector if 16-byte aligned.

A barrier is emitted only between two steps of which one writes what another thread reads or writes in the other: a
thread that reads the elements it wrote itself need not wait.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.buffer import BUFFER_READS, BUFFER_UPDATES, PLACES
from diffkern.ir.ops.memory import ELEMENT_STORES, ELEMENT_WRITES, ELEMENTS
from diffkern.ir.types import INT32, INT64, UINT32, Array, Buffer, Scalar, Type, scalar_of
from diffkern.lower.tiles.source import Index, Maker, elements

__all__ = ["Together"]

_READS = ELEMENTS - ELEMENT_STORES | BUFFER_READS | BUFFER_UPDATES
_CHANGES = ELEMENT_WRITES | PLACES - BUFFER_READS | BUFFER_UPDATES

GROUP = 4
"""Neighbours that a thread takes together, where the elements of a tile can be cut into such groups."""

_VECTOR_BYTES = 16
_MANY = 256
"""Fewer elements are too few for threads to take several."""

Access = tuple[Value, int]
"""The buffer that is accessed, and the size of a thread's groups of elements if each thread accesses only its own
share, else 0."""


def _overlap(some: set[Access], others: set[Access]) -> bool:
    """Return whether a thread may access the same memory as another one."""
    # The same buffer in the same distribution means that each thread touches its own elements again.
    return any(a is b and (i != k or not i) for a, i in some for b, k in others)


def _in_groups(count: int | Value) -> bool:
    return isinstance(count, int) and count % GROUP == 0 and count >= _MANY


def _reads_first(copies: Sequence[Sequence[Op]]) -> list[Op]:
    """Return the ops of several elements, all reads before any changes: neighbours side by side."""
    before: list[Op] = []
    after: list[Op] = []
    for ops in copies:
        first = next((k for k, op in enumerate(ops) if op.name in _CHANGES), len(ops))
        # Another element's change may be read further on, so the copies keep their order.
        if any(op.name not in _CHANGES for op in ops[first:]):
            return [op for ops in copies for op in ops]
        before += ops[:first]
        after += ops[first:]
    return [*before, *after]


def _aligned(t: Type, member: int) -> dict[str, int]:
    """Return the alignment in bytes of a group's member in a buffer, as an attribute of its access."""
    assert isinstance(t, Buffer)
    if not isinstance(t.dtype, Scalar):
        return {}
    size = t.dtype.itemsize
    return {"aligned": math.gcd(_VECTOR_BYTES, GROUP * size, member * size)}


class Together(Maker):
    """Appends loops that the threads of a block share, and barriers between them."""

    # Loops here are strided by the thread count and never unrolled as a whole, so no loop is marked as rolled.
    rolled_above = 1 << 62
    shares = True

    def __init__(self, b: Builder) -> None:
        super().__init__(b)
        self.mine: Value  # the thread in its block, and how many there are
        self.threads: Value
        self.thread: Value  # the same as int64
        self.count: Value
        self.depth = 0
        self.read: set[Access] = set()
        self.changed: set[Access] = set()
        self.diverged = False  # whether the threads may be at work on different things
        self.own: dict[Value, int] = {}  # positions that a thread alone visits, and of how many neighbours
        self.positions: dict[tuple[Value, ...], tuple[tuple[int, ...], Value]] = {}  # of the elements being visited
        self.one_memory = False  # whether array parameters may overlap
        self.outside = Value(INT32, "outside")  # stands for all of them then
        self.vectors = False  # whether the array being accessed is aligned to groups
        self.member: int | None = None  # which one of its group is being visited

    def dealt(
        self, count: int | Value, body: Callable[[Value, list[Value]], Sequence[Value]], init: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """Emit a loop of each thread over its share of positions, with values that the thread carries."""

        def one(position: Value, carried: list[Value]) -> Sequence[Value]:
            self.own[position] = 1
            return body(position, carried)

        if not _in_groups(count):
            return self._share(count, one, init)
        assert isinstance(count, int)

        def group(number: Value, carried: list[Value]) -> Sequence[Value]:
            start = self.b.mul(number, self.i64(GROUP))
            for k in range(GROUP):
                position = start if k == 0 else self.b.add(start, self.i64(k))
                self.own[position] = GROUP
                carried = list(body(position, carried))
            return carried

        return self._share(count // GROUP, group, init)

    def _share(
        self, count: int | Value, body: Callable[[Value, list[Value]], Sequence[Value]], init: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        region = Region((Value(INT32), *(Value(v.type) for v in init)))
        with self.b.into(region):
            region.yields = tuple(body(self.b.cast(region.params[0], INT64), list(region.params[1:])))
        end = self.b.i32(count) if isinstance(count, int) else self.b.cast(count, INT32)
        # The loop starts at the thread's index and advances by the number of threads, which keeps accesses coalesced.
        return self.b.op("for", self.mine, end, self.threads, *init, regions=(region,), ahead=True)

    def cells(self, count: int | Value, body: Callable[[Value], None], *, ungrouped: bool = False) -> None:
        if isinstance(count, int):
            self.grid((count,), lambda index: body(index[0]), ungrouped=ungrouped)
            return

        def one(position: Value, _: list[Value]) -> Sequence[Value]:
            self.own[position] = 1
            body(position)
            return ()

        def shared() -> None:
            self._share(count, one)

        self.step(shared)

    def grid(self, shape: Sequence[int], body: Callable[[list[Value]], None], *, ungrouped: bool = False) -> None:
        count = elements(shape)

        def one(position: Value, _: list[Value]) -> Sequence[Value]:
            self.visit(position, self.split(position, shape), shape, 1, body)
            return ()

        def group(number: Value, _: list[Value]) -> Sequence[Value]:
            self.neighbours(number, shape, body)
            return ()

        def shared() -> None:
            if ungrouped or not _in_groups(count):
                self._share(count, one)
            else:
                self._share(count // GROUP, group)

        self.step(shared)

    def neighbours(self, number: Value, shape: Sequence[int], body: Callable[[list[Value]], None]) -> None:
        """Do something for the elements of a group."""
        b, rows = self.b, shape[-1] % GROUP == 0
        start = b.mul(number, self.i64(GROUP))
        first = self.split(number, (*shape[:-1], shape[-1] // GROUP)) if rows else []
        # Within a row the members of a group have consecutive last indices, so only the first has to be divided out.
        last = b.mul(first[-1], self.i64(GROUP)) if rows and len(shape) > 1 else start
        copies = []
        for k in range(GROUP):
            region = Region()
            with b.into(region):
                position = start if k == 0 else b.add(start, self.i64(k))
                if len(shape) == 1:
                    index = [position]
                elif rows:
                    index = [*first[:-1], last if k == 0 else b.add(last, self.i64(k))]
                else:
                    index = self.split(position, shape)
                self.member = k
                self.visit(position, index, shape, GROUP, body)
                self.member = None
            for op in region.ops:
                # Loads and stores of consecutive members can be merged into vectors, if their alignment is known.
                if op.name in PLACES and op.operands[1] is position:
                    op.attrs = {**op.attrs, **_aligned(op.operands[0].type, k)}
            copies.append(region.ops)
        b.region.ops.extend(_reads_first(copies))

    def visit(
        self, position: Value, index: list[Value], shape: Sequence[int], width: int, body: Callable[[list[Value]], None]
    ) -> None:
        """Do something for one element, of which the position is known too."""
        self.own[position] = width
        self.positions[tuple(index)] = (tuple(shape), position)
        body(index)

    def flat(self, index: Index, shape: Sequence[int]) -> Value:
        # While an element is visited its position is known and need not be computed from the indices.
        known = self.positions.get(tuple(index))
        return known[1] if known is not None and known[0] == tuple(shape) else super().flat(index, shape)

    def is_few(self, shape: Sequence[int]) -> bool:
        return elements(shape) < _MANY

    def takes_groups(self, array: Value, shape: Sequence[int]) -> bool:
        t = array.type
        assert isinstance(t, Array)
        return (
            _in_groups(elements(shape)) and shape[-1] % GROUP == 0 and t.layout == "C" and isinstance(t.dtype, Scalar)
        )

    def aligned(self, array: Value, offsets: Sequence[Value], whole: Value) -> Value:
        b, size = self.b, scalar_of(array.type).itemsize
        unit = min(GROUP, _VECTOR_BYTES // size)
        tests = [whole, b.one("aligned", array, bytes=unit * size)]
        uneven = [] if (self.known.get(offsets[-1], 1) % unit) == 0 else [offsets[-1]]
        if len(offsets) > 1:
            # Each row has to start aligned as well, so the extent of the last axis counts.
            uneven.append(self.wide(b.one("shape", array, axis=len(offsets) - 1)))
        tests += [b.one("eq", b.one("and", v, self.i64(unit - 1)), self.i64(0)) for v in uneven]
        out = self.every(tests)
        assert out is not None
        return out

    @contextlib.contextmanager
    def using_vectors(self, vectors: bool) -> Iterator[None]:
        self.vectors = vectors
        yield
        self.vectors = False

    def hints(self, array: Value) -> Mapping[str, Any]:
        if not self.vectors or self.member is None:
            return {}
        size = scalar_of(array.type).itemsize
        return {"aligned": math.gcd(_VECTOR_BYTES, GROUP * size, self.member * size)}

    def split(self, position: Value, shape: Sequence[int]) -> list[Value]:
        """Return the indices of a row-major position, by unsigned divisions."""
        if sum(n > 1 for n in shape) <= 1:
            return [self.i64(0) if n == 1 else position for n in shape]
        index: list[Value] = []
        rest = self.b.cast(position, UINT32)
        for k, n in reversed(list(enumerate(shape))):
            extent = self.b.const(n, UINT32)
            above = any(m > 1 for m in shape[:k])
            found = self.b.one("mod", rest, extent) if above else rest
            index.append(self.i64(0) if n == 1 else self.b.cast(found, INT64))
            if above and n > 1:
                rest = self.b.one("floordiv", rest, extent)
        return index[::-1]

    def alone(self, body: Callable[[], None]) -> None:
        self.step(lambda: self.when(self.b.one("eq", self.thread, self.i64(0)), body))

    def step(self, body: Callable[[], None]) -> None:
        if self.depth:
            body()
            return
        region = Region()
        # The step is emitted into a region of its own first: its accesses decide whether a barrier has to precede it.
        self.depth += 1
        with self.b.into(region):
            body()
        self.depth -= 1
        accesses = [op for op in walk(region) if op.name in _READS | _CHANGES]
        reads = {self.access(op) for op in accesses if op.name in _READS}
        changes = {self.access(op) for op in accesses if op.name in _CHANGES}
        self.order(reads, changes)
        # After a step with branches or loops the threads may be at different places.
        self.diverged = self.diverged or any(op.regions for op in region.ops)
        self.b.region.ops.extend(region.ops)

    def access(self, op: Op) -> Access:
        """Return the memory an op reads or changes, and how it is distributed."""
        if op.name in PLACES:
            return op.operands[0], self.own.get(op.operands[1], 0)
        if self.one_memory and isinstance(op.operands[0].type, Array):
            return self.outside, 0
        return op.operands[0], 0

    def together(self, reads: set[Value], changes: set[Value], body: Callable[[], None]) -> None:
        """Do something that all threads execute as one, all of them being present."""
        assert not self.depth
        # A library call is made by all threads at once, so none may still be in a branch or loop of the last step.
        if self.diverged:
            self.barrier()
        self.order({(v, 0) for v in reads}, {(v, 0) for v in changes})
        body()

    def order(self, reads: set[Access], changes: set[Access]) -> None:
        """Emit a barrier if the next step depends on work of other threads since the last one."""
        # Read after write, write after read, and write after write; two reads need no order.
        if _overlap(reads, self.changed) or _overlap(changes, self.read | self.changed):
            self.barrier()
        self.read |= reads
        self.changed |= changes

    def rounds(self, lo: int, hi: Value | int, body: Callable[[Value], None]) -> None:
        """Emit a loop that all threads go through together, with shared work in it."""
        self.synchronize()

        def one(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            self.synchronize()
            return ()

        self.loop(lo, hi, one)

    def synchronize(self) -> None:
        # A barrier with nothing before it orders nothing.
        if not self.depth and (self.read or self.changed):
            self.barrier()

    def barrier(self) -> None:
        self.b.op("barrier")
        self.read, self.changed, self.diverged = set(), set(), False
