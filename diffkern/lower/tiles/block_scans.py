"""Scans and sorts of tiles by the threads of a block.

Each function takes the lowering for blocks (:mod:`block_lowering`) and an op, and emits shared work in the current
region, and memory that holds the results.

A scan gives each thread a run of neighbouring elements. The thread adds its run up, shuffles scan the sums of a warp,
and with the sum before its run the thread goes through it again. A sort compares and exchanges elements by Batcher's
bitonic network in the form in which all comparisons go upwards (so that the elements missing to a power of 2 may be
left out); the origin of a key is part of it, so equal keys keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from diffkern.ir.nodes import Op, Value
from diffkern.ir.types import INT32, INT64, UINT32, value_type
from diffkern.lower.tiles import serial_scans as tile_order
from diffkern.lower.tiles.block_lowering import BlockLowering
from diffkern.lower.tiles.reductions import WARP, across_warp
from diffkern.lower.tiles.serial_scans import comes_before, neutral
from diffkern.lower.tiles.source import Stored, elements

__all__ = ["OPS"]

MAX_THREADS: Final = 1024
_FEW: Final = 32
"""Up to so many elements each sum of a scan is added up by itself."""
_COUNTED: Final = 256
"""Up to so many keys each finds its place by counting the keys before it, which takes no barrier."""


def _scan(low: BlockLowering, op: Op) -> None:
    source, borrowed = low.stored(op.operands[0])
    m, b, size = low.m, low.b, elements(source.shape)
    exclusive, backwards = op.attrs["exclusive"], op.attrs["backwards"]
    kind = op.attrs.get("kind", "add")
    start = neutral(b, kind, source.dtype)

    def place(i: Value) -> Value:
        return b.sub(m.i64(size - 1), i) if backwards else i

    def add(i: Value, so_far: list[Value]) -> Sequence[Value]:
        return (b.one(kind, so_far[0], source.element_at(m, place(i))),)

    # For a few elements the quadratic work is cheaper than barriers.
    if size <= _FEW:
        target = low.fresh(op.result)

        def alone(i: Value) -> None:
            (total,) = m.loop(0, i if exclusive else b.add(i, m.i64(1)), add, (start,))
            b.op("buffer_set", target.buffer, place(i), total)

        m.cells(size, alone, ungrouped=True)
        low.give_back(borrowed)
        return
    # Each thread writes the elements it has read, so the result may take the operand's place.
    taken = low.keep(op.result, borrowed) if borrowed is not None else low.reuse(op.result, op.operands)
    target = taken or low.fresh(op.result)
    sums = low.allocate(value_type(source.dtype), min(size, MAX_THREADS))
    run: list[Value] = []

    def add_up() -> None:
        # The length of a run is rounded up, so that the threads cover all elements; the last ones may have none.
        length = b.cast(b.one("floordiv", b.const(size - 1, UINT32), b.cast(m.threads, UINT32)), INT64)
        length = b.add(length, m.i64(1))
        first = b.one("min", b.mul(m.thread, length), m.i64(size))
        run.extend([first, b.one("min", b.add(first, length), m.i64(size))])
        whole = list(m.loop(run[0], run[1], add, (start,)))
        # An inclusive scan within the warp: the last lane has the sum of the whole warp.
        (mine,) = across_warp(low, whole, lambda x, y: [b.one(kind, x[0], y[0])])
        in_use = b.one("lt", m.thread, m.i64(size))
        m.when(in_use, lambda: low.void(b.op("buffer_set", sums, m.thread, mine)))

    def go_through() -> None:
        lane = b.one("and", m.thread, m.i64(WARP - 1))

        def whole_warp(w: Value, so_far: list[Value]) -> Sequence[Value]:
            end = b.add(b.mul(w, m.i64(WARP)), m.i64(WARP - 1))
            return (b.one(kind, so_far[0], b.one("buffer_get", sums, end)),)

        # The sums of all warps before this one, then of the lanes before this thread.
        (before,) = m.loop(0, b.one("shr", m.thread, m.i64(5)), whole_warp, (start,))
        inside = b.one("gt", lane, m.i64(0))
        left = b.select(inside, b.sub(m.thread, m.i64(1)), m.thread)
        before = b.one(kind, before, b.select(inside, b.one("buffer_get", sums, left), start))

        def one(i: Value, so_far: list[Value]) -> Sequence[Value]:
            (total,) = add(i, so_far)
            b.op("buffer_set", target.buffer, place(i), so_far[0] if exclusive else total)
            return (total,)

        m.loop(run[0], run[1], one, (before,))

    # A barrier follows from the two steps' accesses of the sums.
    m.step(add_up)
    m.step(lambda: m.when(b.one("lt", m.thread, m.i64(size)), go_through))
    low.release(sums)


def _sort(low: BlockLowering, op: Op) -> None:
    few = elements(op.results[2].type.shape) <= _COUNTED  # type: ignore[union-attr]
    tile_order.sort(low, op, tile_order.counting_sort if few else _bitonic_sort)


def _bitonic_sort(low: BlockLowering, source: Stored, values: Stored, targets: Sequence[Stored]) -> None:
    m, b, size = low.m, low.b, elements(source.shape)
    keys, sorted_values, order = targets
    stages = (size - 1).bit_length()

    def start(position: Value) -> None:
        b.op("buffer_set", keys.buffer, position, source.element_at(m, position))
        b.op("buffer_set", order.buffer, position, b.cast(position, INT32))

    def exchange(shift: Value, partner: Callable[[Value, Value, Value], Value]) -> None:
        """Put pairs of elements in order, whose numbers differ in the bit `shift` and have no such bit between."""
        # In the first exchange of a stage pairs are mirrored, afterwards they are a fixed distance apart.
        width = b.one("shl", m.i64(1), shift)

        def pair(p: Value) -> None:
            inside = b.one("and", p, b.sub(width, m.i64(1)))
            base = b.mul(b.sub(p, inside), m.i64(2))
            first, second = b.add(base, inside), partner(base, inside, width)

            def compare() -> None:
                x, y = (b.one("buffer_get", keys.buffer, i) for i in (first, second))
                i, k = (b.one("buffer_get", order.buffer, i) for i in (first, second))

                def swap() -> None:
                    for buffer, place, item in (
                        (keys.buffer, first, y),
                        (keys.buffer, second, x),
                        (order.buffer, first, k),
                        (order.buffer, second, i),
                    ):
                        b.op("buffer_set", buffer, place, item)

                m.when(comes_before(b, y, k, x, i), swap)

            # Elements missing to a power of two would be greater than all others and would stay behind the end.
            m.when(b.one("lt", second, m.i64(size)), compare)

        m.cells(1 << (stages - 1), pair, ungrouped=True)

    def stage(s: Value) -> None:
        def mirrored(base: Value, inside: Value, width: Value) -> Value:
            return b.sub(b.add(base, b.mul(width, m.i64(2))), b.add(inside, m.i64(1)))

        def opposite(base: Value, inside: Value, width: Value) -> Value:
            return b.add(b.add(base, inside), width)

        exchange(s, mirrored)
        # Each round depends on the one before, so all threads go through them together.
        m.rounds(0, s, lambda q: exchange(b.sub(b.sub(s, m.i64(1)), q), opposite))

    m.cells(size, start)
    m.rounds(0, stages, stage)

    def gather(i: Value) -> None:
        other = b.cast(b.one("buffer_get", order.buffer, i), INT64)
        b.op("buffer_set", sorted_values.buffer, i, values.element_at(m, other))

    m.cells(size, gather)


OPS: Final[Mapping[str, Callable[[BlockLowering, Op], None]]] = {"tile_scan": _scan, "tile_sort": _sort}
