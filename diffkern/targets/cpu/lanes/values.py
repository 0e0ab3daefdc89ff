"""The values of the lanes: one for all, or a vector; and indices that are affine in the lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Op, Value
from diffkern.ir.ops.memory import THREAD_INDICES
from diffkern.ir.ops.scalar import SUMS
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Kind, Scalar, scalar_of
from diffkern.ir.types import value_type as held_type
from diffkern.process.dataclass import dataclass
from diffkern.targets.cpu.lanes import memory
from diffkern.targets.cpu.lanes.builder import LaneBuilder, is_wide, zeros
from diffkern.targets.cpu.lanes.notes import How, LaneNotes
from diffkern.targets.cpu.lanes.scalars import LaneScalars
from diffkern.targets.emit.function import BodyEmitter
from diffkern.targets.emit.memory import (
    element_size,
)
from diffkern.targets.emit.types import I32, I64, i64, value_type

__all__ = ["Form", "LaneValues"]

Form = tuple[Any, int]
"""An index of the lanes: that of the first, and how much it grows from lane to lane."""


@dataclass(slots=True)
class LaneValues(BodyEmitter):
    """The state of neighbouring threads at the builder's position.

    Attributes
    ----------
    varying
        The values that may differ between lanes.
    common
        The fields of loop stacks that hold the same for all lanes.
    mask
        The lanes that are on; None for all.
    present
        The lanes that have a thread; None if all have one. Equal to the mask where no lane has diverged.
    left
        The number of remaining threads, these included, if some lanes may have none.
    forms
        Indices that are affine in the lane.
    buffers
        The lanes' buffers.
    totals
        For each op summed per chunk: the accumulators of its components, for each lane.
    notes
        The forms of the ops, for reports.
    used
        The values that have uses.
    """

    varying: set[Value] = field(default_factory=set)
    common: set[tuple[Value, int]] = field(default_factory=set)
    mask: Any = None
    present: Any = None
    left: Any = None
    forms: dict[Value, Form] = field(default_factory=dict)
    buffers: dict[Value, Any] = field(default_factory=dict)
    totals: dict[int, list[Any]] = field(default_factory=dict)
    notes: LaneNotes = field(default_factory=LaneNotes)
    used: set[Value] = field(default_factory=set)

    @property
    def b(self) -> LaneBuilder:
        found: LaneBuilder = self.builder
        return found

    # -- values ------------------------------------------------------------------------------------------------------

    def index(self, v: Value) -> Any:
        known = self.exact.get(v)
        if known is not None:
            return known
        form = self.forms.get(v)
        if form is not None:
            base, stride = form
            if stride == 0:
                return base
            return self.builder.add(self.b.spread(base), self.b.steps(I64, stride))
        t, x = v.type, self.scalar(v)
        assert isinstance(t, Scalar)
        if not is_wide(x):
            return BodyEmitter.index(self, v)
        if t.bits == 64:
            return x
        return self.builder.sext(x, I64) if t.kind is Kind.INT else self.builder.zext(x, I64)

    def form(self, v: Value) -> Form | None:
        """Return an index as an affine form in the lane, None if it is not one."""
        known = self.forms.get(v)
        if known is not None:
            return known
        found = self.index(v) if not is_wide(self.scalar(v)) else self.exact.get(v)
        return None if found is None or is_wide(found) else (found, 0)

    def op(self, op: Op) -> None:
        if op.name == "next_checkpoint":
            self.values[op.result] = (self.next_checkpoint(op, [self.where_on(self.scalar(v)) for v in op.operands]),)
            return
        BodyEmitter.op(self, op)
        if lookup(op.name).family == "scalar" and self.is_by_lane(op):
            self.notes.add(How.BY_LANE, op)
        if op.name in THREAD_INDICES and is_wide(self.scalar(op.result)):
            self.forms[op.result] = self.builder.sext(self.tid[op.attrs["axis"]], I64), 1

    def is_by_lane(self, op: Op) -> bool:
        """Return whether an operation has been computed lane by lane."""
        assert isinstance(self.scalars, LaneScalars)
        return is_wide(self.scalar(op.result)) and self.scalars.is_by_lane(op, [self.scalar(v) for v in op.operands])

    def next_checkpoint(self, op: Op, args: list[Any]) -> Any:
        """Return the next snapshot's position: the simple cases for all lanes at once, others in a loop.

        It is simple if there is a slot for each step, or none; and with 0 for all, in lanes that are off.
        """
        if not any(map(is_wide, args)):
            return self.scalars.emit(op, args)
        assert isinstance(self.scalars, LaneScalars)
        of_one, b, plain, held = self.scalars.one, self.builder, self.b.plain, value_type(scalar_of(op.result.type))
        # Comparisons are made in at least 32 bits, in which slots are counted.
        t = held if held.width > I32.width else I32
        one = ir.Constant(t, 1)
        cur, it, free = (a if _of_one(a) == t else b.sext(a, t) for a in args)
        # With a slot for every step the next snapshot is one step ahead, with none it is beyond the end.
        every = b.icmp_signed(">", free, b.sub(it, cur))
        none = b.icmp_signed("<=", free, ir.Constant(t, 0))
        simple = b.select(every, b.add(cur, one), b.add(it, one))
        scheduled = self.b.spread(b.not_(b.or_(every, none)))
        before = plain.block
        with plain.if_then(self.b.any(scheduled)):
            rows = [memory.spilled(self.b, a) for a in args]
            found = memory.spilled(self.b, simple)

            def look_up(lane: Any) -> None:
                given = [memory.of_lane(self.b, r, lane, _of_one(a)) for r, a in zip(rows, args, strict=True)]
                position = of_one.emit(op, given)
                position = position if held == t else plain.sext(position, t)
                plain.store(position, memory.place_of_lane(self.b, found, lane, t))

            memory.each_lane(self.b, scheduled, look_up, rarely=True)
            looked_up, after = plain.load(found, typ=self.b.wide_type(t)), plain.block
        phi = plain.phi(self.b.wide_type(t))
        phi.add_incoming(self.b.spread(simple), before)
        phi.add_incoming(looked_up, after)
        return phi if held == t else plain.trunc(phi, self.b.wide_type(held))

    def where_on(self, value: Any) -> Any:
        """Return a value with 0 in the lanes that are off."""
        if self.mask is None or not is_wide(value):
            return value
        return self.b.select(self.mask, value, zeros(value.type))

    def exact_form(self, op: Op) -> Any:
        """Return the exact form, which is only noted if the index is affine in the lane."""
        given = [self.form(v) for v in op.operands]
        if None not in given:
            # An affine index is kept as its first lane and stride, so that no vector of indices is computed.
            form = self.combined(op.name, [g for g in given if g is not None])
            if form is not None:
                self.forms[op.result] = form
                return None
        return BodyEmitter.exact_form(self, op)

    def combined(self, name: str, given: Sequence[Form]) -> Form | None:
        b, exact = self.b.plain, ("nsw",)
        (x, s), (y, t) = given[0], given[-1]
        if name == "cast":
            return x, s
        if name == "neg":
            return b.sub(i64(0), x, flags=exact), -s
        if name in SUMS:
            return getattr(b, name)(x, y, flags=exact), s + t if name == "add" else s - t
        # The product of two indices that both grow is quadratic in the lane.
        if name != "mul" or (s and t):
            return None
        if not s and not t:
            return b.mul(x, y, flags=exact), 0
        factor = y if s else x
        # The growth per lane has to be a literal, for addresses and run detection.
        if not isinstance(factor, ir.Constant):
            return None
        return b.mul(x, y, flags=exact), (s or t) * int(factor.constant)

    def phis_for(self, values: Sequence[Value]) -> list[list[Any]]:
        out = []
        for v in values:
            s = held_type(v.type)  # type: ignore[arg-type]
            t = value_type(scalar_of(s))
            # Only values that may differ between lanes take a vector register.
            wide = self.b.wide_type(t) if v in self.varying else t
            out.append([self.builder.phi(wide) for _ in range(element_size(s))])
        return out

    def merged(self, values: Sequence[Value], parts: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [tuple(map(self.b.spread, p)) if v in self.varying else p for v, p in zip(values, parts, strict=True)]

    def thread_index(self, op: Op) -> None:
        base, axis = self.tid[op.attrs["axis"]], op.attrs["axis"]
        # Only the last axis differs between lanes, by one from each to the next.
        if axis == len(self.tid) - 1:
            base = self.builder.add(self.b.spread(base), self.b.steps(I32, 1))
        self.values[op.result] = (base,)


def _of_one(value: Any) -> Any:
    """Return the LLVM type of a lane's element of a value."""
    return value.type.element if is_wide(value) else value.type
