"""The loop over the threads of a row in lanes, and its sums.

In the function of a chunk under construction, a loop runs as many threads at a time as a vector register has elements.
Fewer threads run in it as well, under a mask, or are left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from diffkern.analysis.scopes import VaryingValues
from diffkern.analysis.sums import used_values
from diffkern.targets.cpu.lanes.body import LaneBody
from diffkern.targets.cpu.lanes.builder import LaneBuilder
from diffkern.targets.cpu.lanes.choice import LaneForm
from diffkern.targets.cpu.lanes.notes import LaneNotes
from diffkern.targets.cpu.lanes.scalars import LaneScalars
from diffkern.targets.cpu.lanes.sums import add_up
from diffkern.targets.emit.frame import loop_stacks, neutral, summed_type, width
from diffkern.targets.emit.memory import combination
from diffkern.targets.emit.types import I32, i32, value_type

if TYPE_CHECKING:
    from diffkern.targets.cpu.kernel import Chunk
    from diffkern.targets.emit.function import BodyEmitter

__all__ = ["Lanes"]


class Lanes:
    """The state with which a chunk runs its threads in lanes; created at the beginning of its function.

    Parameters
    ----------
    chunk : Chunk
        The function.
    form : Form
        How many threads run together, and how fewer are handled.
    flags : tuple of str
        The licence for floating point.
    uniformity : Uniformity
        The values that differ between lanes.
    """

    def __init__(self, chunk: Chunk, form: LaneForm, flags: tuple[str, ...], uniformity: VaryingValues) -> None:
        self.chunk, self.form, self.count, self.flags = chunk, form, form.threads, flags
        self.builder = LaneBuilder(chunk.builder, self.count)
        self.uniformity = uniformity
        self.notes, self.used = LaneNotes(), used_values(chunk.fn)
        self.stacks = loop_stacks(chunk.room.take, chunk.facts, self.count)
        self.buffers = {v: self._memory(v.type) for v in chunk.facts.buffers}
        # Accumulators have a lane each, so that adding to them needs no reduction per trip.
        self.totals = {id(op): self._slots(op) for op in (*chunk.facts.reduced, *chunk.facts.extremes)}

    def _memory(self, t: Any) -> Any:
        return self.chunk.room.take((t.itemsize + 7) // 8 * 8 * self.count)

    def _slots(self, op: Any) -> list[Any]:
        b, s = self.builder, summed_type(op)
        slots = [b.plain.alloca(b.wide_type(value_type(s))) for _ in range(width(op))]
        for slot in slots:
            b.plain.store(b.spread(neutral(op)), slot)
        return slots

    def run(self, one: BodyEmitter, leading: Sequence[Any], lo: Any, hi: Any) -> Any:
        """Emit the loop over the threads ``lo <= i < hi``; return the first that is left.

        Parameters
        ----------
        one : BodyEmitter
            The emitter of a single thread, with the values that are computed ahead of the threads.
        leading : sequence
            The leading components of the thread index.
        lo, hi
            The last component, int32.
        """
        b = self.chunk.builder
        # A masked form runs all threads that remain; an unmasked one leaves an incomplete group to the next form.
        if self.form.masked:
            self._run_all(one, leading, lo, hi)
            return hi
        count = b.sub(hi, lo)
        # The number of threads rounded down to whole groups; the count of lanes is a power of two.
        whole = b.and_(count, i32(-self.count))
        end = b.select(b.icmp_signed(">", count, i32(0)), b.add(lo, whole), lo)
        with self.chunk.loop(lo, end, i32(self.count), scalar=True) as i:
            body = self._body(one)
            body.tid = (*leading, i)
            body.region(self.chunk.fn.body)
        return end

    def _run_all(self, one: BodyEmitter, leading: Sequence[Any], lo: Any, hi: Any) -> None:
        """Emit the loop over all threads; the last ones may be fewer than the lanes."""
        b = self.chunk.builder
        # Registers are counted, for the first thread of one more might not have a number.
        some = b.icmp_signed("<", lo, hi)
        last = b.udiv(b.sub(b.sub(hi, lo), i32(1)), i32(self.count))
        registers = b.select(some, b.add(last, i32(1)), i32(0))
        with self.chunk.loop(i32(0), registers, scalar=True) as k:
            i = b.add(lo, b.mul(k, i32(self.count), flags=("nsw", "nuw")), flags=("nsw",))
            body = self._body(one)
            body.tid = (*leading, i)
            body.left = b.sub(hi, i)
            # In the last group lanes beyond the end have no thread and are masked off from the start.
            body.mask = body.present = self.builder.icmp_unsigned("<", self.builder.steps(I32, 1), body.left)
            body.region(self.chunk.fn.body)

    def _body(self, one: BodyEmitter) -> LaneBody:
        scalars = LaneScalars(self.builder, self.chunk.module, self.flags)
        body = LaneBody(
            self.builder, scalars, one.facts, dict(one.arrays), dict(one.values), exact=dict(one.exact),
            stacks=self.stacks, moved=one.moved, extent_along=one.extent_along, vector_bytes=one.vector_bytes,
            varying=self.uniformity.varying, common=self.uniformity.fields, totals=self.totals, buffers=self.buffers,
            notes=self.notes, used=self.used,
        )  # fmt: skip
        # Rows of a launch with several axes may be so short that all its threads are what another form leaves.
        rolled = self.form.rest and self.chunk.fn.tid_arity == 1
        body.launch, body.alone, body.rolled = one.launch, one.alone, rolled
        body.at_a_time = 2 * self.form.lanes
        return body

    def add_up(self, sums: dict[int, list[Any]]) -> None:
        """Add the sums of the lanes to those of the chunk."""
        b = self.builder.plain
        for op in self.chunk.facts.reduced:
            t = value_type(summed_type(op))
            for slot, own in zip(sums[id(op)], self.totals[id(op)], strict=True):
                (total,) = add_up(self.builder, [b.load(own, typ=self.builder.wide_type(t))], self.flags)
                old = b.load(slot, typ=t)
                b.store(b.fadd(old, total) if summed_type(op).is_float else b.add(old, total), slot)
        for op in self.chunk.facts.extremes:
            self._take_extreme(op, sums[id(op)][0])

    def _take_extreme(self, op: Any, slot: Any) -> None:
        b, s = self.builder.plain, summed_type(op)
        combined = combination(s, op.attrs["kind"])
        lanes = b.load(self.totals[id(op)][0], typ=self.builder.wide_type(value_type(s)))
        found = b.load(slot, typ=value_type(s))
        for lane in range(self.count):
            found = combined(b, found, b.extract_element(lanes, i32(lane)))
        b.store(found, slot)
