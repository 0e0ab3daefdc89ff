"""The body of as many threads as a vector register has elements, as LLVM.

In: a function for processors, of which :func:`~diffkern.targets.cpu.lanes.choice.refusal` says nothing. Out: code that
does for all lanes what :class:`~diffkern.targets.emit.function.BodyEmitter` does for one thread. What all lanes share
stays a scalar; what differs is a vector. Where lanes go different ways each way is taken with a mask of those that go
there, and skipped if none does; a loop goes on until all lanes are done, and a lane that is done keeps its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from diffkern.analysis.uniformity import is_pure
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.types import BOOL, Element, Kind, Scalar, Stack, Tile, scalar_of
from diffkern.ir.types import value_type as held_type
from diffkern.ir.views import Access, For, If, Slot, While
from diffkern.ops.table import lookup
from diffkern.targets.cpu.lanes import memory
from diffkern.targets.cpu.lanes.builder import LaneBuilder, is_wide, zeros
from diffkern.targets.cpu.lanes.memory import Places
from diffkern.targets.cpu.lanes.notes import How, Notes
from diffkern.targets.cpu.lanes.scalars import is_by_lane
from diffkern.targets.cpu.lanes.sums import add_up
from diffkern.targets.emit.facts import stack_size
from diffkern.targets.emit.function import BodyEmitter, StackRef, trip_count
from diffkern.targets.emit.memory import (
    ArrayRef,
    compare_exchange,
    component,
    element_size,
    is_neutral,
    load_element,
    plus,
    store_element,
    tag,
    update_element,
    wrap_index,
)
from diffkern.targets.emit.types import I8, I32, I64, PTR, from_memory, i64, memory_type, to_memory, value_type

__all__ = ["LaneBody"]

_CHEAP = 12.0
"""Up to this cost a way is computed for all lanes rather than skipped."""

Form = tuple[Any, int]
"""An index of the lanes: that of the first, and how much it grows from lane to lane."""


@dataclass(slots=True)
class LaneBody(BodyEmitter):
    """Emits the ops of neighbouring threads at the builder's position.

    Attributes
    ----------
    varying
        The values that may differ between lanes.
    common
        The fields of loop stacks that hold the same for all lanes.
    mask
        The lanes that are on; None for all.
    forms
        Indices that grow evenly from lane to lane.
    buffers
        The lanes' buffers.
    totals
        For each op summed per chunk: the accumulators of its components, for each lane.
    notes
        What has become of the ops, for reports.
    used
        The values that something is made of.
    """

    varying: set[Value] = field(default_factory=set)
    common: set[tuple[Value, int]] = field(default_factory=set)
    mask: Any = None
    forms: dict[Value, Form] = field(default_factory=dict)
    buffers: dict[Value, Any] = field(default_factory=dict)
    totals: dict[int, list[Any]] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
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
        """The index as one that grows evenly from lane to lane, if it does."""
        known = self.forms.get(v)
        if known is not None:
            return known
        found = self.index(v) if not is_wide(self.scalar(v)) else self.exact.get(v)
        return None if found is None or is_wide(found) else (found, 0)

    def op(self, op: Op) -> None:
        if op.name == "next_checkpoint":
            self.values[op.result] = (self.scalars.emit(op, [self.where_on(self.scalar(v)) for v in op.operands]),)
            return
        BodyEmitter.op(self, op)
        if lookup(op.name).family == "scalar" and is_wide(self.scalar(op.result)) and is_by_lane(op):
            self.notes.add(How.BY_LANE, op)
        if op.name == "tid" and is_wide(self.scalar(op.result)):
            self.forms[op.result] = self.builder.sext(self.tid[op.attrs["axis"]], I64), 1

    def where_on(self, value: Any) -> Any:
        """A value with 0 in the lanes that are off."""
        if self.mask is None or not is_wide(value):
            return value
        return self.b.select(self.mask, value, zeros(value.type))

    def exact_form(self, op: Op) -> Any:
        """The exact form, which is only noted where the index grows evenly from lane to lane."""
        given = [self.form(v) for v in op.operands]
        if None not in given:
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
        if name in ("add", "sub"):
            return getattr(b, name)(x, y, flags=exact), s + t if name == "add" else s - t
        if name != "mul" or (s and t):
            return None
        if not s and not t:
            return b.mul(x, y, flags=exact), 0
        factor = y if s else x
        if not isinstance(factor, ir.Constant):
            return None
        return b.mul(x, y, flags=exact), (s or t) * int(factor.constant)

    def phis_for(self, values: Sequence[Value]) -> list[list[Any]]:
        out = []
        for v in values:
            s = held_type(v.type)  # type: ignore[arg-type]
            t = value_type(scalar_of(s))
            wide = self.b.wide_type(t) if v in self.varying else t
            out.append([self.builder.phi(wide) for _ in range(element_size(s))])
        return out

    def merged(self, values: Sequence[Value], parts: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [tuple(map(self.b.spread, p)) if v in self.varying else p for v, p in zip(values, parts, strict=True)]

    def thread_index(self, op: Op) -> None:
        base, axis = self.tid[op.attrs["axis"]], op.attrs["axis"]
        if axis == len(self.tid) - 1:
            base = self.builder.add(self.b.spread(base), self.b.steps(I32, 1))
        self.values[op.result] = (base,)

    # -- memory ------------------------------------------------------------------------------------------------------

    def places(self, op: Op) -> tuple[ArrayRef, Places]:
        """Where the elements of an access are."""
        array = self.arrays[Access(op).array]
        index = Access(op).index
        wrap = op.attrs.get("wrap", (False,) * len(index))
        run = self.run(array, index, wrap)
        if run is not None:
            return array, Places(run, True, lambda instruction: tag(array, instruction, 0))
        pointer = self.every(array, index, wrap)
        return array, Places(pointer, False, lambda instruction: tag(array, instruction, 0))

    def run(self, array: ArrayRef, index: Sequence[Value], wrap: Sequence[bool]) -> Any:
        """The address of the first lane's element, if the others are its neighbours."""
        if array.type.layout == "A" or not index or wrap[-1]:
            return None
        last = self.form(index[-1])
        if last is None or last[1] != 1 or any(is_wide(self.index(v)) for v in index[:-1]):
            return None
        given = [*(self.index(v) for v in index[:-1]), last[0]]
        return self.address(self.b.plain, array, given, wrap)

    def address(self, b: Any, array: ArrayRef, given: Sequence[Any], wrap: Sequence[bool]) -> Any:
        index = [wrap_index(b, i, n) if w else i for i, n, w in zip(given, array.shape, wrap, strict=True)]
        flat = index[0]
        for i, n in zip(index[1:], array.shape[1:], strict=True):
            flat = b.add(b.mul(flat, n, flags=("nsw",)), i, flags=("nsw",))
        count = element_size(array.type.dtype)
        if count != 1:
            flat = b.mul(flat, i64(count), flags=("nsw",))
        return b.gep(array.data, [flat], inbounds=True, source_etype=memory_type(scalar_of(array.type.dtype)))

    def every(self, array: ArrayRef, index: Sequence[Value], wrap: Sequence[bool]) -> Any:
        """The address of each lane's element, or one for all."""
        b, exact = self.builder, ("nsw",)
        given = [self.index(v) for v in index]
        given = [wrap_index(b, i, n) if w else i for i, n, w in zip(given, array.shape, wrap, strict=True)]
        if array.type.layout == "A":
            offset: Any = i64(0)
            for i, stride in zip(given, array.strides, strict=True):
                offset = b.add(offset, b.mul(i, stride, flags=exact), flags=exact)
        else:
            offset = given[0] if given else i64(0)
            for i, n in zip(given[1:], array.shape[1:], strict=True):
                offset = b.add(b.mul(offset, n, flags=exact), i, flags=exact)
            offset = b.mul(offset, i64(array.type.dtype.itemsize), flags=exact)
        if not is_wide(offset):
            return b.gep(array.data, [offset], inbounds=True, source_etype=I8)
        return b.inttoptr(b.add(b.ptrtoint(array.data, I64), offset), PTR)

    def load(self, op: Op) -> None:
        array, places = self.places(op)
        self.note(op, places, How.GATHERED)
        if not places.is_run and not is_wide(places.pointer):
            BodyEmitter.load(self, op)
            return
        self.values[op.result] = tuple(memory.load(self.b, array.type.dtype, places, self.mask))

    def note(self, op: Op, places: Places, apart: How) -> None:
        """Note what becomes of a load or a store."""
        if not places.is_run and not is_wide(places.pointer) and op.name == "load":
            self.notes.add(How.SHARED, op)
            return
        whole = places.is_run and element_size(self.arrays[Access(op).array].type.dtype) <= memory.MOST_SHUFFLED
        self.notes.add(How.RUN if whole else apart, op)

    def store(self, op: Op) -> None:
        array, places = self.places(op)
        values = self.values[Access(op).value]
        self.note(op, places, How.SCATTERED)
        if not places.is_run and not is_wide(places.pointer) and not any(map(is_wide, values)):
            BodyEmitter.store(self, op)
            return
        memory.store(self.b, array.type.dtype, places, values, self.mask)

    def accumulate(self, op: Op) -> None:
        if self.summed(op, "add"):
            return
        array, places = self.places(op)
        plain = op.attrs["mode"] == "plain"
        if plain and places.is_run:
            self.notes.add(How.RUN, op)
            values = self.values[Access(op).value]
            old = memory.load(self.b, array.type.dtype, places, self.mask)
            new = [plus(self.builder, o, v, self.scalars.flags) for o, v in zip(old, values, strict=True)]
            memory.store(self.b, array.type.dtype, places, new, self.mask)
            return
        self.one_by_one(op, array, places, "plain" if plain else "add")

    def atomic(self, op: Op) -> None:
        if self.summed(op, op.attrs["kind"]):
            self.values[op.result] = self.values[Access(op).value]  # never used
            return
        array, places = self.places(op)
        if op.result in self.used:
            self.values[op.result] = self.exchanged(op, array, places)
            return
        self.one_by_one(op, array, places, op.attrs["kind"])
        self.values[op.result] = self.values[Access(op).value]  # never used

    def exchanged(self, op: Op, array: ArrayRef, places: Places) -> tuple[Any, ...]:
        """Update the elements of the lanes in their order; return what was there before."""
        self.notes.add(How.BY_LANE, op)
        b, plain, s, kind = self.b, self.b.plain, scalar_of(array.type.dtype), op.attrs["kind"]
        count = element_size(array.type.dtype)
        rows = memory.spilled(b, self.builder.ptrtoint(memory.every(b, s, count, places), I64))
        given = [memory.spilled(b, to_memory(b, s, v)) for v in self.values[Access(op).value]]
        held, t = value_type(s), memory_type(s)
        old = [memory.spilled(b, to_memory(b, s, zeros(b.wide_type(held)))) for _ in range(count)]

        def update(lane: Any) -> None:
            def of(row: Any) -> Any:
                return plain.gep(row, [lane], inbounds=True, source_etype=t)

            place = plain.load(plain.gep(rows, [lane], inbounds=True, source_etype=I64), typ=I64)
            pointer, parts = (
                plain.inttoptr(place, PTR),
                [from_memory(plain, s, plain.load(of(r), typ=t)) for r in given],
            )
            if kind == "cas":
                before = [compare_exchange(plain, s, pointer, parts[0], parts[1], self.alone)]
            else:
                before = update_element(plain, array.type.dtype, pointer, kind, parts, self.alone)
            for row, value in zip(old, before, strict=True):
                plain.store(to_memory(plain, s, value), of(row))

        memory.each_lane(b, self.mask, update)
        return tuple(from_memory(b, s, plain.load(row, typ=b.wide_type(t))) for row in old)

    def one_by_one(self, op: Op, array: ArrayRef, places: Places, kind: str) -> None:
        """Update the elements of the lanes in their order; what all add to one element is added up before."""
        at_one = not places.is_run and not is_wide(places.pointer)
        if at_one and kind in ("plain", "add", "sub") and scalar_of(array.type.dtype) != BOOL:
            self.at_once(op, array, places.pointer, kind)
            return
        self.notes.add(How.BY_LANE, op)
        b, plain, s = self.b, self.b.plain, scalar_of(array.type.dtype)
        address = memory.every(b, s, element_size(array.type.dtype), places)
        rows = memory.spilled(b, self.builder.ptrtoint(address, I64))
        given = self.values[Access(op).value]
        changed = [k for k, v in enumerate(given) if not (op.attrs.get("augmented") and is_neutral(kind, v))]
        parts = {k: (memory.spilled(b, given[k]), b.spread(given[k]).type.element) for k in changed}

        def update(lane: Any) -> None:
            place = plain.load(plain.gep(rows, [lane], inbounds=True, source_etype=I64), typ=I64)
            pointer = plain.inttoptr(place, PTR)
            for k, (row, t) in parts.items():
                value = plain.load(plain.gep(row, [lane], inbounds=True, source_etype=t), typ=t)
                to = component(plain, s, pointer, k)
                if kind == "plain":
                    old = from_memory(plain, s, tag(array, plain.load(to, typ=memory_type(s)), k))
                    new = plus(plain, old, value, self.scalars.flags)
                    tag(array, plain.store(to_memory(plain, s, new), to), k)
                else:
                    update_element(plain, s, to, kind, [value], self.alone)

        memory.each_lane(b, self.mask, update)

    def at_once(self, op: Op, array: ArrayRef, pointer: Any, kind: str) -> None:
        """Add what all lanes add to one element."""
        self.notes.add(How.SUMMED, op)
        b, plain, s = self.b, self.b.plain, scalar_of(array.type.dtype)
        given = self.values[Access(op).value]
        changed = [k for k, v in enumerate(given) if not (op.attrs.get("augmented") and is_neutral(kind, v))]
        totals = add_up(b, [self.where_on(b.spread(given[k])) for k in changed], self.scalars.flags)
        for k, total in zip(changed, totals, strict=True):
            to = component(plain, s, pointer, k)
            if kind == "plain":
                old = from_memory(plain, s, tag(array, plain.load(to, typ=memory_type(s)), k))
                new = plus(plain, old, total, self.scalars.flags)
                tag(array, plain.store(to_memory(plain, s, new), to), k)
            else:
                update_element(plain, s, to, kind, [total], self.alone)

    def summed(self, op: Op, kind: str) -> bool:
        accumulators = self.totals.get(id(op))
        if accumulators is None:
            return False
        self.notes.add(How.SUMMED, op)
        b = self.b
        for slot, part in zip(accumulators, self.values[Access(op).value], strict=True):
            wide = b.spread(part)
            t = wide.type.element
            if self.mask is not None:
                wide = b.select(self.mask, wide, ir.Constant(t, 0))
            old = b.plain.load(slot, typ=wide.type)
            whole = isinstance(t, ir.IntType)
            name = ("" if whole else "f") + ("add" if kind == "add" else "sub")
            flags = {} if whole else {"flags": ("reassoc", *self.scalars.flags)}
            b.plain.store(getattr(b, name)(old, wide, **flags), slot)
        return True

    # -- loop stacks -------------------------------------------------------------------------------------------------

    def stack_places(self, stack: StackRef, k: int, slot: Any) -> Places:
        """Where a field of a slot is."""
        t = stack.type.fields[k]
        assert not isinstance(t, Tile)
        before = stack_size(Stack(stack.type.fields[:k], stack.type.slots))
        start = self.b.plain.gep(stack.base, [i64(before * self.b.lanes)], inbounds=True, source_etype=I8)
        return self.own_places(start, t, self.builder.sext(slot, I64))

    def own_places(self, start: Any, t: Element, index: Any) -> Places:
        """Where an element of the lanes' own memory is: of each component the lanes, one after the other."""
        b = self.builder
        offset = b.mul(index, i64(t.itemsize * self.b.lanes), flags=("nsw",))
        if not is_wide(offset):
            return Places(b.gep(start, [offset], inbounds=True, source_etype=I8), True)
        lanes = self.b.steps(I64, scalar_of(t).itemsize)
        return Places(b.inttoptr(b.add(b.add(b.ptrtoint(start, I64), offset), lanes), PTR), False)

    def own_load(self, t: Element, places: Places) -> tuple[Any, ...]:
        s = scalar_of(t)
        count = element_size(t)
        return tuple(memory.load(self.b, s, self.component(s, places, n), self.mask)[0] for n in range(count))

    def own_store(self, t: Element, places: Places, values: Sequence[Any]) -> None:
        s = scalar_of(t)
        for n, part in enumerate(values):
            memory.store(self.b, s, self.component(s, places, n), [part], self.mask)

    def buffer_get(self, op: Op) -> None:
        buffer, index = op.operands
        t = buffer.type.dtype  # type: ignore[union-attr]  # a Buffer
        self.values[op.result] = self.own_load(t, self.own_places(self.buffers[buffer], t, self.index(index)))

    def buffer_set(self, op: Op) -> None:
        buffer, index, value = op.operands
        t = buffer.type.dtype  # type: ignore[union-attr]  # a Buffer
        self.own_store(t, self.own_places(self.buffers[buffer], t, self.index(index)), self.values[value])

    def stack_get(self, op: Op) -> None:
        stack, k, slot = self.stack_refs[Slot(op).stack], op.attrs["field"], self.scalar(Slot(op).slot)
        t = stack.type.fields[k]
        if (Slot(op).stack, k) in self.common:
            self.values[op.result] = tuple(load_element(self.b.plain, t, self.stack_places(stack, k, slot).pointer))
            return
        self.values[op.result] = self.at_slot(slot, lambda at: self.own_load(t, self.stack_places(stack, k, at)))

    def stack_set(self, op: Op) -> None:
        stack, slot = self.stack_refs[Slot(op).stack], self.scalar(Slot(op).slot)

        def write(at: Any) -> tuple[Any, ...]:
            for k, v in enumerate(Slot(op).values):
                places = self.stack_places(stack, k, at)
                if (Slot(op).stack, k) in self.common:
                    store_element(self.b.plain, v.type, places.pointer, self.values[v])  # type: ignore[arg-type]
                    continue
                self.own_store(v.type, places, self.values[v])  # type: ignore[arg-type]
            return ()

        self.at_slot(slot, write)

    def at_slot(self, slot: Any, work: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Do something at the lanes' slots: at one, where it turns out to be the same for all lanes that are on."""
        if not is_wide(slot):
            return work(slot)
        b, plain = self.b, self.b.plain
        one = b.first(slot, self.mask)
        off = b.icmp_signed("!=", slot, one)
        ways = []
        with plain.if_else(b.any(b.both(self.mask, off))) as (several, single):
            for way, at in ((several, slot), (single, one)):
                with way:
                    ways.append((work(at), plain.block))
        found = []
        for parts in zip(*(values for values, _ in ways), strict=True):
            phi = plain.phi(parts[0].type)
            for part, (_, block) in zip(parts, ways, strict=True):
                phi.add_incoming(part, block)
            found.append(phi)
        return tuple(found)

    def component(self, s: Scalar, places: Places, n: int) -> Places:
        b, offset = self.builder, i64(n * s.itemsize * self.b.lanes)
        if places.is_run:
            return Places(b.gep(places.pointer, [offset], inbounds=True, source_etype=I8), True)
        return Places(b.inttoptr(b.add(b.ptrtoint(places.pointer, I64), offset), PTR), False)

    # -- control flow ------------------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        condition = self.scalar(If(op).condition)
        if not is_wide(condition):
            BodyEmitter.branch(self, op)
            return
        self.notes.add(How.BRANCH, op)
        outside, b = self.mask, self.b
        arms = [
            self.under(b.both(outside, on), region, op.results)
            for on, region in ((condition, If(op).then), (self.builder.not_(condition), If(op).orelse))
        ]
        self.mask = outside
        chosen = [
            tuple(b.select(condition, x, y) for x, y in zip(then, orelse, strict=True))
            for then, orelse in zip(*arms, strict=True)
        ]
        self.define(op.results, chosen)

    def under(self, mask: Any, region: Region, results: Sequence[Value]) -> list[tuple[Any, ...]]:
        """What a region yields in the lanes of a mask; it is skipped if there are none."""
        b = self.b
        self.mask = mask
        if _is_cheap(region):
            return self.merged(results, self.region(region))
        before = b.plain.block
        inside, done = (b.plain.append_basic_block(n) for n in ("some", "joined"))
        b.plain.cbranch(b.any(mask), inside, done)
        b.plain.position_at_end(inside)
        values = self.merged(results, self.region(region))
        after = b.plain.block
        b.plain.branch(done)
        b.plain.position_at_end(done)
        phis = self.phis_for(results)
        self.connect(phis, values, after)
        self.connect(phis, [tuple(zeros(p.type) for p in group) for group in phis], before)
        return [tuple(group) for group in phis]

    def loop_for(self, op: Op) -> None:
        loop = For(op)
        lo, hi, step = map(self.scalar, loop.bounds)
        if not any(map(is_wide, (lo, hi, step))):
            BodyEmitter.loop_for(self, op)
            return
        self.notes.add(How.LOOP, op)
        if is_wide(lo) and not is_wide(hi) and _is_minus_one(step):
            self.loop_down(op, lo, hi)
            return
        t, b, outside = scalar_of(loop.start.type), self.builder, self.mask
        ahead = bool(op.attrs.get("ahead"))
        trips = None if ahead else trip_count(b, t, lo, hi, step)

        def goes_on(index: Any, count: Any) -> Any:
            return b.icmp_signed("<", index, hi) if ahead else b.icmp_unsigned("<", count, trips)

        if is_wide(step):
            lo = self.b.spread(lo)
        live = self.b.both(outside, self.b.spread(goes_on(lo, i64(0))))
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("for", "body", "endfor"))
        b.branch(head)
        b.position_at_end(head)
        on, count, i = b.phi(live.type), b.phi(I64), b.phi(lo.type)
        phis = self.phis_for(op.results)
        self.connect([[on], [count], [i], *phis], [(live,), (i64(0),), (lo,), *init], before)
        b.cbranch(self.b.any(on), body, done)
        b.position_at_end(body)
        self.mask = on
        self.define((loop.index, *loop.carried), [[i], *phis])
        values = self.kept(on, phis, self.region(loop.body))
        following, counted = b.add(i, step), b.add(count, i64(1))
        left = b.and_(on, goes_on(following, counted))
        self.connect([[on], [count], [i], *phis], [(left,), (counted,), (following,), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def loop_down(self, op: Op, lo: Any, hi: Any) -> None:
        """A loop down to one end from different beginnings: a lane joins in at its own, so all have the same index."""
        loop, b, outside = For(op), self.builder, self.mask
        t = lo.type.element
        live = lo if outside is None else self.b.select(outside, lo, hi)
        first = self.b.intrinsic(f"llvm.vector.reduce.smax.v{self.b.lanes}i{t.width}", t, [live])
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("down", "body", "enddown"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(t)
        phis = self.phis_for(op.results)
        self.connect([[i], *phis], [(first,), *init], before)
        b.cbranch(b.icmp_signed(">", i, hi), body, done)
        b.position_at_end(body)
        on = b.icmp_signed(">=", live, i)
        self.mask = on
        self.define((loop.index, *loop.carried), [[i], *phis])
        values = self.kept(on, phis, self.region(loop.body))
        self.connect([[i], *phis], [(b.sub(i, ir.Constant(t, 1)),), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def loop_while(self, op: Op) -> None:
        loop = While(op)
        if loop.condition not in self.varying:
            BodyEmitter.loop_while(self, op)
            return
        self.notes.add(How.LOOP, op)
        b, outside = self.builder, self.mask
        live = self.b.whole(outside)
        init = self.merged(op.results, [self.values[v] for v in loop.init])
        before = b.block
        head, body, done = (b.append_basic_block(n) for n in ("while", "do", "endwhile"))
        b.branch(head)
        b.position_at_end(head)
        on = b.phi(live.type)
        phis = self.phis_for(op.results)
        self.connect([[on], *phis], [(live,), *init], before)
        self.mask = on
        self.define(loop.tested, phis)
        ((go,),) = self.region(loop.test)
        left = b.and_(on, self.b.spread(go))
        b.cbranch(self.b.any(left), body, done)
        b.position_at_end(body)
        self.mask = left
        self.define(loop.carried, phis)
        values = self.kept(left, phis, self.region(loop.body))
        self.connect([[on], *phis], [(left,), *values], b.block)
        b.branch(head)
        b.position_at_end(done)
        self.mask = outside
        self.define(op.results, phis)

    def kept(self, on: Any, old: list[list[Any]], new: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The new values in the lanes that are on, the old ones in the others."""
        return [
            tuple(self.builder.select(on, y, x) for x, y in zip(group, parts, strict=True))
            for group, parts in zip(old, new, strict=True)
        ]


def _is_minus_one(step: Any) -> bool:
    return isinstance(step, ir.Constant) and step.constant == -1


def _is_cheap(region: Region) -> bool:
    """Whether a region is done faster than skipped, and may be done by every lane."""
    if any(not is_pure(op) or op.name in ("stack_get", "stack_set") for op in region.ops):
        return False
    return sum(1.0 + lookup(op.name).cost for op in region.ops) <= _CHEAP
